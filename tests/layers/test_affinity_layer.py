"""AffinityLayer: its numbers, masks, and what it never looks at."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from glomo_tf import affinity
from glomo_tf.layers import AffinityLayer, MaskedPooling
from tests import reference

SCALED = ("softmax", "sparsemax", "relu_length")


def weights_of(layer: AffinityLayer) -> dict[str, np.ndarray]:
    return {"/".join(v.path.split("/")[1:]): v.numpy() for v in layer.weights}


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("mode", affinity.SPARSITIES)
def test_like_the_formulas(mode: str, causal: bool) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 3, 5, 6)).astype("float32")
    mask = np.arange(5) < np.array([[5], [3], [0]])
    layer = AffinityLayer(2, 4, sparsity=mode, causal=causal, initial_threshold=-0.5)
    got = layer(x, y, mask=mask)
    for v in layer.weights:
        v.assign(v + tf.constant(rng.normal(0, 0.2, v.shape), tf.float32))
    got = layer(x, y, mask=mask)
    w = weights_of(layer)
    query = (x @ w["query/kernel"] + w["query/bias"]).reshape(3, 5, 2, 4)
    key = (y @ w["key/kernel"] + w["key/bias"]).reshape(3, 5, 2, 4)
    scores = np.einsum("btkh,bskh->bkts", query, key)
    if mode in SCALED:
        scores = scores / 2  # √h
    parameter = np.zeros((3, 2, 5))
    length = mask.sum(-1)
    if mode == "query_relu":
        flat = query.reshape(3, 5, 8) @ w["threshold/kernel"] + w["threshold/bias"]
        parameter = np.transpose(flat, [0, 2, 1])
    elif mode == "layer_relu":
        parameter = np.full_like(parameter, w["threshold"])
    elif mode == "top_k":
        parameter[:] = np.array([reference.top_k(1.0, n) for n in length])[:, None, None]
    elif mode == "relu_length":
        parameter[:] = length[:, None, None]
    pairs = reference.allowed(mask, 1 if causal else 0)[:, None]
    expected = reference.normalize(scores, np.repeat(pairs, 2, axis=1), mode, parameter)
    np.testing.assert_allclose(got, expected, atol=2e-5)


def test_two_units_by_hand() -> None:
    """Keys are the features, queries are twice the features, the threshold is 1."""
    layer = AffinityLayer(1, 1, sparsity="layer_relu", causal=False, initial_threshold=1.0)
    x = np.array([[[1.0], [2.0]]], "float32")
    layer(x)
    layer.query_projection.set_weights([np.array([[2.0]]), np.zeros(1)])
    layer.key_projection.set_weights([np.array([[1.0]]), np.zeros(1)])
    # scores [[2, 4], [4, 8]] − 1, squared [[1, 9], [9, 49]]
    np.testing.assert_allclose(layer(x), [[[[1 / 10, 9 / 10], [9 / 58, 49 / 58]]]], rtol=1e-6)


def test_initial_threshold_and_scale() -> None:
    x = np.random.default_rng(0).normal(size=(2, 20, 6)).astype("float32")
    shares = []
    for threshold in (-5.0, 0.0, 5.0):
        keras.utils.set_random_seed(3)
        graph = AffinityLayer(2, 4, initial_threshold=threshold)(x).numpy()
        shares.append((graph == 0).mean())
    assert shares[0] < shares[1] < shares[2]
    keras.utils.set_random_seed(3)
    once = AffinityLayer(2, 4, sparsity="softmax", score_scale=0.5)(x)
    keras.utils.set_random_seed(3)
    np.testing.assert_allclose(AffinityLayer(2, 4, sparsity="softmax")(x), once, atol=1e-6)
    keras.utils.set_random_seed(3)
    again = AffinityLayer(2, 4, sparsity="softmax", score_scale=1.0)(x)
    assert np.abs(again - once).max() > 1e-3


@pytest.mark.parametrize("length", [1, 3, 4, 9, 15])
def test_top_k_counts_real_units_not_padding(length: int) -> None:
    """k = ⌊rate·√n⌋ of the real units n, whatever the batch is padded to."""
    x = np.random.default_rng(2).normal(size=(1, length, 6)).astype("float32")
    layer = AffinityLayer(2, 4, sparsity="top_k", top_k_rate=1.7, causal=False)
    mask = np.ones((1, length), bool)
    graph = layer(x, mask=mask).numpy()
    np.testing.assert_array_equal((graph > 0).sum(-1), reference.top_k(1.7, length))
    longer = layer(np.pad(x, [(0, 0), (0, 7), (0, 0)]), mask=np.pad(mask, [(0, 0), (0, 7)]))
    np.testing.assert_allclose(longer[..., :length, :length], graph, atol=1e-6)


@pytest.mark.parametrize("mode", affinity.SPARSITIES)
def test_report_9_a_row_of_padding_only(mode: str) -> None:
    x = np.random.default_rng(2).normal(size=(2, 4, 6)).astype("float32")
    layer = AffinityLayer(2, 4, sparsity=mode)
    mask = tf.constant([[True] * 4, [False] * 4])
    with tf.GradientTape() as tape:
        graph = layer(x, mask=mask)
        loss = tf.reduce_sum(tf.sin(graph))
    assert (graph.numpy()[1] == 0).all()
    for gradient in tape.gradient(loss, layer.trainable_variables):
        assert np.isfinite(gradient).all()


def test_report_6_keras_masks_arrive() -> None:
    """Report 6: the mask of an Embedding arrives, eager and symbolic, with keys too."""
    embedding = keras.layers.Embedding(9, 6, mask_zero=True)
    units = np.array([[3, 5, 0], [2, 0, 0]])
    layer = AffinityLayer(2, 4)
    expected = layer(embedding(units).numpy(), mask=units != 0).numpy()
    assert (expected[0, :, 2] == 0).all()
    assert (expected[1] == 0).all()
    np.testing.assert_array_equal(layer(embedding(units)), expected)
    inputs = keras.Input([None], dtype="int32")
    model = keras.Model(inputs, layer(embedding(inputs)))
    np.testing.assert_array_equal(model(units), expected)
    x = embedding(units)
    np.testing.assert_array_equal(layer(x, x), expected)
    e = embedding(inputs)
    np.testing.assert_array_equal(keras.Model(inputs, layer(e, e))(units), expected)


def test_factors_are_those_of_the_graph() -> None:
    x = np.random.default_rng(2).normal(size=(2, 4, 6)).astype("float32")
    mask = np.array([[True] * 4, [True, True, False, False]])
    layer = AffinityLayer(2, 3)
    factors = layer.factors(x, mask=mask)
    assert {name: tuple(v.shape) for name, v in factors.items()} == {
        "query": (2, 2, 4, 3),
        "key": (2, 2, 4, 3),
        "mask": (2, 4),
        "direction": (2,),
        "query_relu": (2, 2, 4),
    }
    assert factors["mask"].dtype == tf.bool
    assert factors["direction"].dtype == tf.int32
    np.testing.assert_array_equal(affinity.graph(factors), layer(x, mask=mask))


def test_report_22_factors_of_symbolic_inputs() -> None:
    """Report 22: the flag for another output holds in a functional model and for a subclass."""

    class Named(AffinityLayer):
        pass

    x = np.random.default_rng(2).normal(size=(2, 4, 6)).astype("float32")
    for cls in (AffinityLayer, Named):
        layer = cls(2, 3)
        inputs = keras.Input((None, 6))
        factors = layer(inputs, return_factors=True)
        assert factors["query"].shape == (None, 2, None, 3)
        assert factors["mask"].dtype == "bool"
        graph = layer(inputs)
        assert graph.shape[1] == 2
        assert len(graph.shape) == 4
        model = keras.Model(inputs, {"graph": graph, **factors})
        outputs = model(x)
        np.testing.assert_array_equal(
            affinity.graph({k: v for k, v in outputs.items() if k != "graph"}), outputs["graph"]
        )


def test_report_47_ragged_input_says_what_to_do() -> None:
    ragged = tf.RaggedTensor.from_row_lengths(tf.zeros([3, 6]), [2, 1])
    for layer in (AffinityLayer(2, 4), MaskedPooling()):
        with pytest.raises(TypeError, match=r"RaggedTensor: call `.to_tensor\(\)`"):
            layer(ragged)


def test_errors_name_argument_value_and_remedy() -> None:
    with pytest.raises(ValueError, match=r"`num_heads` to be a number above 0. Received: 0"):
        AffinityLayer(0, 4)
    with pytest.raises(ValueError, match=r"Expected `sparsity` to be one of .* Received: 'dense'"):
        AffinityLayer(2, 4, sparsity="dense")
    with pytest.raises(ValueError, match=r"shape \[batch, length, width\]. Received: \(2, 6\)"):
        AffinityLayer(2, 4)(np.zeros((2, 6), "float32"))
