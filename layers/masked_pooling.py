"""Pooling over the real units of a sequence that is safe for empty sequences."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from glomo_tf.layers._checks import check_choice, check_features


@keras.saving.register_keras_serializable(package="glomo_tf")
class MaskedPooling(keras.layers.Layer):
    """Mean or maximum over the real units; 0 where a sequence has none.

    Args:
        mode: `"mean"` or `"max"`.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        inputs: float `[B, T, d]`.
        mask: bool `[B, T]`; by default the Keras mask of `inputs`, else all units are real.

    Returns:
        `[B, d]` in the dtype of `inputs`.

    Example:

    >>> import numpy as np
    >>> from glomo_tf.layers import MaskedPooling
    >>> x = np.array([[[1.0], [3.0], [8.0]], [[1.0], [2.0], [3.0]]], "float32")
    >>> mask = np.array([[True, True, False], [False, False, False]])
    >>> np.asarray(MaskedPooling()(x, mask=mask)).tolist()
    [[2.0], [0.0]]
    """

    def __init__(self, mode: str = "mean", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mode = check_choice("mode", mode, ("mean", "max"))
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        self.built = True

    def call(self, inputs: tf.Tensor, mask: tf.Tensor | None = None) -> tf.Tensor:
        check_features(inputs, "inputs")
        if mask is None:
            mask = tf.ones(tf.shape(inputs)[:2], tf.bool)
        real = tf.cast(mask, tf.bool)[..., tf.newaxis]
        if self.mode == "max":
            lowest = tf.fill(tf.shape(inputs), inputs.dtype.min)
            maximum = tf.reduce_max(tf.where(real, inputs, lowest), axis=1)
            return tf.where(tf.reduce_any(real, axis=1), maximum, tf.zeros_like(maximum))
        total = tf.reduce_sum(tf.where(real, inputs, tf.zeros_like(inputs)), axis=1)
        return tf.math.divide_no_nan(total, tf.reduce_sum(tf.cast(real, inputs.dtype), axis=1))

    def compute_mask(self, inputs: Any, mask: Any = None) -> None:
        """The unit axis is gone, and its mask with it."""

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, ...]:
        return (input_shape[0], input_shape[2])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "mode": self.mode}
