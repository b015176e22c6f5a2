"""Batch or layer normalisation with statistics of its own for each of several networks."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from glomo_tf.layers._checks import check_choice, check_positive

_EPSILON = 1e-3


@keras.saving.register_keras_serializable(package="glomo_tf")
class NetworkNormalization(keras.layers.Layer):
    """Normalises `[S, B, T, c]` over its real units (batch) or its features (layer).

    Statistics are computed in float32. Batch statistics leave padding out and are those of the
    global batch under `tf.distribute`, so replicas and one device agree.

    Args:
        mode: `"batch"`, `"layer"` or `"none"`.
        num_networks: S, each with its own scale, offset and statistics.
        momentum: of the moving statistics that batch normalisation uses for inference.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        inputs: float `[S, B, T, c]`.
        mask: bool `[S or 1, B, T]`, true for real units.
        training: whether batch statistics are used and the moving ones updated.

    Returns:
        Tensor of the shape and dtype of `inputs`.

    Example:

    >>> import numpy as np
    >>> from glomo_tf.layers.network_normalization import NetworkNormalization
    >>> x = np.array([0.0, 2.0], "float32").reshape(1, 1, 1, 2)
    >>> y = NetworkNormalization("layer")(x, mask=np.ones((1, 1, 1), bool))
    >>> np.asarray(y).round(2).ravel().tolist()
    [-1.0, 1.0]

    References:
        Ioffe and Szegedy, "Batch Normalization", 2015; Ba et al., "Layer Normalization", 2016.
    """

    def __init__(
        self,
        mode: str = "batch",
        num_networks: int = 1,
        *,
        momentum: float = 0.99,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(num_networks=num_networks)
        self.mode = check_choice("mode", mode, ("batch", "layer", "none"))
        self.num_networks = num_networks
        self.momentum = momentum
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        shape = (self.num_networks, 1, 1, input_shape[-1])
        self.offset = self.add_weight(shape=shape, initializer="zeros", name="offset")
        if self.mode != "none":
            self.scale = self.add_weight(shape=shape, initializer="ones", name="scale")
        if self.mode == "batch":
            fixed = {"trainable": False, "autocast": False, "aggregation": "mean"}
            self.moving_mean = self.add_weight(
                shape=shape, initializer="zeros", name="moving_mean", **fixed
            )
            self.moving_variance = self.add_weight(
                shape=shape, initializer="ones", name="moving_variance", **fixed
            )
        self.built = True

    def call(
        self, inputs: tf.Tensor, mask: tf.Tensor | None = None, training: bool = False
    ) -> tf.Tensor:
        if self.mode == "none":
            return inputs + self.offset
        x = tf.cast(inputs, tf.float32)
        if self.mode == "layer":
            mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
        elif training:
            mean, variance = self._batch_moments(x, mask)
            self._update(self.moving_mean, mean)
            self._update(self.moving_variance, variance)
        else:
            mean = tf.convert_to_tensor(self.moving_mean)
            variance = tf.convert_to_tensor(self.moving_variance)
        normal = tf.cast((x - mean) * tf.math.rsqrt(variance + _EPSILON), inputs.dtype)
        return normal * self.scale + self.offset

    def _batch_moments(self, x: tf.Tensor, mask: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        if mask is None:
            mask = tf.ones(tf.shape(x)[:3], tf.bool)
        real = tf.cast(mask, tf.float32)[..., tf.newaxis]
        axes = [1, 2]
        sums = [
            tf.reduce_sum(real, axes, keepdims=True),
            tf.reduce_sum(x * real, axes, keepdims=True),
            tf.reduce_sum(tf.square(x) * real, axes, keepdims=True),
        ]
        replicas = tf.distribute.get_replica_context()
        if replicas is not None and replicas.num_replicas_in_sync > 1:
            sums = [replicas.all_reduce(tf.distribute.ReduceOp.SUM, s) for s in sums]
        count, total, squares = sums
        mean = tf.math.divide_no_nan(total, count)
        variance = tf.maximum(tf.math.divide_no_nan(squares, count) - tf.square(mean), 0.0)
        return mean, variance

    def _update(self, moving: Any, value: tf.Tensor) -> None:
        moving.assign(moving * self.momentum + tf.stop_gradient(value) * (1 - self.momentum))

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "mode": self.mode,
            "num_networks": self.num_networks,
            "momentum": self.momentum,
        }
