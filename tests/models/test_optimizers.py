"""LazyAdamW beside a numpy Adam, dense and by rows."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from glomo_tf.optimizers import LazyAdamW, clip_by_global_norm, sum_repeated_rows
from tests import reference

# Rows of each step; some are repeated, 3 and 6 are never touched.
STEPS = [[1, 4, 1], [0, 5, 5], [1, 2, 0], [4, 4, 4]]


def gradients() -> list[tf.IndexedSlices]:
    rng = np.random.default_rng(2)
    return [
        tf.IndexedSlices(
            tf.constant(rng.normal(size=(3, 2)), tf.float32), tf.constant(rows), tf.constant([7, 2])
        )
        for rows in STEPS
    ]


def start() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(7, 2)).astype("float32")


def summed(gradient: tf.IndexedSlices) -> np.ndarray:
    out = np.zeros((7, 2))
    for row, value in zip(gradient.indices.numpy(), gradient.values.numpy(), strict=True):
        out[row] += value
    return out


@pytest.mark.parametrize("mode", ["eager", "traced", "compiled"])
def test_several_steps_like_numpy(mode: str) -> None:
    """Only touched rows move, by Adam with the sum of repeated rows and the global step."""
    table = keras.Variable(start())
    optimizer = LazyAdamW(0.1, weight_decay=0.0)
    optimizer.build([table])

    def apply(values: tf.Tensor, rows: tf.Tensor) -> None:
        optimizer.apply([tf.IndexedSlices(values, rows, tf.constant([7, 2]))], [table])

    step = {
        "eager": apply,
        "traced": tf.function(apply),
        "compiled": tf.function(apply, jit_compile=True),
    }[mode]
    adam, expected = reference.Adam(0.1), start()
    for gradient, rows in zip(gradients(), STEPS, strict=True):
        step(gradient.values, gradient.indices)
        expected = adam.apply(expected, summed(gradient), rows)
        np.testing.assert_allclose(table, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(table.numpy()[[3, 6]], start()[[3, 6]])


def test_first_step_is_that_of_dense_adam_on_touched_rows() -> None:
    gradient = gradients()[0]
    tables = []
    for optimizer in (LazyAdamW(0.1, weight_decay=0.0), keras.optimizers.Adam(0.1)):
        table = keras.Variable(start())
        # Keras' own sparse step takes repeated rows one by one, so it is given the dense gradient.
        lazy = isinstance(optimizer, LazyAdamW)
        optimizer.apply([gradient if lazy else tf.convert_to_tensor(gradient)], [table])
        tables.append(table.numpy())
    np.testing.assert_allclose(tables[0], tables[1], rtol=1e-6)
    assert (tables[0][[0, 2, 3, 5, 6]] == start()[[0, 2, 3, 5, 6]]).all()
    assert (tables[0][[1, 4]] != start()[[1, 4]]).all()


def test_dense_gradients_as_in_adamw() -> None:
    rng = np.random.default_rng(0)
    lazy, plain = keras.Variable(start()), keras.Variable(start())
    one, two = LazyAdamW(0.1, weight_decay=0.01), keras.optimizers.AdamW(0.1, weight_decay=0.01)
    adam, expected = reference.Adam(0.1, weight_decay=0.01), start()
    for _ in range(4):
        gradient = rng.normal(size=(7, 2)).astype("float32")
        one.apply([tf.constant(gradient)], [lazy])
        two.apply([tf.constant(gradient)], [plain])
        expected = adam.apply(expected, gradient)
    np.testing.assert_array_equal(lazy, plain)
    np.testing.assert_allclose(lazy, expected, atol=1e-5)


def test_decay_spares_excluded_tables() -> None:
    table = keras.Variable(start(), name="embeddings")
    kernel = keras.Variable(start(), name="kernel")
    optimizer = LazyAdamW(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["embeddings"])
    optimizer.apply([gradients()[0], tf.zeros([7, 2])], [table, kernel])
    np.testing.assert_array_equal(table.numpy()[3], start()[3])
    np.testing.assert_allclose(kernel, start() * (1 - 0.1 * 0.5), rtol=1e-5)


def test_with_a_schedule_clipping_and_loss_scaling() -> None:
    """What a training run puts around it keeps sparse gradients by rows."""
    inner = LazyAdamW(
        keras.optimizers.schedules.CosineDecay(0.1, 10), weight_decay=0.0, global_clipnorm=1.0
    )
    optimizer = keras.optimizers.LossScaleOptimizer(inner, initial_scale=8.0)
    table = keras.Variable(start())
    optimizer.build([table])
    adam, expected = reference.Adam(0.1), start()
    for number, (gradient, rows) in enumerate(zip(gradients(), STEPS, strict=True)):
        scaled = tf.IndexedSlices(gradient.values * 8, gradient.indices, gradient.dense_shape)
        optimizer.apply([scaled], [table])
        adam.rate = 0.1 * (1 + np.cos(np.pi * number / 10)) / 2
        norm = np.sqrt((summed(gradient) ** 2).sum())  # of the sums of repeated rows
        assert norm > 1
        expected = adam.apply(expected, summed(gradient) / norm, rows)
        np.testing.assert_allclose(table, expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(table.numpy()[[3, 6]], start()[[3, 6]])


def test_clipping_by_hand() -> None:
    """Rows 3 + 3 and 8 have norm 10 together with nothing else; the kernel adds 0, then 24."""
    table = tf.IndexedSlices(
        tf.constant([[3.0], [8.0], [3.0]]), tf.constant([1, 0, 1]), tf.constant([4, 1])
    )
    got = clip_by_global_norm([table, None], 5.0)
    assert got[1] is None
    assert isinstance(got[0], tf.IndexedSlices)
    np.testing.assert_allclose(tf.convert_to_tensor(got[0])[:, 0], [4, 3, 0, 0], rtol=1e-6)
    got = clip_by_global_norm([table, tf.constant([[24.0]])], 13.0)
    np.testing.assert_allclose(got[1], [[12]], rtol=1e-6)
    np.testing.assert_allclose(tf.convert_to_tensor(got[0])[:, 0], [4, 3, 0, 0], rtol=1e-6)
    got = clip_by_global_norm([table, tf.constant([[24.0]])], 100.0)
    np.testing.assert_allclose(got[1], [[24]])


def test_repeated_rows_carry_their_sum() -> None:
    rows, values = sum_repeated_rows(
        tf.constant([4, 1, 4, 4]), tf.constant([[1.0], [2.0], [3.0], [5.0]])
    )
    np.testing.assert_array_equal(rows, [1, 4, 4, 4])
    np.testing.assert_array_equal(values, [[2], [9], [9], [9]])


def test_config() -> None:
    optimizer = LazyAdamW(0.3, weight_decay=0.2, beta_1=0.5, global_clipnorm=2.0)
    assert optimizer.get_config()["global_clipnorm"] == 2.0
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(optimizer))
    assert isinstance(again, LazyAdamW)
    assert again.get_config() == optimizer.get_config()
    with pytest.raises(ValueError, match="Only one of"):
        LazyAdamW(0.1, clipnorm=1.0, global_clipnorm=1.0)
