"""Generative context prediction: the objective of the paper."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from glomo_tf.layers import ContextDecoder, ContextHead
from glomo_tf.objectives.context_objective import ContextObjective, Contexts, UnitTable


@keras.saving.register_keras_serializable(package="glomo_tf")
class GenerativeContext(ContextObjective):
    """Decode the units at offsets 1..D from each unit's features, teacher forced.

    1. a `ContextDecoder` starts from F_t, reads zeros, then the true units t + 1..t + D − 1
    2. its state after step δ, projected to the table's width where that differs, gives logits
       over all units (softmax tied to the table), or over sampled candidates
    3. loss: cross-entropy of the unit t + δ (t − δ backward)

    Args:
        context_length: D.
        num_layers: GRU layers of the decoder.
        sampled_softmax: whether logits cover the units of the batch and `num_negatives` sampled
            ones only, corrected for their frequency, instead of all units.
        num_negatives: sampled negatives beside the units of the batch.
        num_positions: units of each sequence that training predicts from; by default all.
        temperature: divides the logits.
        learn_temperature: whether the temperature is trained, from that start.
        frequency_correction: whether sampled logits are corrected for their frequency.
        output_table: `"tied"` to the predictor's unit embeddings, or `"own"`.
        seed: int, makes positions and negatives repeatable.
        **kwargs: of `keras.layers.Layer`.

    Example:

    >>> import numpy as np
    >>> import glomo_tf
    >>> predictor = glomo_tf.GraphPredictor(50, width=16, num_layers=1, num_heads=2, head_dim=8)
    >>> objective = glomo_tf.GenerativeContext(context_length=2)
    >>> model = glomo_tf.GLoMo(predictor, glomo_tf.FeaturePredictor(), objective)
    >>> model.compile("adam")
    >>> units = np.random.default_rng(0).integers(1, 50, (8, 12))
    >>> "loss" in model.evaluate(units, verbose=0, return_dict=True)
    True

    References:
        Yang et al., "GLoMo: Unsupervised Learning of Transferable Relational Graphs", 2018.
    """

    def __init__(
        self,
        *,
        context_length: int = 3,
        num_layers: int = 2,
        sampled_softmax: bool = False,
        num_negatives: int = 256,
        num_positions: int | None = None,
        temperature: float = 1.0,
        learn_temperature: bool = False,
        frequency_correction: bool = True,
        output_table: str = "tied",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            context_length=context_length,
            temperature=temperature,
            learn_temperature=learn_temperature,
            num_negatives=num_negatives,
            num_positions=num_positions,
            frequency_correction=frequency_correction,
            output_table=output_table,
            seed=seed,
            **kwargs,
        )
        self.num_layers = num_layers
        self.sampled_softmax = sampled_softmax

    def make_head(self, features_shape: Any, table_width: int) -> None:
        width = features_shape[-1]
        self.decoder = ContextDecoder(
            features_shape[0], self.num_layers, name="decoder", dtype=self.dtype_policy
        )
        context = (*features_shape[:-1], self.context_length - 1, table_width)
        self.decoder.build(features_shape, context)
        self.head = None
        if width != table_width:
            self.head = ContextHead(
                1,
                table_width,
                num_networks=features_shape[0],
                name="head",
                dtype=self.dtype_policy,
            )
            self.head.build(features_shape)

    def predict(self, contexts: Contexts, table: UnitTable, training: bool) -> tf.Tensor:
        known = table.rows(contexts.targets[..., :-1], contexts.features.dtype)
        states = self.decoder(contexts.features, known)
        if self.head is None:
            return states
        shape = tf.shape(states)
        merged = [shape[0], shape[1], -1, states.shape[-1]]
        projected = self.head(tf.reshape(states, merged))
        return tf.reshape(projected, [*tf.unstack(shape[:-1]), projected.shape[-1]])

    def _classify(
        self,
        predictions: tf.Tensor,
        targets: tf.Tensor,
        units: tf.Tensor,
        table: UnitTable,
        candidate_units: tf.Tensor | None,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        if self.sampled_softmax:
            return super()._classify(predictions, targets, units, table, candidate_units)
        return self._classify_among_all(predictions, targets, table)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_layers": self.num_layers,
            "sampled_softmax": self.sampled_softmax,
        }
