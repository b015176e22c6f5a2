"""Prefix products and mixtures: order, both paths, and the rule that chooses between them."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from glomo_tf import affinity
from tests import reference


def make_graphs(rng: np.random.Generator, layers: int, heads: int, length: int) -> np.ndarray:
    """Graphs with rows that sum to 1, or to 0 for every third row."""
    graphs = rng.random((2, layers, heads, length, length)).astype("float32")
    graphs /= graphs.sum(axis=-1, keepdims=True)
    return graphs * (rng.random((2, layers, heads, length, 1)) < 0.7)


def make_weights(
    rng: np.random.Generator, conditional: bool, size: int, length: int, mixtures: int = 2
) -> np.ndarray:
    shape = (2, mixtures, length, size) if conditional else (mixtures, size)
    return reference.softmax(rng.normal(size=shape)).astype("float32")


def test_product_order_by_hand() -> None:
    """Layer 1 lets unit 1 take from 0, layer 2 lets 2 take from 1: together 2 takes from 0."""
    graphs = np.zeros((1, 2, 1, 3, 3), "float32")
    graphs[0, 0, 0, 1, 0] = 1
    graphs[0, 1, 0, 2, 1] = 1
    expected = np.zeros((1, 1, 1, 3, 3))
    expected[0, 0, 0, 2, 0] = 1
    np.testing.assert_array_equal(affinity.prefix_products(tf.constant(graphs)), expected)
    # Layer 1 comes first on the features too: the other order would give nothing.
    features = tf.constant([[[5.0], [0.0], [0.0]]])
    only_product = tf.constant([[0.0, 0.0, 1.0]])
    for path in ("dense", "chain"):
        got = affinity.mix(tf.constant(graphs), features, only_product, path=path)
        np.testing.assert_array_equal(got, [[[[0.0], [0.0], [5.0]]]])


@given(seed=st.integers(0, 10_000), layers=st.integers(1, 4))
def test_products_like_the_reference(seed: int, layers: int) -> None:
    graphs = make_graphs(np.random.default_rng(seed), layers, 2, 4)
    got = affinity.prefix_products(tf.constant(graphs))
    np.testing.assert_allclose(got, reference.products(graphs), atol=1e-6)
    assert (got.numpy().sum(-1) < 1 + 1e-5).all()


@pytest.mark.parametrize("products", [True, False])
@pytest.mark.parametrize("conditional", [True, False])
@given(seed=st.integers(0, 10_000))
def test_both_paths_like_the_reference(conditional: bool, products: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    layers, heads, length, width = (int(n) for n in rng.integers(1, [4, 3, 6, 8]))
    graphs = make_graphs(rng, layers, heads, length)
    features = rng.normal(size=(2, length, width)).astype("float32")
    size = affinity.mixture_size(layers, heads, products)
    assert size == (2 * layers - 1 if products else layers) * heads
    weights = make_weights(rng, conditional, size, length)
    expected = reference.mix(graphs, features, weights, products)
    for path in affinity.PATHS:
        got = affinity.mix(
            tf.constant(graphs),
            tf.constant(features),
            tf.constant(weights),
            products=products,
            path=path,
        )
        np.testing.assert_allclose(got, expected, atol=2e-6, err_msg=path)


@pytest.mark.parametrize("products", [True, False])
@pytest.mark.parametrize("conditional", [True, False])
def test_factors_and_dense_graphs_agree_in_values_and_gradients(
    conditional: bool, products: bool
) -> None:
    rng = np.random.default_rng(4)
    layers, heads, length, width = 3, 2, 5, 4
    factors = {
        "query": tf.constant(rng.normal(size=(2, layers, heads, length, 3)), tf.float32),
        "key": tf.constant(rng.normal(size=(2, layers, heads, length, 3)), tf.float32),
        "mask": tf.constant([[True] * 5, [False] * 5]),  # the second row is empty
        "direction": tf.ones([2, layers], tf.int32),
        "query_relu": tf.constant(rng.normal(size=(2, layers, heads, length)), tf.float32),
    }
    features = tf.constant(rng.normal(size=(2, length, width)), tf.float32)
    size = affinity.mixture_size(layers, heads, products)
    weights = tf.constant(make_weights(rng, conditional, size, length))
    watched = [factors["query"], factors["key"], factors["query_relu"], features, weights]
    results = {}
    for form in ("factors", "graph"):
        for path in ("dense", "chain"):
            with tf.GradientTape() as tape:
                tape.watch(watched)
                graphs = factors if form == "factors" else affinity.graph(factors)
                out = affinity.mix(graphs, features, weights, products=products, path=path)
                loss = tf.reduce_sum(tf.sin(out))
            results[form, path] = [out, *tape.gradient(loss, watched)]
    first = results["graph", "dense"]
    for values in results.values():
        for value, expected in zip(values, first, strict=True):
            assert np.isfinite(value).all()
            np.testing.assert_allclose(value, expected, rtol=1e-4, atol=2e-5)
    assert (first[0].numpy()[1] == 0).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_mixing_keeps_the_dtype_of_the_features(dtype: str) -> None:
    rng = np.random.default_rng(0)
    graphs, features = make_graphs(rng, 2, 2, 4), rng.normal(size=(2, 4, 6))
    weights = make_weights(rng, True, 6, 4)
    expected = reference.mix(graphs, features, weights, True)
    for path in affinity.PATHS:
        got = affinity.mix(
            tf.constant(graphs), tf.cast(features, dtype), tf.constant(weights), path=path
        )
        assert got.dtype == dtype
        np.testing.assert_allclose(tf.cast(got, tf.float32), expected, atol=0.05)


@given(
    length=st.integers(1, 200),
    width=st.integers(1, 600),
    layers=st.integers(1, 4),
    heads=st.integers(1, 8),
    mixtures=st.integers(1, 3),
    products=st.booleans(),
)
def test_cost_rule_against_counted_multiplications(
    length: int, width: int, layers: int, heads: int, mixtures: int, products: bool
) -> None:
    arguments = {
        "num_layers": layers,
        "num_heads": heads,
        "num_mixtures": mixtures,
        "products": products,
    }
    dense, chain = (
        reference.multiplications(length, width, layers, heads, mixtures, products, path)
        for path in ("dense", "chain")
    )
    assert affinity.dense_is_cheaper(length, width, **arguments) == (dense <= chain)
    assert bool(affinity.dense_is_cheaper(tf.constant(length), width, **arguments)) == (
        dense <= chain
    )


@pytest.mark.parametrize(("length", "width", "cheaper"), [(3, 64, "dense"), (40, 2, "chain")])
def test_auto_takes_the_cheaper_path(length: int, width: int, cheaper: str) -> None:
    """With a known length the graph of operations is that of the path alone."""
    rng = np.random.default_rng(0)
    graphs = tf.constant(make_graphs(rng, 3, 2, length))
    features = tf.constant(rng.normal(size=(2, length, width)), tf.float32)
    weights = tf.constant(make_weights(rng, False, 10, length))

    def operations(path: str) -> list[str]:
        traced = tf.function(lambda g, f: affinity.mix(g, f, weights, path=path))
        concrete = traced.get_concrete_function(graphs, features)
        return [operation.type for operation in concrete.graph.get_operations()]

    assert operations("auto") == operations(cheaper)
    assert operations("dense") != operations("chain")


def test_auto_with_unknown_length_traces_once() -> None:
    rng = np.random.default_rng(1)
    weights = tf.constant(make_weights(rng, False, 6, 1))

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 2, 2, None, None]),
            tf.TensorSpec([None, None, 16]),
        ]
    )
    def mixed(graphs: tf.Tensor, features: tf.Tensor) -> tf.Tensor:
        return affinity.mix(graphs, features, weights)

    lengths = (1, 4, 60)
    cheaper = {affinity_choice(n) for n in lengths}
    assert cheaper == {True, False}  # both branches run below
    for length in lengths:
        graphs = make_graphs(rng, 2, 2, length)
        features = rng.normal(size=(2, length, 16)).astype("float32")
        expected = affinity.mix(tf.constant(graphs), tf.constant(features), weights, path="dense")
        np.testing.assert_allclose(mixed(graphs, features), expected, atol=1e-5)
    assert mixed.experimental_get_tracing_count() == 1


def affinity_choice(length: int) -> bool:
    return bool(
        affinity.dense_is_cheaper(
            length, 16, num_layers=2, num_heads=2, num_mixtures=2, products=True
        )
    )


def test_errors_say_what_to_do() -> None:
    graphs, features = tf.zeros([1, 2, 2, 3, 3]), tf.zeros([1, 3, 4])
    with pytest.raises(ValueError, match="Expected weights for 6 graphs"):
        affinity.mix(graphs, features, tf.zeros([1, 4]))
    with pytest.raises(ValueError, match="Expected `path` to be one of auto, dense, chain"):
        affinity.mix(graphs, features, tf.zeros([1, 6]), path="blocked")
