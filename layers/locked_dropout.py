"""Dropout that drops the same features at every unit of a sequence."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from glomo_tf.layers._checks import check_fraction


@keras.saving.register_keras_serializable(package="glomo_tf")
class LockedDropout(keras.layers.Layer):
    """Variational ("locked") dropout: one mask for all units of a sequence.

    Args:
        rate: share of the features that is dropped, in [0, 1).
        seed: int, makes the masks repeatable.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        inputs: float `[..., T, d]`.
        training: whether to drop.

    Returns:
        Tensor of the shape and dtype of `inputs`.

    Example:

    >>> import numpy as np
    >>> from glomo_tf.layers import LockedDropout
    >>> out = LockedDropout(0.5, seed=1)(np.ones((1, 3, 4), "float32"), training=True)
    >>> bool((np.asarray(out)[0, 0] == np.asarray(out)[0, 2]).all())
    True

    References:
        Gal and Ghahramani, "A Theoretically Grounded Application of Dropout in Recurrent
        Neural Networks", 2016.
    """

    def __init__(self, rate: float, *, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        check_fraction(rate=rate)
        self.rate = rate
        self.seed = seed
        self.supports_masking = True
        self.seed_generator = keras.random.SeedGenerator(seed)

    def build(self, input_shape: Any) -> None:
        self.built = True

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        if not training or self.rate == 0:
            return inputs
        shape = tf.shape(inputs)
        noise_shape = tf.concat([shape[:-2], [1], shape[-1:]], axis=0)
        noise = tf.random.stateless_uniform(noise_shape, self.seed_generator.next())
        keep = tf.cast(noise >= self.rate, inputs.dtype)
        return inputs * keep * tf.cast(1.0 / (1.0 - self.rate), inputs.dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}
