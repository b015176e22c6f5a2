"""Candidate units for sampled objectives, made in the input pipeline with a fixed number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from glomo_tf.errors import UserError

_POWER = 0.75  # flattens counts to the usual distribution of negatives (Mikolov et al., 2013)


def with_candidates(
    dataset: tf.data.Dataset, *, number: int, counts: Sequence[int] | np.ndarray, seed: int
) -> tf.data.Dataset:
    """Give every batch the units that its positions are scored against.

    1. The units of the batch, each once, without padding (0), are candidates. They stand first,
       in rising order.
    2. The rest is drawn without replacement from the units that are not in the batch, with
       probability in proportion to `counts ** 0.75`; a unit of count 0 is never drawn. They stand
       in the order of the draw.
    3. If there are too few units the end is padded with 0. If the batch alone has more than
       `number`, nothing is drawn, and the units that are the most frequent in the batch stay (so
       that the fewest positions lose theirs), of equal ones those that are rarer in `counts`.

    Args:
        dataset: batches of units, int32 [B, T].
        number: how many candidates a batch has.
        counts: [V], occurrences of each unit in the corpus (`EncodedCorpus.counts`).
        seed: decides the draws; batch n of the dataset gets the same ones every time.

    Returns:
        Dataset of `{"units": int32 [B, T], "candidates": int32 [number]}` with the cardinality of
        `dataset`.

    Raises:
        UserError: A setting is wrong.

    Example:

    >>> import tensorflow as tf
    >>> from glomo_tf.data.candidates import with_candidates
    >>> data = tf.data.Dataset.from_tensors(tf.constant([[5, 3, 3], [4, 0, 0]]))
    >>> data = with_candidates(data, number=6, counts=[0, 2, 0, 9, 9, 9], seed=0)
    >>> next(iter(data))["candidates"].numpy().tolist()
    [3, 4, 5, 1, 0, 0]
    """
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise UserError(f"Expected `number` to be a positive integer. Received: number={number!r}.")
    weights = np.asarray(counts, np.float64)
    if weights.ndim != 1 or not len(weights) or not (weights >= 0).all():
        raise UserError(
            "Expected `counts` to be one number of at least 0 for each unit, shape [V]. "
            f"Received: counts of shape {weights.shape}."
        )
    spec: Any = dataset.element_spec
    if not isinstance(spec, tf.TensorSpec) or spec.dtype != tf.int32:
        raise UserError(
            f"Expected a dataset of int32 units [B, T]. Received: elements of {spec}. "
            "Make it with glomo_tf.data.windows.windows."
        )
    size = len(weights)
    weights = weights**_POWER
    weights[0] = 0.0
    with np.errstate(divide="ignore"):
        log_weights = tf.constant(np.log(weights), tf.float32)
    # A rarer unit wins a tie; 0 < rarity < 1.
    rarity = tf.constant(1.0 / (2.0 + np.asarray(counts, np.float64)), tf.float32)

    def add(index: tf.Tensor, units: tf.Tensor) -> dict[str, tf.Tensor]:
        tf.debugging.assert_less(
            tf.reduce_max(units, [0, 1]), size, "A unit of the batch is not in `counts`."
        )
        present = tf.math.bincount(tf.reshape(units, [-1]), minlength=size, maxlength=size)
        present *= tf.one_hot(0, size, on_value=0, off_value=1, dtype=tf.int32)
        found = tf.cast(tf.where(present > 0)[:, 0], tf.int32)

        def cut() -> tf.Tensor:
            scores = tf.cast(tf.gather(present, found), tf.float32) + tf.gather(rarity, found)
            return tf.sort(tf.gather(found, tf.math.top_k(scores, number).indices))

        def draw() -> tf.Tensor:
            # The largest log weights under Gumbel noise are a draw without replacement.
            uniform = tf.random.stateless_uniform([size], [seed, index], minval=1e-20)
            keys = log_weights - tf.math.log(-tf.math.log(uniform))
            keys = tf.where(present > 0, -np.inf, keys)
            best = tf.math.top_k(keys, tf.minimum(number - tf.size(found), size))
            drawn = tf.boolean_mask(best.indices, tf.math.is_finite(best.values))
            return tf.concat([found, drawn], 0)

        candidates = tf.cond(tf.size(found) > number, cut, draw)
        candidates = tf.pad(candidates, [[0, number - tf.size(candidates)]])
        candidates.set_shape([number])
        return {"units": units, "candidates": candidates}

    return (
        dataset.enumerate()
        .map(add, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        .prefetch(tf.data.AUTOTUNE)
    )
