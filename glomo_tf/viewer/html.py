"""Graphs of sentences as one self-contained page: no network, no other file, no library."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from glomo_tf.errors import UserError
from glomo_tf.files import replacing
from glomo_tf.viewer.labels import ELLIPSIS, as_text, line
from glomo_tf.viewer.sentence import Sentence, automatic_threshold

MAX_TOKENS = 200
# A page of 16 million weights is 43 MB and opens in a few seconds; more is no pleasure.
MAX_WEIGHTS = 16_000_000
_STEPS = 65535
_MAX_CHARACTERS = 200


def draw_html(
    path: str | os.PathLike[str], sentences: Sequence[Sentence], *, title: str = "Graphs"
) -> Path:
    """Writes a page to explore graphs: arcs over the words, the matrix, every head side by side.

    The page chooses layer, head, direction and threshold, by mouse or keyboard, shows the weights
    of a word or an arc, and draws a dependency parse or a second graph below the words. It holds
    everything it needs; its Content-Security-Policy forbids requests and any script but its own.

    1. Weights are stored as 16-bit steps of `scale / 65535`, so they are exact to 1e-5 of it.
    2. Tokens, titles and names are data in the page, never markup.

    Args:
        path: File to write; an older one is replaced once the new one is whole.
        sentences: Any number, at least one. From the 201st token on a sentence is cut, and the
            page says so; a token is cut after 200 characters.
        title: Heading of the page.

    Returns:
        The path.

    Raises:
        UserError: If there is no sentence, if the page would hold more than 16 million weights,
            or if the file cannot be written.

    Example:

    >>> import numpy as np, tempfile
    >>> from glomo_tf.viewer import Sentence, draw_html
    >>> graph = np.array([[0, 0, 0], [1, 0, 0], [0.2, 0.8, 0]])
    >>> cats = Sentence(["cats", "sleep", "well"], graph)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_html(folder + "/cats.html", [cats]).name
    'cats.html'
    """
    if isinstance(sentences, Sentence):
        sentences = [sentences]
    if not sentences:
        raise UserError("Expected at least one sentence to draw. Received: none.")
    total = sum(_weights(sentence) for sentence in sentences)
    if total > MAX_WEIGHTS:
        raise UserError(
            f"Expected at most {MAX_WEIGHTS:,} weights on a page. Received: {total:,} in "
            f"{len(sentences)} sentences. Draw fewer or shorter sentences, or fewer heads."
        )
    page = _page(title, {"format": 1, "sentences": [_entry(sentence) for sentence in sentences]})
    with replacing(path) as temporary:
        temporary.write_bytes(page.encode("utf-8"))
    return Path(path)


def _weights(sentence: Sentence) -> int:
    length = min(len(sentence.tokens), MAX_TOKENS)
    graphs = [sentence.graph] + ([] if sentence.compared is None else [sentence.compared])
    return sum(graph.shape[0] * graph.shape[1] * length * length for graph in graphs)


def _entry(sentence: Sentence) -> dict[str, Any]:
    total = len(sentence.tokens)
    sentence = sentence.first(MAX_TOKENS)
    graphs = [_graph_entry(sentence, sentence.name)]
    if sentence.compared is not None:
        other = Sentence(sentence.tokens, sentence.compared)
        graphs.append(_graph_entry(other, sentence.compared_name))
    note = ""
    if total > MAX_TOKENS:
        note = f"The first {MAX_TOKENS} of {total:,} words are shown."
    return {
        "title": line(sentence.title or " ".join(sentence.tokens[:40]), 120),
        "tokens": [_cut(token) for token in sentence.tokens],
        "note": note,
        "parse": None if sentence.heads is None else list(sentence.heads),
        "graphs": graphs,
    }


def _graph_entry(sentence: Sentence, name: str) -> dict[str, Any]:
    scale = max(float(sentence.graph.max()), 1.0)
    steps = np.rint(sentence.graph / scale * _STEPS).astype("<u2")
    return {
        "name": line(name, 60),
        "directions": list(sentence.directions),
        "layers": sentence.num_layers,
        "heads": sentence.num_heads,
        "scale": scale,
        "threshold": automatic_threshold(sentence.matrix()),
        "weights": base64.b64encode(steps.tobytes()).decode("ascii"),
    }


def _cut(token: str) -> str:
    return token if len(token) <= _MAX_CHARACTERS else token[:_MAX_CHARACTERS] + ELLIPSIS


def _page(title: str, data: dict[str, Any]) -> str:
    folder = resources.files("glomo_tf.viewer")
    style, script, page = (
        folder.joinpath(name).read_text(encoding="utf-8")
        for name in ("page.css", "page.js", "page.html")
    )
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    )
    # JSON in a script element ends only at "</script": with "<" escaped it cannot.
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    parts = {
        "@POLICY@": policy,
        "@TITLE@": html.escape(as_text(title)),
        "@STYLE@": style,
        "@SCRIPT@": script,
        "@DATA@": text,
    }
    # One pass over the page's own text, so that no mark is looked for inside what is put in.
    return re.sub("|".join(parts), lambda mark: parts[mark.group()], page)


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode()
