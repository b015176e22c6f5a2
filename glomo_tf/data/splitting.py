"""Cutting text into tokens with core TensorFlow operations only.

Pure functions over string tensors: the same operations run in Python, in `tf.data` and in a
SavedModel that is served without this package.

The rule of `split_words`, close to the Penn Treebank and GloVe tokenizers so that words meet GloVe
vectors:

1. Bytes that are not UTF-8 become U+FFFD; control characters and every kind of blank part tokens;
   invisible marks (byte order mark, soft hyphen, direction marks) vanish; typographic quotes become
   `'` and `"`.
2. English clitics are tokens of their own: `do n't`, `it 's`, `we 're`, `I 've`, `he 'll`,
   `she 'd`, `I 'm`. Any other apostrophe between letters stays inside its word (`o'clock`).
3. A number is a run of digits with single inner `.` or `,` (`1,234.5`). Digits that touch letters
   make one word (`1990s`, `20th`, `mp3`).
4. Single letters with full stops are one token (`u.s.`, `e.g.`); runs of full stops or hyphens
   are one token (`...`, `--`).
5. A Chinese character is a token, and so is an emoji with what is joined to it. Scripts without
   blanks (Thai, Japanese kana) are not segmented any further.
6. Any other visible character is a token (hyphens part words: `well - known`).

References:
    - Marcus, Santorini and Marcinkiewicz, 1993, Building a large annotated corpus of English.
    - Pennington, Socher and Manning, 2014, GloVe: global vectors for word representation.
"""

from __future__ import annotations

import tensorflow as tf

PAD, UNKNOWN, NUMBER = "<pad>", "<unk>", "<number>"

# Marks of letters belong to words, and so do the two joiners that Indic and Persian words need.
_WORD = r"[\p{L}\p{M}\p{N}_\x{200C}\x{200D}]"
_WORD_END = r"([^\p{L}\p{M}\p{N}_]|$)"
_NUMBER = r"\p{Nd}+(?:[.,]\p{Nd}+)*"
# `clean` leaves no control characters, so this one can stand for the apostrophe of a clitic.
_CLITIC_MARK = "\x01"
_TOKEN = "|".join(  # RE2 takes the first alternative that matches
    [
        rf"{_CLITIC_MARK}\p{{L}}+",
        rf"[nN]{_CLITIC_MARK}[tT]",
        r"(?:\p{L}\.){2,}",
        r"\p{Nd}+(?:[.,]\p{Nd}+)+",
        rf"{_WORD}+(?:'{_WORD}+)*",
        r"\.{2,}",
        r"-{2,}",
        r"[\x{1F1E6}-\x{1F1FF}]{2}",
        r"\p{So}(?:[\p{M}\x{1F3FB}-\x{1F3FF}]|\x{200D}\p{So})*",
        r"[^ ]",
    ]
)
_INVISIBLE = (
    r"[\x{00AD}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2060}-\x{2064}\x{2066}-\x{2069}\x{FEFF}]"
)


def clean(texts: tf.Tensor) -> tf.Tensor:
    """Repair and unify characters, step 1 of the rule.

    Args:
        texts: string tensor of any shape.

    Returns:
        String tensor of the same shape; tokens are parted by nothing but U+0020.
    """
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
    texts = tf.strings.regex_replace(texts, _INVISIBLE, "")
    texts = tf.strings.regex_replace(texts, "[‘’‚‛＇ʼ]", "'")
    texts = tf.strings.regex_replace(texts, "[“”„‟]", '"')
    return tf.strings.regex_replace(texts, r"[\p{Z}\p{Cc}\x{200B}]+", " ")


def split_whitespace(texts: tf.Tensor) -> tf.RaggedTensor:
    """Cut texts that are tokenised already: string [B] -> ragged string [B, (tokens)]."""
    return tf.strings.split(clean(texts))


def split_words(texts: tf.Tensor) -> tf.RaggedTensor:
    """Cut texts into words, numbers and punctuation: string [B] -> ragged string [B, (tokens)].

    Tokens keep their case.

    Example:

    >>> from glomo_tf.data.splitting import split_words
    >>> split_words(["Don't pay $1,234.50!"]).to_list()
    [[b'Do', b"n't", b'pay', b'$', b'1,234.50', b'!']]
    """
    texts = clean(texts)
    texts = tf.strings.regex_replace(texts, r"\p{Han}", r" \0 ")
    mark = _CLITIC_MARK
    texts = tf.strings.regex_replace(texts, rf"([nN])'([tT]){_WORD_END}", rf" \1{mark}\2\3")
    # Two passes, because a match swallows the apostrophe of a clitic that follows (he'd've).
    for clitics in ("[rR][eE]|[vV][eE]|[lL][lL]", "[sSdDmM]"):
        texts = tf.strings.regex_replace(texts, rf"'({clitics}){_WORD_END}", rf" {mark}\1\2")
    texts = tf.strings.regex_replace(texts, _TOKEN, r" \0 ")
    return tf.strings.split(tf.strings.regex_replace(texts, mark, "'"))


def normalize(tokens: tf.Tensor) -> tf.Tensor:
    """What a vocabulary sees of tokens: lower case in every script, numbers as `<number>`.

    Args:
        tokens: string tensor of valid UTF-8, any shape.

    Returns:
        String tensor of the same shape.
    """
    tokens = tf.strings.lower(tokens, encoding="utf-8")
    return tf.strings.regex_replace(tokens, f"^{_NUMBER}$", NUMBER)
