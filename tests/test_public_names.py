"""The golden list of public names: a name or an argument may be added, none may go or change.

Written from the design, not from the code. `...` stands for an argument without a default or whose
default the design leaves open.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

PREDICTOR = {
    "vocabulary_size": ...,
    "width": 512,
    "num_layers": 3,
    "num_heads": 8,
    "head_dim": 256,
    "cnn_depth": 4,
    "kernel_size": 3,
    "sparsity": "query_relu",
    "direction": "both",
}
MIX = {
    "num_mixtures": 2,
    "conditional": True,
    "products": True,
    "fusion": "gate",
    "path": "auto",
}
NAMES: dict[str, dict[str, Any]] = {
    "glomo_tf.layers:AffinityLayer": {
        "num_heads": ...,
        "head_dim": ...,
        "sparsity": "query_relu",
        "causal": True,
    },
    "glomo_tf.layers:AffinityLayer.call": {
        "query_features": ...,
        "key_features": None,
        "mask": None,
    },
    "glomo_tf.layers:AffinityLayer.factors": {"query_features": ...},
    "glomo_tf.layers:GraphMixLayer": MIX,
    "glomo_tf.layers:GraphMixLayer.call": {"features": ..., "graphs": ..., "mask": None},
    "glomo_tf:GraphPredictor": PREDICTOR,
    "glomo_tf:GraphPredictor.factors": {"units": ...},
    "glomo_tf:GraphPredictor.from_preset": {},
    "glomo_tf:GraphPredictor.save_to_preset": {},
    "glomo_tf:FeaturePredictor": {"composition": "gru"},
    "glomo_tf:ContrastiveContext": {"context_length": 3, "temperature": ...},
    "glomo_tf:GenerativeContext": {"context_length": 3},
    "glomo_tf:GLoMo": {"graph_predictor": ..., "feature_predictor": ..., "objective": ...},
    "glomo_tf:GLoMo.compute_loss": {},
    "glomo_tf:GLoMo.train_step": {},
    "glomo_tf:GLoMo.test_step": {},
    "glomo_tf:TextUnits.from_corpus": {"lines": ..., "vocabulary_size": ...},
    "glomo_tf:TextUnits.load": {"path": ...},
    "glomo_tf.metrics:unlabeled_attachment": {"graph": ..., "heads": ...},
    "glomo_tf.metrics:exact_match": {},
    "glomo_tf.metrics:f1": {},
    "glomo_tf.metrics:graph_statistics": {},
    "glomo_tf.distribution:strategy": {"name": "auto"},
    "glomo_tf.tuning:GLoMoHyperModel": {},
    "glomo_tf.export:export": {
        "predictor": ...,
        "units": ...,
        "directory": ...,
        "version": None,
    },
}
# How many of the first arguments may be given without their names.
POSITIONAL = {
    "glomo_tf.layers:AffinityLayer": 2,
    "glomo_tf.layers:GraphMixLayer": 0,
    "glomo_tf:GraphPredictor": 1,
    "glomo_tf:FeaturePredictor": 0,
    "glomo_tf:ContrastiveContext": 0,
    "glomo_tf:GenerativeContext": 0,
    "glomo_tf:GLoMo": 3,
    "glomo_tf.export:export": 4,
}
CHOICES = {
    "sparsity": (
        "square",
        "relu",
        "layer_relu",
        "top_k",
        "query_relu",
        "softmax",
        "sparsemax",
        "relu_length",
    ),
    "fusion": ("none", "concat", "gate", "gru"),
    "path": ("auto", "dense", "chain"),
    "composition": ("gru", "residual"),
}


def found(name: str) -> Any:
    module, _, attribute = name.partition(":")
    item: Any = importlib.import_module(module)
    for part in attribute.split("."):
        item = getattr(item, part)
    return item


@pytest.mark.parametrize("name", NAMES)
def test_name_and_arguments(name: str) -> None:
    parameters = inspect.signature(found(name)).parameters
    for argument, default in NAMES[name].items():
        assert argument in parameters, f"{name} has lost its argument {argument}"
        if default is not ...:
            assert parameters[argument].default == default, f"{name}: default of {argument}"


@pytest.mark.parametrize("name", POSITIONAL)
def test_arguments_by_position(name: str) -> None:
    parameters = inspect.signature(found(name)).parameters.values()
    positional = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == list(NAMES[name])[: POSITIONAL[name]]


@pytest.mark.parametrize("sparsity", CHOICES["sparsity"])
def test_sparsity_modes(sparsity: str) -> None:
    assert found("glomo_tf.layers:AffinityLayer")(2, 4, sparsity=sparsity).sparsity == sparsity


@pytest.mark.parametrize("argument", ["fusion", "path"])
def test_choices_of_the_mix_layer(argument: str) -> None:
    for choice in CHOICES[argument]:
        layer = found("glomo_tf.layers:GraphMixLayer")(**{argument: choice})
        # Not by the attribute: `path` of a Keras layer is its place in the model.
        assert layer.get_config()[argument] == choice


def test_compositions() -> None:
    for choice in CHOICES["composition"]:
        assert found("glomo_tf:FeaturePredictor")(composition=choice).composition == choice


def test_commands() -> None:
    from glomo_tf.cli import COMMANDS

    names = "demo pretrain transfer evaluate export tune draw doctor"
    assert [command.__name__ for command in COMMANDS] == names.split()


def test_bases() -> None:
    """What users subclass or pass on: Keras models and layers, a hypermodel of keras-tuner."""
    keras = importlib.import_module("keras")
    assert issubclass(found("glomo_tf:GLoMo"), keras.Model)
    for name in ("AffinityLayer", "GraphMixLayer"):
        assert issubclass(found(f"glomo_tf.layers:{name}"), keras.layers.Layer)
    tuner = pytest.importorskip("keras_tuner", reason="the extra tune is not installed")
    assert issubclass(found("glomo_tf.tuning:GLoMoHyperModel"), tuner.HyperModel)
