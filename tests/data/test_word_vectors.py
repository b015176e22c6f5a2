"""Word vectors: every entry of a file and every word asked for is accounted for."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glomo_tf.data import word_vectors
from glomo_tf.data.word_vectors import VectorReport
from glomo_tf.errors import UserError

WORDS = ["<pad>", "<unk>", "<number>", "cat", "dog", "é"]
TEXT = """cat 1 2
é 3 4
rare -1 0
7 10 20
1,000 30 40
common 5 8
"""
# <unk>: the mean of the entries not asked for, numbers among them; <number>: of the numbers.
EXPECTED = [[0, 0], [11, 17], [20, 30], [1, 2], [0, 0], [3, 4]]


@pytest.mark.parametrize("header", ["", "6 2\n"])
@pytest.mark.parametrize("ending", [".txt", ".txt.gz"])
def test_text_by_hand(tmp_path, header, ending):
    path = tmp_path / f"vectors{ending}"
    raw = (header + TEXT).encode()
    path.write_bytes(gzip.compress(raw) if ending.endswith("gz") else raw)
    matrix, report = word_vectors.load(path, WORDS)
    assert matrix.dtype == np.float32
    assert matrix.tolist() == EXPECTED
    assert report == VectorReport(entries=6, dimension=2, found=2, missing=["dog"], others=4)


def test_arrays_by_hand(tmp_path):
    rows = [line.split() for line in TEXT.splitlines()]
    path = tmp_path / "vectors.npz"
    values = np.array([row[1:] for row in rows], np.float16)
    np.savez(path, words=np.array([row[0] for row in rows]), vectors=values)
    matrix, report = word_vectors.load(path, WORDS)
    assert matrix.dtype == np.float32
    assert matrix.tolist() == EXPECTED
    assert report == VectorReport(entries=6, dimension=2, found=2, missing=["dog"], others=4)


def test_lines_that_cannot_be_used_are_counted_by_number(tmp_path):
    path = tmp_path / "vectors.txt"
    lines = [
        b"cat 1 2",
        b"dog 1",  # too short
        b"dog 1 2 3",  # too long
        b"dog x 2",  # no number
        b"dog nan 2",  # not finite
        b"\xff 1 2",  # not UTF-8
        b"cat 7 7",  # a duplicate
        b"dog 3 4",
        b"",
        *[b"w%d 0 0" % i for i in range(9)],
    ]
    path.write_bytes(b"\n".join(lines) + b"\n")
    matrix, report = word_vectors.load(path, WORDS)
    assert matrix[3:5].tolist() == [[1, 2], [3, 4]]
    assert report.broken == [2, 3, 4, 5, 6, 9]
    assert report.duplicates == [7]
    assert (report.entries, report.found, report.others) == (18, 2, 9)
    assert str(report) == (
        "2 words found, 1 without vector, 1 duplicate entries (line 7), "
        "6 broken entries (line 2, 3, 4, 5, 6, …)"
    )


KINDS = ["cat 1 2", "dog 3 4", "x 0 1", "5 1 1", "cat 1", "dog a b", "", "cat 1 2 3"]


@given(st.lists(st.sampled_from(KINDS), max_size=20))
def test_entries_in_are_entries_out(tmp_path_factory, lines):
    path = Path(tmp_path_factory.getbasetemp(), "property.txt")
    lines = ["é 1 1", *(f"w{i} 0 0" for i in range(20)), *lines]
    path.write_text("".join(f"{line}\n" for line in lines))
    matrix, report = word_vectors.load(path, WORDS)
    assert report.entries == len(lines)
    assert report.entries == (
        report.found + report.others + len(report.duplicates) + len(report.broken)
    )
    assert report.found + len(report.missing) == 3
    assert np.isfinite(matrix).all()


def test_missing_words_are_drawn_from_a_seed(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("a -2 2\nb 2 -2\n")
    words = ["<pad>", "<unk>", "<number>", "a", "b", *(f"w{i}" for i in range(3000))]
    matrix, report = word_vectors.load(path, words, seed=1)
    assert len(report.missing) == 3000
    assert matrix[:5].tolist() == [[0, 0], [0, 0], [0, 0], [-2, 2], [2, -2]]
    # Normal with the spread of the vectors found, 2: four standard errors of 6,000 values.
    assert abs(matrix[5:].mean()) < 4 * 2 / np.sqrt(6000)
    assert abs(matrix[5:].std() - 2) < 4 * 2 / np.sqrt(12000)
    assert np.array_equal(matrix, word_vectors.load(path, words, seed=1)[0])
    assert not np.array_equal(matrix, word_vectors.load(path, words, seed=2)[0])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "0 entries, 0 of the 6 words"),
        ("a.txt", b"bird 1 2\n", "0 of the 6 words"),
        ("a.txt", b"cat 1 2\n" + b"dog 1\n" * 3, "3 broken entries, the first in line 2"),
        ("a.txt", b"\x00\x01\x02" * 50, "0 of the 6 words"),
        ("a.txt.gz", b"cat 1 2\n", "which is damaged"),
        ("a.npz", b"cat 1 2\n", "damaged or of another kind"),
    ],
)
def test_unusable_files_are_named(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        word_vectors.load(path, WORDS)
    assert str(path) in str(caught.value)


def test_unusable_arrays_and_no_file(tmp_path):
    path = tmp_path / "a.npz"
    for arrays in (
        {"words": np.array(["cat"])},
        {"words": np.array(["cat"]), "vectors": np.ones((2, 2))},
        {"words": np.array([1]), "vectors": np.ones((1, 2))},
        {"words": np.array(["cat"], dtype=object), "vectors": np.ones((1, 2))},
    ):
        np.savez(path, **arrays)
        with pytest.raises(UserError, match="Expected an npz file"):
            word_vectors.load(path, WORDS)
    for missing in ("none.npz", "none.txt"):
        with pytest.raises(UserError, match="No such file"):
            word_vectors.load(tmp_path / missing, WORDS)


def test_real_glove_file_gives_known_neighbours():
    path = Path(__file__).parents[2] / ".." / "shared" / "data" / "glove"
    path = path / "glove.6B.50d.top40k.npz"
    if not path.is_file():
        pytest.skip("needs GloVe in ../shared/data/glove")
    matrix, report = word_vectors.load(path, ["<unk>", "king", "queen", "cabbage"])
    assert report.missing == []
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    assert matrix[1] @ matrix[2] > matrix[1] @ matrix[3] + 0.3
