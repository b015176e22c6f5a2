"""The transfer layer: its numbers, that it stays frozen, that it can be saved."""

from __future__ import annotations

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

import glomo_tf
from glomo_tf.layers import GraphMixLayer
from glomo_tf.transfer import CONTROLS, GraphFeatures, MessageMixLayer, graph_messages

UNITS = np.array([[3, 4, 5, 6], [7, 8, 0, 0]], "int32")
MASK = UNITS != 0


@pytest.fixture
def predictor() -> glomo_tf.GraphPredictor:
    return glomo_tf.GraphPredictor(
        5000, width=8, num_layers=2, num_heads=2, head_dim=4, cnn_depth=1, embedding_width=3
    )


@pytest.fixture
def features() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(2, 4, 5)).astype("float32")


def mixed(predictor, features, control, **arguments) -> np.ndarray:
    layer = GraphFeatures(
        predictor,
        control=control,
        fusion="none",
        num_mixtures=1,
        conditional=False,
        **arguments,
    )
    return np.asarray(layer(features, UNITS))


def test_learned_equals_the_mixture_of_the_predictors_graph(predictor, features) -> None:
    layer = GraphFeatures(predictor)
    result = layer(features, UNITS)
    mix = GraphMixLayer()
    graph = predictor(UNITS)
    mix(features, graph)
    mix.set_weights(layer.mix.get_weights())
    assert np.allclose(result, mix(features, graph), atol=1e-5)
    # And not of its transpose, nor of the graph one unit later.
    for wrong in (tf.transpose(graph, [0, 1, 2, 4, 3]), tf.roll(graph, 1, axis=3)):
        assert not np.allclose(result, mix(features, wrong), atol=1e-3)


def test_controls_by_hand(predictor, features) -> None:
    # Without conditions and at the start the mixture is a mean and the scale 1; the output holds
    # the forward result, then the backward one.
    real = MASK[..., None]
    twice = np.concatenate([features * real] * 2, -1)
    assert np.allclose(mixed(predictor, features, "identity"), twice, atol=1e-6)
    mean = np.where(real, (features * real).sum(1, keepdims=True) / [[[4]], [[2]]], 0)
    expected = np.concatenate([mean] * 2, -1)
    assert np.allclose(mixed(predictor, features, "uniform"), expected, atol=1e-6)
    before, after = np.zeros_like(features), np.zeros_like(features)
    before[:, 1:], after[:, :-1] = features[:, :-1], features[:, 1:]
    before[1, 2:], after[1, 1:] = 0, 0
    expected = np.concatenate([before, after], -1)
    assert np.allclose(mixed(predictor, features, "local"), expected, atol=1e-6)
    assert mixed(predictor, features, "none") is not None
    assert np.array_equal(mixed(predictor, features, "none"), features)


def test_random_differs_from_learned_and_depends_on_the_seed(predictor, features) -> None:
    learned = mixed(predictor, features, "learned")
    one, same, other = (mixed(predictor, features, "random", seed=s) for s in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.allclose(one, other)
    assert not np.allclose(one, learned)


def test_trained_parameters_are_equal_across_controls(predictor, features) -> None:
    counts = {}
    for control in CONTROLS:
        layer = GraphFeatures(predictor, control=control)
        layer(features, UNITS)
        counts[control] = sum(int(np.prod(w.shape)) for w in layer.trainable_weights)
    assert counts.pop("none") == 0
    # `local` has no products: 4 instead of 6 graphs, for 2 mixtures, 2 directions, 5 + 1 weights.
    assert counts.pop("local") == counts["learned"] - 2 * 2 * 2 * 6
    assert len(set(counts.values())) == 1


def test_explicit_mask_makes_units_padding(predictor, features) -> None:
    mask = np.array([[True, True, True, False], [True, True, False, False]])
    layer = GraphFeatures(predictor)
    short = np.where(mask, UNITS, 0)
    assert np.array_equal(layer(features, UNITS, mask=mask), layer(features, short))


def model_of(predictor, **arguments) -> keras.Model:
    units = keras.Input((None,), dtype="int32", name="units")
    hidden = keras.layers.Embedding(5000, 5, mask_zero=True)(units)
    hidden = GraphFeatures(predictor, **arguments)(hidden, units)
    hidden = keras.layers.GlobalAveragePooling1D()(hidden)
    return keras.Model(units, keras.layers.Dense(2)(hidden))


@pytest.mark.parametrize("unfreeze", [False, True])
def test_predictor_stays_frozen_in_fit(predictor, unfreeze: bool) -> None:
    assert predictor.normalization == "batch"
    model = model_of(predictor)
    before = [w.copy() for w in predictor.get_weights()]
    mixture = model.layers[2].mix.get_weights()[0].copy()
    if unfreeze:
        model.trainable = False
        model.trainable = True
    model.compile("sgd", "mse")
    model.fit(UNITS, np.ones((2, 2), "float32"), epochs=3, verbose=0)
    after = predictor.get_weights()
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    assert not np.array_equal(mixture, model.layers[2].mix.get_weights()[0])


def test_mask_passes_through_and_padding_does_not_matter(predictor) -> None:
    model = model_of(predictor)
    hidden = model.layers[2].output
    assert hidden._keras_mask is not None
    longer = np.concatenate([UNITS, np.zeros((2, 3), "int32")], 1)
    assert np.allclose(model(UNITS), model(longer), atol=1e-6)


def test_half_precision_keeps_ids(predictor, features) -> None:
    # 4099 is not a float16, nor is anything else near it.
    keras.config.set_dtype_policy("mixed_float16")
    layer = GraphFeatures(predictor, fusion="concat")
    units = np.array([[4097, 4099, 4098, 2049]], "int32")
    result = layer(features[:1].astype("float16"), units)
    assert result.dtype == tf.float16
    seen = layer.graphs(tf.constant(units))
    assert np.array_equal(seen["query"], predictor.factors(units)["query"])


def test_same_numbers_eager_compiled_and_symbolic(predictor, features) -> None:
    layer = GraphFeatures(predictor)
    eager = layer(features, UNITS)
    assert np.allclose(tf.function(layer)(features, UNITS), eager, atol=1e-6)
    units = keras.Input((None,), dtype="int64")
    symbolic = layer(keras.Input((None, 5)), units)
    assert symbolic.shape == (None, None, 10)


@pytest.mark.parametrize(
    ("shape", "units", "message"),
    [
        ((2, 3, 5), UNITS, "features of length 3 and units of length 4"),
        ((2, 4), UNITS, r"Expected features \[batch, length, width\]"),
        ((2, 4, 5), UNITS.astype("float32"), "Expected `units` to be integers.*float32"),
    ],
)
def test_errors(predictor, shape, units, message) -> None:
    with pytest.raises(ValueError, match=message):
        GraphFeatures(predictor)(np.ones(shape, "float32"), units)


def test_unknown_control(predictor) -> None:
    with pytest.raises(ValueError, match="Expected `control` to be one of"):
        GraphFeatures(predictor, control="lokal")


def test_config_is_complete(predictor) -> None:
    arguments = {
        "control": "local",
        "seed": 3,
        "num_mixtures": 1,
        "conditional": False,
        "products": False,
        "fusion": "gru",
        "path": "chain",
    }
    layer = GraphFeatures(predictor, **arguments)
    config = layer.get_config()
    assert set(inspect.signature(GraphFeatures).parameters) - {"kwargs"} <= set(config)
    again = GraphFeatures.from_config(config).get_config()
    assert {name: again[name] for name in arguments} == arguments
    assert again["predictor"]["config"] == config["predictor"]["config"]


@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("fusion", ["gate", "concat"])
@pytest.mark.parametrize("products", [False, True])
def test_mixing_kept_messages_equals_mixing_graphs(
    predictor, features, conditional, fusion, products
) -> None:
    arguments = {"conditional": conditional, "fusion": fusion}
    mix = GraphMixLayer(products=products, **arguments)
    graph = predictor(UNITS)
    mix(features, graph)
    mix.set_weights([np.random.default_rng(1).normal(size=w.shape) for w in mix.get_weights()])
    expected = mix(features, graph)
    for graphs in (graph, predictor.factors(UNITS)):
        messages = graph_messages(
            graphs, tf.constant(features), num_directions=2, products=products
        )
        layer = MessageMixLayer(**arguments)
        layer(features, messages)
        layer.set_weights(mix.get_weights())
        assert np.allclose(layer(features, messages), expected, atol=1e-4)
