"""A layer of the user's with graphs put behind it, for models that call layers one by one."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from glomo_tf.transfer.graph_features import GraphFeatures


@keras.saving.register_keras_serializable(package="glomo_tf")
class LayerWithGraphs(keras.layers.Layer):
    """Calls a layer, then mixes its output along graphs of the units.

    Stands in the place of the layer in Sequential and subclassed models, whose other layers then
    need no change.

    Args:
        layer: The layer; its output is `[B, T, d]`.
        graph_features: The `GraphFeatures` to put behind it.
        **kwargs: Of `keras.layers.Layer`.

    Call arguments:
        inputs: The input of the layer; where no `units` are given, integers `[B, T]` that are
            the units at the same time.
        units: Integer `[B, T]`, 0 is padding.

    Returns:
        Float `[B, T, d_out]`.

    Raises:
        ValueError: No units are given and the input is not `[B, T]`.
    """

    def __init__(self, layer: Any, graph_features: GraphFeatures, **kwargs: Any) -> None:
        # Inputs are the layer's business; as units, ids must not be cast to a half precision.
        super().__init__(autocast=False, **kwargs)
        self.layer = layer
        self.graph_features = graph_features
        self.supports_masking = True
        self._given_units: Any = None

    def with_units(self, units: Any) -> None:
        """Gives the units of the calls that follow, None to end it.

        For a model around this layer, whose own call does not hand units down.
        """
        self._given_units = units

    def build(self, inputs_shape: Any, units_shape: Any = None) -> None:
        if not self.layer.built:
            self.layer.build(inputs_shape)
        features_shape = self.layer.compute_output_shape(inputs_shape)
        if not self.graph_features.built:  # when loaded, it comes built
            self.graph_features.build(features_shape, tuple(features_shape)[:2])
        self.built = True

    def call(self, inputs: tf.Tensor, units: tf.Tensor | None = None) -> tf.Tensor:
        if units is None:
            units = self._given_units
        if units is None:
            units = inputs
            if len(inputs.shape) != 2:
                raise ValueError(
                    f"Expected layer {self.layer.name!r} to take integer units [batch, length]. "
                    f"Received: an input of shape {tuple(inputs.shape)}. Say where the units come "
                    "from with `units`."
                )
            if isinstance(self.layer, keras.layers.Embedding):
                units = tf.cast(units, tf.int32)  # Embedding takes whole numbers as floats too.
        return self.graph_features(self.layer(inputs), units)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return self.layer.compute_mask(inputs, mask) if self.layer.supports_masking else None

    def get_config(self) -> dict[str, Any]:
        return {
            **{k: v for k, v in super().get_config().items() if k != "autocast"},
            "layer": keras.saving.serialize_keras_object(self.layer),
            "graph_features": keras.saving.serialize_keras_object(self.graph_features),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LayerWithGraphs:
        """Makes both layers from their stored configurations."""
        config = dict(config)
        for name in ("layer", "graph_features"):
            config[name] = keras.saving.deserialize_keras_object(config[name])
        return cls(**config)
