"""The record that the viewer draws: the words of one sentence and its graphs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from glomo_tf.errors import UserError
from glomo_tf.viewer.labels import as_text

DIRECTIONS = ("both", "forward", "backward", "unrestricted")


@dataclasses.dataclass(frozen=True, eq=False)
class Sentence:
    """The words of one sentence and the graphs over them.

    1. `graph[g, k, t, s]`: how much receiver t takes from source s, in graph g and head k.
    2. With two directions the forward layers come first, then the backward ones, as
       `GraphPredictor` returns them: g = direction · layers + (layer - 1).

    Args:
        tokens: T words, `str` or `bytes` (UTF-8).
        graph: [G, K, T, T], [K, T, T] or [T, T], float, not negative. A larger T is cut to the
            number of tokens, so that one row of a padded batch can be given as it is.
        direction: `"both"` (G is even: forward, then backward), `"forward"`, `"backward"` or
            `"unrestricted"`. `None` reads it off the zeros of the graph.
        title: A heading; the words themselves when empty.
        name: What the graph is, for the legend.
        heads: Optional dependency parse: for each word the number of its head, counted from 1,
            0 for a root (the HEAD column of CoNLL-U). Drawn below the words.
        compared: Optional second graph over the same words, drawn below them; any G and K.
        compared_name: What the second graph is, for the legend.

    Raises:
        UserError: If shapes, values or counts do not fit together.

    Example:

    >>> import numpy as np
    >>> from glomo_tf.viewer import Sentence
    >>> graph = np.array([[0, 0], [1, 0]])  # "sleep" takes everything from "cats"
    >>> Sentence(["cats", "sleep"], graph).matrix()
    array([[0., 0.],
           [1., 0.]], dtype=float32)
    """

    tokens: Sequence[str]
    graph: np.ndarray
    _: dataclasses.KW_ONLY
    direction: str | None = None
    title: str = ""
    name: str = "graph"
    heads: Sequence[int] | None = None
    compared: np.ndarray | None = None
    compared_name: str = "compared"

    def __post_init__(self) -> None:
        if isinstance(self.tokens, str | bytes):
            raise UserError(
                f"Expected `tokens` to be a list of words. Received: {self.tokens!r:.60}. "
                "Split the text first, for example with text.split()."
            )
        tokens = tuple(as_text(token) for token in self.tokens)
        if not tokens:
            raise UserError(
                "Expected a sentence of at least one token. Received: none. "
                "Leave out texts without a word."
            )
        graph = _checked("graph", self.graph, len(tokens))
        direction = self.direction or _read_direction(graph)
        _check_direction(direction, graph)
        for name, value in (("tokens", tokens), ("graph", graph), ("direction", direction)):
            object.__setattr__(self, name, value)
        if self.heads is not None:
            object.__setattr__(self, "heads", _checked_heads(self.heads, len(tokens)))
        if self.compared is not None:
            object.__setattr__(self, "compared", _checked("compared", self.compared, len(tokens)))

    @property
    def num_layers(self) -> int:
        """Layers in each direction, L."""
        return self.graph.shape[0] // len(self.directions)

    @property
    def num_heads(self) -> int:
        """Heads in each layer, K."""
        return int(self.graph.shape[1])

    @property
    def directions(self) -> tuple[str, ...]:
        """Names of the directions in the order of the graph's first axis."""
        return ("forward", "backward") if self.direction == "both" else (str(self.direction),)

    def matrix(
        self, *, layer: int | None = None, head: int | None = None, direction: str | None = None
    ) -> np.ndarray:
        """Returns one graph, or the mean of several.

        Layers and heads that are not chosen are averaged. Two directions are added, not averaged:
        one fills the part below the diagonal, the other the part above it, so each arc keeps its
        weight.

        Args:
            layer: 1 to L, or `None` for all.
            head: 1 to K, or `None` for all.
            direction: `"forward"`, `"backward"`, or `None` for all there are.

        Returns:
            [T, T] float32: `[t, s]` is how much receiver t takes from source s.

        Raises:
            UserError: If there is no such layer, head or direction.

        Example:

        >>> import numpy as np
        >>> from glomo_tf.viewer import Sentence
        >>> two_heads = np.array([[[0, 0], [1, 0]], [[0, 0], [0, 0]]])
        >>> Sentence(["cats", "sleep"], two_heads).matrix()[1, 0]
        np.float32(0.5)
        """
        for name, value, count in (
            ("layer", layer, self.num_layers),
            ("head", head, self.num_heads),
        ):
            if value is not None and not (isinstance(value, int) and 1 <= value <= count):
                raise UserError(
                    f"Expected `{name}` to be from 1 to {count}. Received: {name}={value}. "
                    f"Leave it out for the mean of all."
                )
        if direction not in (None, "both", *self.directions):
            raise UserError(
                f"Expected `direction` to be one of {', '.join(self.directions)}. "
                f"Received: direction={direction!r}. Leave it out to see all."
            )
        length = len(self.tokens)
        graphs = self.graph.reshape(
            len(self.directions), self.num_layers, self.num_heads, length, length
        )
        if direction not in (None, "both"):
            graphs = graphs[self.directions.index(str(direction))][None]
        if layer is not None:
            graphs = graphs[:, layer - 1 : layer]
        if head is not None:
            graphs = graphs[:, :, head - 1 : head]
        mean: np.ndarray = graphs.mean(axis=(1, 2), dtype=np.float64).sum(axis=0)
        return mean.astype(np.float32)

    def first(self, count: int) -> Sentence:
        """Returns the sentence with its first `count` tokens only; heads beyond them are roots."""
        if count >= len(self.tokens):
            return self
        heads = self.heads
        if heads is not None:
            heads = [head if head <= count else 0 for head in heads[:count]]
        return dataclasses.replace(self, tokens=self.tokens[:count], heads=heads)


def automatic_threshold(matrix: np.ndarray) -> float:
    """Returns the weight from which arcs are drawn when the user names none.

    It keeps about two arcs a word, and none below 0.05: enough to see the structure of a diffuse
    graph, and all of a sparse one.
    """
    kept = 2 * matrix.shape[0]
    weights = np.sort(matrix[matrix > 0])[::-1]
    lowest = float(weights[kept - 1]) if weights.size > kept else 0.0
    # Rounded up to what the slider shows, so that the caption says exactly what is drawn.
    return float(np.ceil(max(lowest, 0.05) * 100 - 1e-6) / 100)


def _checked(name: str, graph: Any, length: int) -> np.ndarray:
    array = np.asarray(graph)
    if array.dtype.kind not in "fiub" and array.dtype.name != "bfloat16":
        raise UserError(f"Expected `{name}` to hold numbers. Received: dtype {array.dtype}.")
    if array.ndim not in (2, 3, 4) or array.shape[-1] != array.shape[-2] or not array.size:
        raise UserError(
            f"Expected `{name}` of shape [G, K, T, T], [K, T, T] or [T, T]. "
            f"Received: shape {list(array.shape)}. Take one row of the batch: graph[0]."
        )
    if array.shape[-1] < length:
        raise UserError(
            f"Expected `{name}` over the {length} tokens. Received: shape {list(array.shape)}. "
            "Give the tokens that the graph was made from."
        )
    array = array[..., :length, :length].astype(np.float32)
    if not np.isfinite(array).all() or (array < 0).any():
        raise UserError(
            f"Expected `{name}` to hold finite weights of at least 0. Received: weights from "
            f"{array.min()} to {array.max()}."
        )
    return array.reshape((1,) * (4 - array.ndim) + array.shape)


def _checked_heads(heads: Sequence[int], length: int) -> tuple[int, ...]:
    numbers = tuple(int(head) for head in heads)
    if len(numbers) != length or not all(0 <= head <= length for head in numbers):
        raise UserError(
            f"Expected `heads` to hold {length} numbers from 0 (root) to {length}. "
            f"Received: {len(numbers)} numbers, {list(numbers)!s:.60}."
        )
    return numbers


def _read_direction(graph: np.ndarray) -> str:
    count = graph.shape[0]
    later = np.triu(np.ones(graph.shape[-2:], bool))  # sources at or after the receiver
    draws_later = np.any(graph * later, axis=(1, 2, 3))
    draws_earlier = np.any(graph * later.T, axis=(1, 2, 3))
    if not draws_later.any():
        # All graphs empty behind the first half: a backward half with no arc, or forward layers.
        return "forward"
    if not draws_earlier.any():
        return "backward"
    half = count // 2
    if count % 2 == 0 and not draws_later[:half].any() and not draws_earlier[half:].any():
        return "both"
    return "unrestricted"


def _check_direction(direction: str, graph: np.ndarray) -> None:
    if direction not in DIRECTIONS:
        raise UserError(
            f"Expected `direction` to be one of {', '.join(DIRECTIONS)}. "
            f"Received: direction={direction!r}."
        )
    if direction == "both" and graph.shape[0] % 2:
        raise UserError(
            "Expected an even number of graphs for direction='both'. "
            f"Received: {graph.shape[0]}. Name the one direction it has."
        )
