"""Tokens as short labels: one line, no control characters, never cut inside a character."""

from __future__ import annotations

import unicodedata

ELLIPSIS = "…"
_JOINERS = "\u200d\ufe0e\ufe0f"


def as_text(token: object) -> str:
    """Returns a token as text; bytes are read as UTF-8, bad ones become U+FFFD.

    Args:
        token: `str` or `bytes`.

    Returns:
        A `str` that can be written as UTF-8: lone surrogates become U+FFFD too.

    Raises:
        TypeError: If the token is neither.

    Example:

    >>> from glomo_tf.viewer import labels
    >>> labels.as_text("é".encode())
    'é'
    """
    if isinstance(token, bytes):
        return token.decode("utf-8", errors="replace")
    if isinstance(token, str):
        return token.encode("utf-8", errors="surrogatepass").decode("utf-8", errors="replace")
    raise TypeError(
        f"Expected tokens to be str or bytes. Received: {token!r} of type {type(token).__name__}. "
        "Decode unit ids first, for example with TextUnits.decode(ids)."
    )


def visible(token: str) -> str:
    """Returns the token on one line: white space as `␣`, control characters as `·`."""
    if not token:
        return "∅"
    shown = []
    for character in token:
        category = unicodedata.category(character)
        if character.isspace():
            shown.append("␣")
        elif category == "Cc" or (category == "Cf" and character not in _JOINERS + "\u200c"):
            # Direction overrides and other invisible marks would move their neighbours' text.
            shown.append("·")
        else:
            shown.append(character)
    return "".join(shown)


def line(text: object, limit: int) -> str:
    """Returns running text on one line: like `shorten`, but white space becomes one space."""
    return shorten(" ".join(as_text(text).split()), limit).replace("␣", " ")


def columns(text: str) -> int:
    """Returns the width of a text in columns: 2 for wide East Asian characters, 0 for marks."""
    return sum(_width(character) for character in text)


def shorten(token: str, limit: int = 14) -> str:
    """Returns a label of at most `limit` columns, its end replaced by `…` when it is longer.

    A base character keeps its combining marks, and an emoji sequence stays whole or goes.

    Args:
        token: Text of any length.
        limit: Greatest width in columns, at least 2.

    Returns:
        A `str` on one line.

    Example:

    >>> from glomo_tf.viewer import labels
    >>> labels.shorten("internationalisation", 10)
    'internati…'
    """
    # Nothing past this point can be seen, and a token may be a million characters long.
    text = visible(token[: 16 * limit])
    if columns(text) <= limit and len(token) <= 16 * limit:
        return text
    kept: list[str] = []
    width = 0
    for cluster in _clusters(text):
        width += columns(cluster)
        if width > limit - 1:
            break
        kept.append(cluster)
    return "".join(kept) + ELLIPSIS


def _width(character: str) -> int:
    if unicodedata.combining(character) or character in _JOINERS:
        return 0
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _clusters(text: str) -> list[str]:
    """Splits text so that marks and joined characters stay with what they belong to."""
    clusters: list[str] = []
    for character in text:
        joined = clusters and clusters[-1].endswith("\u200d")
        if clusters and (joined or _width(character) == 0):
            clusters[-1] += character
        else:
            clusters.append(character)
    return clusters
