"""Decoder that unrolls a unit's features over the context that follows it."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from glomo_tf.layers._checks import check_positive
from glomo_tf.layers.gru_composition import GRUComposition


@keras.saving.register_keras_serializable(package="glomo_tf")
class ContextDecoder(keras.layers.Layer):
    """GRU layers that predict a context of D units, teacher forced.

    1. every layer's state starts from the features F (each direction has its own weights)
    2. step 1 reads zeros; step δ > 1 reads the embedding of the true unit at offset δ − 1
    3. the last layer's state after step δ is the prediction for offset δ

    Args:
        num_networks: S independent decoders, one for each direction.
        num_layers: GRU layers.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        features: F, float `[S, B, P, d]`: the units to predict from.
        context: float `[S, B, P, D − 1, e]`: embeddings of the units at offsets 1..D − 1.

    Returns:
        Float `[S, B, P, D, d]`.

    Example:

    >>> import numpy as np
    >>> from glomo_tf.layers import ContextDecoder
    >>> features = np.ones((1, 2, 5, 4), "float32")
    >>> context = np.ones((1, 2, 5, 2, 3), "float32")
    >>> tuple(ContextDecoder()(features, context).shape)
    (1, 2, 5, 3, 4)

    References:
        Yang et al., "GLoMo: Unsupervised Learning of Transferable Relational Graphs", 2018.
    """

    def __init__(self, num_networks: int = 1, num_layers: int = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_positive(num_networks=num_networks, num_layers=num_layers)
        self.num_networks = num_networks
        self.num_layers = num_layers

    def build(self, features_shape: Any, context_shape: Any) -> None:
        received = (*features_shape[:-1], context_shape[-1])
        self.cells = []
        for layer in range(self.num_layers):
            cell = GRUComposition(
                self.num_networks, False, name=f"cell_{layer}", dtype=self.dtype_policy
            )
            cell.build(features_shape, received)
            self.cells.append(cell)
            received = features_shape
        self.built = True

    def call(self, features: tf.Tensor, context: tf.Tensor) -> tf.Tensor:
        shape = tf.shape(context)
        first = tf.zeros([shape[0], shape[1], shape[2], context.shape[-1]], context.dtype)
        inputs = [first, *tf.unstack(context, axis=3)]
        states = [features] * self.num_layers
        predictions = []
        for x in inputs:
            for layer, cell in enumerate(self.cells):
                states[layer] = x = cell(states[layer], x)
            predictions.append(x)
        return tf.stack(predictions, axis=3)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_networks": self.num_networks,
            "num_layers": self.num_layers,
        }
