"""The pre-training model: graph predictor, feature predictor and objective together."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from glomo_tf import affinity
from glomo_tf.graph_predictor import GraphPredictor
from glomo_tf.objectives import candidates
from glomo_tf.objectives.context_objective import UnitTable


@keras.saving.register_keras_serializable(package="glomo_tf")
class GLoMo(keras.Model):
    """Learns graphs by predicting each unit's context from features mixed along them.

    1. graphs = graph_predictor(units); E = its embeddings
    2. F = feature_predictor(E, graphs), in each direction by itself
    3. loss = objective(F, units): the mean over all predictions of all replicas

    `fit` takes a `tf.data.Dataset` of units, int `[B, T]` with 0 as padding, or of dicts with
    `units` and `candidates` (`glomo_tf.data.candidates`). Text belongs into the input pipeline.

    Figures reported beside the loss: `forward_accuracy_δ` and `backward_accuracy_δ` for each
    offset, `sparsity` (share of zeros among allowed pairs), `empty_rows` (share of the units with
    sources that take nothing) and `units` (real units seen).

    Args:
        graph_predictor: a `GraphPredictor`.
        feature_predictor: a `FeaturePredictor`.
        objective: a `ContrastiveContext` or `GenerativeContext`.
        **kwargs: of `keras.Model`.

    Call arguments:
        inputs: units, int `[B, T]`.
        training: whether dropout and batch statistics are used.

    Returns:
        `features`, float `[B, R, T, d]`, and `graph`, float32 `[B, G, K, T, T]`.

    Example:

    >>> import numpy as np
    >>> import glomo_tf
    >>> predictor = glomo_tf.GraphPredictor(50, width=16, num_layers=1, num_heads=2, head_dim=8)
    >>> model = glomo_tf.GLoMo(
    ...     predictor, glomo_tf.FeaturePredictor(), glomo_tf.ContrastiveContext(context_length=2)
    ... )
    >>> model.compile(optimizer="adam")
    >>> units = np.random.default_rng(0).integers(1, 50, (8, 12))
    >>> history = model.fit(units, batch_size=4, verbose=0).history

    References:
        Yang et al., "GLoMo: Unsupervised Learning of Transferable Relational Graphs", 2018.
    """

    def __init__(
        self,
        graph_predictor: GraphPredictor,
        feature_predictor: keras.layers.Layer,
        objective: keras.layers.Layer,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.graph_predictor = graph_predictor
        self.feature_predictor = feature_predictor
        self.objective = objective
        self.loss_tracker = keras.metrics.Mean(name="loss")
        names = {1: "forward", -1: "backward"}
        self.accuracies = [
            keras.metrics.Mean(name=f"{names[sign]}_accuracy_{offset}")
            for sign in graph_predictor.directions
            for offset in range(1, objective.context_length + 1)
        ]
        self.sparsity = keras.metrics.Mean(name="sparsity")
        self.empty_rows = keras.metrics.Mean(name="empty_rows")
        self.unit_count = keras.metrics.Sum(name="units")

    def build(self, input_shape: Any = None) -> None:
        predictor = self.graph_predictor
        if not predictor.built:
            predictor.build((None, None))
        features = (None, None, predictor.width)
        graph = (None, predictor.num_graph_layers, predictor.num_heads, None, None)
        if not self.feature_predictor.built:
            self.feature_predictor.build(features, graph)
        if not self.objective.built:
            self.objective.build(
                (predictor.num_directions, *features),
                vocabulary_size=predictor.vocabulary_size,
                table_width=predictor.embedding_width or predictor.width,
            )
        self.built = True

    def call(self, inputs: tf.Tensor, training: bool = False) -> dict[str, tf.Tensor]:
        units = inputs["units"] if isinstance(inputs, dict) else inputs
        embeddings = self.graph_predictor.embed(units, training=training)
        graph = self.graph_predictor(embeddings, mask=units != 0, training=training)
        features = self.feature_predictor(embeddings, graph, training=training)
        return {"features": tf.transpose(features, [1, 0, 2, 3]), "graph": graph}

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """This replica's part of the loss of the global batch, and what the figures need.

        The parts of all replicas add up to the loss of one device with the whole batch, and so
        do their gradients.
        """
        batch = x if isinstance(x, dict) else {"units": x}
        units = tf.cast(batch["units"], tf.int32)
        outputs = self(units, training=training)
        sums = self.objective(
            tf.transpose(outputs["features"], [1, 0, 2, 3]),
            units,
            table=UnitTable(self.graph_predictor.embedding.embeddings),
            directions=self.graph_predictor.directions,
            candidate_units=batch.get("candidates"),
            training=training,
        )
        count = candidates.sum_replicas(tf.reduce_sum(sums["count"]))
        loss = tf.math.divide_no_nan(tf.reduce_sum(sums["loss"]), count)
        return loss, {**sums, "graph": outputs["graph"], "units": units}

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        batch, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            loss, sums = self.compute_loss(x=batch, training=True)
            scaled = self.optimizer.scale_loss(loss)
        variables = self.trainable_variables
        gradients = tape.gradient(scaled, variables)
        self.optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return self._figures(loss, sums)

    def test_step(self, data: Any) -> dict[str, tf.Tensor]:
        batch, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        loss, sums = self.compute_loss(x=batch, training=False)
        return self._figures(loss, sums)

    def _figures(self, loss: tf.Tensor, sums: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        replicas = tf.distribute.get_replica_context().num_replicas_in_sync
        self.loss_tracker.update_state(loss * replicas)  # parts add up, metrics average
        accuracy = tf.math.divide_no_nan(sums["correct"], sums["count"])
        cells = zip(
            tf.unstack(tf.reshape(accuracy, [-1]), num=len(self.accuracies)),
            tf.unstack(tf.reshape(sums["count"], [-1]), num=len(self.accuracies)),
            strict=True,
        )
        for tracker, (value, count) in zip(self.accuracies, cells, strict=True):
            tracker.update_state(value, sample_weight=count)
        mask = sums["units"] != 0
        zeros, pairs, empty, rows = affinity.count_zeros(
            sums["graph"], mask, self.graph_predictor.directions
        )
        self.sparsity.update_state(tf.math.divide_no_nan(zeros, pairs), sample_weight=pairs)
        self.empty_rows.update_state(tf.math.divide_no_nan(empty, rows), sample_weight=rows)
        self.unit_count.update_state(tf.cast(mask, tf.float32))
        return {tracker.name: tracker.result() for tracker in self.metrics}

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        return [
            self.loss_tracker,
            *self.accuracies,
            self.sparsity,
            self.empty_rows,
            self.unit_count,
        ]

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "graph_predictor": keras.saving.serialize_keras_object(self.graph_predictor),
            "feature_predictor": keras.saving.serialize_keras_object(self.feature_predictor),
            "objective": keras.saving.serialize_keras_object(self.objective),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> GLoMo:
        config = dict(config)
        for part in ("graph_predictor", "feature_predictor", "objective"):
            config[part] = keras.saving.deserialize_keras_object(
                config[part], custom_objects=custom_objects
            )
        return cls(**config)
