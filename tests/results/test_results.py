"""Result files and their tables."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest

from glomo_tf import results
from glomo_tf.errors import UserError


def condition(name: str, labels: int, seed: int, accuracy: float, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "group": {"dataset": "sst2", "labels": labels},
        "seed": seed,
        "metrics": {"accuracy": accuracy},
        "parameters": 1200,
        "seconds": 2.0 + seed,
        **more,
    }


@pytest.fixture
def result() -> dict[str, Any]:
    return {
        "format": 1,
        "recipe": "sentiment",
        "settings": {"epochs": 3},
        "environment": {"seed": 0},
        "conditions": [
            condition("none", 100, 0, 0.50),
            condition("none", 100, 1, 0.70),
            condition("learned", 100, 0, 0.52),
            condition("learned", 100, 1, 0.73),
            condition("none", 500, 0, 0.80),
            condition("none", 500, 1, 0.90),
            condition("learned", 500, 0, 0.8101),
            condition("learned", 500, 1, 0.9099),
        ],
    }


def test_written_file_reads_back(result: dict[str, Any], tmp_path: pathlib.Path) -> None:
    path = results.write(tmp_path / "new" / "result.json", result)
    assert results.read(path) == result
    assert results.read(path.parent) == result
    assert [file.name for file in path.parent.iterdir()] == ["result.json"]
    before = path.read_bytes()
    results.write(path, result)
    assert path.read_bytes() == before


def test_comparison_by_hand(result: dict[str, Any]) -> None:
    few, many = results.compare(result)
    assert few.group == {"dataset": "sst2", "labels": 100}
    assert few.means["none"].mean == pytest.approx(0.6)
    # Differences 0.02 and 0.03: mean 0.025, s = 0.00707, half width 12.706 · 0.005.
    assert few.differences["none"].mean == pytest.approx(0.025)
    assert few.differences["none"].half_width == pytest.approx(12.7062 * 0.005, rel=1e-4)
    assert few.differences["none"].within_noise
    assert not many.differences["none"].within_noise
    assert few.seconds == {"none": 2.5, "learned": 2.5}
    assert few.parameters == {"none": 1200, "learned": 1200}


def test_markdown(result: dict[str, Any]) -> None:
    text = results.markdown(result)
    assert "| accuracy (%) | labels = 100 | labels = 500 |" in text
    assert "| none | 60.0 ± 127.1 | 85.0 ± 63.5 |" in text
    assert "| learned minus (points) | labels = 100 | labels = 500 |" in text
    # 1.01 and 0.99 points: mean 1.00, half width 12.706 · 0.01 = 0.127.
    assert "| none | +2.5 ± 6.4 | **+1.0 ± 0.1** |" in text
    assert "| learned | 1,200; 2.5 | 1,200; 2.5 |" in text
    assert results.markdown(result) == text


def test_sections_by_group_and_missing_cells(result: dict[str, Any]) -> None:
    for entry in result["conditions"][4:]:
        entry["group"] = {"dataset": "imdb", "labels": 500}
    result["conditions"].append(condition("uniform", 100, 0, 0.4))
    text = results.markdown(result)
    assert "## accuracy: dataset sst2" in text
    assert "## accuracy: dataset imdb" in text
    assert "| uniform | 40.0 ± ? |" in text  # one seed
    assert "| uniform | +12.0 ± ? |" in text


def test_groups_without_a_number(result: dict[str, Any]) -> None:
    result["conditions"] = [c | {"group": {"data": "x"}} for c in result["conditions"][:4]]
    assert "| accuracy (%) | accuracy |" in results.markdown(result)


def test_other_target_and_summary(result: dict[str, Any]) -> None:
    summary = results.summary(result, target="none")
    few, many = summary["comparisons"]
    assert few["differences"]["learned"]["mean"] == pytest.approx(-0.025)
    assert (
        many["differences"]["learned"]["verdict"] == "none against learned: too few seeds to tell"
    )
    json.dumps(summary, allow_nan=False)
    with pytest.raises(UserError, match="Choose one of: none, learned"):
        results.compare(result, target="learnt")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "Expected format 1"),
        ({"recipe": None}, "`recipe`"),
        ({"environment": []}, r"`environment` \(an object\).*list"),
        ({"conditions": {}}, r"`conditions` \(a list\)"),
        ({"conditions": [condition("a", 1, 0, float("nan"))]}, "finite `accuracy`.*nan"),
        ({"conditions": [condition("a", 1, 0.5, 1.0)]}, "`seed`"),
        ({"conditions": [condition("a", 1, 0, 1.0, parameters="9")]}, "`parameters`"),
        ({"conditions": [condition("a", 1, 0, 1.0, group={"x": []})]}, "plain values"),
        ({"conditions": [condition("a", 1, 0, 1.0)] * 2}, "once a group and seed.*a, seed 0"),
        ({"conditions": ["a"]}, "condition 0 to be an object"),
    ],
)
def test_bad_results(
    result: dict[str, Any], change: dict[str, Any], message: str, tmp_path: pathlib.Path
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        results.write(tmp_path / "result.json", result | change)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_bad_files(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UserError, match="Expected a result file"):
        results.read(tmp_path / "absent.json")
    broken = tmp_path / "result.json"
    broken.write_text('{"format": 1,')
    with pytest.raises(UserError, match="a JSON file"):
        results.read(tmp_path)


def test_failed_write_leaves_the_older_file_whole(
    result: dict[str, Any], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = results.write(tmp_path / "result.json", result)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left on device"):
        results.write(path, result | {"settings": {"epochs": 9}})
    assert results.read(path) == result
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]
