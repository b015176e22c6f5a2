"""What both objectives share: positions, their contexts, and classification of units."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from glomo_tf.objectives import candidates


class UnitTable:
    """Representations of all units, `[V, e]`, read row by row.

    Args:
        variable: the `keras.Variable` that holds them, such as an embedding layer's.
    """

    def __init__(self, variable: keras.Variable) -> None:
        self.variable = variable

    @property
    def width(self) -> int:
        """e, the width of a row."""
        return self.variable.shape[1]

    def rows(self, units: tf.Tensor, dtype: str) -> tf.Tensor:
        """Rows of some units; their gradient holds those rows alone."""
        return tf.cast(tf.gather(self.variable.value, units), dtype)

    def matrix(self, dtype: str) -> tf.Tensor:
        """All rows."""
        return tf.cast(self.variable.value, dtype)


class Contexts(NamedTuple):
    """Units to predict from and the units to predict, for R directions and P positions."""

    features: tf.Tensor  # [R, B, P, d]
    targets: tf.Tensor  # int32 [R, B, P, D], the unit at each offset
    valid: tf.Tensor  # bool [R, B, P, D], both ends are real units


class ContextObjective(keras.layers.Layer):
    """Base of the objectives: predict the units at offsets 1..D in each direction.

    Subclasses implement `make_head(features_shape, table_width)` and
    `predict(contexts, table) -> [R, B, P, D, e]`.

    Args:
        context_length: D.
        num_positions: P, units of each sequence that are predicted from in training, sampled
            anew for each batch; by default all. Evaluation uses all.
        num_negatives: sampled negatives beside the units of the batch.
        temperature: divides the logits.
        learn_temperature: whether the temperature is trained, from that start.
        frequency_correction: whether sampled logits are corrected for their frequency.
        output_table: `"tied"` predicts the predictor's unit embeddings, `"own"` a trained table
            that is dropped after pre-training.
        seed: int, makes positions and negatives repeatable.
        **kwargs: of `keras.layers.Layer`.
    """

    def __init__(
        self,
        *,
        context_length: int = 3,
        num_positions: int | None = None,
        num_negatives: int = 256,
        temperature: float = 1.0,
        learn_temperature: bool = False,
        frequency_correction: bool = True,
        output_table: str = "tied",
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(context_length, int) or context_length < 1:
            raise ValueError(
                f"Expected `context_length` to be at least 1. Received: {context_length!r}."
            )
        if output_table not in ("tied", "own"):
            raise ValueError(
                f"Expected `output_table` to be tied or own. Received: {output_table!r}."
            )
        if temperature <= 0 or num_negatives < 0:
            raise ValueError(
                "Expected `temperature` above 0 and `num_negatives` at least 0. "
                f"Received: temperature={temperature!r}, num_negatives={num_negatives!r}."
            )
        self.context_length = context_length
        self.num_positions = num_positions
        self.num_negatives = num_negatives
        self.temperature = temperature
        self.learn_temperature = learn_temperature
        self.frequency_correction = frequency_correction
        self.output_table = output_table
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)
        self._shapes: dict[str, Any] | None = None

    def build(
        self, features_shape: Any, vocabulary_size: int = 2, table_width: int | None = None
    ) -> None:
        """Makes the weights.

        Args:
            features_shape: `(R, None, None, d)`.
            vocabulary_size: V.
            table_width: e, the width of the tied table.
        """
        width = features_shape[-1]
        self._shapes = {
            "features_shape": tuple(features_shape),
            "vocabulary_size": vocabulary_size,
            "table_width": table_width,
        }
        self.unit_probabilities = self.add_weight(
            shape=(vocabulary_size,),
            initializer=lambda shape, dtype: candidates.zipf(shape[0]),
            name="unit_probabilities",
            trainable=False,
            autocast=False,
            dtype="float32",
        )
        # 1 once `adapt` has told how frequent units are, 0 before.
        self.prior_weight = self.add_weight(
            shape=(), initializer="zeros", name="prior_weight", trainable=False, dtype="float32"
        )
        self.table_variable = None
        if self.output_table == "own":
            table_width = table_width or width
            self.table_variable = self.add_weight(
                shape=(vocabulary_size, width),
                initializer=keras.initializers.RandomNormal(stddev=width**-0.5),
                name="table",
                autocast=False,
            )
            table_width = width
        if self.learn_temperature:
            self.log_temperature = self.add_weight(
                shape=(),
                initializer=keras.initializers.Constant(float(np.log(self.temperature))),
                name="log_temperature",
                autocast=False,
            )
        self.make_head(tuple(features_shape), table_width or width)
        self.built = True

    def get_build_config(self) -> dict[str, Any] | None:
        return self._shapes

    def build_from_config(self, config: dict[str, Any] | None) -> None:
        if config and not self.built:
            self.build(**config)

    def make_head(self, features_shape: Any, table_width: int) -> None:
        """Makes the weights that turn features into predictions of width `table_width`."""
        raise NotImplementedError  # pragma: no cover

    def predict(self, contexts: Contexts, table: UnitTable, training: bool) -> tf.Tensor:
        """Predictions `[R, B, P, D, e]`."""
        raise NotImplementedError  # pragma: no cover

    def adapt(self, counts: Any) -> None:
        """Sets how often each unit occurs: for sampling, the frequency correction and the prior.

        From then on log-frequencies are added to the logits, so that predictions start at the
        frequencies. Otherwise these are what training learns first, and while it does so all that
        depends on the context is in the way: thresholds rise until graphs are empty, for good.

        Args:
            counts: numbers `[V]`, such as `TextUnits.counts`; the entry of padding is ignored.

        Raises:
            ValueError: another length, or nothing counted.
        """
        counts = np.asarray(counts, "float64").copy()
        size = self.unit_probabilities.shape[0]
        if counts.shape != (size,) or counts[1:].sum() <= 0:
            raise ValueError(
                f"Expected counts of {size} units with a positive sum. "
                f"Received: shape {counts.shape}, sum {counts.sum()}."
            )
        counts[0] = 0
        self.unit_probabilities.assign(counts / counts.sum())
        self.prior_weight.assign(1.0)

    def call(
        self,
        features: tf.Tensor,
        units: tf.Tensor,
        table: UnitTable,
        directions: tuple[int, ...],
        candidate_units: tf.Tensor | None = None,
        training: bool = False,
    ) -> dict[str, tf.Tensor]:
        """Sums over all predictions of this replica.

        Args:
            features: F, float `[R, B, T, d]`.
            units: int32 `[B, T]`.
            table: representations of the units; an own table takes its place.
            directions: sign of each of the R directions.
            candidate_units: int32 `[C]`, candidates made by the input pipeline, 0 is ignored; by
                default the units of the batch and `num_negatives` sampled ones.
            training: whether positions are sampled.

        Returns:
            `loss`, `correct` and `count`, each a float32 sum `[R, D]`.
        """
        if self.table_variable is not None:
            table = UnitTable(self.table_variable)
        contexts = self.contexts(features, units, directions, training)
        predictions = self.predict(contexts, table, training)
        width = predictions.shape[-1]
        flat = tf.reshape(predictions, [-1, width])
        targets = tf.reshape(contexts.targets, [-1])
        loss, correct, present = self._classify(flat, targets, units, table, candidate_units)
        valid = contexts.valid & tf.reshape(present, tf.shape(contexts.valid))
        weight = tf.cast(valid, tf.float32)
        loss = tf.reshape(loss, tf.shape(weight))
        correct = tf.cast(tf.reshape(correct, tf.shape(weight)), tf.float32)
        return {
            "loss": tf.reduce_sum(loss * weight, axis=[1, 2]),
            "correct": tf.reduce_sum(correct * weight, axis=[1, 2]),
            "count": tf.reduce_sum(weight, axis=[1, 2]),
        }

    def contexts(
        self, features: tf.Tensor, units: tf.Tensor, directions: tuple[int, ...], training: bool
    ) -> Contexts:
        """Positions to predict from, and the units at offsets 1..D from each."""
        parts = []
        for index, sign in enumerate(directions):
            position = self._positions(units, sign, training)  # [B, P]
            offsets = sign * tf.range(1, self.context_length + 1)
            place = position[..., tf.newaxis] + offsets
            length = tf.shape(units)[1]
            inside = (place >= 0) & (place < length)
            targets = tf.gather(units, tf.clip_by_value(place, 0, length - 1), batch_dims=1)
            real = tf.gather(units, position, batch_dims=1)[..., tf.newaxis] > 0
            valid = inside & (targets > 0) & real
            chosen = tf.gather(features[index], position, batch_dims=1)
            parts.append((chosen, targets, valid))
        return Contexts(*(tf.stack(part) for part in zip(*parts, strict=True)))

    def _positions(self, units: tf.Tensor, sign: int, training: bool) -> tf.Tensor:
        shape = tf.shape(units)
        if not training or self.num_positions is None:
            return tf.tile(tf.range(shape[1])[tf.newaxis], [shape[0], 1])
        # Units with a context come first, in random order.
        following = tf.roll(units, -sign, axis=1)
        edge = tf.range(shape[1]) == (shape[1] - 1 if sign > 0 else 0)
        usable = (units > 0) & (following > 0) & ~edge
        draws = tf.random.stateless_uniform(shape, self._next_seed())
        order = tf.argsort(draws + tf.where(usable, 0.0, 1.0), axis=1)
        return order[:, : self.num_positions]

    def _next_seed(self) -> tf.Tensor:
        """The next seed, another one on each replica: equal draws would be wasted ones."""
        seed = tf.cast(self.seed_generator.next(), tf.int32)
        context = tf.distribute.get_replica_context()
        replica = 0 if context is None else context.replica_id_in_sync_group
        return seed + tf.stack([0, tf.cast(replica, tf.int32)])

    def _classify(
        self,
        predictions: tf.Tensor,
        targets: tf.Tensor,
        units: tf.Tensor,
        table: UnitTable,
        candidate_units: tf.Tensor | None,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Loss, correctness and presence of each target, among sampled candidates."""
        probabilities = tf.convert_to_tensor(self.unit_probabilities)
        # Padding is no draw: more of it must not change the loss.
        batch_units = candidates.sum_replicas(tf.reduce_sum(tf.cast(units > 0, tf.float32)))
        if candidate_units is None:
            chosen = tf.reshape(units, [-1])
            sampled = tf.constant(0.0)
            if self.num_negatives:
                distribution = candidates.sampling_distribution(probabilities)
                negatives = candidates.sample(distribution, self.num_negatives, self._next_seed())
                chosen = tf.concat([chosen, negatives], axis=0)
                sampled = float(self.num_negatives) * replicas_in_sync()
            chosen = candidates.gather_replicas(chosen)
        else:
            chosen = candidates.gather_replicas(tf.cast(candidate_units, tf.int32))
            # The pipeline tops the batch's own units up with negatives to a fixed number.
            own = -tf.math.expm1(batch_units * tf.math.log1p(-probabilities))
            sampled = tf.maximum(tf.cast(tf.size(chosen), tf.float32) - tf.reduce_sum(own), 0.0)
        chosen, usable = candidates.sorted_set(chosen)
        logits = self._logits(predictions, table.rows(chosen, predictions.dtype))
        logits += self._prior(tf.gather(probabilities, chosen))
        if self.frequency_correction:
            logits -= candidates.log_inclusion(chosen, probabilities, batch_units, sampled)
        return candidates.classify(logits, targets, chosen, usable)

    def _classify_among_all(
        self, predictions: tf.Tensor, targets: tf.Tensor, table: UnitTable
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """The same over all units but padding."""
        matrix = table.matrix(predictions.dtype)
        units = tf.range(tf.shape(matrix)[0])
        logits = self._logits(predictions, matrix)
        logits += self._prior(tf.convert_to_tensor(self.unit_probabilities))
        return candidates.classify(logits, targets, units, units > 0)

    def _prior(self, probabilities: tf.Tensor) -> tf.Tensor:
        """Log-frequencies once `adapt` was called, else 0."""
        return self.prior_weight * tf.math.log(tf.maximum(probabilities, 1e-9))

    def _logits(self, predictions: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
        """float32 `[N, C]`: inner products over temperature."""
        logits = tf.cast(tf.matmul(predictions, rows, transpose_b=True), tf.float32)
        if self.learn_temperature:
            return logits * tf.exp(-tf.convert_to_tensor(self.log_temperature))
        return logits / self.temperature

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "context_length": self.context_length,
            "num_positions": self.num_positions,
            "num_negatives": self.num_negatives,
            "temperature": self.temperature,
            "learn_temperature": self.learn_temperature,
            "frequency_correction": self.frequency_correction,
            "output_table": self.output_table,
            "seed": self.seed,
        }


def replicas_in_sync() -> int:
    """Number of replicas that compute the current step."""
    context = tf.distribute.get_replica_context()
    return 1 if context is None else context.num_replicas_in_sync
