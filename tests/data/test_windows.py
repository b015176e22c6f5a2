"""Encoded corpora and their windows: nothing lost, nothing crossed, all of it reproducible."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from glomo_tf.data.corpus import CorpusReport, EncodedCorpus, encode_corpus
from glomo_tf.data.sources import Document, documents
from glomo_tf.data.text_units import TextUnits
from glomo_tf.data.windows import windows
from glomo_tf.errors import UserError

UNITS = TextUnits(["<pad>", "<unk>", "<number>", "a", "b", "c"], max_units=2)
DOCUMENTS = [Document("one", "a b c dog"), Document(None, " "), "7 a", b"c \xff"]
ENCODED = [3, 4, 5, 1, 2, 3, 5, 1]


def numbered(*lengths: int) -> EncodedCorpus:
    """A corpus whose units are 1, 2, 3, … throughout, so that a unit tells where it stood."""
    offsets = np.cumsum([0, *lengths])
    return EncodedCorpus(np.arange(1, offsets[-1] + 1, dtype=np.int32), offsets)


def rows(data: tf.data.Dataset) -> list[list[int]]:
    """Windows of all batches without their padding."""
    found = []
    for batch in data:
        for row in batch.numpy():
            length = int((row > 0).sum())
            assert (row[:length] > 0).all()
            assert not row[length:].any()
            found.append(row[:length].tolist())
    return found


@pytest.mark.parametrize("on_disk", [False, True])
def test_encode_by_hand(on_disk, tmp_path):
    cache_dir = tmp_path / "cache" if on_disk else None
    corpus = encode_corpus(DOCUMENTS, UNITS, cache_dir=cache_dir)
    assert corpus.units.dtype == np.int32
    assert corpus.units.tolist() == ENCODED  # whole articles, whatever `max_units` says
    assert corpus.offsets.tolist() == [0, 4, 6, 8]
    assert corpus.report == CorpusReport(4, 3, 1, 8, 2, 1)
    assert [corpus.article(i).tolist() for i in range(3)] == [[3, 4, 5, 1], [2, 3], [5, 1]]
    assert corpus.counts(6).tolist() == [0, 2, 1, 2, 1, 2]
    if on_disk:
        assert sorted(path.name for path in cache_dir.iterdir()) == [
            "corpus.json",
            "offsets.npy",
            "units.npy",
        ]
        again = EncodedCorpus.load(cache_dir)
        assert again.units.tolist() == ENCODED
        assert again.report == corpus.report


def test_encode_in_many_batches_equals_one(monkeypatch, tmp_path):
    texts = [" ".join("abc"[(i * j) % 3] for j in range(i % 7)) for i in range(60)]
    once = encode_corpus(texts, UNITS)
    monkeypatch.setattr("glomo_tf.data.vocabulary._BATCH_TEXTS", 4)
    many = encode_corpus(texts, UNITS, cache_dir=tmp_path / "cache")
    assert np.array_equal(once.units, many.units)
    assert np.array_equal(once.offsets, many.offsets)
    assert once.report == many.report


def test_cache_is_used_again_only_for_the_same_files_and_vocabulary(tmp_path):
    text = tmp_path / "corpus.txt"
    text.write_text("a b c")
    cache = tmp_path / "cache"
    spec = f"text:{text}"
    encode_corpus(documents(spec), UNITS, cache_dir=cache)
    written = (cache / "units.npy").stat().st_mtime_ns

    again = encode_corpus(documents(spec), UNITS, cache_dir=cache)
    assert again.units.tolist() == [3, 4, 5]
    assert (cache / "units.npy").stat().st_mtime_ns == written

    other = TextUnits(["<pad>", "<unk>", "<number>", "c", "b", "a"])
    assert encode_corpus(documents(spec), other, cache_dir=cache).units.tolist() == [5, 4, 3]
    text.write_text("c c c c")
    assert encode_corpus(documents(spec), other, cache_dir=cache).units.tolist() == [3] * 4
    # Without knowing where documents come from, they are always read.
    assert encode_corpus(["a"], other, cache_dir=cache).units.tolist() == [5]


def test_no_documents_with_words(tmp_path):
    for texts in ([], ["", " "]):
        with pytest.raises(UserError, match=f"Received: {len(texts)} documents, none with a word"):
            encode_corpus(texts, UNITS, cache_dir=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("name", ["units.npy", "offsets.npy", "corpus.json"])
def test_damaged_cache_is_named(tmp_path, name):
    encode_corpus(DOCUMENTS, UNITS, cache_dir=tmp_path)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-6])
    with pytest.raises(UserError, match="damaged") as caught:
        EncodedCorpus.load(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_foreign_and_newer_cache(tmp_path):
    index = tmp_path / "corpus.json"
    index.write_text("{}")
    with pytest.raises(UserError, match="of another kind"):
        EncodedCorpus.load(tmp_path)
    index.write_text(json.dumps({"format": "glomo_tf.EncodedCorpus", "version": 2}))
    with pytest.raises(UserError, match="Install a newer glomo-tf"):
        EncodedCorpus.load(tmp_path)


def test_arrays_that_do_not_fit_are_refused():
    units = np.ones(4, np.int32)
    for offsets in ([], [1, 4], [0, 3], [0, 3, 2, 4], [[0, 4]]):
        with pytest.raises(UserError, match="Expected `offsets`"):
            EncodedCorpus(units, np.array(offsets))


@given(
    st.lists(st.integers(0, 9), min_size=2, max_size=9).filter(lambda v: sum(map(bool, v)) >= 2),
    st.floats(0.01, 0.99),
    st.integers(0, 3),
)
def test_split_parts_articles(lengths, fraction, seed):
    corpus = numbered(*lengths)
    rest, held_out = corpus.split(fraction, seed)
    articles = [p.article(i).tolist() for p in (rest, held_out) for i in range(p.num_articles)]
    assert sorted(articles) == sorted(corpus.article(i).tolist() for i in range(len(lengths)))
    assert rest.num_articles >= 1
    assert held_out.num_articles >= 1
    assert rest.num_units + held_out.num_units == sum(lengths)
    size = sum(lengths) + 1
    assert (rest.counts(size) + held_out.counts(size)).tolist() == [0] + [1] * sum(lengths)
    if rest.num_articles > 1:  # at least the share asked for
        assert held_out.num_units >= fraction * sum(lengths) - 1e-6
    same = corpus.split(fraction, seed)[1]
    assert np.array_equal(same.selected, held_out.selected)


def test_split_again_and_what_cannot_be_split():
    first, _ = numbered(2, 2, 2, 2).split(0.25, 0)
    second, third = first.split(0.3, 1)
    assert (first.num_articles, second.num_articles, third.num_articles) == (3, 2, 1)
    assert set(third.selected) <= set(first.selected)
    with pytest.raises(UserError, match="at least two articles"):
        numbered(5).split(0.5)
    with pytest.raises(UserError, match="between 0 and 1"):
        numbered(5, 5).split(1.0)


def test_fixed_windows_by_hand():
    # Article 1 has 7 units: windows at 0 and 3, then one moved back to end at its end.
    data = windows(numbered(7, 2, 0, 3), length=3, stride=3, batch_size=5, seed=0)
    assert data.element_spec == tf.TensorSpec([5, 3], tf.int32)
    assert int(data.cardinality()) == 1
    assert sorted(rows(data)) == [[1, 2, 3], [4, 5, 6], [5, 6, 7], [8, 9], [10, 11, 12]]


def test_an_article_as_long_as_its_window_gives_one():
    data = windows(numbered(4, 4), length=4, stride=1, batch_size=2, seed=0)
    assert sorted(rows(data)) == [[1, 2, 3, 4], [5, 6, 7, 8]]


def test_windows_begin_inside_their_article():
    # Strides of 5 to 60: in 51 of 56 cases the second window would begin beyond the 10 units.
    options = {"length": 2, "stride": (5, 60), "batch_size": 1}
    found = [len(rows(windows(numbered(10), seed=seed, **options))) for seed in range(40)]
    assert set(found) == {1, 2}
    assert found.count(1) > 20


settings_of_windows = st.fixed_dictionaries(
    {
        "length": st.tuples(st.integers(1, 6), st.integers(0, 5)).map(lambda p: (p[0], sum(p))),
        "stride": st.tuples(st.integers(1, 6), st.integers(0, 5)).map(lambda p: (p[0], sum(p))),
        "batch_size": st.integers(1, 5),
        "seed": st.integers(0, 5),
    }
)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=6).filter(any), settings_of_windows)
def test_any_windows_stay_in_their_articles_and_cover_them(lengths, options):
    corpus = numbered(*lengths)
    data = windows(corpus, drop_remainder=False, **options)
    found = rows(data)
    assert len(list(data)) == int(data.cardinality())
    article = np.repeat(np.arange(len(lengths)), lengths)
    shortest, longest = options["length"]
    for row in found:
        assert row == list(range(row[0], row[0] + len(row)))  # contiguous
        own = article[np.array(row) - 1]
        assert len(set(own)) == 1
        assert min(shortest, lengths[own[0]]) <= len(row) <= longest
    if options["stride"][1] <= shortest:
        assert {unit for row in found for unit in row} == set(range(1, sum(lengths) + 1))
    first_units = {int(o) + 1 for o, n in zip(corpus.offsets[:-1], lengths, strict=True) if n}
    assert first_units <= {row[0] for row in found}


def test_buckets_shapes_and_remainders():
    corpus = numbered(*range(1, 60))
    options = {"length": (4, 12), "stride": 5, "batch_size": 8, "seed": 3}
    data = windows(corpus, **options)
    assert data.element_spec == tf.TensorSpec([8, None], tf.int32)
    shapes = {tuple(batch.shape) for batch in data}
    assert shapes <= {(8, 6), (8, 8), (8, 10), (8, 12)}
    assert len(shapes) > 1
    every = rows(windows(corpus, drop_remainder=False, **options))
    kept = rows(data)
    # Only the last bucket leaves a remainder, smaller than a batch.
    assert len(kept) == len(every) // 8 * 8
    assert len(list(data)) == int(data.cardinality()) == len(every) // 8
    # No batch is padded further than its bucket asks for: some window needs it, or it was carried.
    own = windows(corpus, buckets=[2, 12, 20], **options)
    assert {batch.shape[1] for batch in own} <= {2, 12, 20}


def test_reproducible_from_seed_and_epoch():
    corpus = numbered(*[40] * 20)

    def make(seed, epoch):
        return rows(
            windows(corpus, length=(5, 9), stride=(3, 5), batch_size=4, seed=seed, epoch=epoch)
        )

    assert make(1, 2) == make(1, 2)
    others = [make(1, 2), make(1, 3), make(2, 2), make(2, 1)]
    assert all(a != b for i, a in enumerate(others) for b in others[:i])
    first = make(1, 2)
    assert first != sorted(first)  # shuffled


def test_skip_goes_on_where_a_run_stopped():
    data = windows(numbered(*[40] * 9), length=5, stride=5, batch_size=4, seed=0)
    assert rows(data.skip(7)) == rows(data)[28:]


def test_every_length_and_stride_is_drawn():
    corpus = numbered(5000)
    found = rows(windows(corpus, length=(3, 5), stride=(2, 4), batch_size=1, seed=0))
    assert {len(row) for row in found} == {3, 4, 5}
    starts = sorted(row[0] for row in found)
    assert set(np.diff(starts)[:-1]) == {2, 3, 4}


def test_batches_are_parted_among_replicas():
    # In a process of its own: the number of devices is fixed when TensorFlow starts.
    code = """
        import numpy as np, tensorflow as tf
        cpu = tf.config.list_physical_devices("CPU")[0]
        two = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(cpu, two)
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        from glomo_tf.data.windows import EncodedCorpus, windows
        corpus = EncodedCorpus(np.arange(1, 145, dtype="int32"), np.arange(0, 160, 16))
        for buckets in (None, [2, 4]):
            data = windows(corpus, length=4, stride=4, batch_size=8, seed=0, buckets=buckets)
            parted = strategy.experimental_distribute_dataset(data)
            whole = [batch.numpy() for batch in data]
            for batch, both in zip(whole, parted, strict=True):
                parts = strategy.experimental_local_results(both)
                assert [part.shape for part in parts] == [(4, 4), (4, 4)]
                assert np.array_equal(np.concatenate(parts), batch)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"length": 0}, "length=0"),
        ({"length": (5, 4)}, r"length=\(5, 4\)"),
        ({"length": 2.5}, "length=2.5"),
        ({"stride": (0, 4)}, r"stride=\(0, 4\)"),
        ({"stride": True}, "stride=True"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"epoch": -1}, "epoch=-1"),
        ({"buckets": []}, r"buckets=\[\]"),
        ({"buckets": [3]}, r"buckets=\[3\]"),
        ({"buckets": [8, 4]}, r"buckets=\[8, 4\]"),
        ({"batch_size": 100}, "Received: 3 windows from 10 units"),
    ],
)
def test_wrong_settings(change, message):
    options = {"length": 4, "stride": 3, "batch_size": 2, "seed": 0, **change}
    with pytest.raises(UserError, match=message):
        windows(numbered(7, 3), **options)
