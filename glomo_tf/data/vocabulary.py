"""The list of words that numbers the units, how it is counted from a corpus and kept in a file."""

from __future__ import annotations

import hashlib
import json
import os
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import tensorflow as tf

from glomo_tf import files
from glomo_tf.data.splitting import NUMBER, PAD, UNKNOWN
from glomo_tf.errors import UserError

SPECIAL = (PAD, UNKNOWN, NUMBER)
SPLITTERS = ("words", "whitespace", "fastbert")
_FORMAT, _VERSION = "glomo_tf.TextUnits", 1
_RULES = 1  # rises when the same text would be cut or looked up in another way
_BATCH_BYTES = 1 << 20  # texts go through TensorFlow in batches of this size
_BATCH_TEXTS = 4096
_MAX_DISTINCT = 4_000_000  # words counted at a time; keeps memory flat on any corpus


@dataclass(frozen=True)
class Vocabulary:
    """Words by id, with their counts in the corpus they come from.

    Attributes:
        words: word of each id; 0 `<pad>`, 1 `<unk>`, 2 `<number>`, then by falling count.
        counts: occurrences of each id in the corpus; that of 1 counts all words left out.
        splitter: how texts are cut, one of `SPLITTERS`.
        max_units: units of a text that are kept, or None for all.
    """

    words: list[str]
    counts: list[int] = field(repr=False)
    splitter: str = "words"
    max_units: int | None = None

    def __post_init__(self) -> None:
        if self.splitter not in SPLITTERS:
            raise UserError(
                f"Expected `splitter` to be one of {', '.join(SPLITTERS)}. "
                f"Received: splitter={self.splitter!r}."
            )
        if self.max_units is not None and (
            not isinstance(self.max_units, int)
            or isinstance(self.max_units, bool)
            or self.max_units < 1
        ):
            raise UserError(
                "Expected `max_units` to be a positive integer or None. "
                f"Received: max_units={self.max_units!r}."
            )
        if not all(isinstance(word, str) and word for word in self.words):
            raise UserError("Expected every word to be a non-empty string. Received: others.")
        if tuple(self.words[:3]) != SPECIAL:
            raise UserError(
                f"Expected the words to begin with {', '.join(SPECIAL)}. "
                f"Received: {self.words[:3]}. Put these three in front."
            )
        if len(set(self.words)) != len(self.words):
            raise UserError("Expected words that differ from each other. Received: repeated words.")
        if len(self.counts) != len(self.words):
            raise UserError(
                "Expected one count for each word. "
                f"Received: {len(self.counts)} counts, {len(self.words)} words."
            )
        if not all(type(count) is int and count >= 0 for count in self.counts):
            raise UserError("Expected counts to be integers of at least 0. Received: others.")

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of all that decides the id of a word: rule, splitter and words."""
        text = json.dumps([_RULES, self.splitter, self.words], ensure_ascii=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()

    def save(self, path: str | os.PathLike) -> None:
        """Write one JSON file, whole or not at all."""
        content = {
            "format": _FORMAT,
            "version": _VERSION,
            "fingerprint": self.fingerprint,
            "splitter": self.splitter,
            "max_units": self.max_units,
            "words": self.words,
            "counts": self.counts,
        }
        files.write_text(path, json.dumps(content, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike) -> Vocabulary:
        """Read and check a file that `save` wrote.

        Raises:
            UserError: No such file; a damaged, foreign or newer one.
        """
        content = files.read_json(path)
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise UserError(
                f"Expected a vocabulary written by TextUnits.save. Received: {path}, a JSON file "
                "of another kind. Give the vocabulary.json of a preset or of a run."
            )
        version = content.get("version")
        if not isinstance(version, int) or version > _VERSION:
            raise UserError(
                f"Expected a vocabulary of format version {_VERSION} or lower. Received: {path} "
                f"of version {version!r}. Install a newer glomo-tf."
            )
        try:
            vocabulary = cls(
                list(content["words"]),
                list(content["counts"]),
                content["splitter"],
                content["max_units"],
            )
        except (KeyError, TypeError, UserError) as error:
            raise _damaged(path, str(error)) from error
        if vocabulary.fingerprint != content.get("fingerprint"):
            raise _damaged(path, "its fingerprint does not match its words")
        return vocabulary


def _damaged(path: str | os.PathLike, why: str) -> UserError:
    return UserError(
        f"Expected a whole vocabulary file. Received: {path}, which is damaged ({why}). "
        "Take a copy from the preset or the run, or build it again with TextUnits.from_corpus."
    )


def batches(lines: Any) -> Iterator[list[bytes]]:
    """Cut a stream of texts into batches of about a megabyte.

    Args:
        lines: iterable of str, bytes or `sources.Document`, or a `tf.data.Dataset` of strings of
            any shape.

    Raises:
        UserError: `lines` is, or holds, something else.
    """
    if isinstance(lines, (str, bytes, os.PathLike)) or not isinstance(
        lines, (Iterable, tf.data.Dataset)
    ):
        raise UserError(
            "Expected an iterable of texts or a tf.data.Dataset of strings. "
            f"Received: {type(lines).__name__}. Put a single text into a list; read a file with "
            "glomo_tf.data.sources.documents."
        )
    batch: list[bytes] = []
    size = 0
    for text in _texts(lines):
        batch.append(text)
        size += len(text)
        if size >= _BATCH_BYTES or len(batch) >= _BATCH_TEXTS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _texts(lines: Any) -> Iterator[bytes]:
    if isinstance(lines, tf.data.Dataset):
        spec = lines.element_spec
        if not isinstance(spec, tf.TensorSpec) or spec.dtype != tf.string:
            raise UserError(
                f"Expected a tf.data.Dataset of strings. Received elements of {spec}. "
                "Map it to its text first."
            )
        lines = lines.batch(1024) if spec.shape.rank == 0 else lines
        for array in lines.as_numpy_iterator():
            yield from array.reshape(-1).tolist()
        return
    for number, item in enumerate(lines):
        text = getattr(item, "text", item)  # of a `sources.Document`
        if isinstance(text, str):
            yield encode(text)
        elif isinstance(text, bytes):
            yield text
        else:
            raise UserError(
                f"Expected texts to be str or bytes. Received: {type(text).__name__} "
                f"as text number {number}."
            )


def encode(text: str) -> bytes:
    """UTF-8 of any str: a lone surrogate becomes bad bytes, which are repaired like others."""
    return text.encode("utf-8", "surrogatepass")


def count_words(lines: Any, normalized_words: Callable[[tf.Tensor], tf.Tensor]) -> dict[str, int]:
    """Count the words of a corpus as a stream.

    Canonically equivalent spellings are counted as one word, in its composed (NFC) form. When a
    corpus has more than four million different words, the rarest are forgotten on the way, so
    that memory stays bounded; their counts are then lower bounds.

    Args:
        lines: see `batches`.
        normalized_words: maps string [B] to the flat string [N] of its normalised words.

    Returns:
        Count of each word.
    """

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def count(texts):
        words, _, counts = tf.unique_with_counts(normalized_words(texts))
        return words, counts

    total: dict[str, int] = {}
    for batch in batches(lines):
        words, counts = count(tf.constant(batch))
        for raw, number in zip(words.numpy().tolist(), counts.numpy().tolist(), strict=True):
            word = raw.decode("utf-8")
            if not word.isascii():
                word = unicodedata.normalize("NFC", word)
            total[word] = total.get(word, 0) + number
        floor = 1
        while len(total) > _MAX_DISTINCT:
            total = {word: number for word, number in total.items() if number > floor}
            floor += 1
    return total


def choose(
    counts: dict[str, int], size: int, *, min_count: int = 1, keep: Collection[str] | None = None
) -> tuple[list[str], list[int]]:
    """Pick the words of a vocabulary: special ones, then by falling count, ties by code points.

    Returns:
        words and counts, of at most `size`.

    Raises:
        UserError: Too little is left to tell units apart.
    """
    check_size(size, min_count)
    if not counts:
        raise UserError(
            "Expected a corpus with words. Received: an empty corpus (no texts or only "
            "blank ones). Check the path and the name of the text field."
        )
    if len(counts) < 2:
        raise UserError(
            "Expected a corpus of at least two different words. "
            f"Received: only {min(counts)[:40]!r}. Give more text."
        )
    allowed = None if keep is None else {unicodedata.normalize("NFC", word) for word in keep}
    chosen = [
        (word, number)
        for word, number in counts.items()
        if number >= min_count and word not in SPECIAL and (allowed is None or word in allowed)
    ]
    chosen.sort(key=lambda pair: (-pair[1], pair[0]))
    del chosen[size - len(SPECIAL) :]
    if not chosen:
        raise UserError(
            f"Expected a corpus with words that occur at least {min_count} times"
            f"{' and are in `keep`' if keep is not None else ''}. Received: none among "
            f"{len(counts)} different words. Lower `min_count` or give more text."
        )
    numbers = counts.get(NUMBER, 0)
    known = sum(number for _, number in chosen) + numbers
    return (
        [*SPECIAL, *(word for word, _ in chosen)],
        [0, sum(counts.values()) - known, numbers, *(number for _, number in chosen)],
    )


def check_size(size: int, min_count: int) -> None:
    """Refuse a vocabulary size or a least count that cannot be meant."""
    if not isinstance(size, int) or isinstance(size, bool) or size <= len(SPECIAL):
        raise UserError(
            f"Expected `vocabulary_size` to be an integer above {len(SPECIAL)} (the special units "
            f"{', '.join(SPECIAL)} are part of it). Received: vocabulary_size={size!r}."
        )
    if not isinstance(min_count, int) or isinstance(min_count, bool) or min_count < 1:
        raise UserError(
            f"Expected `min_count` to be a positive integer. Received: min_count={min_count!r}."
        )
