"""Graphs applied once, for features that do not change: what a mixture then needs is O(T)."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from glomo_tf import affinity
from glomo_tf.layers import GraphMixLayer


def graph_messages(
    graphs: Any, features: tf.Tensor, *, num_directions: int, products: bool = True
) -> tf.Tensor:
    """Applies every graph of a set to the features: all that a `GraphMixLayer` mixes.

    Where both the predictor and the features are frozen, these are constants of an example. Kept
    from epoch to epoch they save nearly all of the work of training on them with
    `MessageMixLayer`.

    Args:
        graphs: Dense `[B, G, K, T, T]`, or graph factors.
        features: Float `[B, T, d]`.
        num_directions: R; G = R·L.
        products: Whether prefix products are part of the set.

    Returns:
        `[B, R, T, M, d]` in the dtype of `features`: (Γ_m H)[t] for the M graphs of each direction,
        in the order of `affinity.mix`; side by side for a unit, as they are mixed.
    """
    graphs = affinity.with_layer_axis(graphs)
    layers = affinity.num_graph_layers(graphs) // num_directions
    size = affinity.mixture_size(layers, affinity.num_heads(graphs), products)
    every_one = tf.eye(size, dtype=features.dtype)
    parts = [
        affinity.mix(
            affinity.select(graphs, r * layers, (r + 1) * layers),
            features,
            every_one,
            products=products,
            path="chain",
        )
        for r in range(num_directions)
    ]
    return tf.transpose(tf.stack(parts, axis=1), [0, 1, 3, 2, 4])


@keras.saving.register_keras_serializable(package="glomo_tf")
class MessageMixLayer(GraphMixLayer):
    """A `GraphMixLayer` for graphs that have been applied already.

    With the same weights it gives what `GraphMixLayer` gives for the graphs themselves; its weights
    have the same names and shapes.

    The arguments are those of `GraphMixLayer`; `products` and `path` belong to the messages and
    are without effect.

    Call arguments:
        features: H, float `[B, T, d]`.
        graphs: Messages `[B, R, T, M, d]` of `graph_messages`, any float dtype.
        mask: Unused, see `GraphMixLayer`.

    Returns:
        Float `[B, T, d_out]`, see `GraphMixLayer`.

    Example:

    >>> import numpy as np
    >>> from glomo_tf.transfer import MessageMixLayer
    >>> features, messages = np.ones((1, 5, 16), "float32"), np.ones((1, 2, 5, 3, 16), "float32")
    >>> tuple(MessageMixLayer(fusion="concat")(features, messages).shape)
    (1, 5, 80)
    """

    def build(self, features_shape: Any, graphs_shape: Any) -> None:
        # As many graphs as messages: one layer a direction whose heads are the messages.
        super().build(features_shape, (None, graphs_shape[1], graphs_shape[3], None, None))

    def call(
        self, features: tf.Tensor, graphs: tf.Tensor, mask: tf.Tensor | None = None
    ) -> tf.Tensor:
        results = []
        for direction, weight in enumerate(self._mixture_weights(features)):
            weight = tf.cast(weight, features.dtype)
            if weight.shape.rank == 4:  # [B, N, T, M], one mixture a receiver
                weight = tf.transpose(weight, [0, 2, 1, 3])
            mixed = tf.matmul(weight, tf.cast(graphs[:, direction], features.dtype))
            mixed *= tf.cast(self.scale[direction], mixed.dtype)[:, tf.newaxis]
            results += tf.unstack(mixed, num=self.num_mixtures, axis=2)
        return self._fuse(features, results)
