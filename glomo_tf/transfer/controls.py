"""Control graphs: what a learned graph has to beat before its gain can be believed.

| control    | graph                                                         | asks whether …    |
|------------|---------------------------------------------------------------|-------------------|
| `learned`  | of the predictor as it is                                     |                   |
| `none`     | no graph: features unchanged                                  | graphs help       |
| `uniform`  | every real unit in equal parts: the mean over the true length | any context does  |
| `random`   | of an untrained predictor of the same configuration           | training does     |
| `identity` | every unit takes from itself                                  | the weights do    |
| `local`    | forward: the unit before; backward: the unit after            | neighbours do     |
| `shuffled` | of another example of the batch, cut to the own units         | content matters   |

Functions here are pure: units or masks in, a graph out, `graph[..., t, s]` being how much
receiver t takes from source s.
"""

from __future__ import annotations

import random
from typing import Any

import tensorflow as tf

CONTROLS: tuple[str, ...] = (
    "learned",
    "none",
    "uniform",
    "random",
    "identity",
    "local",
    "shuffled",
)
"""Names of all conditions of a transfer."""


def check_control(control: str) -> str:
    """Returns the name, or raises a `ValueError` that lists the known ones."""
    if control not in CONTROLS:
        raise ValueError(
            f"Expected `control` to be one of {', '.join(CONTROLS)}. Received: {control!r}."
        )
    return control


def uniform_graph(mask: tf.Tensor) -> tf.Tensor:
    """Every real unit takes from all real units in equal parts, itself included.

    Args:
        mask: bool `[B, T]`, true for real units.

    Returns:
        float32 `[B, T, T]`; rows of real units sum to 1, others to 0.

    Example:

    >>> import tensorflow as tf
    >>> uniform_graph(tf.constant([[True, True, False]])).numpy()[0].tolist()
    [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]
    """
    real = tf.cast(mask, tf.float32)
    pairs = real[:, :, tf.newaxis] * real[:, tf.newaxis, :]
    return tf.math.divide_no_nan(pairs, tf.reduce_sum(pairs, axis=-1, keepdims=True))


def identity_graph(mask: tf.Tensor) -> tf.Tensor:
    """Every real unit takes from itself.

    Args:
        mask: bool `[B, T]`, true for real units.

    Returns:
        float32 `[B, T, T]`.
    """
    return _neighbour_graph(mask, 0)


def local_graph(mask: tf.Tensor, direction: int) -> tf.Tensor:
    """Every real unit takes from its neighbour: a window of ±1 over both directions.

    Args:
        mask: bool `[B, T]`, true for real units.
        direction: 1 for the unit before, -1 for the unit after.

    Returns:
        float32 `[B, T, T]`; the row of a unit without that neighbour is 0.

    Example:

    >>> import tensorflow as tf
    >>> local_graph(tf.constant([[True, True, True]]), 1).numpy()[0].tolist()
    [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    return _neighbour_graph(mask, direction)


def _neighbour_graph(mask: tf.Tensor, offset: int) -> tf.Tensor:
    """Receiver t takes from source t - offset, where both are real."""
    positions = tf.range(tf.shape(mask)[1])
    chosen = positions[:, tf.newaxis] - positions[tf.newaxis, :] == offset
    real = mask[:, :, tf.newaxis] & mask[:, tf.newaxis, :]
    return tf.cast(chosen & real, tf.float32)


def shuffled_graph(graph: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Gives every example the graph of the example before it in the batch.

    Entries at the receiving example's padding are dropped and rows are normalised anew. Rows
    beyond the other example's length stay 0, and so does the whole graph in a batch of one:
    there is no other example.

    Args:
        graph: float32 `[B, G, K, T, T]`.
        mask: bool `[B, T]`, true for real units.

    Returns:
        float32 `[B, G, K, T, T]`.
    """
    several = tf.cast(tf.shape(graph)[0] > 1, graph.dtype)
    real = tf.cast(mask, graph.dtype)
    pairs = (real[:, :, tf.newaxis] * real[:, tf.newaxis, :])[:, tf.newaxis, tf.newaxis]
    other = tf.roll(graph, shift=1, axis=0) * pairs * several
    return tf.math.divide_no_nan(other, tf.reduce_sum(other, axis=-1, keepdims=True))


def untrained(predictor: Any, seed: int = 0) -> Any:
    """A predictor of the same configuration with fresh weights.

    A frozen embedding table (say, GloVe) is not something that pre-training learned, so it is
    kept; everything else starts anew.

    Args:
        predictor: A `GraphPredictor`.
        seed: Seed of the fresh weights; the same seed gives the same weights.

    Returns:
        A built `GraphPredictor`; the one given is not touched.
    """
    # Initialisers without a seed of their own draw it from Python's generator.
    state = random.getstate()
    random.seed(f"untrained {seed}")  # so that no seed gives the start of a training run
    try:
        fresh = predictor.__class__.from_config(
            {**predictor.get_config(), "name": f"{predictor.name}_untrained"}
        )
        fresh.build((None, None))
    finally:
        random.setstate(state)
    if predictor.built and not predictor.train_embeddings:
        fresh.embedding.set_weights(predictor.embedding.get_weights())
    return fresh


def control_graph(name: str, units: Any, predictor: Any, *, seed: int = 0) -> tf.Tensor:
    """The graph of a condition for some units.

    Args:
        name: One of `CONTROLS` but `"none"`, which has no graph.
        units: int `[B, T]`, 0 = padding.
        predictor: A `GraphPredictor`: the learned graph, and for the controls its directions,
            layers and heads.
        seed: Seed of the untrained predictor of `"random"`.

    Returns:
        float32 `[B, G, K, T, T]`.

    Raises:
        ValueError: Unknown name, or `"none"`.

    Example:

    >>> import glomo_tf, numpy as np
    >>> predictor = glomo_tf.GraphPredictor(
    ...     9, width=8, num_layers=1, num_heads=2, head_dim=4, cnn_depth=1
    ... )
    >>> graph = control_graph("local", [[3, 4, 5]], predictor)
    >>> np.asarray(graph)[0, :, 0, 1].tolist()  # forward, then backward
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    if check_control(name) == "none":
        raise ValueError(
            "Expected a control that has a graph. Received: 'none'. Use the features as they are."
        )
    units = tf.cast(tf.convert_to_tensor(units), tf.int32)
    if name == "learned":
        return tf.convert_to_tensor(predictor(units, training=False))
    if name == "random":
        return tf.convert_to_tensor(untrained(predictor, seed)(units, training=False))
    if name == "shuffled":
        return shuffled_graph(predictor(units, training=False), units != 0)
    return fixed_graph(name, units != 0, graph_directions(predictor), predictor.num_heads)


def fixed_graph(name: str, mask: tf.Tensor, directions: list[int], num_heads: int) -> tf.Tensor:
    """A control graph that depends on the mask alone, for every layer and head.

    Args:
        name: `"uniform"`, `"identity"` or `"local"`.
        mask: bool `[B, T]`, true for real units.
        directions: For each of G layers 1 (forward) or -1 (backward).
        num_heads: K.

    Returns:
        float32 `[B, G, K, T, T]`.
    """
    if name == "local":
        layers = [local_graph(mask, direction) for direction in directions]
    else:
        one = uniform_graph(mask) if name == "uniform" else identity_graph(mask)
        layers = [one] * len(directions)
    graph = tf.stack(layers, axis=1)[:, :, tf.newaxis]
    return tf.repeat(graph, num_heads, axis=2)


def graph_directions(predictor: Any) -> list[int]:
    """Direction of each of a predictor's G graphs: 1 forward, -1 backward."""
    return [sign for sign in predictor.directions for _ in range(predictor.num_layers)]
