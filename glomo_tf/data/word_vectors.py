"""Word vectors from GloVe files, as a matrix for the words of a vocabulary."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from glomo_tf import files
from glomo_tf.data import records
from glomo_tf.errors import UserError

_PAD, _UNKNOWN, _NUMBER = "<pad>", "<unk>", "<number>"
_AVERAGED = 10_000  # words that decide the vector of <unk>
_IS_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass
class VectorReport:
    """What became of the entries of a file and of the words asked for.

    `entries == found + others + len(duplicates) + len(broken)`. The special units (`<pad>`, …) are
    neither found nor missing, unless the file has them.

    Attributes:
        entries: lines of the file (without a header), or rows of its arrays.
        dimension: values of a vector.
        found: words that have a vector of the file.
        missing: words without one.
        others: entries of words that were not asked for.
        duplicates: line numbers (from 1) of entries whose word came before; the first counts.
        broken: line numbers of entries that cannot be used: another number of values, values
            that are no finite numbers, a word that is not UTF-8. Values of words that are not
            needed are not looked at.
    """

    entries: int = 0
    dimension: int = 0
    found: int = 0
    missing: list[str] = field(default_factory=list)
    others: int = 0
    duplicates: list[int] = field(default_factory=list)
    broken: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        text = f"{self.found} words found, {len(self.missing)} without vector"
        for name, lines in (("duplicate", self.duplicates), ("broken", self.broken)):
            if lines:
                shown = ", ".join(map(str, lines[:5])) + ", …" * (len(lines) > 5)
                text += f", {len(lines)} {name} entries (line {shown})"
        return text


def load(
    path: str | os.PathLike, words: Sequence[str], *, seed: int | None = None
) -> tuple[np.ndarray, VectorReport]:
    """Vectors of words, in their order.

    Words are matched exactly. The special units are no words of a file:

    - `<pad>` has zeros,
    - `<unk>` the mean of the first 10,000 entries of the file that were not asked for,
    - `<number>` the mean of all entries that are numbers.

    Args:
        path: `.npz` with arrays `words` [N] and `vectors` [N, d]; or text (`.txt`, also `.gz` or
            `.xz`), a word and its d values a line, parted by blanks, with or without a header line
            (number of words, d).
        words: such as `TextUnits.words`.
        seed: words that the file lacks have zeros if None, else normal random values with the
            spread of the vectors found, drawn from this seed.

    Returns:
        float32 [len(words), d] and a `VectorReport`.

    Raises:
        UserError: The file cannot be read, is no file of vectors, is broken in most places, or
            has none of the words.

    Example:

    >>> import tempfile, pathlib
    >>> from glomo_tf.data import word_vectors
    >>> path = pathlib.Path(tempfile.mkdtemp(), "vectors.txt")
    >>> _ = path.write_text("cat 1 2\\nmat 3 4\\n")
    >>> matrix, report = word_vectors.load(path, ["<pad>", "cat", "dog"])
    >>> matrix.tolist(), report.missing
    ([[0.0, 0.0], [1.0, 2.0], [0.0, 0.0]], ['dog'])
    """
    path = Path(path)
    report = VectorReport()
    ids = {word: i for i, word in enumerate(words)}
    entries = _from_arrays(path, report) if path.suffix == ".npz" else _from_lines(path, report)
    found: dict[int, np.ndarray] = {}
    seen: set[str] = set()
    unknown, numbers = _Mean(), _Mean()
    for line, word, values in entries:
        if word in seen:
            report.duplicates.append(line)
            continue
        index = ids.get(word)
        number = _IS_NUMBER.fullmatch(word) is not None
        vector = None
        if index is not None or number or unknown.size < _AVERAGED:
            vector = _vector(values)
            if vector is None:
                report.broken.append(line)
                continue
        seen.add(word)
        if vector is not None and number:
            numbers.add(vector)
        if vector is not None and index is not None:
            found[index] = vector
        else:
            report.others += 1
            if vector is not None and unknown.size < _AVERAGED:
                unknown.add(vector)
    report.found = len(found)
    if not found or len(report.broken) > report.entries / 2:
        first = f", the first in line {report.broken[0]}" if report.broken else ""
        raise UserError(
            f"Expected word vectors of the vocabulary. Received: {path}: {report.entries} entries, "
            f"{len(found)} of the {len(ids)} words, {len(report.broken)} broken entries{first}. "
            "Give a GloVe text file or an npz with arrays words and vectors."
        )
    matrix = np.zeros((len(words), report.dimension), np.float32)
    matrix[list(found)] = list(found.values())
    for name, mean in ((_UNKNOWN, unknown), (_NUMBER, numbers)):
        if name in ids and ids[name] not in found and mean.size:
            matrix[ids[name]] = mean.value
    special = (_PAD, _UNKNOWN, _NUMBER)
    lacking = [i for i, word in enumerate(words) if i not in found and word not in special]
    report.missing = [words[i] for i in lacking]
    if seed is not None:
        spread = matrix[list(found)].std()
        shape = (len(lacking), report.dimension)
        matrix[lacking] = np.random.default_rng(seed).normal(0.0, spread, shape)
    return matrix, report


def words(path: str | os.PathLike) -> set[str]:
    """The words that have an entry in a file of vectors, in the formats of `load`.

    Raises:
        UserError: The file cannot be read or is no file of vectors.
    """
    path = Path(path)
    report = VectorReport()
    entries = _from_arrays(path, report) if path.suffix == ".npz" else _from_lines(path, report)
    return {word for _, word, _ in entries}


class _Mean:
    """Running mean of vectors."""

    def __init__(self) -> None:
        self.size = 0
        self._sum: np.ndarray | float = 0.0

    def add(self, vector: np.ndarray) -> None:
        self.size += 1
        self._sum = self._sum + vector.astype(np.float64)

    @property
    def value(self) -> np.ndarray:
        return np.asarray(self._sum / self.size)


_Entries = Iterator[tuple[int, str, "np.ndarray | bytes"]]


def _from_lines(path: Path, report: VectorReport) -> _Entries:
    """(line number, word, unread values) of a text file; counts entries and broken lines."""
    with records.opened(path) as file:
        for line, raw in enumerate(file, 1):
            parts = raw.rstrip().split(b" ")
            if line == 1 and len(parts) == 2 and all(part.isdigit() for part in parts):
                report.dimension = int(parts[1])
                continue
            report.entries += 1
            report.dimension = report.dimension or len(parts) - 1
            word, repaired = records.decode(parts[0])
            if len(parts) != report.dimension + 1 or len(parts) < 2 or repaired or not word:
                report.broken.append(line)
                continue
            yield line, word, raw[len(parts[0]) :]


def _from_arrays(path: Path, report: VectorReport) -> _Entries:
    """(row number from 1, word, values) of an npz file."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            words, vectors = archive["words"], archive["vectors"]
        fits = words.ndim == 1 and vectors.ndim == 2 and len(words) == len(vectors)
        fits = fits and words.dtype.kind in "US" and vectors.dtype.kind in "fiu"
    except OSError as error:
        raise UserError(
            f"Expected a readable file of word vectors. Received: {path}: {files.reason(error)}."
        ) from error
    except (ValueError, KeyError, zipfile.BadZipFile, EOFError) as error:
        raise UserError(
            "Expected an npz file with arrays words and vectors. "
            f"Received: {path}, which is damaged or of another kind ({error})."
        ) from error
    if not fits:
        raise UserError(
            "Expected an npz file with words [N] of strings and vectors [N, d] of numbers. "
            f"Received: {path} with words {words.dtype} {words.shape} and vectors "
            f"{vectors.dtype} {vectors.shape}."
        )
    report.entries, report.dimension = vectors.shape
    for row, (word, vector) in enumerate(zip(words.tolist(), vectors, strict=True), 1):
        yield row, word if isinstance(word, str) else records.decode(word)[0], vector


def _vector(values: np.ndarray | bytes) -> np.ndarray | None:
    """float32 [d], or None if the values are no finite numbers."""
    try:
        numbers = values.split() if isinstance(values, bytes) else values
        vector = np.asarray(numbers, dtype=np.float32)
    except ValueError:
        return None
    return vector if np.isfinite(vector).all() else None
