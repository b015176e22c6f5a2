"""The feature predictor f: mixes features along the graphs, layer by layer."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from glomo_tf import affinity
from glomo_tf.layers import GRUComposition, LockedDropout, ResidualComposition

COMPOSITIONS: dict[str, Any] = {"gru": GRUComposition, "residual": ResidualComposition}


@keras.saving.register_keras_serializable(package="glomo_tf")
class FeaturePredictor(keras.layers.Layer):
    """Features that know their context only through the graphs.

    1. F⁰ = E
    2. message s^l_t = Σ_s A^l[t, s] F^{l−1}_s; head k mixes feature slice k of width d/K
    3. F^l = composition(state F^{l−1}, message s^l)

    in each direction by itself, with weights of its own.

    Args:
        composition: `"gru"` or `"residual"` (`glomo_tf.layers`).
        share_layers: whether one composition serves all layers; by default yes for `"gru"` (the
            released code) and no for `"residual"`.
        num_directions: R; by default 2 where the number of graph layers is even, else 1.
        dropout: rate of locked dropout on the features of every layer.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        embeddings: E, float `[B, T, d]`.
        graphs: dense `[B, G, K, T, T]`, or graph factors (`glomo_tf.affinity`).
        training: whether to drop.

    Returns:
        F^L, float `[R, B, T, d]`: directions first, like all layers with several networks.

    Raises:
        ValueError: unknown composition, or a width that K does not divide.

    Example:

    >>> import numpy as np
    >>> import glomo_tf
    >>> embeddings = np.ones((2, 5, 8), "float32")
    >>> graph = np.zeros((2, 4, 2, 5, 5), "float32")
    >>> tuple(glomo_tf.FeaturePredictor()(embeddings, graph).shape)
    (2, 2, 5, 8)

    References:
        Yang et al., "GLoMo: Unsupervised Learning of Transferable Relational Graphs", 2018.
    """

    def __init__(
        self,
        *,
        composition: str = "gru",
        share_layers: bool | None = None,
        num_directions: int | None = None,
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if composition not in COMPOSITIONS:
            raise ValueError(
                f"Expected `composition` to be one of {', '.join(COMPOSITIONS)}. "
                f"Received: {composition!r}."
            )
        self.composition = composition
        self.share_layers = share_layers
        self.num_directions = num_directions
        self.dropout = dropout
        self.supports_masking = True

    def build(self, embeddings_shape: Any, graphs_shape: Any) -> None:
        if isinstance(graphs_shape, dict):
            graphs_shape = graphs_shape["query"]
        layers, heads, width = graphs_shape[1], graphs_shape[2], embeddings_shape[-1]
        self._directions = self.num_directions or (2 if layers % 2 == 0 else 1)
        self._depth = layers // self._directions
        if width % heads or layers % self._directions:
            raise ValueError(
                "Expected the heads to divide the feature width and the directions to divide the "
                f"graph layers. Received: {heads} heads, width {width}, {layers} graph layers, "
                f"{self._directions} directions."
            )
        share = self.composition == "gru" if self.share_layers is None else self.share_layers
        self.compositions: list[Any] = []
        for index in range(1 if share else self._depth):
            layer = COMPOSITIONS[self.composition](
                self._directions, name=f"composition_{index}", dtype=self.dtype_policy
            )
            shape = (self._directions, *embeddings_shape)
            layer.build(shape, shape)
            self.compositions.append(layer)
        self.locked_dropout = LockedDropout(self.dropout, name="dropout", dtype=self.dtype_policy)
        self.built = True

    def call(
        self,
        embeddings: tf.Tensor,
        graphs: tf.Tensor | dict[str, tf.Tensor],
        training: bool = False,
    ) -> tf.Tensor:
        graph = tf.cast(affinity.dense(graphs), embeddings.dtype)
        state = tf.stack([embeddings] * self._directions)
        for layer in range(self._depth):
            messages = [
                _mix_by_head(graph[:, direction * self._depth + layer], state[direction])
                for direction in range(self._directions)
            ]
            composition = self.compositions[min(layer, len(self.compositions) - 1)]
            state = composition(state, tf.stack(messages))
            state = self.locked_dropout(state, training=training)
        return state

    def compute_mask(self, embeddings: Any, mask: Any = None) -> None:
        """Directions come first in the output, so the mask of the embeddings does not fit it."""

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "composition": self.composition,
            "share_layers": self.share_layers,
            "num_directions": self.num_directions,
            "dropout": self.dropout,
        }


def _mix_by_head(graph: tf.Tensor, features: tf.Tensor) -> tf.Tensor:
    """`[B, K, T, T]` on `[B, T, d]`: head k on feature slice k."""
    shape, heads = tf.shape(features), graph.shape[1]
    width = features.shape[-1]
    slices = tf.reshape(features, [shape[0], shape[1], heads, width // heads])
    mixed = tf.matmul(graph, tf.transpose(slices, [0, 2, 1, 3]))
    return tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), [shape[0], shape[1], width])
