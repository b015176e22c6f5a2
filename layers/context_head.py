"""Linear predictions of a context: one map for each offset."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from glomo_tf.layers._checks import check_positive
from glomo_tf.layers._networks import matmul_per_network, per_network, with_network_axis


@keras.saving.register_keras_serializable(package="glomo_tf")
class ContextHead(keras.layers.Layer):
    """p_δ = F W_δ + b_δ for δ = 1..D.

    Args:
        context_length: D, the number of offsets.
        width: e, of each prediction.
        num_networks: S independent heads, one for each direction.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        features: F, float `[S, B, P, d]`, or `[B, P, d]` where S = 1.

    Returns:
        Float `[..., P, D, e]`.

    Example:

    >>> import numpy as np
    >>> from glomo_tf.layers import ContextHead
    >>> tuple(ContextHead(3, 6)(np.ones((1, 5, 4), "float32")).shape)
    (1, 5, 3, 6)
    """

    def __init__(
        self, context_length: int, width: int, *, num_networks: int = 1, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        check_positive(context_length=context_length, width=width, num_networks=num_networks)
        self.context_length = context_length
        self.width = width
        self.num_networks = num_networks

    def build(self, input_shape: Any) -> None:
        outputs = self.context_length * self.width
        self.kernel = self.add_weight(
            shape=(self.num_networks, input_shape[-1], outputs),
            initializer=per_network("glorot_uniform"),
            name="kernel",
        )
        self.bias = self.add_weight(
            shape=(self.num_networks, 1, 1, outputs), initializer="zeros", name="bias"
        )
        self.built = True

    def call(self, features: tf.Tensor) -> tf.Tensor:
        x = with_network_axis(features, self.num_networks, "features")
        flat = matmul_per_network(x, self.kernel) + self.bias
        shape = tf.shape(flat)
        out = tf.reshape(flat, [*tf.unstack(shape[:3]), self.context_length, self.width])
        return out if features.shape.rank == 4 else out[0]

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, ...]:
        return (*input_shape[:-1], self.context_length, self.width)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "context_length": self.context_length,
            "width": self.width,
            "num_networks": self.num_networks,
        }
