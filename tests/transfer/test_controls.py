"""Control graphs by hand."""

from __future__ import annotations

import random

import numpy as np
import pytest
import tensorflow as tf

import glomo_tf
from glomo_tf.transfer import CONTROLS, control_graph, controls, untrained

UNITS = np.array([[3, 4, 5, 6], [7, 8, 0, 0], [0, 0, 0, 0]], "int32")


def small(**arguments: object) -> glomo_tf.GraphPredictor:
    predictor = glomo_tf.GraphPredictor(
        20, width=8, num_layers=2, num_heads=2, head_dim=4, cnn_depth=1, **arguments
    )
    predictor.build((None, None))
    return predictor


def test_uniform_is_the_mean_over_the_true_length() -> None:
    graph = controls.uniform_graph(tf.constant(UNITS != 0)).numpy()
    assert np.array_equal(graph[0], np.full((4, 4), 0.25))
    expected = np.zeros((4, 4))
    expected[:2, :2] = 0.5
    assert np.array_equal(graph[1], expected)
    assert not graph[2].any()


def test_identity_takes_from_itself() -> None:
    graph = controls.identity_graph(tf.constant(UNITS != 0)).numpy()
    assert np.array_equal(graph[0], np.eye(4))
    assert np.array_equal(graph[1], np.diag([1.0, 1.0, 0.0, 0.0]))


def test_local_takes_from_the_unit_before_or_after() -> None:
    mask = tf.constant(UNITS != 0)
    forward = controls.local_graph(mask, 1).numpy()
    backward = controls.local_graph(mask, -1).numpy()
    # Receivers are rows: t takes from t-1 forward, from t+1 backward.
    assert np.argwhere(forward[0]).tolist() == [[1, 0], [2, 1], [3, 2]]
    assert np.argwhere(backward[0]).tolist() == [[0, 1], [1, 2], [2, 3]]
    assert np.argwhere(forward[1]).tolist() == [[1, 0]]
    assert np.argwhere(backward[1]).tolist() == [[0, 1]]


def test_shuffled_is_another_examples_graph_cut_and_normalised() -> None:
    graph = np.zeros((3, 1, 1, 4, 4), "float32")
    graph[0, 0, 0, 1] = [1, 0, 0, 0]
    graph[0, 0, 0, 2] = [0.2, 0.2, 0, 0.6]
    graph[1, 0, 0, 1] = [0.5, 0.5, 0, 0]
    mask = tf.constant([[True] * 4, [True, True, True, False], [True, True, False, False]])
    shuffled = controls.shuffled_graph(tf.constant(graph), mask).numpy()
    assert not shuffled[0].any()  # takes the empty graph of the last example
    assert shuffled[1, 0, 0, 1].tolist() == [1, 0, 0, 0]
    assert shuffled[1, 0, 0, 2] == pytest.approx([0.5, 0.5, 0, 0])  # 0.6 was at its padding
    assert shuffled[2, 0, 0, 1].tolist() == [0.5, 0.5, 0, 0]
    assert not shuffled[2, 0, 0, 2:].any()


def test_a_batch_of_one_has_no_other_example() -> None:
    graph = tf.ones((1, 1, 1, 2, 2)) / 2
    assert not controls.shuffled_graph(graph, tf.constant([[True, True]])).numpy().any()


def test_untrained_predictor_by_seed() -> None:
    predictor = small()
    before = [w.copy() for w in predictor.get_weights()]
    random.seed(7)
    expected = random.random()
    random.seed(7)
    one, same, other = (untrained(predictor, seed) for seed in (1, 1, 2))
    assert random.random() == expected  # nobody else's random numbers are touched
    graphs = [np.asarray(p(UNITS)) for p in (one, same, other, predictor)]
    assert np.array_equal(graphs[0], graphs[1])
    assert not np.allclose(graphs[0], graphs[2])
    assert not np.allclose(graphs[0], graphs[3])
    assert all(np.array_equal(a, b) for a, b in zip(before, predictor.get_weights(), strict=True))


def test_untrained_predictor_keeps_frozen_vectors() -> None:
    predictor = small(embedding_width=3, train_embeddings=False)
    vectors = np.random.default_rng(0).normal(size=(20, 3)).astype("float32")
    predictor.set_embeddings(vectors)
    fresh = untrained(predictor)
    assert np.array_equal(fresh.embedding.get_weights()[0], vectors)
    assert not np.allclose(
        np.asarray(fresh.projection.kernel), np.asarray(predictor.projection.kernel)
    )


@pytest.mark.parametrize("direction", ["both", "forward", "backward"])
def test_control_graphs_have_the_shape_of_the_learned_one(direction: str) -> None:
    predictor = small(direction=direction)
    learned = np.asarray(predictor(UNITS))
    for name in CONTROLS:
        if name == "none":
            continue
        graph = np.asarray(control_graph(name, UNITS, predictor))
        assert graph.shape == learned.shape
        assert graph.dtype == np.float32
        rows = graph.sum(-1)
        assert np.all((abs(rows - 1) < 1e-5) | (rows == 0)), name
        assert not graph[1, :, :, 2:].any(), name  # padding receives nothing
        assert not graph[1, :, :, :, 2:].any(), name  # and gives nothing
        assert not graph[2].any(), name


def test_learned_and_local_by_name() -> None:
    predictor = small()
    learned = control_graph("learned", UNITS, predictor)
    assert np.array_equal(learned, predictor(UNITS))
    local = np.asarray(control_graph("local", UNITS, predictor))
    assert np.array_equal(local[0, 0, 0], np.eye(4, k=-1))  # forward layers first
    assert np.array_equal(local[0, 1, 1], np.eye(4, k=-1))
    assert np.array_equal(local[0, 2, 0], np.eye(4, k=1))


def test_unknown_control() -> None:
    with pytest.raises(ValueError, match=r"one of learned, none, uniform.*Received: 'lokal'"):
        control_graph("lokal", UNITS, small())
    with pytest.raises(ValueError, match="Use the features as they are"):
        control_graph("none", UNITS, small())
