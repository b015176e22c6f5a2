"""A model and batches that are small enough for tests of training."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from glomo_tf import ContrastiveContext, FeaturePredictor, GLoMo, GraphPredictor


def make(objective: Any = None, **changes: Any) -> GLoMo:
    setting = {"width": 8, "num_layers": 2, "num_heads": 2, "head_dim": 4, "cnn_depth": 1}
    setting |= {"normalization": "layer"} | changes
    objective = objective or ContrastiveContext(context_length=2, num_negatives=0)
    return GLoMo(GraphPredictor(20, **setting), FeaturePredictor(), objective)


def make_batches(number: int = 3, batch: int = 4, length: int = 7) -> list[np.ndarray]:
    """Each batch has a text shorter than the others, and the first a text without any unit."""
    rng = np.random.default_rng(0)
    batches = []
    for index in range(number):
        units = rng.integers(1, 20, (batch, length)).astype("int32")
        units[0, 3 + index :] = 0
        batches.append(units)
    batches[0][1] = 0
    return batches


def dataset(batches: list[np.ndarray]) -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(np.stack(batches))
