"""A corpus as one long array of units with article boundaries, in memory or on disk."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import tensorflow as tf

from glomo_tf import files
from glomo_tf.data import vocabulary
from glomo_tf.data.text_units import TextUnits
from glomo_tf.errors import UserError

_FORMAT, _VERSION = "glomo_tf.EncodedCorpus", 1
_UNITS, _OFFSETS, _INDEX = "units.npy", "offsets.npy", "corpus.json"


@dataclass(frozen=True)
class CorpusReport:
    """What became of the documents of a corpus: `read == articles + empty`.

    Attributes:
        read: documents received.
        articles: documents with at least one unit.
        empty: documents without a unit, left out.
        units: units of all articles.
        unknown: units outside the vocabulary.
        numbers: units that are numbers.
    """

    read: int
    articles: int
    empty: int
    units: int
    unknown: int
    numbers: int


@dataclass(frozen=True)
class EncodedCorpus:
    """Articles as units, end to end in one array.

    Attributes:
        units: int32 [N], without padding; may be a memory map.
        offsets: int64 [A + 1]; article `a` is `units[offsets[a] : offsets[a + 1]]`.
        report: what was read; None for arrays made elsewhere.
        selected: int64 [A'], rising indices of the articles that belong to this part; all of
            them if None.

    Example:

    >>> import numpy as np
    >>> from glomo_tf.data.corpus import EncodedCorpus
    >>> corpus = EncodedCorpus(np.array([5, 6, 7, 8, 9], "int32"), np.array([0, 2, 5]))
    >>> corpus.article(1).tolist()
    [7, 8, 9]
    """

    units: np.ndarray = field(repr=False)
    offsets: np.ndarray = field(repr=False)
    report: CorpusReport | None = None
    selected: np.ndarray | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        offsets = np.asarray(self.offsets)
        if (
            offsets.ndim != 1
            or np.ndim(self.units) != 1
            or not len(offsets)
            or offsets[0] != 0
            or offsets[-1] != len(self.units)
            or (np.diff(offsets) < 0).any()
        ):
            raise UserError(
                "Expected `offsets` [A + 1] that rise from 0 to the number of units. "
                f"Received: offsets of shape {offsets.shape}, units of shape "
                f"{np.shape(self.units)}. Build the corpus with encode_corpus."
            )

    @property
    def starts(self) -> np.ndarray:
        """int64 [A']: where each article of this part begins in `units`."""
        return self.offsets[:-1] if self.selected is None else self.offsets[self.selected]

    @property
    def lengths(self) -> np.ndarray:
        """int64 [A']: units of each article of this part."""
        lengths = np.diff(self.offsets)
        return lengths if self.selected is None else lengths[self.selected]

    @property
    def num_articles(self) -> int:
        """Articles of this part."""
        return len(self.starts)

    @property
    def num_units(self) -> int:
        """Units of this part."""
        return int(self.lengths.sum())

    def article(self, index: int) -> np.ndarray:
        """int32 [T]: the units of one article of this part."""
        start = self.starts[index]
        return np.asarray(self.units[start : start + self.lengths[index]])

    def counts(self, vocabulary_size: int) -> np.ndarray:
        """int64 [vocabulary_size]: occurrences of each unit in this part."""
        counts = np.zeros(vocabulary_size, np.int64)
        for start, end in _joined(self.starts, self.lengths):
            for piece in range(start, end, 1 << 22):
                part = np.asarray(self.units[piece : min(end, piece + (1 << 22))])
                counts += np.bincount(part, minlength=vocabulary_size)
        return counts

    def split(self, fraction: float, seed: int = 0) -> tuple[EncodedCorpus, EncodedCorpus]:
        """Hold out whole articles, drawn at random.

        Args:
            fraction: least share of the units to hold out, between 0 and 1.
            seed: decides the draw.

        Returns:
            The rest and the held-out part; both share the units of this corpus. Each has at
            least one article, so that a corpus of few articles may be parted unevenly.

        Raises:
            UserError: The corpus has fewer than two articles, or `fraction` is out of range.
        """
        if not 0 < fraction < 1:
            raise UserError(
                f"Expected `fraction` between 0 and 1. Received: fraction={fraction!r}."
            )
        if self.num_articles < 2:
            raise UserError(
                f"Expected at least two articles to split. Received: {self.num_articles}. Give "
                "more documents, or a validation corpus of its own."
            )
        order = np.random.default_rng(seed).permutation(self.num_articles)
        ends = np.cumsum(self.lengths[order])
        number = int(np.searchsorted(ends, fraction * ends[-1])) + 1
        number = min(number, self.num_articles - 1)
        selected = np.arange(self.num_articles) if self.selected is None else self.selected
        held_out, rest = np.sort(order[:number]), np.sort(order[number:])
        return (
            EncodedCorpus(self.units, self.offsets, self.report, selected[rest]),
            EncodedCorpus(self.units, self.offsets, self.report, selected[held_out]),
        )

    @classmethod
    def load(cls, folder: str | os.PathLike) -> EncodedCorpus:
        """Open the arrays that `encode_corpus` wrote, as memory maps.

        Raises:
            UserError: The folder holds no such corpus, or a damaged or newer one.
        """
        index = _read_index(folder)
        try:
            units = np.load(Path(folder) / _UNITS, mmap_mode="r", allow_pickle=False)
            offsets = np.load(Path(folder) / _OFFSETS, allow_pickle=False)
            report = CorpusReport(**index["report"])
            corpus = cls(units.view(np.ndarray), offsets, report)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"Expected a whole encoded corpus. Received: {folder}, which is damaged "
                f"({error}). Delete the folder and encode again."
            ) from error
        if (corpus.num_articles, corpus.num_units) != (report.articles, report.units):
            raise UserError(
                f"Expected a whole encoded corpus. Received: {folder}, whose arrays do not match "
                f"its {_INDEX}. Delete the folder and encode again."
            )
        return corpus


def encode_corpus(
    documents: Iterable[Any],
    text_units: TextUnits,
    *,
    cache_dir: str | os.PathLike | None = None,
) -> EncodedCorpus:
    """Turn documents into units, as a stream.

    Args:
        documents: iterable of `sources.Document` or of texts (str or bytes), or a
            `tf.data.Dataset` of strings.
        text_units: maps texts to units. Its `max_units` does not apply: no article is cut.
        cache_dir: folder for the arrays; then memory stays flat. A corpus that is there already
            is used again if it was made from the same files (`documents` comes from
            `sources.documents`) with the same vocabulary; otherwise it is replaced.

    Returns:
        An `EncodedCorpus` of the documents that have units.

    Raises:
        UserError: No document has a unit, or the folder cannot be written.
    """
    if cache_dir is None:
        parts: list[np.ndarray] = [np.zeros(0, np.int32)]
        offsets, report = _encode(documents, text_units, parts.append)
        return EncodedCorpus(np.concatenate(parts), offsets, report)

    folder = Path(cache_dir)
    source = getattr(documents, "identity", None)
    if source is not None and (folder / _INDEX).is_file():
        index = _read_index(folder)
        if (index.get("source"), index.get("vocabulary")) == (source, text_units.fingerprint):
            return EncodedCorpus.load(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Gone before the arrays change, so that an old index never describes new arrays.
        (folder / _INDEX).unlink(missing_ok=True)
    except OSError as error:
        raise files.not_writable(folder, error) from error
    with files.replacing(folder / _UNITS) as path, open(path, "wb") as file:
        _write_header(file, 0)
        offsets, report = _encode(documents, text_units, lambda ids: file.write(ids.tobytes()))
        file.seek(0)
        _write_header(file, report.units)
    with files.replacing(folder / _OFFSETS) as path, open(path, "wb") as file:
        np.save(file, offsets)
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "source": source,
        "vocabulary": text_units.fingerprint,
        "report": asdict(report),
    }
    files.write_json(folder / _INDEX, content)
    return EncodedCorpus.load(folder)


def _encode(
    documents: Iterable[Any], text_units: TextUnits, write: Any
) -> tuple[np.ndarray, CorpusReport]:
    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def encode(texts):
        rows = text_units.ragged(texts, whole=True)
        return rows.flat_values, rows.row_lengths()

    read = unknown = numbers = 0
    lengths: list[np.ndarray] = [np.zeros(1, np.int64)]
    for batch in vocabulary.batches(documents):
        ids, rows = (np.ascontiguousarray(value) for value in encode(tf.constant(batch)))
        write(ids)
        lengths.append(rows[rows > 0])
        read += len(rows)
        unknown += int((ids == 1).sum())
        numbers += int((ids == 2).sum())
    offsets = np.cumsum(np.concatenate(lengths))
    articles = len(offsets) - 1
    if not articles:
        raise UserError(
            f"Expected documents with text. Received: {read} documents, none with a word. Check "
            "the path and the name of the text field."
        )
    units = int(offsets[-1])
    return offsets, CorpusReport(read, articles, read - articles, units, unknown, numbers)


def _write_header(file: BinaryIO, size: int) -> None:
    """Header of a .npy file of int32 [size], 128 bytes long whatever the size."""
    text = f"{{'descr': '<i4', 'fortran_order': False, 'shape': ({size},), }}"
    file.write(b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little"))
    file.write(text.ljust(117).encode("ascii") + b"\n")


def _read_index(folder: str | os.PathLike) -> dict[str, Any]:
    index = files.read_json(Path(folder) / _INDEX)
    if not isinstance(index, dict) or index.get("format") != _FORMAT:
        raise UserError(
            f"Expected a folder written by encode_corpus. Received: {folder}, whose {_INDEX} is "
            "of another kind. Choose another folder."
        )
    if not isinstance(index.get("version"), int) or index["version"] > _VERSION:
        raise UserError(
            f"Expected an encoded corpus of version {_VERSION} or lower. Received: {folder} of "
            f"version {index.get('version')!r}. Install a newer glomo-tf or delete the folder."
        )
    return index


def _joined(starts: np.ndarray, lengths: np.ndarray) -> Iterator[tuple[int, int]]:
    """(start, end) of runs of articles that follow each other."""
    ends = starts + lengths
    breaks = np.flatnonzero(starts[1:] != ends[:-1]) + 1
    bounds = [0, *breaks.tolist(), len(starts)]
    for first, last in pairwise(bounds):
        if last > first:
            yield int(starts[first]), int(ends[last - 1])
