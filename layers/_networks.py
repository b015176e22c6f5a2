"""What layers share that hold several independent networks behind a leading axis.

A layer with `num_networks=S` computes S networks of the same shape, each with weights of its own,
in one batched product: inputs `[S, B, T, d]`. With one network it also takes `[B, T, d]`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf


def per_network(initializer: Any) -> Callable[..., tf.Tensor]:
    """An initializer of `[S, fan_in, fan_out]` weights that draws each network by itself.

    A Keras initializer would count the leading axis as part of the fan.
    """
    initializer = keras.initializers.get(initializer)

    def initialize(shape: Any, dtype: Any = None) -> tf.Tensor:
        draws = []
        for _ in range(shape[0]):
            copy = initializer.__class__.from_config(initializer.get_config())
            draws.append(keras.ops.convert_to_tensor(copy(tuple(shape[1:]), dtype)))
        return keras.ops.stack(draws)

    return initialize


def matmul_per_network(x: tf.Tensor, kernel: Any) -> tf.Tensor:
    """`[S, B, T, c]` times `[S, c, w]`, as one batched product over S."""
    kernel = tf.convert_to_tensor(kernel)
    shape = tf.shape(x)
    flat = tf.reshape(x, [kernel.shape[0], -1, kernel.shape[1]])
    out = tf.matmul(flat, kernel)
    return tf.reshape(out, [kernel.shape[0], shape[1], shape[2], kernel.shape[2]])


def with_network_axis(x: tf.Tensor, num_networks: int, name: str) -> tf.Tensor:
    """Adds the leading axis to `[B, T, d]` where there is one network, and checks it otherwise."""
    if x.shape.rank == 3 and num_networks == 1:
        return x[tf.newaxis]
    if x.shape.rank != 4 or x.shape[0] not in (num_networks, None):
        raise ValueError(
            f"Expected `{name}` to have the shape [{num_networks}, batch, length, width]. "
            f"Received: {tuple(x.shape)}."
        )
    return x
