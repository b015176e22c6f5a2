"""Trains the same model on one device and on two; run by test_replicas.py in a process of its own.

python tests/models/replicas_process.py results.json
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import keras
import numpy as np
import tensorflow as tf

if __name__ == "__main__":  # the tests import the cases, in a process that has its devices
    warnings.simplefilter("error")
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)

import glomo_tf
from glomo_tf.optimizers import LazyAdamW

V, STEPS = 20, 3


def batches() -> np.ndarray:
    """The second half of each batch is much shorter, so replicas have unequal shares of units."""
    units = np.random.default_rng(0).integers(1, V, (STEPS, 8, 7)).astype("int32")
    units[:, 4:, 3:] = 0
    units[0, 7] = 0
    return units


def make(case: dict[str, Any]) -> Any:
    keras.utils.set_random_seed(1)
    predictor = glomo_tf.GraphPredictor(
        V,
        width=8,
        num_layers=1,
        num_heads=2,
        head_dim=4,
        cnn_depth=1,
        normalization=case.get("normalization", "layer"),
    )
    objective = {
        "contrastive": glomo_tf.ContrastiveContext,
        "generative": glomo_tf.GenerativeContext,
    }[case["objective"]](
        context_length=2,
        num_negatives=0,
        temperature=0.8,
        learn_temperature=True,
    )
    model = glomo_tf.GLoMo(predictor, glomo_tf.FeaturePredictor(), objective)
    optimizer = {
        "sgd": lambda: keras.optimizers.SGD(0.1),
        # The large ε keeps Adam from making steps out of rounding.
        "lazy": lambda: LazyAdamW(0.01, weight_decay=0.0, epsilon=0.01, global_clipnorm=0.1),
    }[case.get("optimizer", "sgd")]()
    model.build()
    model.compile(optimizer)
    return model


def data(case: dict[str, Any], units: np.ndarray) -> tf.data.Dataset:
    flat = units.reshape(-1, units.shape[-1])
    batched = tf.data.Dataset.from_tensor_slices(flat).batch(8, drop_remainder=True)
    if case.get("candidates"):
        from glomo_tf.data.candidates import with_candidates

        return with_candidates(batched, number=18, counts=np.arange(V) + 1, seed=3)
    return batched


def train(case: dict[str, Any], strategy: tf.distribute.Strategy) -> dict[str, Any]:
    with strategy.scope():
        model = make(case)
    start = [v.numpy() for v in model.trainable_variables]
    figures = model.fit(data(case, batches()), epochs=1, verbose=0, shuffle=False).history
    evaluated = {}
    if case is CASES["contrastive"]:
        evaluated = model.evaluate(data(case, batches()), verbose=0, return_dict=True)
    return {
        "history": {name: values[0] for name, values in figures.items()},
        "evaluated": evaluated,
        "moved": max(
            float(np.abs(v - value).max())
            for v, value in zip(model.trainable_variables, start, strict=True)
        ),
        "weights": {
            f"{i} {v.path}": v.numpy().tolist()
            for i, v in enumerate(model.weights)
            if "seed" not in v.path
        },
    }


CASES: dict[str, dict[str, Any]] = {
    "contrastive": {"objective": "contrastive", "normalization": "batch"},
    "candidates": {"objective": "contrastive", "candidates": True},
    # Embedding rows of both replicas, clipped by the norm of their sum.
    "lazy rows": {"objective": "generative", "optimizer": "lazy"},
}


def main(path: str) -> None:
    strategy = glomo_tf.distribution.strategy("mirrored")
    results: dict[str, Any] = {"replicas": strategy.num_replicas_in_sync}
    for name, case in CASES.items():
        results[name] = {
            "one": train(case, glomo_tf.distribution.strategy("none")),
            "two": train(case, strategy),
        }
    with strategy.scope():
        objective = glomo_tf.ContrastiveContext(seed=0)
    seeds = strategy.run(tf.function(objective._next_seed))
    results["seeds"] = [
        seed.numpy().tolist() for seed in strategy.experimental_local_results(seeds)
    ]
    # A last batch of one example leaves a replica without any.
    with strategy.scope():
        model = make(CASES["contrastive"])
    remainder = tf.data.Dataset.from_tensor_slices(batches()[0, :5]).batch(4)
    try:
        history = model.fit(remainder, epochs=1, verbose=0, shuffle=False).history
        results["remainder"] = history["loss"][0]
    except Exception as error:
        results["remainder"] = f"{type(error).__name__}: {error}"[:500]
    with open(path, "w") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main(sys.argv[1])
