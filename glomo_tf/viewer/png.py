"""One sentence's graph as a PNG: arcs above the words, and the matrix."""

from __future__ import annotations

import io
import os
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

from glomo_tf.errors import UserError, require
from glomo_tf.files import replacing
from glomo_tf.viewer.fonts import FontCover
from glomo_tf.viewer.labels import columns, line, shorten
from glomo_tf.viewer.sentence import Sentence, automatic_threshold

# Blue and vermilion of Okabe and Ito: told apart under every common colour blindness, and in grey.
EARLIER = "#0072B2"
LATER = "#D55E00"
BELOW = "#4D4D4D"
INK = "#1B1F24"
QUIET = "#6B7280"
MAX_TOKENS = 80

_MARGIN = 0.45
_WORD_SIZE = 10.0


def draw_png(
    path: str | os.PathLike[str],
    sentence: Sentence,
    *,
    layer: int | None = None,
    head: int | None = None,
    direction: str | None = None,
    threshold: float | None = None,
    dpi: int = 160,
) -> Path:
    """Draws a sentence's graph: an arc from every source to the receiver that takes from it.

    Width and strength of an arc grow with its weight; the arrow points at the receiver. Blue arcs
    come from earlier words, vermilion ones from later words. A dependency parse or a second graph
    of the sentence is drawn below the words. The matrix shows receivers down, sources across.

    Args:
        path: File to write; an older one is replaced once the new one is whole.
        sentence: Words and graph; from the 81st word on they are left out, and the caption says so.
        layer: 1 to L; the mean of all when `None`.
        head: 1 to K; the mean of all when `None`.
        direction: `"forward"`, `"backward"`, or `None` for both, each in its half of the matrix.
        threshold: Weight from which an arc is drawn; `None` keeps about two arcs a word and none
            below 0.05. The matrix always shows everything.
        dpi: Pixels an inch.

    Returns:
        The path.

    Raises:
        MissingExtra: If matplotlib is not installed.
        UserError: If a choice does not exist or the file cannot be written.

    Example:

    >>> import numpy as np, tempfile
    >>> from glomo_tf.viewer import Sentence, draw_png
    >>> graph = np.array([[0, 0, 0], [1, 0, 0], [0.2, 0.8, 0]])
    >>> cats = Sentence(["cats", "sleep", "well"], graph)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     draw_png(folder + "/cats.png", cats).name
    'cats.png'
    """
    require("matplotlib", "viz")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    if threshold is not None and not (np.isfinite(threshold) and threshold >= 0):
        raise UserError(
            f"Expected `threshold` to be a weight of at least 0. Received: {threshold}."
        )
    total = len(sentence.tokens)
    sentence = sentence.first(MAX_TOKENS)
    matrix = sentence.matrix(layer=layer, head=head, direction=direction)
    if threshold is None:
        threshold = automatic_threshold(matrix)
    cover = FontCover()
    words = [cover.covered(shorten(token, 16)) for token in sentence.tokens]

    centers, rotation, word_height = _place(words)
    above = _height(matrix, threshold, centers)
    lower, lower_name = _lower_graph(sentence)
    lower_threshold = 0.5 if sentence.compared is None else automatic_threshold(lower)
    below = _height(lower, lower_threshold, centers)
    square = float(np.clip(0.17 * len(words), 2.6, 8.5))
    # Room for the matrix's labels, in inches: the longest word in their type size.
    label_size = float(np.clip(72 * square / len(words) * 0.62, 4.5, 8.5))
    label = 0.0085 * label_size * max(columns(word) for word in words) + 0.1

    span = centers[-1] + centers[0]
    width = max(span, square + label + 1.0, 5.2) + 2 * _MARGIN
    room = int((width - 2 * _MARGIN) / 0.078)
    choice = _choice(sentence, layer, head, direction)
    title = cover.covered(line(sentence.title, int(room * 0.74))) if sentence.title else choice
    parts = [choice] if sentence.title else []
    parts.append(f"arcs of weight ≥ {threshold:.2g}")
    if not (matrix >= threshold).any():
        parts[-1] += " (none)"
    if lower_name:
        parts.append(f"below the words: {cover.covered(line(lower_name, 48))}")
    if total > len(words):
        parts.append(f"first {len(words)} of {total} words")
    if cover.missing:
        parts.append(f"{cover.SUBSTITUTE} = in no installed font")
    caption = [text.rstrip(" ·") for text in textwrap.wrap("  ·  ".join(parts), room)]

    heading = 0.75 + 0.19 * len(caption)
    arcs = above + word_height + below
    matrix_top = heading + arcs + 0.3 + label
    height = matrix_top + square + 0.65
    figure = Figure(figsize=(width, height), dpi=dpi, facecolor="white")
    FigureCanvasAgg(figure)
    family = cover.families

    def axes(left: float, top: float, across: float, down: float) -> Any:
        box = (left / width, 1 - (top + down) / height, across / width, down / height)
        return figure.add_axes(box)

    def write(text: str, left: float, top: float, **style: Any) -> None:
        figure.text(
            left / width, 1 - top / height, text, family=family, va="center",
            parse_math=False, **style,
        )  # fmt: skip

    write(title, _MARGIN, 0.32, fontsize=13, color=INK, weight="bold")
    for index, text in enumerate(caption):
        write(text, _MARGIN, 0.58 + 0.19 * index, fontsize=9, color=QUIET)
    top = 0.58 + 0.19 * len(caption)
    write("▬ from an earlier word", _MARGIN, top, fontsize=9, color=EARLIER)
    write("▬ from a later word", _MARGIN + 1.75, top, fontsize=9, color=LATER)

    canvas = axes((width - span) / 2, heading, span, arcs)
    canvas.set_axis_off()
    canvas.set_xlim(0, span)
    canvas.set_ylim(-word_height - below, above)
    for center, word in zip(centers, words, strict=True):
        canvas.text(
            center, -0.06, word, rotation=rotation, ha="center", va="top",
            family=family, fontsize=_WORD_SIZE, color=INK, parse_math=False,
        )  # fmt: skip
    _arcs(canvas, matrix, threshold, centers, base=0.03, sign=1, colors=(EARLIER, LATER))
    _arcs(
        canvas, lower, lower_threshold, centers,
        base=-word_height - 0.03, sign=-1, colors=(BELOW, BELOW),
    )  # fmt: skip

    side = max((width - square - 0.5 + 0.6 * label) / 2, _MARGIN + label)
    _heat_map(
        figure, axes(side, matrix_top, square, square), matrix, words, family, label_size,
        axes(side + square + 0.18, matrix_top, 0.11, square),
    )  # fmt: skip
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    with replacing(path) as temporary:
        temporary.write_bytes(buffer.getvalue())
    return Path(path)


def _choice(sentence: Sentence, layer: int | None, head: int | None, direction: str | None) -> str:
    if direction in (None, "both"):
        direction = " and ".join(sentence.directions)
    layers = f"layer {layer}" if layer else f"mean of {sentence.num_layers} layers"
    heads = f"head {head}" if head else f"mean of {sentence.num_heads} heads"
    return ", ".join(
        [str(direction)]
        + ([layers] if sentence.num_layers > 1 else [])
        + ([heads] if sentence.num_heads > 1 else [])
    )


def _lower_graph(sentence: Sentence) -> tuple[np.ndarray, str]:
    """Returns what is drawn below the words, [T, T], and its name."""
    length = len(sentence.tokens)
    if sentence.compared is not None:
        other = Sentence(sentence.tokens, sentence.compared)
        return other.matrix(), sentence.compared_name
    parse = np.zeros((length, length), np.float32)
    if sentence.heads is None:
        return parse, ""
    for word, head in enumerate(sentence.heads):
        if head:
            parse[word, head - 1] = 1.0
    return parse, "dependency parse (arrow at the dependent)"


def _place(words: list[str]) -> tuple[np.ndarray, float, float]:
    """Returns the words' centres in inches, their rotation, and the height of their row."""
    widths = np.array([0.082 * columns(word) * _WORD_SIZE / 10 for word in words])
    steps = widths + 0.17
    if steps.sum() <= 13:
        return np.cumsum(steps) - steps / 2 + 0.1, 0.0, 0.3
    centers = 0.22 * (np.arange(len(words)) + 0.5) + 0.1
    return centers, 90.0, float(widths.max()) + 0.2


def _reach(distance: np.ndarray | float) -> np.ndarray:
    """Returns the height of an arc over a distance, both in inches: long arcs are flattened."""
    return np.minimum(0.16 + 0.42 * np.asarray(distance) ** 0.8, 3.0)


def _height(matrix: np.ndarray, threshold: float, centers: np.ndarray) -> float:
    receivers, sources = np.nonzero((matrix >= threshold) & (matrix > 0))
    if not receivers.size:
        return 0.12
    return float(_reach(np.abs(centers[receivers] - centers[sources])).max()) + 0.12


def _arcs(
    canvas: Any, matrix: np.ndarray, threshold: float, centers: np.ndarray,
    *, base: float, sign: int, colors: tuple[str, str],
) -> None:  # fmt: skip
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path as Curve

    receivers, sources = np.nonzero((matrix >= threshold) & (matrix > 0))
    # Drawn against the strongest arc, but at least 0.3, so that a faint graph looks faint.
    strongest = max(float(matrix.max(initial=0.0)), 0.3)
    thickest = 2.2 if sign > 0 else 1.2
    # Weak arcs first, so that strong ones lie on top.
    for index in np.argsort(matrix[receivers, sources], kind="stable"):
        receiver, source = int(receivers[index]), int(sources[index])
        share = float(matrix[receiver, source]) / strongest
        toward = np.sign(centers[receiver] - centers[source])
        # Feet apart, so that what a word takes and what it gives do not meet in one point.
        start = centers[source] + 0.035 * toward
        end = centers[receiver] - 0.035 * toward
        if receiver == source:
            start, end = centers[source] - 0.06, centers[source] + 0.06
        # A cubic curve rises to three quarters of its control points.
        top = base + sign * float(_reach(abs(end - start))) / 0.75
        canvas.add_patch(
            FancyArrowPatch(
                path=Curve(
                    [(start, base), (start, top), (end, top), (end, base)],
                    [Curve.MOVETO, Curve.CURVE4, Curve.CURVE4, Curve.CURVE4],
                ),
                arrowstyle=f"-|>,head_length={2.5 + 1.5 * share},head_width={1.1 + 0.9 * share}",
                linewidth=0.5 + thickest * share, alpha=0.25 + 0.7 * share,
                color=colors[0] if source <= receiver else colors[1],
                shrinkA=0, shrinkB=0, capstyle="butt", joinstyle="miter", clip_on=False,
                gid=f"arc-{source}-{receiver}",
            )
        )  # fmt: skip


def _heat_map(
    figure: Any, axes: Any, matrix: np.ndarray, words: list[str], family: list[str],
    size: float, bar: Any,
) -> None:  # fmt: skip
    from matplotlib.colors import LinearSegmentedColormap

    # Lightness falls evenly from white, so the map reads in grey as well.
    colors = LinearSegmentedColormap.from_list(
        "glomo", ["#FFFFFF", "#C6DDEC", "#6FAFD6", EARLIER, "#00304B"]
    )
    image = axes.imshow(
        matrix, cmap=colors, vmin=0.0, vmax=float(matrix.max()) or 1.0, aspect="equal",
        interpolation="nearest",
    )  # fmt: skip
    ticks = np.arange(len(words))
    axes.xaxis.tick_top()
    axes.set_xticks(ticks, words, rotation=90, family=family, fontsize=size, parse_math=False)
    axes.set_yticks(ticks, words, family=family, fontsize=size, parse_math=False)
    axes.tick_params(length=0, pad=3, colors=INK)
    axes.set_xticks(np.arange(len(words) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(words) + 1) - 0.5, minor=True)
    axes.tick_params(which="minor", length=0)
    axes.grid(which="minor", color="#E5E7EB", linewidth=0.4)
    for spine in axes.spines.values():
        spine.set_color("#D1D5DB")
    axes.set_xlabel("each row: what the word at its left takes, from the words above",
                    fontsize=8.5, color=QUIET, labelpad=8)  # fmt: skip
    figure.colorbar(image, cax=bar)
    bar.tick_params(labelsize=8, length=2, colors=QUIET)
    bar.set_ylabel("weight", fontsize=8.5, color=QUIET)
    for spine in bar.spines.values():
        spine.set_visible(False)
