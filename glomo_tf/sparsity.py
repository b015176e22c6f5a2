"""From scores to a graph: the sparsity modes, always computed in float32.

With `z` the score of a receiver t for an allowed source s and `p` the receiver's parameter:

| mode                         | r                       | graph                | p               |
|------------------------------|-------------------------|----------------------|-----------------|
| `square`                     | z²                      | r / Σ r              | unused          |
| `relu`                       | max(z, 0)²              | r / Σ r              | unused          |
| `layer_relu`, `query_relu`   | max(z − p, 0)²          | r / Σ r              | threshold       |
| `top_k`                      | z² if among the p largest | r / Σ r            | sources kept    |
| `softmax`                    | exp(z)                  | r / Σ r              | unused          |
| `sparsemax`                  | projection on the simplex | r                  | unused          |
| `relu_length`                | max(z, 0)               | r / p                | units in the row |

A row with nothing left is exactly 0 and has gradient 0. The source of the squared and the
thresholded forms is GLoMo (Yang et al., 2018), of `sparsemax` Martins and Astudillo (2016), of
`relu_length` Wortsman et al. (2023).
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

Normalizer = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]


def _divide_by_row_sum(r: tf.Tensor) -> tf.Tensor:
    return tf.math.divide_no_nan(r, tf.reduce_sum(r, axis=-1, keepdims=True))


def _kept(r: tf.Tensor, allowed: tf.Tensor) -> tf.Tensor:
    return tf.where(allowed, r, tf.zeros_like(r))


def _square(scores: tf.Tensor, allowed: tf.Tensor, parameter: tf.Tensor) -> tf.Tensor:
    return _divide_by_row_sum(_kept(tf.square(scores), allowed))


def _relu(scores: tf.Tensor, allowed: tf.Tensor, parameter: tf.Tensor) -> tf.Tensor:
    return _square(tf.nn.relu(scores), allowed, parameter)


def _thresholded(scores: tf.Tensor, allowed: tf.Tensor, threshold: tf.Tensor) -> tf.Tensor:
    return _square(tf.nn.relu(scores - threshold), allowed, threshold)


def _top_k(scores: tf.Tensor, allowed: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
    squares = _kept(tf.square(scores), allowed)
    falling = tf.sort(tf.stop_gradient(squares), axis=-1, direction="DESCENDING")
    last = tf.cast(tf.maximum(count, 1.0), tf.int32) - 1
    rank = tf.range(tf.shape(squares)[-1])
    # The value at the last rank kept, picked by comparison because the rank differs by row.
    smallest = tf.reduce_sum(
        tf.where(rank == last, falling, tf.zeros_like(falling)), axis=-1, keepdims=True
    )
    return _divide_by_row_sum(_kept(squares, squares >= smallest))


def _softmax(scores: tf.Tensor, allowed: tf.Tensor, parameter: tf.Tensor) -> tf.Tensor:
    shifted = scores - tf.stop_gradient(_row_maximum(scores, allowed))
    # Disallowed scores may lie above the maximum: they must not overflow before they are dropped.
    return _divide_by_row_sum(_kept(tf.exp(tf.minimum(shifted, 0.0)), allowed))


def _sparsemax(scores: tf.Tensor, allowed: tf.Tensor, parameter: tf.Tensor) -> tf.Tensor:
    shifted = scores - tf.stop_gradient(_row_maximum(scores, allowed))
    # A score more than 1 below the maximum is never in the support, so −2 stands for "dropped".
    z = tf.where(allowed, tf.clip_by_value(shifted, -2.0, 0.0), -2.0 * tf.ones_like(shifted))
    falling = tf.sort(tf.stop_gradient(z), axis=-1, direction="DESCENDING")
    rank = tf.range(1, tf.shape(z)[-1] + 1, dtype=z.dtype)
    inside = 1.0 + rank * falling > tf.cumsum(falling, axis=-1)
    size = tf.reduce_sum(tf.cast(inside, z.dtype), axis=-1, keepdims=True)
    total = tf.reduce_sum(tf.where(inside, falling, tf.zeros_like(z)), axis=-1, keepdims=True)
    support = tf.stop_gradient(tf.cast(z > (total - 1.0) / size, z.dtype))
    members = tf.reduce_sum(support, axis=-1, keepdims=True)
    level = tf.math.divide_no_nan(tf.reduce_sum(z * support, -1, keepdims=True) - 1.0, members)
    return _kept(tf.nn.relu(z - level), allowed)


def _relu_length(scores: tf.Tensor, allowed: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    return tf.math.divide_no_nan(_kept(tf.nn.relu(scores), allowed), length)


def _row_maximum(scores: tf.Tensor, allowed: tf.Tensor) -> tf.Tensor:
    lowest = tf.fill(tf.shape(scores), scores.dtype.min)
    maximum = tf.reduce_max(tf.where(allowed, scores, lowest), axis=-1, keepdims=True)
    return tf.where(tf.reduce_any(allowed, axis=-1, keepdims=True), maximum, 0.0)


_MODES: dict[str, Normalizer] = {
    "square": _square,
    "relu": _relu,
    "layer_relu": _thresholded,
    "top_k": _top_k,
    "query_relu": _thresholded,
    "softmax": _softmax,
    "sparsemax": _sparsemax,
    "relu_length": _relu_length,
}

SPARSITIES: tuple[str, ...] = tuple(_MODES)
"""Names of all sparsity modes."""

SCALED_SPARSITIES: tuple[str, ...] = ("softmax", "sparsemax", "relu_length")
"""Modes whose scores are divided by √head_dim, as in scaled dot-product attention."""


def check_sparsity(sparsity: str) -> str:
    """Returns the name, or raises a `ValueError` that lists the known ones."""
    if sparsity not in _MODES:
        raise ValueError(
            f"Expected `sparsity` to be one of {', '.join(SPARSITIES)}. Received: {sparsity!r}."
        )
    return sparsity


def normalize(
    scores: tf.Tensor, allowed: tf.Tensor, sparsity: str, parameter: tf.Tensor | float = 0.0
) -> tf.Tensor:
    """Turns scores into rows that sum to 1, or to 0 where a receiver attends to nothing.

    Args:
        scores: float tensor `[..., T, S]`, receivers by sources; any float dtype.
        allowed: bool tensor broadcastable to `scores`: which sources a receiver may use.
        sparsity: name of a mode, see the table of this module.
        parameter: float tensor `[..., T]`, or a number: the parameter of each receiver.

    Returns:
        float32 tensor of the shape of `scores`. With `relu_length` rows need not sum to 1.

    Raises:
        ValueError: unknown mode.

    Example:

    >>> import tensorflow as tf
    >>> from glomo_tf.sparsity import normalize
    >>> scores = tf.constant([[1.0, 2.0], [-1.0, -2.0]])
    >>> normalize(scores, tf.constant(True), "relu").numpy().tolist()
    [[0.20000000298023224, 0.800000011920929], [0.0, 0.0]]
    """
    mode = _MODES[check_sparsity(sparsity)]
    scores = tf.convert_to_tensor(scores)
    if scores.dtype == tf.float16:  # inner products may overflow, and inf / inf is no share
        scores = tf.clip_by_value(scores, tf.float16.min, tf.float16.max)
    scores = tf.cast(scores, tf.float32)
    allowed = tf.broadcast_to(allowed, tf.shape(scores))
    parameter = tf.convert_to_tensor(parameter, dtype_hint=tf.float32)
    column = tf.cast(parameter, tf.float32)
    if column.shape.rank:
        column = column[..., tf.newaxis]
    return mode(scores, allowed, column)
