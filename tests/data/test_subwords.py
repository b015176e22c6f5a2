"""FastBert subwords: each belongs to a word of the default splitter."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import tensorflow as tf

from glomo_tf.data.text_units import TextUnits
from glomo_tf.errors import MissingExtra, UserError

pytest.importorskip("tensorflow_text", reason="needs the extra `text`")

PIECES = ["<pad>", "<unk>", "<number>", "do", "n't", "un", "##real", "cafe", "##s", "'", "##s'"]


@pytest.fixture(scope="module")
def units() -> TextUnits:
    return TextUnits(PIECES, splitter="fastbert")


def test_subwords_and_their_words_by_hand(units):
    texts = ["DON'T Unreal cafés 1,000 xyz do", ""]
    assert units.ragged(texts).to_list() == [[3, 4, 5, 6, 7, 8, 2, 1, 3], []]
    assert units.word_ids(texts).to_list() == [[0, 1, 2, 2, 3, 3, 4, 5, 6], []]
    assert units.tokens(texts).to_list()[0][2:4] == [b"un", b"##real"]
    assert units.decode(units(texts)) == ["do n't unreal cafes <number> <unk> do", ""]


def test_every_word_has_a_unit_even_if_nothing_is_left_of_it(units):
    texts = ["\u0301 do", "<pad>", "\xad"]
    words = TextUnits(["<pad>", "<unk>", "<number>", "do"])
    for row, expected in zip(units.word_ids(texts).to_list(), words.ragged(texts), strict=True):
        assert sorted(set(row)) == list(range(len(expected)))
    assert (units.ragged(texts).flat_values.numpy() > 0).all()


def test_pooling_to_words(units):
    features = tf.constant([[1.0], [2.0], [4.0], [8.0]])
    word = units.word_ids(["unreal do xyz"])[0]
    assert word.numpy().tolist() == [0, 0, 1, 2]
    assert tf.math.segment_mean(features, word).numpy().tolist() == [[1.5], [4.0], [8.0]]


def test_max_units_cuts_subwords(units):
    short = TextUnits(PIECES, splitter="fastbert", max_units=3)
    assert short(["unreal unreal"]).numpy().tolist() == [[5, 6, 5]]
    assert short.word_ids(["unreal unreal"]).to_list() == [[0, 0, 1]]


def test_same_in_tf_data(units):
    texts = ["Unreal cafés", "do"]
    data = tf.data.Dataset.from_tensor_slices(texts).batch(2).map(units)
    assert np.array_equal(next(iter(data)), units(texts))


def test_learned_from_a_corpus(tmp_path):
    lines = ["walk walked walking talk talked talking 12"] * 30 + ["stalked stalking"] * 30
    units = TextUnits.from_corpus(lines, 40, splitter="fastbert")
    assert units.words[:3] == ["<pad>", "<unk>", "<number>"]
    assert 3 < units.vocabulary_size <= 40
    # All that the corpus is made of can be spelled.
    ids = units.ragged(["walked stalking talk"]).to_list()[0]
    assert 1 not in ids
    assert units.decode(ids) == "walked stalking talk"
    assert units.counts[2] == 30
    rest = units.counts[3:]
    assert rest == sorted(rest, reverse=True)
    units.save(tmp_path / "vocabulary.json")
    assert TextUnits.load(tmp_path / "vocabulary.json").ragged(lines[:1]).to_list() == (
        units.ragged(lines[:1]).to_list()
    )


def test_too_little_text_to_learn_from():
    with pytest.raises(UserError, match=r"Give more text|at least two different words"):
        TextUnits.from_corpus(["1 2 3"], 40, splitter="fastbert")


def test_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    with pytest.raises(MissingExtra, match=r"glomo-tf\[text\]"):
        TextUnits(PIECES, splitter="fastbert")
