"""GRU composition: a unit's features as hidden state, what its graph brings as input."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from glomo_tf.layers._checks import check_positive
from glomo_tf.layers._networks import matmul_per_network, per_network, with_network_axis


@keras.saving.register_keras_serializable(package="glomo_tf")
class GRUComposition(keras.layers.Layer):
    """One GRU step at every unit: h' = GRU(input, h).

    1. input = [message ∘ h ; message] with `multiplicative`, else the message alone
    2. z, r = σ(input W + h U + b) (update and reset gate)
    3. c = tanh(input W_c + r ∘ (h U_c + a_c) + b_c)
    4. h' = z ∘ h + (1 − z) ∘ c

    Args:
        num_networks: S independent cells, computed in one batched product.
        multiplicative: whether the input holds message ∘ h, as in the released GLoMo code; needs
            a message of the state's width.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        state: h, float `[S, B, T, d]`, or `[B, T, d]` where S = 1.
        message: float `[S, B, T, e]` (or `[B, T, e]`).

    Returns:
        Float tensor of the shape of `state`.

    Raises:
        ValueError: `multiplicative` with a message of another width than the state.

    Example:

    >>> import numpy as np
    >>> from glomo_tf.layers import GRUComposition
    >>> x = np.ones((1, 5, 4), "float32")
    >>> tuple(GRUComposition()(x, x).shape)
    (1, 5, 4)

    References:
        Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014.
    """

    def __init__(self, num_networks: int = 1, multiplicative: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_positive(num_networks=num_networks)
        self.num_networks = num_networks
        self.multiplicative = multiplicative
        self.supports_masking = True

    def build(self, state_shape: Any, message_shape: Any) -> None:
        width, received = state_shape[-1], message_shape[-1]
        if self.multiplicative and width != received:
            raise ValueError(
                "Expected the message to have the width of the state where multiplicative=True. "
                f"Received: state width {width}, message width {received}."
            )
        inputs = 2 * width if self.multiplicative else received
        networks = self.num_networks
        self.kernel = self.add_weight(
            shape=(networks, inputs, 3 * width),
            initializer=per_network("glorot_uniform"),
            name="kernel",
        )
        self.recurrent_kernel = self.add_weight(
            shape=(networks, width, 3 * width),
            initializer=per_network("orthogonal"),
            name="recurrent_kernel",
        )
        self.bias = self.add_weight(
            shape=(networks, 1, 1, 3 * width), initializer="zeros", name="bias"
        )
        self.recurrent_bias = self.add_weight(
            shape=(networks, 1, 1, width), initializer="zeros", name="recurrent_bias"
        )
        self.built = True

    def call(self, state: tf.Tensor, message: tf.Tensor) -> tf.Tensor:
        h = with_network_axis(state, self.num_networks, "state")
        x = with_network_axis(message, self.num_networks, "message")
        width = h.shape[-1]
        if self.multiplicative:
            x = tf.concat([x * h, x], axis=-1)
        from_input = matmul_per_network(x, self.kernel) + self.bias
        from_state = matmul_per_network(h, self.recurrent_kernel)
        gates = tf.sigmoid(from_input[..., : 2 * width] + from_state[..., : 2 * width])
        update, reset = gates[..., :width], gates[..., width:]
        candidate = tf.tanh(
            from_input[..., 2 * width :]
            + reset * (from_state[..., 2 * width :] + self.recurrent_bias)
        )
        out = candidate + update * (h - candidate)
        return out if state.shape.rank == 4 else out[0]

    def compute_output_shape(self, state_shape: Any, message_shape: Any) -> Any:
        return state_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_networks": self.num_networks,
            "multiplicative": self.multiplicative,
        }
