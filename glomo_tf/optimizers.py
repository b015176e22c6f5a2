"""AdamW that leaves the rows of a table alone that a step did not touch."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


@keras.saving.register_keras_serializable(package="glomo_tf")
class LazyAdamW(keras.optimizers.AdamW):
    """AdamW whose sparse gradients update only their own rows ("lazy" Adam).

    A step of plain Adam moves every row of an embedding table, and reads and writes its two
    moments, even where the gradient is zero. Here moments and weights of the rows in the gradient
    are updated as in Adam, all other rows stay. Dense gradients are treated as in
    `keras.optimizers.AdamW`. Weight decay reaches every row of a table: exclude tables with
    `exclude_from_weight_decay(var_names=["embeddings", "table"])`.

    The arguments are those of `keras.optimizers.AdamW`. Clipping by `global_clipnorm` keeps sparse
    gradients sparse (Keras' own makes them dense, which would move every row), and its norm is that
    of the global batch under `tf.distribute`.

    Example:

    >>> import keras, tensorflow as tf
    >>> from glomo_tf.optimizers import LazyAdamW
    >>> table = keras.Variable([[1.0], [1.0]])
    >>> gradient = tf.IndexedSlices(tf.constant([[2.0]]), tf.constant([1]), tf.constant([2, 1]))
    >>> LazyAdamW(0.1, weight_decay=0.0).apply([gradient], [table])
    >>> [round(float(x), 3) for x in table.numpy().ravel()]
    [1.0, 0.9]

    References:
        Kingma and Ba, "Adam", 2015; Loshchilov and Hutter, "Decoupled Weight Decay", 2019.
    """

    def __init__(self, *args: Any, global_clipnorm: float | None = None, **kwargs: Any) -> None:
        super().__init__(*args, global_clipnorm=global_clipnorm, **kwargs)
        self.global_clipnorm = None  # or Keras would clip, too
        self._largest_norm = global_clipnorm

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        if self._largest_norm:
            grads = clip_by_global_norm(list(grads), self._largest_norm)
        super().apply(grads, trainable_variables)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "global_clipnorm": self._largest_norm}

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        if not isinstance(gradient, tf.IndexedSlices):
            super().update_step(gradient, variable, learning_rate)
            return
        rows, values = sum_repeated_rows(gradient.indices, gradient.values)
        values = tf.cast(values, variable.dtype)
        index = self._get_variable_index(variable)
        m, v = self._momentums[index], self._velocities[index]
        step = tf.cast(self.iterations + 1, variable.dtype)
        rate = tf.cast(learning_rate, variable.dtype)
        m_rows = tf.gather(m.value, rows)
        v_rows = tf.gather(v.value, rows)
        m_rows += (values - m_rows) * (1 - self.beta_1)
        v_rows += (tf.square(values) - v_rows) * (1 - self.beta_2)
        alpha = rate * tf.sqrt(1 - self.beta_2**step) / (1 - self.beta_1**step)
        change = alpha * m_rows / (tf.sqrt(v_rows) + self.epsilon)
        self.assign(m, tf.IndexedSlices(m_rows, rows))
        self.assign(v, tf.IndexedSlices(v_rows, rows))
        self.assign(variable, tf.IndexedSlices(tf.gather(variable, rows) - change, rows))


def clip_by_global_norm(gradients: list[Any], largest: float) -> list[Any]:
    """Scales gradients so that the norm of all of them together is at most `largest`.

    Sparse gradients stay sparse; their repeated rows count by their sum. Where replicas hold parts
    of the gradients, the norm is that of the sum of the parts.

    Args:
        gradients: tensors, `tf.IndexedSlices` or None.
        largest: largest norm.

    Returns:
        The gradients, each of its kind.
    """
    squares = [_square_norm(gradient) for gradient in gradients if gradient is not None]
    scale = largest / tf.maximum(tf.sqrt(tf.add_n(squares)), largest)
    return [None if gradient is None else _scaled(gradient, scale) for gradient in gradients]


def _square_norm(gradient: Any) -> tf.Tensor:
    context = tf.distribute.get_replica_context()
    parts = context is not None and context.num_replicas_in_sync > 1
    if not isinstance(gradient, tf.IndexedSlices):
        if parts:
            gradient = context.all_reduce(tf.distribute.ReduceOp.SUM, gradient)
        return tf.reduce_sum(tf.square(tf.cast(gradient, tf.float32)))
    rows, values = gradient.indices, gradient.values
    if parts:
        rows, values = (context.all_gather(x, axis=0) for x in (rows, values))
    rows, values = sum_repeated_rows(rows, tf.cast(values, tf.float32))
    first = tf.concat([tf.ones([1], tf.bool), rows[1:] != rows[:-1]], axis=0)
    return tf.reduce_sum(tf.square(values) * tf.cast(first, tf.float32)[:, tf.newaxis])


def _scaled(gradient: Any, scale: tf.Tensor) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values * tf.cast(scale, gradient.values.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(scale, gradient.dtype)


def sum_repeated_rows(rows: tf.Tensor, values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Adds up the values of equal rows, keeping the static length that XLA needs.

    Args:
        rows: int `[N]`.
        values: float `[N, d]`.

    Returns:
        rows `[N]` and values `[N, d]` in which equal rows carry equal values, their sum, so that
        writing them in any order has one result.
    """
    order = tf.argsort(rows)
    ordered = tf.gather(rows, order)
    first = tf.concat([[0], tf.cast(ordered[1:] != ordered[:-1], tf.int32)], axis=0)
    group = tf.cumsum(first)
    sums = tf.math.unsorted_segment_sum(tf.gather(values, order), group, tf.shape(rows)[0])
    return ordered, tf.gather(sums, group)
