"""A subclassed model of the user's with graphs put behind one of its layers."""

from __future__ import annotations

import difflib
from typing import Any

import keras
import tensorflow as tf

from glomo_tf.transfer.graph_features import GraphFeatures
from glomo_tf.transfer.layer_with_graphs import LayerWithGraphs


@keras.saving.register_keras_serializable(package="glomo_tf")
class ModelWithGraphs(keras.Model):
    """Calls a subclassed model, one layer of which has graphs behind it.

    The layer is an attribute of the model and is replaced there by a `LayerWithGraphs`, so the
    model's `call` needs no change. It must not be built, because the layers behind meet wider
    features.

    Args:
        model: The subclassed model, not built yet. To save the result, it has to be registered
            and to have a `get_config`, as for saving it alone.
        graph_features: The `GraphFeatures` to put behind the layer.
        after: Name of the layer, or of the attribute that holds it.
        units: Name of the entry of the input (a dict) that holds the units; None where the
            layer's own input is the units.
        **kwargs: Of `keras.Model`.

    Call arguments:
        inputs: As of the model; with `units`, a dict, passed on to the model as it is.
        training: Passed on.

    Returns:
        What the model returns.

    Raises:
        ValueError: The model is built, or has no such layer (near matches are named), or its
            input has no such entry.
    """

    def __init__(
        self,
        model: Any,
        graph_features: GraphFeatures,
        *,
        after: str = "embedding",
        units: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if model.built:
            raise ValueError(
                "Expected a subclassed model that is not built yet, because the layers behind "
                "the graphs meet wider features. Received: a built one. Attach graphs before the "
                "first call."
            )
        attribute, layer = _sublayer(model, after)
        self._wrapped = LayerWithGraphs(layer, graph_features, name=f"{layer.name}_with_graphs")
        delattr(model, attribute)
        setattr(model, attribute, self._wrapped)
        self.model = model
        self.graph_features = graph_features
        self.after = after
        self.units = units

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        if self.units is not None:
            if not isinstance(inputs, dict) or self.units not in inputs:
                found = sorted(inputs) if isinstance(inputs, dict) else type(inputs).__name__
                raise ValueError(
                    f"Expected the input to be a dict with an entry {self.units!r} (the units). "
                    f"Received: {found}."
                )
            # Keras builds a loaded model on placeholders that are floats.
            self._wrapped.with_units(tf.cast(inputs[self.units], tf.int32))
        try:
            return self.model(inputs, training=training)
        finally:
            self._wrapped.with_units(None)

    def get_config(self) -> dict[str, Any]:
        model = dict(keras.saving.serialize_keras_object(self.model))
        # It must come back unbuilt, as it was given; this model builds it on loading.
        model.pop("build_config", None)
        return {
            **super().get_config(),
            "model": model,
            "graph_features": keras.saving.serialize_keras_object(self.graph_features),
            "after": self.after,
            "units": self.units,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> ModelWithGraphs:
        """Makes the user's model from its own configuration and attaches the graphs again."""
        config = dict(config)
        for name in ("model", "graph_features"):
            config[name] = keras.saving.deserialize_keras_object(
                config[name], custom_objects=custom_objects
            )
        return cls(**config)


def _sublayer(model: Any, after: str) -> tuple[str, Any]:
    """The attribute that holds a layer, by the layer's name or the attribute's."""
    layers = {
        name: value
        for name, value in vars(model).items()
        if isinstance(value, keras.layers.Layer) and not name.startswith("__")
    }
    for attribute, layer in layers.items():
        if after in (attribute, layer.name):
            return attribute, layer
    raise unknown_layer(after, [*layers, *(layer.name for layer in layers.values())])


def unknown_layer(after: str, names: list[str]) -> ValueError:
    """The error for a layer that a model does not have."""
    names = sorted(set(names))
    near = difflib.get_close_matches(after, names, n=3)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(names)}."
    return ValueError(f"Expected `after` to name a layer of the model. Received: {after!r}. {hint}")
