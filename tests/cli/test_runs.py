"""A run's folder: what is in it, when it is refused, how it is resumed."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
from pathlib import Path

import pytest

from glomo_tf.errors import UserError
from glomo_tf.runs import Run, empty_folder, read_json


@dataclasses.dataclass(frozen=True)
class Settings:
    steps: int = 10
    seed: int = 7
    lengths: tuple[int, ...] = (3, 4)


def lines(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_run_keeps_settings_environment_figures_and_result(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "run"
    with Run(folder, Settings(), recipe="count", command=["glomo", "count", "a b"]) as run:
        with run.progress(interval=0.0) as progress:
            progress.stage("train")
            progress.advance(1, 2, loss=0.5)
            progress.advance(2, 2)
        run.log(best=float("nan"))
        result = run.finish({"accuracy": 0.75})
    assert read_json(folder / "settings.json") == {"steps": 10, "seed": 7, "lengths": [3, 4]}
    kept = read_json(folder / "environment.json")
    assert kept["seed"] == 7
    assert kept["command"] == "glomo count 'a b'"
    assert set(kept["versions"]) >= {"tensorflow", "keras", "numpy"}
    assert all(kept["versions"][name] for name in ("tensorflow", "keras", "numpy"))
    assert lines(folder) == [
        {"stage": "train", "done": 1, "total": 2, "loss": 0.5},
        {"best": None},
    ]
    assert read_json(folder / "result.json") == result
    assert result == {
        "format": 1,
        "recipe": "count",
        "settings": {"steps": 10, "seed": 7, "lengths": [3, 4]},
        "environment": kept,
        "accuracy": 0.75,
    }


def test_a_folder_that_is_not_empty_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    for options in ({}, {"resume": True}, {"overwrite": True}):
        with pytest.raises(UserError) as caught, Run(tmp_path, Settings(), **options):
            pass
        assert str(tmp_path) in str(caught.value)
        assert "\n" not in str(caught.value)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_overwrite_starts_anew(tmp_path: Path) -> None:
    with Run(tmp_path, Settings()) as run:
        run.log(step=1)
        (run.folder / "checkpoints").mkdir()
        (run.folder / "checkpoints" / "1").write_text("")
    with Run(tmp_path, Settings(steps=3), overwrite=True) as run:
        run.log(step=2)
    assert lines(tmp_path) == [{"step": 2}]
    assert not (tmp_path / "checkpoints").exists()


def test_resume_goes_on_with_the_same_settings_only(tmp_path: Path) -> None:
    with Run(tmp_path, Settings()) as run:
        assert not run.resumed
        run.log(step=1)
    with Run(tmp_path, Settings(), resume=True) as run:
        assert run.resumed
        run.log(step=2)
    assert [line.get("step") for line in lines(tmp_path)] == [1, None, 2]
    assert "resumed" in lines(tmp_path)[1]
    with (
        pytest.raises(UserError, match=r"steps: 10 -> 20; lengths: \[3, 4\] -> \[5\]"),
        Run(tmp_path, Settings(steps=20, lengths=(5,)), resume=True),
    ):
        pass
    with Run(tmp_path, Settings(steps=20), resume=True, may_change=["steps"]) as run:
        assert run.resumed
    assert read_json(tmp_path / "settings.json")["steps"] == 20


def test_resume_in_a_new_folder_begins(tmp_path: Path) -> None:
    with Run(tmp_path / "new", Settings(), resume=True) as run:
        assert not run.resumed


def test_how_a_run_ended_is_kept(tmp_path: Path) -> None:
    def interrupted() -> None:
        with Run(tmp_path, Settings()):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert lines(tmp_path) == [{"ended": "KeyboardInterrupt"}]


def test_what_the_user_can_mend_before_the_first_figure_leaves_nothing(tmp_path: Path) -> None:
    def refused(folder: Path, *, after_figures: bool) -> None:
        with Run(folder, Settings()) as run:
            if after_figures:
                run.log(step=1)
            raise UserError("Expected a file of vectors. Received: none.")

    (tmp_path / "empty").mkdir()
    for name in ("new", "empty"):
        with pytest.raises(UserError, match="vectors"):
            refused(tmp_path / name, after_figures=False)
    assert [entry.name for entry in tmp_path.iterdir()] == ["empty"]
    assert not list((tmp_path / "empty").iterdir())
    with pytest.raises(UserError, match="vectors"):
        refused(tmp_path / "new", after_figures=True)
    assert [line.get("step") for line in lines(tmp_path / "new")] == [1, None]
    assert lines(tmp_path / "new")[1] == {
        "ended": "UserError: Expected a file of vectors. Received: none."
    }


def test_a_damaged_settings_file_is_named(tmp_path: Path) -> None:
    for text in ("[1]", "{"):
        (tmp_path / "settings.json").write_text(text)
        with (
            pytest.raises(UserError, match=r"settings\.json"),
            Run(tmp_path, Settings(), resume=True),
        ):
            pass


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match="Expected a folder"):
            empty_folder(path)


def test_a_read_only_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "mkdir", read_only)
    with pytest.raises(UserError, match="Read-only file system"):
        empty_folder(tmp_path / "new")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_disk_that_fills_up_while_figures_are_kept(tmp_path: Path) -> None:
    """`/dev/full` answers every write as a full disk does."""
    with Run(tmp_path, Settings()) as run:
        (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
        with pytest.raises(UserError, match="No space left on device"):
            run.log(step=1)


def failing(folder: Path, error: Exception, **figures: float) -> None:
    """A run that has read its text, has written some figures, and fails."""
    with Run(folder, Settings()) as run:
        (run.folder / "corpus").mkdir()
        (run.folder / "corpus" / "units.npy").write_bytes(b"x")
        if figures:
            run.log(**figures)
        raise error


@pytest.mark.parametrize("kind", [UserError, ValueError])
def test_wrong_setting_leaves_no_folder_though_text_was_read(tmp_path: Path, kind: type) -> None:
    folder = tmp_path / "run"
    with pytest.raises(kind, match="width"):
        failing(folder, kind("Expected `width` above 0. Received: 0."))
    assert not folder.exists()


def test_figures_are_kept_when_a_run_fails(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(UserError, match="space"):
        failing(folder, UserError("Expected space. Received: none."), loss=1.0)
    assert '"loss"' in (folder / "metrics.jsonl").read_text("utf-8")
