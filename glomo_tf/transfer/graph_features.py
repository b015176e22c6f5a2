"""A frozen graph predictor and a graph mixture as one layer for any features."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from glomo_tf.layers import GraphMixLayer
from glomo_tf.transfer.controls import (
    check_control,
    fixed_graph,
    graph_directions,
    shuffled_graph,
    untrained,
)


@keras.saving.register_keras_serializable(package="glomo_tf")
class GraphFeatures(keras.layers.Layer):
    """Mixes any features along the graphs that a frozen predictor sees in the units.

    1. graphs = predictor(units), in inference mode, without gradient
    2. output = GraphMixLayer(features, graphs)

    The predictor stays frozen whatever `trainable` is set to on this layer or on a model around
    it; the mixture is trained. With `control` the graphs are replaced by those of a control
    condition (see `glomo_tf.transfer.controls`); all conditions but `"none"` have the output
    width and the trained parameters of `"learned"`, except that `"local"` leaves out the prefix
    products (so that it stays ±1) and with them their share of the mixture's logits.

    Args:
        predictor: A `GraphPredictor`. It is frozen: its `trainable` becomes False.
        control: `"learned"`, or the control to put in its place: `"none"`, `"uniform"`,
            `"random"`, `"identity"`, `"local"`, `"shuffled"`.
        seed: Seed of the untrained predictor of `"random"`.
        num_mixtures: See `GraphMixLayer`, as the arguments below.
        conditional: Whether the mixture depends on the receiver's features.
        products: Whether prefix products are part of the mixture.
        fusion: `"gate"`, `"concat"`, `"gru"` or `"none"`.
        path: `"auto"`, `"dense"` or `"chain"`.
        **kwargs: Of `keras.layers.Layer`.

    Call arguments:
        features: Float `[B, T, d]`, any features over the same units.
        units: Integer `[B, T]`, 0 is padding.
        mask: Bool `[B, T]`; units where it is false are treated as padding too. A Keras mask that
            the features carry is passed on to the output and is not needed here.

    Returns:
        Float `[B, T, d_out]`, d_out as of `GraphMixLayer`; the features themselves for `"none"`.

    Raises:
        ValueError: An argument outside its range; units that are not integers or have another
            length than the features.

    Example:

    >>> import glomo_tf, numpy as np
    >>> from glomo_tf.transfer import GraphFeatures
    >>> predictor = glomo_tf.GraphPredictor(9, width=8, num_layers=1, num_heads=2, head_dim=4)
    >>> features = np.ones((1, 3, 5), "float32")
    >>> tuple(GraphFeatures(predictor, fusion="concat")(features, np.array([[3, 4, 5]])).shape)
    (1, 3, 25)

    References:
        Yang et al., "GLoMo: Unsupervised Learning of Transferable Relational Graphs", 2018.
    """

    def __init__(
        self,
        predictor: Any,
        *,
        control: str = "learned",
        seed: int = 0,
        num_mixtures: int = 2,
        conditional: bool = True,
        products: bool = True,
        fusion: str = "gate",
        path: str = "auto",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.control = check_control(control)
        self.seed = seed
        self.num_mixtures = num_mixtures
        self.conditional = conditional
        self.products = products
        self.fusion = fusion
        self.mix_path = path  # Keras has a `path` of its own on layers
        self.supports_masking = True
        self.predictor = untrained(predictor, seed) if control == "random" else predictor
        self._freeze()
        self.mix = None
        if control != "none":
            self.mix = GraphMixLayer(
                num_mixtures=num_mixtures,
                conditional=conditional,
                products=products and control != "local",
                fusion=fusion,
                path=path,
                num_directions=predictor.num_directions,
                name="mix",
                dtype=self.dtype_policy,
            )

    @property
    def trainable(self) -> bool:
        """Whether the mixture is trained; the predictor never is."""
        return super().trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        keras.layers.Layer.trainable.fset(self, value)
        if hasattr(self, "predictor"):  # Keras sets this on its own before __init__ is done.
            self._freeze()

    def _freeze(self) -> None:
        self.predictor.trainable = False
        # Keras leaves out layers that were made, by building, under an already frozen parent.
        for variable in self.predictor.variables:
            variable.trainable = False

    def build(self, features_shape: Any, units_shape: Any) -> None:
        _check_lengths(features_shape, units_shape)
        if not self.predictor.built:
            self.predictor.build((None, None))
        self._freeze()
        if self.mix is not None:
            graphs = (None, self.predictor.num_graph_layers, self.predictor.num_heads, None, None)
            self.mix.build(features_shape, graphs)
        self.built = True

    def call(
        self, features: tf.Tensor, units: tf.Tensor, mask: tf.Tensor | None = None
    ) -> tf.Tensor:
        _check_lengths(features.shape, units.shape)
        if self.mix is None:
            return features
        return self.mix(features, self.graphs(units, mask))

    def graphs(self, units: tf.Tensor, mask: tf.Tensor | None = None) -> Any:
        """The graphs of this condition, dense `[B, G, K, T, T]` or as graph factors.

        Raises:
            ValueError: Units that are not integers, or the control `"none"`, which has no graph.
        """
        if self.control == "none":
            raise ValueError(
                "Expected a control that has a graph. Received: 'none'. Use the features as "
                "they are."
            )
        if not tf.as_dtype(units.dtype).is_integer:
            raise ValueError(
                "Expected `units` to be integers [batch, length], 0 for padding. Received: "
                f"{tf.as_dtype(units.dtype).name}. Cast them (float16 cannot hold ids)."
            )
        units = tf.cast(units, tf.int32)
        if mask is not None:
            units = tf.where(tf.cast(mask, tf.bool), units, tf.zeros_like(units))
        if self.control in ("learned", "random"):
            factors = self.predictor.factors(units, training=False)
            return {name: tf.stop_gradient(value) for name, value in factors.items()}
        if self.control == "shuffled":
            graph = self.predictor(units, training=False)
            return tf.stop_gradient(shuffled_graph(graph, units != 0))
        directions = graph_directions(self.predictor)
        return fixed_graph(self.control, units != 0, directions, self.predictor.num_heads)

    def compute_mask(self, features: Any, mask: Any = None) -> Any:
        return mask

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "predictor": keras.saving.serialize_keras_object(self.predictor),
            "control": self.control,
            "seed": self.seed,
            "num_mixtures": self.num_mixtures,
            "conditional": self.conditional,
            "products": self.products,
            "fusion": self.fusion,
            "path": self.mix_path,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> GraphFeatures:
        """Makes the layer with a new predictor of the stored configuration; weights come later."""
        config = dict(config)
        config["predictor"] = keras.saving.deserialize_keras_object(config["predictor"])
        return cls(**config)


def _check_lengths(features_shape: Any, units_shape: Any) -> None:
    if len(features_shape) != 3 or len(units_shape) != 2:
        raise ValueError(
            "Expected features [batch, length, width] and units [batch, length]. Received: "
            f"{tuple(features_shape)} and {tuple(units_shape)}."
        )
    if None not in (features_shape[1], units_shape[1]) and features_shape[1] != units_shape[1]:
        raise ValueError(
            "Expected features over the same units as the graphs. Received: features of length "
            f"{features_shape[1]} and units of length {units_shape[1]}. Attach the graphs where "
            "the features still have one position a unit."
        )
