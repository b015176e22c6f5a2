"""Preset folders: saved whole, loaded by name or path, checked."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import glomo_tf
from glomo_tf import presets
from glomo_tf.errors import UserError


@pytest.fixture(scope="module")
def units() -> glomo_tf.TextUnits:
    return glomo_tf.TextUnits.from_corpus(["the cat sat on the mat", "a dog sat"])


@pytest.fixture
def predictor(units) -> glomo_tf.GraphPredictor:
    return glomo_tf.GraphPredictor(
        units.vocabulary_size, width=8, num_layers=1, num_heads=2, head_dim=4, cnn_depth=1
    )


def test_round_trip_gives_the_same_graphs(tmp_path, predictor, units):
    ids = units(["the cat sat", "a dog"])
    expected = np.asarray(predictor(ids))
    loaded, vocabulary = presets.load(predictor.save_to_preset(tmp_path, units))
    np.testing.assert_allclose(np.asarray(loaded(ids)), expected, atol=1e-6)
    assert vocabulary.fingerprint == units.fingerprint
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "predictor.keras",
        "preset.json",
        "vocabulary.json",
    ]


def test_predictor_that_was_never_called_is_saved_with_its_weights(tmp_path, predictor, units):
    assert not predictor.built
    loaded = glomo_tf.GraphPredictor.from_preset(predictor.save_to_preset(tmp_path))
    for a, b in zip(predictor.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_shipped_presets_are_found_by_name(tmp_path, predictor, units, monkeypatch):
    monkeypatch.setattr(presets, "SHIPPED", tmp_path)
    predictor.save_to_preset(tmp_path / "english_small", units)
    (tmp_path / "notes").mkdir()
    assert presets.names() == ["english_small"]
    assert presets.folder_of("english_small") == tmp_path / "english_small"
    with pytest.raises(UserError, match="Did you mean english_small"):
        presets.load("english_smal")


def test_vocabulary_of_another_predictor_is_refused(tmp_path, predictor, units):
    other = glomo_tf.TextUnits.from_corpus(["one two three"])
    with pytest.raises(UserError, match=f"vocabulary of {units.vocabulary_size} units"):
        predictor.save_to_preset(tmp_path, other)
    assert not (tmp_path / "predictor.keras").exists()
    predictor.save_to_preset(tmp_path, units)
    same_size = [*units.words[:-1], "zebra"]
    glomo_tf.TextUnits(same_size).save(tmp_path / "vocabulary.json")
    with pytest.raises(UserError, match="another one with as many units"):
        presets.load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not a zip", b"PK\x03\x04"])
def test_damaged_predictor_is_one_clear_error(tmp_path, predictor, units, content):
    predictor.save_to_preset(tmp_path, units)
    (tmp_path / "predictor.keras").write_bytes(content)
    with pytest.raises(UserError, match="Expected a predictor saved by glomo_tf"):
        presets.load(tmp_path)


def test_foreign_description_is_refused(tmp_path, predictor, units):
    predictor.save_to_preset(tmp_path, units)
    (tmp_path / "preset.json").write_text(json.dumps({"kind": "other"}), "utf-8")
    with pytest.raises(UserError, match="describe a glomo_tf preset"):
        presets.load(tmp_path)


def test_failed_save_leaves_the_earlier_preset_whole(tmp_path, predictor, units, monkeypatch):
    predictor.save_to_preset(tmp_path, units)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}

    def full(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(type(predictor), "save", full)
    with pytest.raises(UserError, match="No space left"):
        predictor.save_to_preset(tmp_path, units)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
