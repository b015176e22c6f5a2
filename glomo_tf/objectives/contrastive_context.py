"""Contrastive context prediction: the main pre-training objective."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from glomo_tf.layers import ContextHead
from glomo_tf.objectives.context_objective import ContextObjective, Contexts, UnitTable


@keras.saving.register_keras_serializable(package="glomo_tf")
class ContrastiveContext(ContextObjective):
    """Pick out the true unit at each offset among negatives (InfoNCE).

    1. p_δ = F_t W_δ + b_δ for every offset δ = 1..D, in each direction
    2. logit of a candidate u: ⟨p_δ, row_u⟩ / τ + log P(u) − log P(u among the candidates), with
       log P(u) once `adapt` has told how frequent units are
    3. loss: −log softmax of the true unit t + δ (t − δ backward) over the candidates

    Candidates are the units of the batch (of all replicas under `tf.distribute`) and sampled
    ones, each once: a unit is never a negative of its equal.

    Args:
        context_length: D.
        temperature: τ.
        learn_temperature: whether τ is trained, from that start.
        num_negatives: sampled negatives beside the units of the batch.
        num_positions: units of each sequence that training predicts from; by default all.
        frequency_correction: whether step 2 subtracts the log-probability of being a candidate.
        output_table: `"tied"` predicts the predictor's unit embeddings, `"own"` a trained table
            that is dropped after pre-training.
        seed: int, makes positions and negatives repeatable.
        **kwargs: of `keras.layers.Layer`.

    Example:

    >>> import numpy as np
    >>> import glomo_tf
    >>> predictor = glomo_tf.GraphPredictor(50, width=16, num_layers=1, num_heads=2, head_dim=8)
    >>> objective = glomo_tf.ContrastiveContext(context_length=2)
    >>> model = glomo_tf.GLoMo(predictor, glomo_tf.FeaturePredictor(), objective)
    >>> model.compile("adam")
    >>> units = np.random.default_rng(0).integers(1, 50, (8, 12))
    >>> sorted(model.evaluate(units, verbose=0, return_dict=True))[:2]
    ['backward_accuracy_1', 'backward_accuracy_2']

    References:
        van den Oord et al., "Representation Learning with Contrastive Predictive Coding", 2018;
        Yang et al., "GLoMo", 2018.
    """

    def __init__(
        self,
        *,
        context_length: int = 3,
        temperature: float = 1.0,
        learn_temperature: bool = False,
        num_negatives: int = 256,
        num_positions: int | None = None,
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

    def make_head(self, features_shape: Any, table_width: int) -> None:
        self.head = ContextHead(
            self.context_length,
            table_width,
            num_networks=features_shape[0],
            name="head",
            dtype=self.dtype_policy,
        )
        self.head.build(features_shape)

    def predict(self, contexts: Contexts, table: UnitTable, training: bool) -> tf.Tensor:
        return self.head(contexts.features)
