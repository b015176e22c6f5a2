"""GraphMixLayer: every fusion against the formulas, both forms of a graph, masks, errors."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from glomo_tf import GraphPredictor
from glomo_tf.layers import AffinityLayer, GraphMixLayer
from tests import reference

LAYERS, HEADS, LENGTH, WIDTH = 4, 2, 5, 6


def make_inputs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    graph = rng.random((2, LAYERS, HEADS, LENGTH, LENGTH)).astype("float32")
    return rng.normal(size=(2, LENGTH, WIDTH)).astype("float32"), graph / graph.sum(-1)[..., None]


def random_weights(layer: keras.layers.Layer) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(6)
    for v in layer.weights:
        v.assign(v + tf.constant(rng.normal(0, 0.3, v.shape), tf.float32))
    return {"/".join(v.path.split("/")[1:]): v.numpy() for v in layer.weights}


def mixed_by_hand(
    w: dict[str, np.ndarray],
    features: np.ndarray,
    graph: np.ndarray,
    *,
    conditional: bool,
    products: bool,
    mixtures: int,
    directions: int = 2,
) -> np.ndarray:
    """S, all results side by side: by direction, then by mixture."""
    per_direction = LAYERS // directions
    size = (2 * per_direction - 1 if products else per_direction) * HEADS
    results = []
    for direction in range(directions):
        part = graph[:, direction * per_direction : (direction + 1) * per_direction]
        if conditional:
            logits = features @ w["mixture/kernel"] + w["mixture/bias"]
            logits = logits.reshape(2, LENGTH, directions, mixtures, size)[:, :, direction]
            weights = reference.softmax(logits).transpose(0, 2, 1, 3)
        else:
            weights = reference.softmax(w["mixture_logits"][direction])
        mixed = reference.mix(part, features, weights, products)
        results += [mixed[:, n] * w["scale"][direction, n] for n in range(mixtures)]
    return np.concatenate(results, axis=-1)


@pytest.mark.parametrize("path", ["auto", "dense", "chain"])
@pytest.mark.parametrize("products", [True, False])
@pytest.mark.parametrize("conditional", [True, False])
def test_mixtures_like_the_formulas(conditional: bool, products: bool, path: str) -> None:
    features, graph = make_inputs()
    setting = {"conditional": conditional, "products": products}
    layer = GraphMixLayer(num_mixtures=3, fusion="none", path=path, **setting)
    layer(features, graph)
    expected = mixed_by_hand(random_weights(layer), features, graph, mixtures=3, **setting)
    got = layer(features, graph)
    assert got.shape == (2, LENGTH, 3 * 2 * WIDTH)
    np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("fusion", ["concat", "gate", "gru"])
def test_fusions_like_the_formulas(fusion: str) -> None:
    features, graph = make_inputs()
    layer = GraphMixLayer(fusion=fusion)
    layer(features, graph)
    w = random_weights(layer)
    s = mixed_by_hand(w, features, graph, conditional=True, products=True, mixtures=2)
    joined = np.concatenate([features, s], axis=-1)
    if fusion == "concat":
        expected = joined
    elif fusion == "gate":
        value = joined @ w["gate_value/kernel"] + w["gate_value/bias"]
        gate = reference.sigmoid(joined @ w["gate/kernel"] + w["gate/bias"])
        expected = np.concatenate([features, value * gate], axis=-1)
        assert expected.shape[-1] == 2 * WIDTH
    else:
        names = ("kernel", "recurrent_kernel", "bias", "recurrent_bias")
        kernel, recurrent, bias, recurrent_bias = (w[f"cell/{name}"][0] for name in names)
        expected = reference.gru(features, s, kernel, recurrent, bias, recurrent_bias)
    got = layer(features, graph)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, atol=1e-5)


def test_starts_as_the_mean_of_all_graphs() -> None:
    """Free mixtures start uniform and scales at 1."""
    features, graph = make_inputs()
    layer = GraphMixLayer(conditional=False, products=False, fusion="none", num_mixtures=1)
    mean = graph.reshape(2, 2, -1, LENGTH, LENGTH).mean(axis=2)
    expected = np.concatenate([mean[:, 0] @ features, mean[:, 1] @ features], axis=-1)
    np.testing.assert_allclose(layer(features, graph), expected, atol=1e-6)


@pytest.mark.parametrize(("directions", "width"), [(None, 2 * 2), (1, 2), (4, 2 * 4)])
def test_number_of_directions(directions: int | None, width: int) -> None:
    features, graph = make_inputs()
    layer = GraphMixLayer(fusion="none", num_directions=directions)
    assert layer(features, graph).shape[-1] == width * WIDTH
    one = GraphMixLayer(fusion="none")(features, graph[:, :3])  # odd: one direction
    assert one.shape[-1] == 2 * WIDTH


def test_graphs_of_a_single_affinity_layer() -> None:
    features, _ = make_inputs()
    affinity = AffinityLayer(2, 3)
    layer = GraphMixLayer(fusion="none", path="dense")
    dense = layer(features, affinity(features))
    np.testing.assert_allclose(layer(features, affinity.factors(features)), dense, atol=1e-6)


@pytest.mark.parametrize("path", ["dense", "chain"])
@pytest.mark.parametrize("fusion", ["none", "gate", "concat", "gru"])
def test_factors_instead_of_graphs(fusion: str, path: str) -> None:
    predictor = GraphPredictor(20, width=8, num_layers=2, num_heads=2, head_dim=4, cnn_depth=1)
    units = np.array([[3, 4, 5, 6, 7], [8, 9, 0, 0, 0]])
    features, _ = make_inputs()
    layer = GraphMixLayer(fusion=fusion, path=path)
    dense = layer(features, predictor(units))
    factors = predictor.factors(units)
    np.testing.assert_allclose(layer(features, factors), dense, atol=1e-5)
    symbols = keras.Input([None], dtype="int32"), keras.Input([None, WIDTH])
    model = keras.Model(symbols, layer(symbols[1], predictor(symbols[0], return_factors=True)))
    np.testing.assert_allclose(model([units, features]), dense, atol=1e-5)


def test_report_6_the_mask_of_the_features_is_passed_on() -> None:
    units = np.array([[3, 5, 0]])
    embedding = keras.layers.Embedding(9, WIDTH, mask_zero=True)
    _, graph = make_inputs()
    layer = GraphMixLayer()
    out = layer(embedding(units), graph[:1, :, :, :3, :3])
    assert out._keras_mask.numpy().tolist() == [[True, True, False]]
    inputs = keras.Input([None], dtype="int32")
    graphs = keras.Input([LAYERS, HEADS, None, None])
    symbol = layer(embedding(inputs), graphs)
    pooled = keras.layers.GlobalAveragePooling1D()(symbol)
    model = keras.Model([inputs, graphs], [symbol, pooled])
    out, mean = model([units, graph[:1, :, :, :3, :3]])
    np.testing.assert_allclose(mean[0], out[0, :2].numpy().mean(0), atol=1e-6)


def test_padding_reaches_no_valid_output() -> None:
    """Features at padding may be anything: graphs are 0 there."""
    features, _ = make_inputs()
    mask = np.arange(LENGTH) < np.array([[3], [5]])
    graph = AffinityLayer(HEADS, 4)(features, mask=mask)
    other = np.where(mask[..., None], features, 1e3).astype("float32")
    for path in ("dense", "chain"):
        layer = GraphMixLayer(path=path)
        one, two = layer(features, graph), layer(other, graph)
        np.testing.assert_array_equal(one[mask], two[mask])


def test_under_mixed_precision_in_a_process_of_float32() -> None:
    features, graph = make_inputs()
    for fusion in ("gate", "gru"):
        layer = GraphMixLayer(fusion=fusion, dtype="mixed_float16")
        assert layer(features, graph).dtype == tf.float16


@pytest.mark.parametrize(
    ("setting", "features", "graphs", "message"),
    [
        ({}, (2, 5, 6), (2, 4, 2, 4, 4), "graphs over 4 units for features over 5 units"),
        ({"num_directions": 3}, (2, 5, 6), (2, 4, 2, 5, 5), "divisible by num_directions=3"),
        ({}, (2, 5, 6), (5, 5), r"Received the shape: \(5, 5\)"),
        ({}, (2, 6), (2, 4, 2, 5, 5), r"\[batch, length, width\]. Received: \(2, 6\)"),
    ],
)
def test_errors_of_shapes(
    setting: dict[str, Any], features: Any, graphs: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        GraphMixLayer(**setting)(np.zeros(features, "float32"), np.zeros(graphs, "float32"))


def test_errors_of_arguments() -> None:
    with pytest.raises(ValueError, match="Expected `fusion` to be one of none, concat, gate, gru"):
        GraphMixLayer(fusion="sum")
    with pytest.raises(ValueError, match="Expected `path` to be one of"):
        GraphMixLayer(path="sparse")
    with pytest.raises(ValueError, match="Expected `num_mixtures`"):
        GraphMixLayer(num_mixtures=0)
