"""Small text classifiers over frozen vectors and kept graph messages, for comparing conditions."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from glomo_tf.layers import MaskedPooling
from glomo_tf.transfer.messages import MessageMixLayer

ENCODERS = ("pooling", "bigru")


def classifier(
    encoder: str,
    vectors: np.ndarray,
    length: int,
    *,
    messages: tuple[int, int] | None,
    attention: bool,
    fusion: str,
    hidden: int,
    dropout: float,
) -> Any:
    """Builds units (and graph messages) -> logit.

    1. H = frozen vectors of the units `[B, T, d]`
    2. with `messages`: H = GraphMixLayer(H); with `attention`: H = [H; gated self-attention(H)]
    3. `pooling`: mean and maximum over units; `bigru`: the same over states of a BiGRU
    4. one hidden layer, one logit

    Args:
        encoder: `"pooling"` or `"bigru"`.
        vectors: Float `[V, d]`.
        length: Largest T.
        messages: R and M of the messages `[B, R, T, M, d]`, or None without graphs.
        attention: Whether self-attention is trained too.
        fusion: Of the graph mixture.
        hidden: Width of the hidden layer and of both directions of the GRU together.
        dropout: Rate before and behind the encoder.

    Returns:
        A Keras model of dict inputs `units` (and `messages`).
    """
    units = keras.Input((None,), dtype="int32", name="units")
    width = vectors.shape[1]
    table = keras.layers.Embedding(*vectors.shape, trainable=False, name="vectors")
    features = original = table(units)
    table.set_weights([vectors])
    mask = keras.ops.not_equal(units, 0)
    inputs = {"units": units}
    if messages is not None:
        directions, graphs = messages
        inputs["messages"] = keras.Input(
            (directions, None, graphs, width), dtype="float16", name="messages"
        )
        mix = MessageMixLayer(fusion=fusion, name="mix")
        # Messages are kept in half the memory; the layer casts them to its own type.
        features = mix(features, keras.ops.cast(inputs["messages"], "float32"))
    if attention:
        features = keras.ops.concatenate([features, _self_attention(original, mask, length)], -1)
    features = keras.layers.Dropout(dropout, seed=1, name="input_dropout")(features)
    if encoder == "bigru":
        features = keras.layers.Bidirectional(
            keras.layers.GRU(hidden // 2, return_sequences=True, use_cudnn=False), name="rnn"
        )(features, mask=mask)
    pooled = [
        MaskedPooling(mode, name=f"{mode}_pooling")(features, mask=mask) for mode in ("mean", "max")
    ]
    x = keras.ops.concatenate(pooled, -1)
    x = keras.layers.Dense(hidden, activation="relu", name="hidden")(x)
    x = keras.layers.Dropout(dropout, seed=2, name="hidden_dropout")(x)
    return keras.Model(inputs, keras.layers.Dense(1, name="logit")(x))


def _self_attention(features: Any, mask: Any, length: int) -> Any:
    """Gated self-attention with positions: of about the size of a gated graph mixture."""
    width = features.shape[-1]
    placed = AddPositions(length, name="positions")(features)
    real = keras.ops.expand_dims(mask, 1)
    attended = keras.layers.MultiHeadAttention(4, width // 2, name="attention")(
        placed, features, key=placed, attention_mask=real
    )
    joined = keras.ops.concatenate([features, attended], -1)
    value = keras.layers.Dense(width, name="attention_value")(joined)
    gate = keras.layers.Dense(width, activation="sigmoid", name="attention_gate")(joined)
    return value * gate


@keras.saving.register_keras_serializable(package="glomo_tf")
class AddPositions(keras.layers.Layer):
    """Adds sines and cosines of the position, of falling frequency, to features.

    Args:
        length: Largest number of units.
        scale: Factor on the waves; the default has about the spread of GloVe vectors.
        **kwargs: Of `keras.layers.Layer`.

    Call arguments:
        inputs: Float `[B, T, d]` with T up to `length`.

    Returns:
        Float `[B, T, d]`.

    References:
        Vaswani et al., "Attention Is All You Need", 2017.
    """

    def __init__(self, length: int, *, scale: float = 0.5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.length = length
        self.scale = scale
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        width = input_shape[-1]
        powers = 10_000 ** (np.arange(0, width, 2) / width)
        angles = np.arange(self.length)[:, None] / powers
        waves = np.concatenate([np.sin(angles), np.cos(angles)], -1)[:, :width]
        self._waves = (waves * self.scale).astype("float32")
        self.built = True

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return inputs + tf.cast(self._waves, inputs.dtype)[: tf.shape(inputs)[1]]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "length": self.length, "scale": self.scale}
