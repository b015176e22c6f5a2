"""Convolutions, normalisation, compositions, decoder, head, dropout and pooling."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from glomo_tf.layers import (
    CausalConvolution,
    ContextDecoder,
    ContextHead,
    GRUComposition,
    LockedDropout,
    MaskedPooling,
    NetworkNormalization,
    ResidualComposition,
)
from tests import reference


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


def randomize(layer: keras.layers.Layer) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(6)
    for v in layer.trainable_weights:
        v.assign(v + tf.constant(rng.normal(0, 0.3, v.shape), tf.float32))
    return {"/".join(v.path.split("/")[1:]): v.numpy() for v in layer.weights}


# --- causal convolution -------------------------------------------------------------------------

MASK = np.array([[True] * 7, [True] * 4 + [False] * 3, [False] * 2 + [True] * 5])


def test_convolution_like_the_formula() -> None:
    """Two networks at once are each what the formula says, with gaps before or after."""
    x = normal(2, 3, 7, 4)
    layer = CausalConvolution(5, 2, num_networks=2, normalization="none")
    mask = np.stack([MASK, MASK[::-1]])
    layer(x, mask=mask)
    w = randomize(layer)
    got = layer(x, mask=mask).numpy()
    for network in range(2):
        kernels = [w[f"kernel_{block}"][network].reshape(3, -1, 5) for block in range(2)]
        offsets = [w[f"normalization_{block}/offset"][network, 0, 0] for block in range(2)]
        expected = reference.causal_convolution(x[network], mask[network], kernels, offsets)
        np.testing.assert_allclose(got[network], expected, atol=1e-5)


@pytest.mark.parametrize("normalization", ["batch", "layer", "none"])
@pytest.mark.parametrize(("depth", "kernel"), [(1, 1), (2, 3), (3, 2)])
def test_convolution_sees_as_far_as_it_says(normalization: str, depth: int, kernel: int) -> None:
    x = normal(1, 12, 4)
    layer = CausalConvolution(6, depth, kernel_size=kernel, normalization=normalization)
    layer(x)
    randomize(layer)
    before = layer(x).numpy()
    place = 3
    other = x.copy()
    other[:, place] += 10
    changed = np.flatnonzero((layer(other).numpy() != before).any(axis=(0, 2)))
    reach = depth * (kernel - 1)
    assert changed.min() >= place
    assert changed.max() <= place + reach
    assert {place, place + reach} & set(changed)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("normalization", ["batch", "layer", "none"])
def test_report_8_nothing_leaks_from_padding(normalization: str, training: bool) -> None:
    """What stands at padding changes no bit, before or after the units, in training too."""
    x = normal(3, 7, 4)
    other = np.where(MASK[..., None], x, 1e3).astype("float32")
    layer = CausalConvolution(5, 3, normalization=normalization)
    layer(x, mask=MASK)
    start = layer.get_weights()
    one = layer(x, mask=MASK, training=training).numpy()
    layer.set_weights(start)
    two = layer(other, mask=MASK, training=training).numpy()
    np.testing.assert_array_equal(one, two)
    assert (one[~MASK] == 0).all()


def test_gap_before_the_first_unit_looks_like_the_edge() -> None:
    """A reversed padded sequence begins with its padding."""
    x = normal(1, 5, 4)
    layer = CausalConvolution(5, 3)
    gap = np.pad(x, [(0, 0), (3, 0), (0, 0)])
    mask = np.arange(8)[None] >= 3
    np.testing.assert_allclose(layer(gap, mask=mask)[:, 3:], layer(x), atol=1e-6)


def test_convolution_dropout_only_in_training() -> None:
    x = normal(1, 50, 4)
    layer = CausalConvolution(5, 1, dropout=0.5, normalization="none")
    still = layer(x).numpy()
    np.testing.assert_array_equal(layer(x).numpy(), still)
    dropped = layer(x, training=True).numpy()
    kept = (dropped != 0) & (still != 0)
    np.testing.assert_allclose(dropped[kept], 2 * still[kept], rtol=1e-6)
    assert 0.3 < kept.sum() / (still != 0).sum() < 0.7


def test_each_network_is_drawn_by_itself() -> None:
    layer = CausalConvolution(200, 1, num_networks=3, kernel_size=2)
    layer.build((3, None, None, 50))
    kernel = layer.weights[0].numpy()
    assert np.abs(kernel[0] - kernel[1]).max() > 0.01
    # He initialisation: variance 2 / (kernel size · channels), whatever the number of networks.
    np.testing.assert_allclose(kernel.std(axis=(1, 2)), np.sqrt(2 / 100), rtol=0.03)


# --- normalisation ------------------------------------------------------------------------------


def test_batch_statistics_leave_padding_out() -> None:
    x = np.array([[[[1.0], [3.0], [100.0]]]], "float32")
    mask = np.array([[[True, True, False]]])
    layer = NetworkNormalization("batch", momentum=0.9)
    got = layer(x, mask=mask, training=True).numpy()
    # mean 2, variance 1
    np.testing.assert_allclose(got[0, 0, :2, 0], np.array([-1, 1]) / np.sqrt(1.001), rtol=1e-6)
    np.testing.assert_allclose(layer.moving_mean[0, 0, 0], [0.1 * 2], rtol=1e-6)
    np.testing.assert_allclose(layer.moving_variance[0, 0, 0], [0.9 + 0.1], rtol=1e-6)
    inference = layer(x, mask=mask).numpy()[0, 0, :, 0]
    np.testing.assert_allclose(inference, (x[0, 0, :, 0] - 0.2) / np.sqrt(1.001), rtol=1e-5)


def test_networks_have_statistics_of_their_own() -> None:
    x = np.stack([normal(3, 4, 2), 5 + 2 * normal(3, 4, 2)])
    got = NetworkNormalization("batch", 2)(x, training=True).numpy()
    np.testing.assert_allclose(got[0], got[1], atol=1e-2)
    np.testing.assert_allclose(got.mean(axis=(1, 2)), 0, atol=1e-5)


def test_batch_normalisation_as_keras_has_it() -> None:
    x = normal(1, 4, 6, 3)
    ours, keras_ = NetworkNormalization("batch"), keras.layers.BatchNormalization()
    for training in (True, False):
        np.testing.assert_allclose(
            ours(x, training=training)[0], keras_(x[0], training=training), atol=1e-5
        )


def test_batch_of_padding_only_stays_finite() -> None:
    layer = NetworkNormalization("batch")
    got = layer(normal(1, 2, 3, 4), mask=np.zeros((1, 2, 3), bool), training=True)
    assert np.isfinite(got).all()
    assert all(np.isfinite(v.numpy()).all() for v in layer.weights)


# --- compositions, decoder, head ------------------------------------------------------------------


@pytest.mark.parametrize("multiplicative", [True, False])
def test_gru_like_the_formula(multiplicative: bool) -> None:
    h, x = normal(2, 3, 5, 4), 2 * normal(2, 3, 5, 4)
    layer = GRUComposition(2, multiplicative)
    layer(h, x)
    w = randomize(layer)
    got = layer(h, x)
    for s in range(2):
        received = np.concatenate([x[s] * h[s], x[s]], -1) if multiplicative else x[s]
        expected = reference.gru(
            h[s],
            received,
            w["kernel"][s],
            w["recurrent_kernel"][s],
            w["bias"][s],
            w["recurrent_bias"][s],
        )
        np.testing.assert_allclose(got[s], expected, atol=1e-5)


def test_gru_as_keras_has_it() -> None:
    h, x = normal(6, 4), normal(6, 3)
    layer, cell = GRUComposition(multiplicative=False), keras.layers.GRUCell(4)
    layer(h[None], x[None])
    w = randomize(layer)
    cell.build((None, 3))
    bias = np.zeros((2, 12))
    bias[0], bias[1, 8:] = w["bias"].ravel(), w["recurrent_bias"].ravel()
    cell.set_weights([w["kernel"][0], w["recurrent_kernel"][0], bias])
    np.testing.assert_allclose(layer(h[None], x[None])[0], cell(x, [h])[0], atol=1e-6)


def test_residual_like_the_formula() -> None:
    h, x = normal(2, 3, 5, 4), normal(2, 3, 5, 6)
    layer = ResidualComposition(2)
    got = layer(h, x)
    value = layer.weights[0].numpy()
    np.testing.assert_allclose(got, h + np.einsum("sbte,sed->sbtd", x, value), atol=1e-5)
    np.testing.assert_allclose(ResidualComposition(2, value_projection=False)(h, h), 2 * h)


@pytest.mark.parametrize("cls", [GRUComposition, ResidualComposition])
def test_widths_that_do_not_fit(cls: type) -> None:
    setting = {} if cls is GRUComposition else {"value_projection": False}
    with pytest.raises(ValueError, match="state width 4, message width 6"):
        cls(**setting)(normal(1, 5, 4), normal(1, 5, 6))


def test_number_of_networks_that_does_not_fit() -> None:
    for layer in (ContextHead(2, 3, num_networks=2), CausalConvolution(3, num_networks=2)):
        with pytest.raises(ValueError, match=r"\[2, batch, length, width\]. Received: \(3, 4, 5\)"):
            layer(normal(3, 4, 5))


@pytest.mark.parametrize("offsets", [1, 3])
def test_decoder_like_the_formula(offsets: int) -> None:
    """Both layers start from the features; step 1 reads zeros, step δ the unit at δ − 1."""
    features, known = normal(2, 3, 4, 5), normal(2, 3, 4, offsets - 1, 6)
    layer = ContextDecoder(2, 2)
    layer(features, known)
    w = randomize(layer)
    got = layer(features, known).numpy()
    assert got.shape == (2, 3, 4, offsets, 5)
    names = ("kernel", "recurrent_kernel", "bias", "recurrent_bias")
    for s in range(2):
        states = [features[s], features[s]]
        for offset in range(offsets):
            x = known[s, ..., offset - 1, :] if offset else np.zeros((3, 4, 6))
            for level in range(2):
                states[level] = x = reference.gru(
                    states[level], x, *(w[f"cell_{level}/{name}"][s] for name in names)
                )
            np.testing.assert_allclose(got[s, ..., offset, :], x, atol=1e-5)


def test_head_like_the_formula() -> None:
    x = normal(2, 3, 5, 4)
    layer = ContextHead(3, 6, num_networks=2)
    layer(x)
    w = randomize(layer)
    kernel, bias = w["kernel"].reshape(2, 4, 3, 6), w["bias"].reshape(2, 1, 1, 3, 6)
    np.testing.assert_allclose(layer(x), np.einsum("sbtd,sdoe->sbtoe", x, kernel) + bias, atol=1e-5)


# --- dropout and pooling ------------------------------------------------------------------------


def test_locked_dropout() -> None:
    x = np.ones((40, 5, 30), "float32")
    layer = LockedDropout(0.25, seed=1)
    np.testing.assert_array_equal(layer(x), x)
    out = layer(x, training=True).numpy()
    np.testing.assert_array_equal(out, np.repeat(out[:, :1], 5, axis=1))  # one mask a sequence
    values = np.unique(out)
    np.testing.assert_allclose(values, [0, 4 / 3], rtol=1e-6)
    assert 0.2 < (out == 0).mean() < 0.3
    assert len(np.unique(out[:, 0], axis=0)) == 40
    assert (layer(x, training=True).numpy() != out).any()
    np.testing.assert_array_equal(LockedDropout(0.25, seed=1)(x, training=True), out)
    with pytest.raises(ValueError, match=r"Expected `rate` to be in \[0, 1\). Received: 1"):
        LockedDropout(1.0)


def test_locked_dropout_compiled() -> None:
    layer = LockedDropout(0.5, seed=1)
    drop = tf.function(lambda x: layer(x, training=True), jit_compile=True)
    one, two = (drop(tf.ones([2, 3, 40])).numpy() for _ in range(2))
    assert (one != two).any()


@pytest.mark.parametrize("mode", ["mean", "max"])
def test_report_15_pooling_over_no_unit_at_all(mode: str) -> None:
    units = np.array([[0, 0, 0], [1, 2, 0]])
    embedding = keras.layers.Embedding(3, 2, mask_zero=True)
    embedding.build((None, None))
    embedding.set_weights([np.array([[9.0, 9.0], [1.0, -4.0], [3.0, -6.0]])])
    expected = {"mean": [[0, 0], [2, -5]], "max": [[0, 0], [3, -4]]}[mode]
    layer = MaskedPooling(mode)
    x = embedding(units)
    np.testing.assert_array_equal(layer(x), expected)
    symbol = keras.Input([None], dtype="int32")
    np.testing.assert_array_equal(keras.Model(symbol, layer(embedding(symbol)))(units), expected)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(embedding(units)) ** 2)
    gradient = tape.gradient(loss, embedding.trainable_variables[0].value)
    assert np.isfinite(tf.convert_to_tensor(gradient)).all()


def test_pooling_without_a_mask_takes_all() -> None:
    x = normal(2, 3, 4)
    np.testing.assert_allclose(MaskedPooling()(x), x.mean(axis=1), atol=1e-6)
    np.testing.assert_allclose(MaskedPooling("max")(x), x.max(axis=1))
