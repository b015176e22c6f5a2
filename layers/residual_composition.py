"""Residual composition: a unit's features plus what its graph brings."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from glomo_tf.layers._checks import check_positive
from glomo_tf.layers._networks import matmul_per_network, per_network, with_network_axis


@keras.saving.register_keras_serializable(package="glomo_tf")
class ResidualComposition(keras.layers.Layer):
    """h' = h + message V, with a learned value map V or the identity.

    Args:
        num_networks: S independent value maps.
        value_projection: whether V is learned; the identity needs a message of the state's width.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        state: h, float `[S, B, T, d]`, or `[B, T, d]` where S = 1.
        message: float `[S, B, T, e]` (or `[B, T, e]`).

    Returns:
        Float tensor of the shape of `state`.

    Example:

    >>> import numpy as np
    >>> from glomo_tf.layers import ResidualComposition
    >>> x = np.ones((1, 1, 2), "float32")
    >>> np.asarray(ResidualComposition(value_projection=False)(x, x)).tolist()
    [[[2.0, 2.0]]]
    """

    def __init__(self, num_networks: int = 1, value_projection: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_positive(num_networks=num_networks)
        self.num_networks = num_networks
        self.value_projection = value_projection
        self.supports_masking = True

    def build(self, state_shape: Any, message_shape: Any) -> None:
        width, received = state_shape[-1], message_shape[-1]
        if self.value_projection:
            self.kernel = self.add_weight(
                shape=(self.num_networks, received, width),
                initializer=per_network("glorot_uniform"),
                name="kernel",
            )
        elif width != received:
            raise ValueError(
                "Expected the message to have the width of the state where "
                f"value_projection=False. Received: state width {width}, message width {received}."
            )
        self.built = True

    def call(self, state: tf.Tensor, message: tf.Tensor) -> tf.Tensor:
        h = with_network_axis(state, self.num_networks, "state")
        x = with_network_axis(message, self.num_networks, "message")
        out = h + (matmul_per_network(x, self.kernel) if self.value_projection else x)
        return out if state.shape.rank == 4 else out[0]

    def compute_output_shape(self, state_shape: Any, message_shape: Any) -> Any:
        return state_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_networks": self.num_networks,
            "value_projection": self.value_projection,
        }
