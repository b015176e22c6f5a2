"""A label for every token, over frozen vectors and kept graph messages, to compare conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from glomo_tf.graph_predictor import GraphPredictor
from glomo_tf.transfer.controls import untrained
from glomo_tf.transfer.graph_features import GraphFeatures
from glomo_tf.transfer.messages import MessageMixLayer, graph_messages
from glomo_tf.transfer.trials import Examples, Trials, subset


class TaggingTrials(Trials):
    """`Trials` for models with logits `[B, T, C]` and labels `[B, T]`; labels below 0 do not count.

    Arguments are those of `Trials`. Accuracy is the share of counted tokens whose label the model
    finds.
    """

    def _train(self, inputs: Any, labels: tf.Tensor) -> None:
        counted = labels >= 0
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                tf.where(counted, labels, 0), self.model(inputs, training=True)
            )
            weights = tf.cast(counted, losses.dtype)
            loss = tf.math.divide_no_nan(tf.reduce_sum(losses * weights), tf.reduce_sum(weights))
        variables = self.model.trainable_variables
        self.optimizer.apply(tape.gradient(loss, variables), variables)

    def accuracy(self, examples: Examples, *, chunk: int = 50) -> float:
        """Share of the counted tokens whose label the model finds."""
        right = total = 0
        for start in range(0, len(examples.labels), chunk):
            # Chunks of one size, so that one compiled function does; the rest repeats example 0.
            rows = np.arange(start, start + chunk)
            real = rows < len(examples.labels)
            batch = examples.take(np.where(real, rows, 0))
            found = self._logits(dict(batch.inputs)).numpy().argmax(-1)
            counted = (batch.labels >= 0) & real[:, np.newaxis]
            right += int(((found == batch.labels) & counted).sum())
            total += int(counted.sum())
        return right / max(total, 1)


def tagger(
    vectors: np.ndarray,
    length: int,
    num_labels: int,
    *,
    messages: tuple[int, ...] | None,
    fusion: str = "gate",
    hidden: int = 64,
    dropout: float = 0.2,
) -> Any:
    """Builds units (and graph messages) -> logits of every token.

    1. H = frozen vectors of the units `[B, T, d]`
    2. with `messages`: H = GraphMixLayer(H), the only way a token learns of its context
    3. one hidden layer and the logits, at each token by itself

    Args:
        vectors: float `[V, d]`.
        length: T.
        num_labels: C.
        messages: shape of one example's messages (see `graph_messages`), or None without graphs.
        fusion: of the graph mixture.
        hidden: width of the hidden layer.
        dropout: rate before and behind the hidden layer.

    Returns:
        A Keras model of dict inputs `units` (and `messages`) -> `[B, T, C]`.
    """
    units = keras.Input((length,), dtype="int32", name="units")
    table = keras.layers.Embedding(*vectors.shape, trainable=False, name="vectors")
    features = table(units)
    table.set_weights([vectors])
    inputs = {"units": units}
    if messages is not None:
        inputs["messages"] = keras.Input(messages, dtype="float16", name="messages")
        kept = keras.ops.cast(inputs["messages"], "float32")
        features = MessageMixLayer(fusion=fusion, name="mix")(features, kept)
    features = keras.layers.Dropout(dropout, seed=1, name="input_dropout")(features)
    x = keras.layers.Dense(hidden, activation="relu", name="hidden")(features)
    x = keras.layers.Dropout(dropout, seed=2, name="hidden_dropout")(x)
    return keras.Model(inputs, keras.layers.Dense(num_labels, name="logits")(x))


def message_function(
    layer: GraphFeatures, vectors: np.ndarray, *, chunk: int = 50
) -> Callable[[Examples], Examples]:
    """What adds a condition's graph messages to examples; the features are vectors of the units.

    The graphs are those of the layer's predictor at the time of the call, so that one compiled
    function serves for several sets of weights.

    Args:
        layer: the condition; its mixture is not used.
        vectors: float `[V, d]`.
        chunk: examples at a time.

    Returns:
        A function from examples with `units` to examples with float16 `messages` (see
        `graph_messages`) too.
    """
    rows = tf.constant(vectors)

    @tf.function(autograph=False, reduce_retracing=True)
    def messages(units: tf.Tensor) -> tf.Tensor:
        kept = graph_messages(
            layer.graphs(units),
            tf.gather(rows, units),
            num_directions=layer.predictor.num_directions,
            products=layer.products,
        )
        return tf.cast(kept, tf.float16)

    def add(examples: Examples) -> Examples:
        units = tf.constant(examples.inputs["units"])
        parts = [messages(units[i : i + chunk]).numpy() for i in range(0, len(units), chunk)]
        return Examples({**examples.inputs, "messages": np.concatenate(parts)}, examples.labels)

    return add


def compare(
    predictor: GraphPredictor,
    sets: dict[str, Examples],
    vectors: np.ndarray,
    num_labels: int,
    *,
    conditions: Sequence[str],
    seeds: int,
    labelled: int,
    steps: int,
    batch_size: int,
    learning_rate: float = 5e-3,
    evaluations: int = 4,
) -> Iterator[dict[str, Any]]:
    """Trains a tagger for every condition and seed.

    For a seed all conditions have the same labelled examples, batches and first weights. `random`
    is a new untrained predictor for each seed, so that its spread is part of the comparison.
    Without prefix products all conditions with a graph have the same number of weights.

    Args:
        predictor: the learned graphs.
        sets: examples with `units` `[N, T]`: `train` (a seed draws its own part), `development`
            (chooses the step), `test`.
        vectors: float `[V, d]`, the features of the units, the same in all conditions.
        num_labels: C.
        conditions: among `glomo_tf.transfer.CONTROLS`.
        seeds: how many.
        labelled: examples of `train` that a seed draws.
        steps: of each training.
        batch_size: examples a step.
        learning_rate: of Adam.
        evaluations: how often development data is looked at.

    Yields:
        Entries of a result's `conditions` (`glomo_tf.results`), without `group`.
    """
    trials: dict[bool, TaggingTrials] = {}
    for name in conditions:
        ready, graph = sets, name != "none"
        if graph:
            layer = GraphFeatures(predictor, control=name, products=False)
            add_messages = message_function(layer, vectors)
        for seed in range(seeds):
            if name == "random":
                layer.predictor.set_weights(untrained(predictor, seed).get_weights())
            if graph and (name == "random" or seed == 0):
                ready = {key: add_messages(examples) for key, examples in sets.items()}
            if graph not in trials:  # conditions of one architecture share the compiled steps
                shape = ready["train"].inputs["messages"].shape[1:] if graph else None
                model = tagger(vectors, sets["train"].labels.shape[1], num_labels, messages=shape)
                trials[graph] = TaggingTrials(model, learning_rate=learning_rate)
            outcome = trials[graph].run(
                ready["train"].take(subset(len(sets["train"].labels), labelled, seed)),
                ready["development"],
                ready["test"],
                seed=seed,
                steps=steps,
                batch_size=batch_size,
                evaluations=evaluations,
            )
            yield {
                "name": name,
                "seed": seed,
                "metrics": {"accuracy": outcome.accuracy},
                "development_accuracy": outcome.development,
                "step": outcome.step,
                "parameters": trials[graph].parameters,
                "seconds": round(outcome.seconds, 3),
            }
