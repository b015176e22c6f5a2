"""The hypermodel builds what its hyperparameters say, and nothing that is fixed is tuned."""

from __future__ import annotations

import keras_tuner
import numpy as np
import pytest

from glomo_tf import tuning


def test_defaults_build_a_compiled_model():
    hp = keras_tuner.HyperParameters()
    counts = np.arange(20)
    model = tuning.GLoMoHyperModel(20, counts=counts).build(hp)
    assert model.built
    assert model.graph_predictor.vocabulary_size == 20
    assert model.graph_predictor.width == hp.get("width")
    np.testing.assert_allclose(
        model.objective.unit_probabilities.numpy(), counts / counts.sum(), rtol=1e-6
    )
    assert float(model.optimizer.learning_rate) == pytest.approx(hp.get("learning_rate"))


def test_fixed_arguments_leave_the_space():
    hp = keras_tuner.HyperParameters()
    fixed = {
        "graph_predictor": {"width": 16, "num_layers": 1, "num_heads": 2, "head_dim": 4},
        "feature_predictor": {"composition": "residual"},
        "objective": {"context_length": 2},
    }
    model = tuning.GLoMoHyperModel(20, objective="generative", fixed=fixed).build(hp)
    assert model.graph_predictor.width == 16
    assert model.feature_predictor.composition == "residual"
    assert model.objective.context_length == 2
    assert sorted(hp.values) == ["cnn_depth", "learning_rate", "normalization", "sparsity"]


def test_unknown_part_is_refused():
    with pytest.raises(ValueError, match="Received: predictor"):
        tuning.GLoMoHyperModel(20, fixed={"predictor": {}})


def test_directions_of_the_figures():
    directions = {name: goal.direction for name, goal in tuning.objectives().items()}
    assert directions["val_loss"] == "min"
    assert directions["val_forward_accuracy_1"] == "max"
