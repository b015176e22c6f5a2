"""The whole demo in its small form: it learns, compares, exports, loads again and draws."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import glomo_tf
from glomo_tf.commands import recipes
from glomo_tf.data.corpus import EncodedCorpus
from glomo_tf.errors import MissingExtra, UserError
from glomo_tf.recipes import demo
from glomo_tf.settings import override


class Notes:
    """A progress that keeps what it is told."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.lines: list[str] = []
        self.steps: list[tuple[int, int]] = []

    def stage(self, title: str) -> None:
        self.stages.append(title)

    def note(self, line: str) -> None:
        self.lines.append(line)

    def advance(self, done: int, total: int, **figures: Any) -> None:
        assert figures
        self.steps.append((done, total))


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "out"
    return folder, recipes.run(demo, override(demo.Settings(), demo.SMOKE), folder)


def test_what_the_graph_brings_is_seen_in_the_figures(smoke) -> None:
    _, result = smoke
    accuracy: dict[str, list[float]] = {}
    for condition in result["conditions"]:
        accuracy.setdefault(condition["name"], []).append(condition["metrics"]["accuracy"])
    assert list(accuracy) == ["none", "local", "learned"]
    assert all(len(values) == 2 for values in accuracy.values())
    # The tagger sees one token at a time, so without the graph all three would be alike.
    assert np.mean(accuracy["local"]) > np.mean(accuracy["none"]) + 0.1
    assert len({round(v, 6) for values in accuracy.values() for v in values}) > 3


def test_what_was_written_is_there_and_agrees(smoke) -> None:
    folder, result = smoke
    assert json.loads((folder / "result.json").read_text())["table"] == result["table"]
    assert (folder / "table.txt").read_text() == result["table"] + "\n"
    assert all(Path(file).exists() for file in result["files"])
    assert (folder / "graph.png").read_bytes().startswith(b"\x89PNG")
    assert "glomo demo" in (folder / "graph.html").read_text()
    predictor = glomo_tf.GraphPredictor.from_preset(folder / "preset")
    units = glomo_tf.TextUnits.load(folder / "preset" / "vocabulary.json")
    served = tf.saved_model.load(str(folder / "saved_model" / "1")).signatures["serving_default"]
    text = tf.constant(["if x . y : <newline> return self"])
    np.testing.assert_allclose(
        served(text=text)["graph"].numpy(), predictor(units(text)).numpy(), atol=1e-5
    )


def test_learning_is_decided_by_the_seed() -> None:
    rng = np.random.default_rng(0)
    corpus = EncodedCorpus(rng.integers(1, 20, 400).astype(np.int32), np.array([0, 400]))
    small = override(
        demo.Settings(), {**demo.SMOKE, "length": 8, "batch_size": 4, "steps": 3, "width": 8}
    )
    runs = []
    for _ in range(2):
        notes = Notes()
        runs.append(demo.learn(dataclasses.replace(small, seed=1), corpus, 20, notes))
        assert notes.steps == [(1, 3), (2, 3), (3, 3)]
    (one, loss), (same, same_loss) = runs
    assert loss == same_loss
    for first, second in zip(one.get_weights(), same.get_weights(), strict=True):
        np.testing.assert_array_equal(first, second)


def test_no_module_serves_two_purposes() -> None:
    settings = override(demo.Settings(), demo.SMOKE)
    parts, texts = demo.read(settings)
    assert {name: len(part) for name, part in parts.items()} == {
        "test": 100,
        "development": 50,
        "train": 200,
    }
    whole = "\n".join(texts)
    for part in parts.values():
        # The least usual window of a part would be in the texts if its module were.
        assert sum(" ".join(tokens) in whole for tokens, _ in part) < len(part) / 20


def test_the_table_says_when_a_difference_is_noise() -> None:
    group = {"task": "t"}
    values = {"none": (0.5, 0.6, 0.7), "local": (0.7, 0.9, 0.8), "learned": (0.8, 0.9, 1.0)}
    conditions = [
        {
            "name": name, "group": group, "seed": seed, "metrics": {"accuracy": value},
            "parameters": 1, "seconds": 1.0,
        }
        for name, all_seeds in values.items()
        for seed, value in enumerate(all_seeds)
    ]  # fmt: skip
    # Differences 0.3 three times, and 0.1, 0, 0.2: s = 0.1, t(2) = 4.303, 0.1 · 4.303 / √3.
    lines = demo.table({"conditions": conditions}).splitlines()
    assert [" ".join(line.split()) for line in lines[1:]] == [
        "none 60.0 ± 24.8 +30.0 ± 0.0 learned better than none",
        "local 80.0 ± 24.8 +10.0 ± 24.8 learned and local within noise",
        "learned 90.0 ± 24.8",
    ]


def test_without_matplotlib_the_page_is_still_drawn(smoke, tmp_path, monkeypatch) -> None:
    folder, _ = smoke

    def missing(*_: Any) -> None:
        raise MissingExtra("Expected the package 'matplotlib' to be installed.")

    monkeypatch.setattr(demo.viewer, "draw_png", missing)
    notes = Notes()
    made = demo.draw(folder / "saved_model" / "1", "x = y", tmp_path, notes)
    assert made == [tmp_path / "graph.html"]
    assert notes.lines
    assert all("matplotlib" in line for line in notes.lines)


def test_an_unknown_setting_names_near_ones() -> None:
    with pytest.raises(UserError, match="steps"):
        override(demo.Settings(), ["stps=3"])


def test_too_few_windows_for_a_batch_end_before_any_work(tmp_path) -> None:
    settings = dataclasses.replace(demo.Settings(), train_windows=3)
    with pytest.raises(ValueError, match="Expected at least 32 labels"):
        demo.run(settings, tmp_path, progress=Notes())
