"""Text as integer units, one implementation for Python, tf.data and served models."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from glomo_tf.data import splitting, vocabulary
from glomo_tf.data.vocabulary import Vocabulary
from glomo_tf.errors import UserError


class TextUnits(tf.Module):
    """Maps texts to integer units: 0 padding, 1 unknown, 2 number, then words by falling count.

    1. A text is cut into tokens by `splitter`:
        - `"words"`: words, numbers and punctuation; see `glomo_tf.data.splitting`.
        - `"whitespace"`: at blanks, for text that is tokenised already.
        - `"fastbert"`: as `"words"`, then each word into subwords of tensorflow-text (extra
          `text`; a model that holds these loads only where TF Text's operations are linked).
    2. A token is put into lower case (Unicode) and looked up; a number is unit 2.

    The first two use core TensorFlow operations only, so ids are the same in Python, in
    `Dataset.map` and in a SavedModel loaded without this package. No text raises an error: bad
    bytes become U+FFFD, an empty or blank text is a row of padding.

    Unicode: core operations cannot normalise text. A word of the vocabulary is found in its
    composed (NFC) and its fully decomposed (NFD) spelling; compatibility characters (the ligature
    in "ﬁne") are letters of their own.

    Args:
        words: word of each id, beginning with `<pad>`, `<unk>`, `<number>`.
        counts: occurrences of each id in a corpus; zeros if None.
        splitter: `"words"`, `"whitespace"` or `"fastbert"`.
        max_units: keep the first `max_units` units of a text; None keeps all. A row is as wide as
            the longest text of its batch, so set it where texts may be very long.

    Raises:
        UserError: The words or settings do not fit together.
        MissingExtra: `splitter="fastbert"` without tensorflow-text.

    Example:

    >>> from glomo_tf import TextUnits
    >>> units = TextUnits.from_corpus(["The cat sat.", "The dog sat, too."], vocabulary_size=100)
    >>> units(["The dog didn't sit", ""]).numpy().tolist()
    [[5, 8, 1, 1, 1], [0, 0, 0, 0, 0]]
    >>> units.tokens(["The dog didn't sit"]).to_list()
    [[b'The', b'dog', b'did', b"n't", b'sit']]
    """

    def __init__(
        self,
        words: Sequence[str],
        counts: Sequence[int] | None = None,
        *,
        splitter: str = "words",
        max_units: int | None = None,
    ):
        super().__init__(name="text_units")
        words = list(words)
        self._vocabulary = Vocabulary(
            words, [0] * len(words) if counts is None else list(counts), splitter, max_units
        )
        if splitter == "fastbert":
            # Imported here, so that the default needs no tensorflow-text.
            from glomo_tf.data.subwords import Subwords

            self._subwords = Subwords(words)
            self._pieces = tf.constant(words)
        else:
            self._table = _table(words)

    @classmethod
    def from_corpus(
        cls,
        lines: Any,
        vocabulary_size: int = 30_000,
        *,
        splitter: str = "words",
        min_count: int = 1,
        keep: Collection[str] | None = None,
        max_units: int | None = None,
    ) -> TextUnits:
        """Choose a vocabulary by the counts of words in a corpus, read once as a stream.

        Args:
            lines: iterable of `sources.Document` or of texts (str or bytes), or a
                `tf.data.Dataset` of strings.
            vocabulary_size: most units wanted, the three special ones included.
            splitter: see the class.
            min_count: leave out words that are rarer.
            keep: leave out words that are not in this set (lower case), such as those with
                vectors. Not for `"fastbert"`.
            max_units: see the class. Does not limit what is counted.

        Returns:
            A `TextUnits`.

        Raises:
            UserError: The corpus is empty or has a single word, or a setting is wrong.
        """
        Vocabulary(list(vocabulary.SPECIAL), [0] * 3, splitter, max_units)  # checks the settings
        vocabulary.check_size(vocabulary_size, min_count)
        if splitter == "fastbert" and keep is not None:
            raise UserError(
                'Expected `keep` with whole words only. Received: splitter="fastbert" and `keep`. '
                "Leave one out."
            )
        split = _split_function(splitter)
        counts = vocabulary.count_words(lines, lambda t: splitting.normalize(split(t).flat_values))
        size = len(counts) + 3 if splitter == "fastbert" else vocabulary_size
        words, numbers = vocabulary.choose(counts, size, min_count=min_count, keep=keep)
        if splitter == "fastbert":
            from glomo_tf.data import subwords

            frequent = dict(zip(words[2:], numbers[2:], strict=True))
            words, numbers = subwords.learn(frequent, vocabulary_size)
        return cls(words, numbers, splitter=splitter, max_units=max_units)

    @classmethod
    def load(cls, path: str | os.PathLike) -> TextUnits:
        """Read a file that `save` wrote.

        Raises:
            UserError: No such file; a damaged, foreign or newer one.
        """
        found = Vocabulary.load(path)
        return cls(found.words, found.counts, splitter=found.splitter, max_units=found.max_units)

    def save(self, path: str | os.PathLike) -> None:
        """Write one JSON file; an interrupted or failed write leaves the previous one whole."""
        self._vocabulary.save(path)

    @property
    def words(self) -> list[str]:
        """Word of each id."""
        return self._vocabulary.words

    @property
    def counts(self) -> list[int]:
        """Occurrences of each id in the corpus; id 1 counts all words left out."""
        return self._vocabulary.counts

    @property
    def vocabulary_size(self) -> int:
        """Number of ids, the special ones included."""
        return len(self._vocabulary.words)

    @property
    def splitter(self) -> str:
        """How texts are cut."""
        return self._vocabulary.splitter

    @property
    def max_units(self) -> int | None:
        """Units of a text that are kept, or None for all."""
        return self._vocabulary.max_units

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of all that decides the ids; equal for two `TextUnits` that agree."""
        return self._vocabulary.fingerprint

    def __call__(self, texts: Any) -> tf.Tensor:
        """Units of texts.

        Args:
            texts: string [B] (tensor, array or list), or tokens as a ragged string
                [B, (tokens)], see `lookup_tokens`.

        Returns:
            int32 [B, T], padded with 0 at the end; T is at least 1, so that a text without units
            is a row of padding.
        """
        dense = self.ragged(texts).to_tensor(0)
        return tf.pad(dense, [[0, 0], [0, tf.maximum(0, 1 - tf.shape(dense)[1])]])

    def ragged(self, texts: Any, *, whole: bool = False) -> tf.RaggedTensor:
        """Units of texts without padding: string [B] -> ragged int32 [B, (units)].

        Args:
            texts: as for `__call__`.
            whole: do not cut at `max_units`.
        """
        return self._cut(_flat_rows(self._ids(self._split(texts))), whole)

    def tokens(self, texts: Any) -> tf.RaggedTensor:
        """Tokens as they stand in the texts: string [B] -> ragged string [B, (units)].

        Case and numbers are kept, typographic quotes and bad bytes are not. One token a unit;
        for `"fastbert"` the subwords, as they stand in the vocabulary.
        """
        tokens = self._split(texts)
        if self.splitter == "fastbert":
            ids = _flat_rows(self._ids(tokens))
            tokens = ids.with_flat_values(tf.gather(self._pieces, ids.flat_values))
        return self._cut(tokens, whole=False)

    def lookup_tokens(self, tokens: Any) -> tf.RaggedTensor:
        """Units of texts that are cut into tokens already, such as treebank sentences.

        Args:
            tokens: ragged string [B, (tokens)], or a list of lists of strings.

        Returns:
            Ragged int32 [B, (units)], one unit a token (for `"fastbert"` one or more, see
            `word_ids`).
        """
        if not isinstance(tokens, tf.RaggedTensor):
            rows = [[vocabulary.encode(t) if isinstance(t, str) else t for t in r] for r in tokens]
            tokens = tf.ragged.constant(rows, ragged_rank=1, dtype=tf.string)
        return self.ragged(tokens)

    def word_ids(self, texts: Any) -> tf.RaggedTensor:
        """Position of the word that each unit belongs to, to pool subwords to words.

        Args:
            texts: as for `__call__`.

        Returns:
            Ragged int32 [B, (units)], rising from 0 in each text, without gaps. The mean of
            subword features x [units, d] of one text over its words is
            `tf.math.segment_mean(x, word_ids[b])`.
        """
        tokens = self._split(texts)
        positions = tf.ragged.range(tf.cast(tokens.row_lengths(), tf.int32))
        if self.splitter == "fastbert":
            ids = self._ids(tokens)
            words = tf.gather(positions.flat_values, ids.values.value_rowids())
            positions = _flat_rows(ids.with_flat_values(words))
        return self._cut(positions, whole=False)

    def decode(self, ids: Any) -> Any:
        """Words of ids, joined by blanks, padding left out; for display.

        Args:
            ids: int [T] or [B, T], array, tensor or (ragged) list.

        Returns:
            str for [T], a list of str for [B, T].
        """
        ids = ids.to_list() if isinstance(ids, tf.RaggedTensor) else ids
        ids = ids.numpy() if hasattr(ids, "numpy") else ids
        rows = [np.asarray(row) for row in ids]
        if rows and rows[0].ndim:
            return [self.decode(row) for row in rows]
        if not all(0 <= i < self.vocabulary_size for i in rows):
            raise UserError(
                f"Expected ids from 0 to {self.vocabulary_size - 1}. Received: others. "
                "Check that ids and vocabulary belong together."
            )
        text = " ".join(self.words[int(i)] for i in rows if i)
        return text.replace(" ##", "") if self.splitter == "fastbert" else text

    def _split(self, texts: Any) -> tf.RaggedTensor:
        """Any accepted input -> cleaned tokens, ragged string [B, (tokens)]."""
        if isinstance(texts, tf.RaggedTensor):
            if texts.dtype != tf.string or texts.shape.rank != 2:
                raise _bad_input(texts)
            return texts.with_flat_values(splitting.clean(texts.flat_values))
        texts = _strings(texts)
        if texts.dtype != tf.string or texts.shape.rank not in (1, None):
            raise _bad_input(texts)
        return _split_function(self.splitter)(texts)

    def _ids(self, tokens: tf.RaggedTensor) -> tf.RaggedTensor:
        """Cleaned tokens -> int32 [B, (units)], or [B, (words), (subwords)] for `"fastbert"`."""
        words = splitting.normalize(tokens.flat_values)
        if self.splitter == "fastbert":
            return tokens.with_values(self._subwords(words))
        return tokens.with_flat_values(self._table.lookup(words))

    def _cut(self, rows: tf.RaggedTensor, whole: bool) -> tf.RaggedTensor:
        return rows if whole or self.max_units is None else rows[:, : self.max_units]


def _table(words: list[str]) -> tf.lookup.StaticHashTable:
    """Word -> id. The name of padding is left out, so that no text can hold padding."""
    ids = {word: i for i, word in enumerate(words) if i}
    for word, i in list(ids.items()):
        if not word.isascii():
            ids.setdefault(unicodedata.normalize("NFD", word), i)
    with tf.init_scope():
        entries = tf.lookup.KeyValueTensorInitializer(
            tf.constant(list(ids)), tf.constant(list(ids.values()), tf.int32)
        )
        return tf.lookup.StaticHashTable(entries, default_value=1)


def _split_function(splitter: str) -> Callable[[tf.Tensor], tf.RaggedTensor]:
    return splitting.split_whitespace if splitter == "whitespace" else splitting.split_words


def _flat_rows(ids: tf.RaggedTensor) -> tf.RaggedTensor:
    return ids.merge_dims(1, 2) if ids.ragged_rank == 2 else ids


def _strings(texts: Any) -> tf.Tensor:
    """A string tensor of whatever was given."""
    if tf.is_tensor(texts):
        return texts
    if isinstance(texts, (str, bytes)):
        raise _bad_input(texts)
    array = np.asarray(texts, dtype=object)
    if not all(isinstance(text, (str, bytes)) for text in array.flat):
        raise _bad_input(texts)
    raw = [vocabulary.encode(text) if isinstance(text, str) else text for text in array.flat]
    return tf.reshape(tf.constant(raw, tf.string), array.shape)


def _bad_input(texts: Any) -> UserError:
    if isinstance(texts, (str, bytes)):
        received = "a single text"
    elif isinstance(texts, tf.RaggedTensor) or tf.is_tensor(texts):
        received = f"shape={texts.shape}, dtype={texts.dtype.name}"
    else:
        received = f"{type(texts).__name__} with other shape or values"
    return UserError(
        "Expected texts as strings [B], or tokens as ragged strings [B, (tokens)]. "
        f"Received: {received}. Put a single text into a list, flatten other shapes with "
        "tf.reshape(texts, [-1])."
    )
