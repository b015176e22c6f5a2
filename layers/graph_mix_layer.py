"""Carries learned graphs into any model: mixes its features along them."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from glomo_tf import affinity
from glomo_tf.layers._checks import check_choice, check_features, check_positive
from glomo_tf.layers.gru_composition import GRUComposition

FUSIONS = ("none", "concat", "gate", "gru")


@keras.saving.register_keras_serializable(package="glomo_tf")
class GraphMixLayer(keras.layers.Layer):
    """Mixes features along graphs and fuses the result with the features.

    For each of R directions with layers A^1..A^L, and N mixtures in each:

    1. Γ = A^1..A^L and, with `products`, Λ^l = A^l … A^1 for l = 2..L, over K heads: M graphs
    2. w = softmax of M logits, free or (`conditional`) linear in the receiver's features
    3. S[t] = c · Σ_m w_m[t] (Γ_m H)[t], with a learned scale c that starts at 1
    4. fusion of H `[B, T, d]` with all R·N results S (side by side, width R·N·d):
       `none`: S; `concat`: [H; S]; `gate`: [H; a ∘ σ(b)] with a, b linear in [H; S];
       `gru`: one GRU step with hidden state H and input S

    Args:
        num_mixtures: N, independent mixtures for each direction.
        conditional: whether the mixture depends on the receiver's features.
        products: whether prefix products are part of the mixture.
        fusion: `"gate"`, `"concat"`, `"gru"` or `"none"`.
        path: how graphs are applied (`glomo_tf.affinity.mix`): `"auto"`, `"dense"`, `"chain"`.
        num_directions: R; by default 2 where the number of graph layers is even, else 1. Layers
            are ordered by direction, as `GraphPredictor` returns them.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        features: H, float `[B, T, d]`, any features of the task.
        graphs: dense `[B, G, K, T, T]` (or `[B, K, T, T]` of an `AffinityLayer`), or graph
            factors (`glomo_tf.affinity`).
        mask: unused; the graphs are 0 at padding. Passed on to the output.

    Returns:
        Float `[B, T, d_out]`; d_out is R·N·d (`none`), d + R·N·d (`concat`), 2·d (`gate`) or
        d (`gru`).

    Raises:
        ValueError: an argument outside its range, G not divisible by R, graphs of another length
            than the features.

    Example:

    >>> import numpy as np
    >>> from glomo_tf.layers import AffinityLayer, GraphMixLayer
    >>> features = np.ones((1, 5, 16), "float32")
    >>> graph = AffinityLayer(2, 8)(features)
    >>> tuple(GraphMixLayer()(features, graph).shape)
    (1, 5, 32)

    References:
        Yang et al., "GLoMo: Unsupervised Learning of Transferable Relational Graphs", 2018.
    """

    def __init__(
        self,
        *,
        num_mixtures: int = 2,
        conditional: bool = True,
        products: bool = True,
        fusion: str = "gate",
        path: str = "auto",
        num_directions: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(num_mixtures=num_mixtures)
        if num_directions is not None:
            check_positive(num_directions=num_directions)
        self.num_mixtures = num_mixtures
        self.conditional = conditional
        self.products = products
        self.fusion = check_choice("fusion", fusion, FUSIONS)
        self.mix_path = affinity.check_path(path)  # Keras layers have a `path`
        self.num_directions = num_directions
        self.supports_masking = True

    def build(self, features_shape: Any, graphs_shape: Any) -> None:
        width = features_shape[-1]
        layers, heads = _layers_and_heads(graphs_shape)
        self._directions = self._resolve_directions(layers)
        size = affinity.mixture_size(layers // self._directions, heads, self.products)
        results = self._directions * self.num_mixtures
        if self.conditional:
            self.mixture = self._dense(results * size, "mixture", features_shape)
        else:
            self.mixture_logits = self.add_weight(
                shape=(self._directions, self.num_mixtures, size),
                initializer="zeros",
                name="mixture_logits",
            )
        self.scale = self.add_weight(
            shape=(self._directions, self.num_mixtures), initializer="ones", name="scale"
        )
        joined = (*features_shape[:-1], width * (1 + results))
        if self.fusion == "gate":
            self.gate_value = self._dense(width, "gate_value", joined)
            self.gate = self._dense(width, "gate", joined)
        elif self.fusion == "gru":
            self.cell = GRUComposition(multiplicative=False, name="cell", dtype=self.dtype_policy)
            self.cell.build(features_shape, (*features_shape[:-1], width * results))
        self.built = True

    def _dense(self, units: int, name: str, input_shape: Any) -> keras.layers.Dense:
        layer = keras.layers.Dense(units, name=name, dtype=self.dtype_policy)
        layer.build(input_shape)
        return layer

    def _resolve_directions(self, layers: int) -> int:
        directions = self.num_directions or (2 if layers % 2 == 0 else 1)
        if layers % directions:
            raise ValueError(
                f"Expected the number of graph layers to be divisible by num_directions="
                f"{directions}. Received graphs with {layers} layers; pass num_directions=1 for "
                "a predictor of one direction."
            )
        return directions

    def call(
        self,
        features: tf.Tensor,
        graphs: tf.Tensor | dict[str, tf.Tensor],
        mask: tf.Tensor | None = None,
    ) -> tf.Tensor:
        check_features(features, "features")
        graphs = affinity.with_layer_axis(graphs)
        _check_lengths(features, graphs)
        per_direction = affinity.num_graph_layers(graphs) // self._directions
        weights = self._mixture_weights(features)
        results = []
        for direction in range(self._directions):
            start = direction * per_direction
            mixed = affinity.mix(
                affinity.select(graphs, start, start + per_direction),
                features,
                weights[direction],
                products=self.products,
                path=self.mix_path,
            )
            scale = tf.cast(self.scale[direction], mixed.dtype)
            results += tf.unstack(mixed * scale[:, tf.newaxis, tf.newaxis], axis=1)
        return self._fuse(features, results)

    def _mixture_weights(self, features: tf.Tensor) -> list[tf.Tensor]:
        """For each direction the weights `[N, M]`, or `[B, N, T, M]` where conditional."""
        if not self.conditional:
            return tf.unstack(tf.nn.softmax(tf.cast(self.mixture_logits, tf.float32), axis=-1))
        logits = tf.cast(self.mixture(features), tf.float32)
        shape = tf.shape(logits)
        grid = [shape[0], shape[1], self._directions, self.num_mixtures, -1]
        weights = tf.nn.softmax(tf.reshape(logits, grid), axis=-1)
        size = logits.shape[-1] // (self._directions * self.num_mixtures)
        weights = tf.ensure_shape(weights, [None, None, None, None, size])
        return tf.unstack(tf.transpose(weights, [2, 0, 3, 1, 4]), num=self._directions)

    def _fuse(self, features: tf.Tensor, results: list[tf.Tensor]) -> tf.Tensor:
        if self.fusion == "none":
            return tf.concat(results, axis=-1)
        if self.fusion == "gru":
            return self.cell(features, tf.concat(results, axis=-1))
        joined = tf.concat([features, *results], axis=-1)
        if self.fusion == "concat":
            return joined
        gated = self.gate_value(joined) * tf.sigmoid(self.gate(joined))
        return tf.concat([features, gated], axis=-1)

    def compute_mask(self, features: Any, mask: Any = None) -> Any:
        return mask

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_mixtures": self.num_mixtures,
            "conditional": self.conditional,
            "products": self.products,
            "fusion": self.fusion,
            "path": self.mix_path,
            "num_directions": self.num_directions,
        }


def _layers_and_heads(graphs_shape: Any) -> tuple[int, int]:
    """G and K from the shape of dense graphs or from the shapes of graph factors."""
    if isinstance(graphs_shape, dict):
        query = graphs_shape["query"]
        return (query[1], query[2]) if len(query) == 5 else (1, query[1])
    if len(graphs_shape) == 4:
        return 1, graphs_shape[1]
    if len(graphs_shape) != 5:
        raise ValueError(
            "Expected `graphs` to be a dense graph [batch, layers, heads, length, length], or "
            f"graph factors. Received the shape: {tuple(graphs_shape)}."
        )
    return graphs_shape[1], graphs_shape[2]


def _check_lengths(features: tf.Tensor, graphs: Any) -> None:
    length = (graphs["mask"] if isinstance(graphs, dict) else graphs).shape
    length = length[1] if isinstance(graphs, dict) else length[-1]
    if None not in (length, features.shape[1]) and length != features.shape[1]:
        raise ValueError(
            "Expected graphs over the units of the features. Received graphs over "
            f"{length} units for features over {features.shape[1]} units."
        )
