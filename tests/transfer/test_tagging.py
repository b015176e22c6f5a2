"""Tagging trials on a made-up task whose answer stands at the token before."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import glomo_tf
from glomo_tf.transfer import GraphFeatures
from glomo_tf.transfer.tagging import TaggingTrials, compare, message_function, tagger
from glomo_tf.transfer.trials import Examples

LENGTH = 6


def previous_unit_task(number: int, seed: int) -> Examples:
    """Units 3..6; the label of a token is the unit before it, and the first token has none."""
    units = np.random.default_rng(seed).integers(3, 7, (number, LENGTH)).astype(np.int32)
    labels = np.full_like(units, -1)
    labels[:, 1:] = units[:, :-1] - 3
    return Examples({"units": units}, labels)


@pytest.fixture(scope="module")
def predictor():
    made = glomo_tf.GraphPredictor(
        7, width=8, num_layers=1, num_heads=1, head_dim=4, cnn_depth=1, normalization="layer"
    )
    made.build((None, None))
    return made


VECTORS = np.eye(7, 8, dtype=np.float32)


def test_context_comes_through_the_graph_alone(predictor) -> None:
    sets = {
        "train": previous_unit_task(120, 0),
        "development": previous_unit_task(20, 1),
        "test": previous_unit_task(60, 2),
    }
    found = list(
        compare(
            predictor, sets, VECTORS, 4, conditions=("none", "uniform", "local", "random"), seeds=2,
            labelled=60, steps=150, batch_size=20, learning_rate=2e-2,
        )
    )  # fmt: skip
    accuracy = {(c["name"], c["seed"]): c["metrics"]["accuracy"] for c in found}
    for seed in range(2):
        assert accuracy["none", seed] < 0.4  # 1 in 4 by chance
        assert accuracy["uniform", seed] < 0.6
        assert accuracy["local", seed] > 0.95
    assert accuracy["random", 0] != accuracy["random", 1]
    weights = {c["name"]: c["parameters"] for c in found}
    assert weights["uniform"] == weights["local"] == weights["random"] > weights["none"]


def test_accuracy_is_over_labelled_tokens_only() -> None:
    trials = TaggingTrials(tagger(VECTORS, 3, 2, messages=None), learning_rate=1e-3)
    logits = np.zeros((2, 3, 2), np.float32)
    logits[:, :, 1] = [[1, 1, -1], [-1, 1, 1]]  # finds 1 1 0 and 0 1 1
    trials._logits = lambda inputs: tf.constant(logits)
    labels = np.array([[1, 0, -1], [0, -1, -1]])
    examples = Examples({"units": np.ones((2, 3), np.int32)}, labels)
    assert trials.accuracy(examples, chunk=2) == pytest.approx(2 / 3)
    assert (
        trials.accuracy(examples.take(np.array([0])), chunk=2) == 0.5
    )  # the repeat is not counted


def test_tokens_without_a_label_teach_nothing() -> None:
    model = tagger(VECTORS, 3, 2, messages=None)
    trials = TaggingTrials(model, learning_rate=1e-2)
    trials.reset(0)
    units = np.array([[3, 5, 6]], np.int32)
    before = [v.numpy() for v in model.trainable_variables]
    trials._step({"units": units}, np.array([[-1, -1, -1]]))
    for old, variable in zip(before, model.trainable_variables, strict=True):
        np.testing.assert_array_equal(old, variable.numpy())
    trials._step({"units": units}, np.array([[-1, 1, -1]]))
    assert any(
        (old != v.numpy()).any() for old, v in zip(before, model.trainable_variables, strict=True)
    )


def test_messages_follow_the_weights_of_the_predictor(predictor) -> None:
    layer = GraphFeatures(predictor, control="random", products=False)
    add = message_function(layer, VECTORS, chunk=2)
    examples = previous_unit_task(3, 0)
    before = add(examples).inputs["messages"]
    assert before.dtype == np.float16
    assert before.shape[0] == 3
    layer.predictor.set_weights([-w for w in layer.predictor.get_weights()])
    assert not np.array_equal(add(examples).inputs["messages"], before)
