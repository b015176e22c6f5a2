"""FeaturePredictor: both compositions against the formulas, directions apart."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from glomo_tf import FeaturePredictor, GraphPredictor
from tests import reference

LAYERS = 3


def make_inputs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    graph = rng.random((2, 2 * LAYERS, 2, 5, 5)).astype("float32")
    return rng.normal(size=(2, 5, 6)).astype("float32"), graph / graph.sum(-1)[..., None]


def randomize(layer: keras.layers.Layer) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(6)
    for v in layer.trainable_weights:
        v.assign(v + tf.constant(rng.normal(0, 0.3, v.shape), tf.float32))
    return {"/".join(v.path.split("/")[1:]): v.numpy() for v in layer.weights}


@pytest.mark.parametrize(
    ("composition", "share", "cells"),
    [("gru", None, 1), ("gru", False, 3), ("residual", None, 3), ("residual", True, 1)],
)
def test_like_the_formulas(composition: str, share: bool | None, cells: int) -> None:
    embeddings, graph = make_inputs()
    layer = FeaturePredictor(composition=composition, share_layers=share)
    layer(embeddings, graph)
    w = randomize(layer)
    assert len({name.split("/")[0] for name in w if name.startswith("composition")}) == cells
    got = layer(embeddings, graph).numpy()
    assert got.shape == (2, 2, 5, 6)
    for direction in range(2):
        state = embeddings.astype("float64")
        for index in range(LAYERS):
            message = reference.mix_by_head(graph[:, direction * LAYERS + index], state)
            name = f"composition_{index if cells > 1 else 0}"
            if composition == "residual":
                state = state + message @ w[f"{name}/kernel"][direction]
            else:
                received = np.concatenate([message * state, message], axis=-1)
                parts = ("kernel", "recurrent_kernel", "bias", "recurrent_bias")
                state = reference.gru(
                    state, received, *(w[f"{name}/{part}"][direction] for part in parts)
                )
        np.testing.assert_allclose(got[direction], state, atol=1e-5)


@pytest.mark.parametrize("composition", ["gru", "residual"])
def test_features_know_their_context_only_through_the_graph(composition: str) -> None:
    """With a strictly causal graph a unit's features depend on it and on one side alone."""
    predictor = GraphPredictor(12, width=6, num_layers=2, num_heads=2, head_dim=4, cnn_depth=1)
    units = np.array([[3, 5, 2, 9, 4]])
    graph = predictor(units).numpy()
    embeddings = predictor.embed(units).numpy()
    layer = FeaturePredictor(composition=composition)
    one = layer(embeddings, graph).numpy()
    other = embeddings.copy()
    other[:, 2] += 1
    two = layer(other, graph).numpy()
    np.testing.assert_array_equal(one[0, :, :2], two[0, :, :2])
    np.testing.assert_array_equal(one[1, :, 3:], two[1, :, 3:])
    assert (one[:, :, 2] != two[:, :, 2]).any()
    empty = layer(embeddings, np.zeros_like(graph)).numpy()
    alone = layer(other, np.zeros_like(graph)).numpy()
    keep = [0, 1, 3, 4]
    np.testing.assert_array_equal(empty[:, :, keep], alone[:, :, keep])


def test_factors_instead_of_graphs_and_no_warning_about_masks() -> None:
    predictor = GraphPredictor(12, width=6, num_layers=2, num_heads=2, head_dim=4, cnn_depth=1)
    units = np.array([[3, 5, 2], [9, 0, 0]])
    embedding = keras.layers.Embedding(12, 6, mask_zero=True)
    layer = FeaturePredictor()
    dense = layer(embedding(units), predictor(units))
    np.testing.assert_allclose(layer(embedding(units), predictor.factors(units)), dense, atol=1e-6)


@pytest.mark.parametrize(
    ("setting", "graph", "directions"),
    [
        ({}, (2, 3, 2, 5, 5), 1),
        ({}, (2, 4, 2, 5, 5), 2),
        ({"num_directions": 1}, (2, 4, 2, 5, 5), 1),
    ],
)
def test_number_of_directions(setting: dict[str, Any], graph: Any, directions: int) -> None:
    embeddings, _ = make_inputs()
    out = FeaturePredictor(**setting)(embeddings, np.zeros(graph, "float32"))
    assert out.shape == (directions, 2, 5, 6)


def test_dropout_only_in_training() -> None:
    embeddings, graph = make_inputs()
    layer = FeaturePredictor(dropout=0.5)
    np.testing.assert_array_equal(layer(embeddings, graph), layer(embeddings, graph))
    dropped = layer(embeddings, graph, training=True).numpy()
    assert (dropped == 0).mean() > 0.2
    np.testing.assert_array_equal((dropped == 0).all(axis=2), (dropped == 0).any(axis=2))


@pytest.mark.parametrize(
    ("setting", "shape", "message"),
    [
        ({}, (2, 4, 4, 5, 5), "Received: 4 heads, width 6"),
        ({"num_directions": 2}, (2, 3, 2, 5, 5), "3 graph layers, 2 directions"),
    ],
)
def test_errors_of_shapes(setting: dict[str, Any], shape: Any, message: str) -> None:
    embeddings, _ = make_inputs()
    with pytest.raises(ValueError, match=message):
        FeaturePredictor(**setting)(embeddings, np.zeros(shape, "float32"))


def test_unknown_composition() -> None:
    with pytest.raises(ValueError, match=r"one of gru, residual. Received: 'lstm'"):
        FeaturePredictor(composition="lstm")
