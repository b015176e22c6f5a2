"""Many small trainings that differ in one thing only.

What a comparison of conditions needs: for a seed the same first weights (wherever shapes agree),
the same batches and the same random draws, whatever the condition; and for many runs of one
architecture a single compiled step.
"""

from __future__ import annotations

import dataclasses
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

Arrays = Mapping[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class Examples:
    """Inputs of a text classifier and labels 0 or 1.

    Args:
        inputs: `units`, int `[B, T]` with 0 as trailing padding, and perhaps `messages`,
            `[B, R, T, M, d]`.
        labels: Integer `[B]`.
    """

    inputs: Arrays
    labels: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """Number of units of each example."""
        return (self.inputs["units"] != 0).sum(1)

    def take(self, rows: np.ndarray) -> Examples:
        """Some of the examples, by position."""
        inputs = {name: values[rows] for name, values in self.inputs.items()}
        return Examples(inputs, self.labels[rows])

    def batch(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Inputs of some examples, without the padding that all of them share."""
        units = self.inputs["units"][rows]
        longest = max(int((units != 0).sum(1).max()), 1)
        inputs = {"units": units[:, :longest]}
        if "messages" in self.inputs:
            inputs["messages"] = self.inputs["messages"][rows, :, :longest]
        return inputs


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Of one training: figures of the step that was best on development data."""

    accuracy: float
    development: float
    step: int
    seconds: float


class Trials:
    """Trains one binary classifier again and again from seeded first weights.

    Args:
        model: Built Keras model: dict of inputs of `Examples` -> logits `[B, 1]`.
        learning_rate: Of Adam.
        clip: Largest norm of the gradient.
    """

    def __init__(self, model: Any, *, learning_rate: float, clip: float = 1.0) -> None:
        self.model = model
        self.optimizer = keras.optimizers.Adam(learning_rate, global_clipnorm=clip)
        self.optimizer.build(model.trainable_variables)
        self._start = [(v, v.numpy()) for v in (*model.variables, *self.optimizer.variables)]
        self._names = _stable_names(model)
        self._compiled = False
        # Without XLA: on a CPU it made these steps 2 to 13 times slower.
        self._step = tf.function(self._train, reduce_retracing=True)
        self._logits = tf.function(self._infer, reduce_retracing=True)

    @property
    def parameters(self) -> int:
        """Number of trained parameters."""
        return sum(int(np.prod(v.shape)) for v in self.model.trainable_variables)

    def run(
        self,
        train: Examples,
        development: Examples,
        test: Examples,
        *,
        seed: int,
        steps: int,
        batch_size: int,
        evaluations: int,
    ) -> Outcome:
        """Trains from the first weights of a seed; the best step on development data counts.

        Args:
            train: Labelled examples, at least `batch_size`.
            development: Examples that choose the step.
            test: Examples that are scored once, at that step.
            seed: Decides first weights, order of batches and dropout.
            steps: Number of steps.
            batch_size: Examples a step.
            evaluations: How often, evenly spread, development data is looked at.

        Returns:
            An `Outcome`.
        """
        if not self._compiled:  # not part of the time of the first run
            for rows in (np.arange(batch_size), np.argsort(train.lengths)[:batch_size]):
                self._step(train.batch(rows), train.labels[rows])
                self.accuracy(train.take(rows))
            self._compiled = True
        began = time.perf_counter()
        self.reset(seed)
        order = _batches(len(train.labels), batch_size, np.random.default_rng([seed, 1]))
        marks = {round(steps * (i + 1) / evaluations) for i in range(evaluations)}
        best, kept, chosen = -1.0, [], 0
        for step in range(1, steps + 1):
            rows = next(order)
            self._step(train.batch(rows), train.labels[rows])
            if step in marks:
                found = self.accuracy(development)
                if found > best:
                    best, chosen = found, step
                    kept = [v.numpy() for v in self.model.trainable_variables]
        for variable, value in zip(self.model.trainable_variables, kept, strict=True):
            variable.assign(value)
        return Outcome(self.accuracy(test), best, chosen, time.perf_counter() - began)

    def reset(self, seed: int) -> None:
        """Puts the first weights of a seed in place and forgets the optimizer's past.

        A weight is drawn by the seed and its name, so two models share the weights that have
        the same name and shape.
        """
        for variable, value in self._start:
            name = self._names.get(id(variable))
            if name is None:  # of the optimizer
                variable.assign(value)
            elif value.dtype == np.uint32:  # state of a dropout
                variable.assign(np.array([seed, zlib.crc32(name.encode())], np.uint32))
            elif variable.trainable and value.ndim > 1 and np.ptp(value) > 0:
                rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
                limit = np.sqrt(6.0 / (np.prod(value.shape[:-1]) + value.shape[-1]))
                variable.assign(rng.uniform(-limit, limit, value.shape).astype(value.dtype))
            else:
                variable.assign(value)

    def accuracy(self, examples: Examples, *, chunk: int = 200) -> float:
        """Share of examples whose label the model finds."""
        count, right = len(examples.labels), 0
        order = np.argsort(examples.lengths, kind="stable")  # so that a chunk has little padding
        for start in range(0, count, chunk):
            rows = order[start : start + chunk]
            found = self._logits(examples.batch(rows)).numpy()[:, 0] > 0
            right += int((found == (examples.labels[rows] > 0)).sum())
        return right / count

    def _infer(self, inputs: Any) -> tf.Tensor:
        return self.model(inputs, training=False)

    def _train(self, inputs: Any, labels: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            logits = self.model(inputs, training=True)[:, 0]
            targets = tf.cast(labels, logits.dtype)
            loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(targets, logits))
        variables = self.model.trainable_variables
        self.optimizer.apply(tape.gradient(loss, variables), variables)


def subset(pool: int, size: int, seed: int) -> np.ndarray:
    """Positions of the labelled examples of a seed; a smaller subset begins a larger one."""
    return np.random.default_rng([seed, 0]).permutation(pool)[:size]


def _batches(count: int, size: int, rng: np.random.Generator) -> Any:
    """Positions of batches, epoch by epoch in a new order; the rest of an epoch is left out."""
    while True:
        order = rng.permutation(count)
        for start in range(0, count - size + 1, size):
            yield order[start : start + size]


def _stable_names(model: Any) -> dict[int, str]:
    """Paths of a model's variables without the numbers that Keras counts up from model to model."""
    names: dict[int, str] = {}
    seen: dict[str, int] = {}
    for variable in model.variables:
        name = "/".join(part.rstrip("0123456789").rstrip("_") for part in variable.path.split("/"))
        seen[name] = seen.get(name, 0) + 1
        names[id(variable)] = f"{name}#{seen[name]}"
    return names


def check_sizes(labels: Sequence[int], batch_size: int) -> None:
    """Raises a `ValueError` if some number of labels does not fill a batch."""
    if min(labels) < batch_size:
        raise ValueError(
            f"Expected at least {batch_size} labels (one batch). Received: {min(labels)}. "
            "Take more labels or a smaller batch."
        )
