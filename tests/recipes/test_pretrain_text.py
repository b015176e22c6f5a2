"""Pre-training on text: what it writes, and that a stopped run ends as if it had not been."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

import glomo_tf
from glomo_tf.checkpoints import Checkpoint
from glomo_tf.errors import UserError
from glomo_tf.recipes import pretrain_text
from glomo_tf.runs import Run
from glomo_tf.settings import override

WORDS = ["the", "cat", "dog", "bird", "tree", "house", "sees", "likes", "near", "old", "and", "a"]


class Stop(Exception):
    """Ends a run from outside."""


class Silent:
    """Progress that shows nothing, and stops the run after some rounds if asked to."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.rounds = 0
        self.stop_after = stop_after

    def stage(self, title: str) -> None:
        pass

    def note(self, line: str) -> None:
        pass

    def advance(self, done: int, total: int | None = None, **figures: object) -> None:
        self.rounds += 1
        if self.stop_after is not None and self.rounds > self.stop_after:
            raise Stop


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> pretrain_text.Settings:
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("text")
    for name in range(12):
        text = " ".join(rng.choice(WORDS, 120))
        (folder / f"{name}.txt").write_text(text, "utf-8")
    return override(
        pretrain_text.Settings(),
        {
            **pretrain_text.SMOKE,
            "source": f"text:{folder}",
            "width": 8,
            "head_dim": 4,
            "cnn_depth": 1,
            "length": (12, 16),
            "stride": (12, 16),
            "batch_size": 4,
            "candidates": 16,
            "steps": 12,
            "round_steps": 4,
            "validation_batches": 2,
            "validation_share": 0.2,
        },
    )


@pytest.fixture(scope="module")
def whole(settings, tmp_path_factory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    with Run(folder, settings) as run:
        return folder, pretrain_text.run(settings, run.folder, progress=Silent())


def test_preset_gives_the_trained_graphs(whole, settings):
    folder, result = whole
    predictor = glomo_tf.GraphPredictor.from_preset(folder / "preset")
    units = glomo_tf.TextUnits.load(folder / "preset" / "vocabulary.json")
    graph = np.asarray(predictor(units(["the cat sees a small bird"])))
    assert graph.shape == (1, 4, 2, 6, 6)
    described = json.loads((folder / "preset" / "preset.json").read_text("utf-8"))
    assert described["vocabulary_fingerprint"] == units.fingerprint
    assert described["figures"]["steps"] == settings.steps
    assert np.isfinite(result["val_loss"])


def test_curve_has_a_line_for_every_round(whole):
    folder, _ = whole
    rows = [json.loads(x) for x in (folder / "curve.jsonl").read_text("utf-8").splitlines()]
    assert [row["steps"] for row in rows] == [4, 8, 12]
    assert all(row["units"] > 0 and row["units_per_second"] > 0 for row in rows)


def test_stopped_run_ends_in_the_same_weights(whole, settings, tmp_path):
    folder, result = whole
    with pytest.raises(Stop), Run(tmp_path / "run", settings) as run:
        pretrain_text.run(settings, run.folder, progress=Silent(stop_after=1))
    # Stopped in the second round, before its checkpoint: one round is kept.
    assert [p.name for p in sorted((tmp_path / "run" / "checkpoints").iterdir())] == ["000001"]
    with Run(tmp_path / "run", settings, resume=True) as run:
        again = pretrain_text.run(settings, run.folder, progress=Silent())
    assert again["loss"] == pytest.approx(result["loss"], abs=1e-6)
    assert again["val_loss"] == pytest.approx(result["val_loss"], abs=1e-6)
    expected = glomo_tf.GraphPredictor.from_preset(folder / "preset").get_weights()
    received = glomo_tf.GraphPredictor.from_preset(tmp_path / "run" / "preset").get_weights()
    for a, b in zip(expected, received, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_damaged_checkpoint_is_passed_over(whole, settings):
    folder, _ = whole
    units = glomo_tf.TextUnits.load(folder / "preset" / "vocabulary.json")
    model = pretrain_text.make_model(settings, units)
    checkpoint = Checkpoint(folder / "checkpoints")
    assert checkpoint.restore(model) == (3, [])
    newest = folder / "checkpoints" / "000003" / "model.weights.h5"
    content = newest.read_bytes()
    older = newest.parents[1] / "000002" / "model.weights.h5"
    # Cut short, and whole weights that are not the ones that were written: the checksum tells.
    for damaged in (content[: len(content) // 2], older.read_bytes()):
        newest.write_bytes(damaged)
        try:
            epochs, notes = checkpoint.restore(model)
        finally:
            newest.write_bytes(content)
        assert epochs == 2
        assert len(notes) == 1
        assert "000003" in notes[0]


def test_small_corpus_gives_validation_a_batch(whole, settings):
    # 12 articles of 120 words: a share of 0.2 is 3 articles, two batches of 4 windows of 16 units
    # need 128 units, so the share stays; with batches of 16 windows it grows to 512 of 1,440 units.
    folder, _ = whole
    rows = [json.loads(x) for x in (folder / "curve.jsonl").read_text("utf-8").splitlines()]
    assert rows[-1]["val_units"] <= 2 * 4 * 16
    large = dataclasses.replace(settings, batch_size=16, steps=4)
    with Run(folder.parent / "large", large) as run:
        result = pretrain_text.run(large, run.folder, progress=Silent())
    assert result["val_units"] > 0


def test_too_few_steps_are_refused(settings, tmp_path):
    few = dataclasses.replace(settings, steps=3)
    with pytest.raises(UserError, match="at least one round of 4 steps"), Run(tmp_path, few) as run:
        pretrain_text.run(few, run.folder, progress=Silent())
