"""Checks of arguments that several layers share."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def check_positive(**arguments: Any) -> None:
    """Raises a `ValueError` for the first argument that is not above 0."""
    for name, value in arguments.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0:
            raise ValueError(f"Expected `{name}` to be a number above 0. Received: {value!r}.")


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> Any:
    """Returns the value, or raises a `ValueError` that lists the choices."""
    if value not in choices:
        raise ValueError(
            f"Expected `{name}` to be one of {', '.join(choices)}. Received: {value!r}."
        )
    return value


def check_fraction(**arguments: Any) -> None:
    """Raises a `ValueError` for the first argument outside [0, 1)."""
    for name, value in arguments.items():
        if not isinstance(value, (int, float)) or not 0 <= value < 1:
            raise ValueError(f"Expected `{name}` to be in [0, 1). Received: {value!r}.")


def check_features(features: Any, name: str) -> None:
    """Raises unless `features` is a dense tensor `[batch, length, width]`."""
    if isinstance(features, (tf.RaggedTensor, tf.SparseTensor)):
        raise TypeError(
            f"Expected `{name}` to be a dense tensor [batch, length, width]. Received a "
            f"{type(features).__name__}: call `.to_tensor()` on it and pass the mask."
        )
    if features.shape.rank != 3:
        raise ValueError(
            f"Expected `{name}` to have the shape [batch, length, width]. "
            f"Received: {tuple(features.shape)}."
        )
