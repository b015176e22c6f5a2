"""FastBert subwords from tensorflow-text: how they are learned and applied to words."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from glomo_tf.data.splitting import UNKNOWN
from glomo_tf.data.vocabulary import SPECIAL
from glomo_tf.errors import UserError, require

# Nothing in a text can be this: `splitting.clean` leaves no control characters.
_NEVER = "\x01"
# The learner goes through all words some ten times in Python: about half a minute for so many.
_LEARNED_FROM = 20_000


class Subwords:
    """Cuts words into subwords: the parts of `tensorflow_text.FastBertTokenizer`, word by word.

    The text is cut into words by `splitting.split_words` first, so that each subword belongs to
    one of the words that the default splitter gives; the BERT normaliser (lower case, accents
    stripped) and the FastWordpiece tokenizer then work inside the words.

    Args:
        words: subwords by id, as in `Vocabulary.words`; continuations begin with `##`.
    """

    def __init__(self, words: list[str]):
        text = require("tensorflow_text", "text")
        self._normalizer = text.FastBertNormalizer(lower_case_nfd_strip_accents=True)
        self._tokenizer = text.FastWordpieceTokenizer(
            [_NEVER, *words[1:]],
            token_out_type=tf.int32,
            unknown_token=UNKNOWN,
            no_pretokenization=True,
        )

    def __call__(self, words: tf.Tensor) -> tf.RaggedTensor:
        """Normalised words, string [N] -> ids, ragged int32 [N, (at least one)]."""
        return self._tokenizer.tokenize(normalize(self._normalizer, words))


def normalize(normalizer: Any, words: tf.Tensor) -> tf.Tensor:
    """Strip accents; a word of which nothing is left becomes unknown, so that it has a unit."""
    stripped = normalizer.normalize(words)
    return tf.where(tf.strings.length(stripped) == 0, tf.constant(UNKNOWN), stripped)


def learn(counts: dict[str, int], size: int) -> tuple[list[str], list[int]]:
    """Learn subwords from the counts of words, the most frequent 20,000 of them.

    Args:
        counts: count of each word.
        size: most subwords wanted, the special ones included.

    Returns:
        Subwords (special ones first, then by falling count) and their counts.

    Raises:
        UserError: The corpus is too small for subwords.
        MissingExtra: tensorflow-text is not installed.
    """
    text = require("tensorflow_text", "text")
    learner = require(
        "tensorflow_text.tools.wordpiece_vocab.wordpiece_tokenizer_learner_lib", "text"
    )
    normalizer = text.FastBertNormalizer(lower_case_nfd_strip_accents=True)
    words = list(counts)
    stripped = normalize(normalizer, tf.constant(words)).numpy().tolist()
    merged: dict[str, int] = {}
    for word, raw in zip(words, stripped, strict=True):
        merged[raw.decode("utf-8")] = merged.get(raw.decode("utf-8"), 0) + counts[word]
    ordinary = {word: number for word, number in merged.items() if word not in SPECIAL}
    try:
        # The learner looks for a count below which a subword is dropped, from these bounds.
        found = learner.learn(
            ordinary, size, list(SPECIAL), lower_thresh=2, max_input_tokens=_LEARNED_FROM
        )
    except (ValueError, IndexError, ZeroDivisionError) as error:
        raise UserError(
            f"Expected a corpus large enough to learn subwords from. Received: {len(ordinary)} "
            'different words. Give more text, or use splitter="words".'
        ) from error
    pieces = [*SPECIAL, *(piece for piece in dict.fromkeys(found) if piece not in SPECIAL)][:size]
    ids = Subwords(pieces)(tf.constant(list(merged)))
    weights = tf.constant(list(merged.values()), tf.int64)
    totals = tf.math.unsorted_segment_sum(
        tf.gather(weights, ids.value_rowids()), ids.flat_values, len(pieces)
    ).numpy()
    rest = sorted(range(len(SPECIAL), len(pieces)), key=lambda i: (-totals[i], pieces[i]))
    order = [*range(len(SPECIAL)), *rest]
    return [pieces[i] for i in order], [int(totals[i]) for i in order]
