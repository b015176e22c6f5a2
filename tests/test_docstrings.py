"""Public classes explain themselves: an example (which test_examples.py runs), their arguments."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import keras
import pytest

CLASSES: list[tuple[str, str]] = [
    *(
        ("glomo_tf", name)
        for name in (
            "GraphPredictor",
            "FeaturePredictor",
            "ContrastiveContext",
            "GenerativeContext",
            "GLoMo",
            "TextUnits",
        )
    ),
    *(("glomo_tf.layers", name) for name in importlib.import_module("glomo_tf.layers").__all__),
    ("glomo_tf.optimizers", "LazyAdamW"),
    ("glomo_tf.callbacks", "Throughput"),
]


def found(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize(("module", "name"), CLASSES)
def test_has_an_example(module: str, name: str) -> None:
    text = found(module, name).__doc__
    assert text
    assert "Example:" in text
    assert ">>> " in text


@pytest.mark.parametrize(("module", "name"), CLASSES)
def test_every_argument_is_described(module: str, name: str) -> None:
    cls = found(module, name)
    if not issubclass(cls, (keras.layers.Layer, keras.Model)):
        pytest.skip("described where it is made")
    text = inspect.getdoc(cls)
    for argument, parameter in inspect.signature(cls).parameters.items():
        if parameter.kind is not parameter.VAR_KEYWORD:
            assert f"    {argument}:" in text, f"{name} says nothing about {argument}"
    for argument in inspect.signature(cls.call).parameters:
        if argument not in ("self", "training", "directions", "table", "candidate_units"):
            assert f"    {argument}:" in text or "Objective" in str(cls.__mro__), argument


@pytest.mark.parametrize(("module", "name"), CLASSES)
def test_report_23_is_registered_under_a_name_that_stays(module: str, name: str) -> None:
    cls = found(module, name)
    if issubclass(cls, (keras.layers.Layer, keras.Model, keras.optimizers.Optimizer)):
        assert keras.saving.get_registered_object(f"glomo_tf>{name}") is cls
