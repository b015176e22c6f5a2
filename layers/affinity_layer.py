"""Affinity between units: one graph layer with several heads."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from glomo_tf import affinity
from glomo_tf.layers._checks import check_features, check_positive
from glomo_tf.sparsity import SCALED_SPARSITIES, check_sparsity


@keras.saving.register_keras_serializable(package="glomo_tf")
class AffinityLayer(keras.layers.Layer):
    """Predicts how much each unit takes from every other one: a graph for each head.

    1. query = X W_q + c_q, key = Y W_k + c_k, split into K heads of width h
    2. score[t, s] = ⟨query_t, key_s⟩ − threshold_t
    3. graph[t, ·] = normalised max(score, 0)² over the allowed sources; other modes by `sparsity`

    Rows sum to 1, or to 0 where a receiver takes nothing. Normalisation is in float32 whatever
    the dtype policy.

    Args:
        num_heads: K, the number of heads.
        head_dim: h, the width of queries and keys.
        sparsity: how scores become a graph: `"query_relu"` (a threshold for each receiver and
            head, linear in the query), `"layer_relu"` (one learned threshold), `"relu"`,
            `"square"`, `"top_k"`, `"softmax"`, `"sparsemax"`, `"relu_length"`.
        causal: whether receivers draw from strictly earlier units only.
        top_k_rate: for `"top_k"`: min(n, max(1, ⌊rate·√n⌋)) sources are kept, with n the number
            of real units.
        initial_threshold: start of the learned threshold. Lower values start denser; from 0 on,
            heads can become empty early in training and then have no gradient to recover.
        score_scale: factor on the scores; by default 1, and 1/√h for softmax, sparsemax and
            relu_length.
        kernel_initializer: of the query and key projections.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        query_features: X, float `[B, T, d]`.
        key_features: Y, float `[B, T, d']`; by default X.
        mask: bool `[B, T]`, true for real units; by default the Keras mask of X, else all.
        return_factors: whether to return graph factors (see `glomo_tf.affinity`) instead.
        query_features_mask: the Keras mask of X, which Keras passes by this name beside keys.

    Returns:
        float32 graph `[B, K, T, T]`: `graph[b, k, t, s]` is how much receiver t takes from
        source s; or the factors of that graph.

    Raises:
        ValueError: an argument outside its range, or features that are not rank 3.

    Example:

    >>> import numpy as np
    >>> from glomo_tf.layers import AffinityLayer
    >>> graph = AffinityLayer(2, 8)(np.ones((1, 5, 16), "float32"))
    >>> tuple(graph.shape)
    (1, 2, 5, 5)

    References:
        Yang et al., "GLoMo: Unsupervised Learning of Transferable Relational Graphs", 2018.
    """

    def __init__(
        self,
        num_heads: int,
        head_dim: int,
        *,
        sparsity: str = "query_relu",
        causal: bool = True,
        top_k_rate: float = 1.0,
        initial_threshold: float = -1.0,
        score_scale: float | None = None,
        kernel_initializer: Any = "glorot_uniform",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(num_heads=num_heads, head_dim=head_dim, top_k_rate=top_k_rate)
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.sparsity = check_sparsity(sparsity)
        self.causal = causal
        self.top_k_rate = top_k_rate
        self.initial_threshold = initial_threshold
        self.score_scale = score_scale
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.supports_masking = True

    def build(self, query_features_shape: Any, key_features_shape: Any = None) -> None:
        width = self.num_heads * self.head_dim
        self.query_projection = self._dense(width, "query")
        self.query_projection.build(query_features_shape)
        self.key_projection = self._dense(width, "key")
        self.key_projection.build(key_features_shape or query_features_shape)
        start = keras.initializers.Constant(self.initial_threshold)
        if self.sparsity == "query_relu":
            self.threshold = keras.layers.Dense(
                self.num_heads, bias_initializer=start, name="threshold", dtype=self.dtype_policy
            )
            self.threshold.build((*query_features_shape[:-1], width))
        elif self.sparsity == "layer_relu":
            self.threshold = self.add_weight(shape=(), initializer=start, name="threshold")
        self.built = True

    def _dense(self, units: int, name: str) -> keras.layers.Dense:
        initializer = self.kernel_initializer.__class__.from_config(
            self.kernel_initializer.get_config()
        )  # a copy, so that two projections never share a seed
        return keras.layers.Dense(
            units, kernel_initializer=initializer, name=name, dtype=self.dtype_policy
        )

    def call(
        self,
        query_features: tf.Tensor,
        key_features: tf.Tensor | None = None,
        mask: tf.Tensor | None = None,
        return_factors: bool = False,
        query_features_mask: tf.Tensor | None = None,
    ) -> tf.Tensor | dict[str, tf.Tensor]:
        check_features(query_features, "query_features")
        shape = tf.shape(query_features)
        if mask is None:  # Keras fills `mask` only where X is the one tensor, else the other
            mask = query_features_mask
        if mask is None:
            mask = tf.ones(shape[:2], tf.bool)
        mask = tf.cast(mask, tf.bool)
        queries = self.query_projection(query_features)
        keys = self.key_projection(query_features if key_features is None else key_features)
        query = self._split(queries)
        scale = self.score_scale
        if scale is None and self.sparsity in SCALED_SPARSITIES:
            scale = self.head_dim**-0.5
        factors = {
            "query": query if scale is None else query * tf.cast(scale, query.dtype),
            "key": self._split(keys),
            "mask": mask,
            "direction": tf.fill(shape[:1], 1 if self.causal else 0),
            self.sparsity: self._parameter(queries, mask),
        }
        return factors if return_factors else affinity.graph(factors)

    def factors(
        self,
        query_features: tf.Tensor,
        key_features: tf.Tensor | None = None,
        mask: tf.Tensor | None = None,
    ) -> dict[str, tf.Tensor]:
        """Graph factors (see `glomo_tf.affinity`) instead of the graph; the same arguments."""
        return self(query_features, key_features, mask=mask, return_factors=True)

    def _split(self, x: tf.Tensor) -> tf.Tensor:
        shape = tf.shape(x)
        heads = tf.reshape(x, [shape[0], shape[1], self.num_heads, self.head_dim])
        return tf.transpose(heads, [0, 2, 1, 3])

    def _parameter(self, queries: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """The sparsity mode's parameter for each receiver, float32 `[B, K, T]`."""
        shape = tf.shape(queries)
        full = [shape[0], self.num_heads, shape[1]]
        if self.sparsity == "query_relu":
            return tf.cast(tf.transpose(self.threshold(queries), [0, 2, 1]), tf.float32)
        if self.sparsity == "layer_relu":
            return tf.fill(full, tf.cast(self.threshold, tf.float32))
        length = tf.reduce_sum(tf.cast(mask, tf.float32), axis=1)[:, tf.newaxis, tf.newaxis]
        if self.sparsity == "top_k":
            kept = tf.floor(self.top_k_rate * tf.sqrt(length))
            return tf.broadcast_to(tf.clip_by_value(kept, 1.0, tf.maximum(length, 1.0)), full)
        if self.sparsity == "relu_length":
            return tf.broadcast_to(length, full)
        return tf.zeros(full)

    def compute_mask(self, query_features: Any, mask: Any = None) -> None:
        """A graph carries its mask in its zeros."""

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "head_dim": self.head_dim,
            "sparsity": self.sparsity,
            "causal": self.causal,
            "top_k_rate": self.top_k_rate,
            "initial_threshold": self.initial_threshold,
            "score_scale": self.score_scale,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
        }
