"""Causal 1-D convolutional networks over unit embeddings: the key and query networks."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from glomo_tf.layers._checks import check_choice, check_fraction, check_positive
from glomo_tf.layers._networks import matmul_per_network, per_network, with_network_axis
from glomo_tf.layers.network_normalization import NetworkNormalization


@keras.saving.register_keras_serializable(package="glomo_tf")
class CausalConvolution(keras.layers.Layer):
    """A stack of causal convolutions: the output at a unit depends on it and earlier units only.

    Each block: y_t = ReLU(normalise(Σ_j W_j x_{t−j})), j = 0..kernel_size − 1, and 0 at padding,
    so that padding before the first unit of a reversed sequence looks like the sequence's edge.
    Each convolution is one product over the concatenation of the shifted inputs.

    Args:
        width: w, of every block's output.
        depth: number of blocks.
        kernel_size: units that one output sees, itself included.
        num_networks: S independent networks, computed in one batched product.
        normalization: `"batch"`, `"layer"` or `"none"`.
        dropout: rate of dropout after each block.
        **kwargs: of `keras.layers.Layer`.

    Call arguments:
        inputs: float `[S, B, T, d]`, or `[B, T, d]` where S = 1.
        mask: bool `[S, B, T]` (or `[B, T]`), true for real units.
        training: whether to use batch statistics and dropout.

    Returns:
        Float tensor of the rank of `inputs`, `[..., T, w]`.

    Raises:
        ValueError: an argument outside its range, or inputs of another shape.

    Example:

    >>> import numpy as np
    >>> from glomo_tf.layers import CausalConvolution
    >>> tuple(CausalConvolution(8, 2)(np.ones((1, 5, 4), "float32")).shape)
    (1, 5, 8)
    """

    def __init__(
        self,
        width: int,
        depth: int = 4,
        *,
        kernel_size: int = 3,
        num_networks: int = 1,
        normalization: str = "batch",
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive(width=width, depth=depth, kernel_size=kernel_size, num_networks=num_networks)
        check_fraction(dropout=dropout)
        self.width = width
        self.depth = depth
        self.kernel_size = kernel_size
        self.num_networks = num_networks
        self.normalization = check_choice(
            "normalization", normalization, ("batch", "layer", "none")
        )
        self.dropout = dropout
        self.supports_masking = True

    def build(self, input_shape: Any) -> None:
        channels = input_shape[-1]
        self.kernels, self.normalizers, self.dropouts = [], [], []
        for block in range(self.depth):
            self.kernels.append(
                self.add_weight(
                    shape=(self.num_networks, self.kernel_size * channels, self.width),
                    initializer=per_network("he_normal"),
                    name=f"kernel_{block}",
                )
            )
            normalizer = NetworkNormalization(
                self.normalization,
                num_networks=self.num_networks,
                name=f"normalization_{block}",
                dtype=self.dtype_policy,
            )
            normalizer.build((self.num_networks, None, None, self.width))
            self.normalizers.append(normalizer)
            self.dropouts.append(
                keras.layers.Dropout(self.dropout, name=f"dropout_{block}", dtype=self.dtype_policy)
            )
            channels = self.width
        self.built = True

    def call(
        self, inputs: tf.Tensor, mask: tf.Tensor | None = None, training: bool = False
    ) -> tf.Tensor:
        x = with_network_axis(inputs, self.num_networks, "inputs")
        if mask is None:
            mask = tf.ones(tf.shape(x)[:3], tf.bool)
        mask = tf.cast(mask, tf.bool)
        real = (mask[tf.newaxis] if mask.shape.rank == 2 else mask)[..., tf.newaxis]
        x = tf.where(real, x, tf.zeros_like(x))
        for kernel, normalizer, dropout in zip(
            self.kernels, self.normalizers, self.dropouts, strict=True
        ):
            x = matmul_per_network(self._shifted(x), kernel)
            x = tf.nn.relu(normalizer(x, mask=real[..., 0], training=training))
            x = dropout(x, training=training)
            x = tf.where(real, x, tf.zeros_like(x))
        return x if inputs.shape.rank == 4 else x[0]

    def _shifted(self, x: tf.Tensor) -> tf.Tensor:
        """`[..., T, c]` to `[..., T, kernel_size·c]`: each unit beside the ones before it."""
        length = tf.shape(x)[2]
        back = self.kernel_size - 1
        padded = tf.pad(x, [[0, 0], [0, 0], [back, 0], [0, 0]])
        return tf.concat([padded[:, :, j : j + length] for j in range(back, -1, -1)], axis=-1)

    def compute_output_shape(self, input_shape: Any) -> tuple[Any, ...]:
        return (*input_shape[:-1], self.width)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "width": self.width,
            "depth": self.depth,
            "kernel_size": self.kernel_size,
            "num_networks": self.num_networks,
            "normalization": self.normalization,
            "dropout": self.dropout,
        }
