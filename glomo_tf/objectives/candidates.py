"""Candidates of a sampled classification: in-batch and sampled units, and their probability.

A set of candidate units holds the units of the (global) batch and negatives sampled from a smoothed
unit distribution. Predictions are classified among the set, each logit corrected by the log of the
probability that its unit is in the set (Bengio and Senécal, 2008; Jean et al., 2015), so that
frequent units are not pushed away merely because they are negatives often.
"""

from __future__ import annotations

import tensorflow as tf

SMOOTHING = 0.75
"""Exponent on the unit distribution from which negatives are sampled (Mikolov et al., 2013)."""

_LOWEST = -1e9  # a logit that no softmax sees, finite in float32


def zipf(size: int) -> tf.Tensor:
    """Unit probabilities by rank, 1/rank, for units ordered by frequency; 0 for padding."""
    ranks = tf.range(1, size, dtype=tf.float32)
    return tf.concat([[0.0], (1.0 / ranks) / tf.reduce_sum(1.0 / ranks)], axis=0)


def sampling_distribution(probabilities: tf.Tensor) -> tf.Tensor:
    """The distribution of sampled negatives: probabilities^0.75, normalised."""
    smoothed = tf.pow(probabilities, SMOOTHING)
    return smoothed / tf.reduce_sum(smoothed)


def sample(distribution: tf.Tensor, number: int, seed: tf.Tensor) -> tf.Tensor:
    """Draws `number` units with replacement by inverting the distribution function."""
    cumulative = tf.cumsum(distribution)
    draws = tf.random.stateless_uniform([number], seed) * cumulative[-1]
    units = tf.searchsorted(cumulative, draws, side="right")
    return tf.minimum(units, tf.shape(distribution)[0] - 1)


def gather_replicas(units: tf.Tensor) -> tf.Tensor:
    """The same vector of units from all replicas, joined; on one device the vector itself."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return units
    return context.all_gather(units, axis=0)


def sum_replicas(total: tf.Tensor) -> tf.Tensor:
    """A number of each replica, added up; on one device the number itself. Has no gradient."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return tf.stop_gradient(total)
    return tf.stop_gradient(context.all_reduce(tf.distribute.ReduceOp.SUM, total))


def sorted_set(units: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Units in order, and which of them count: not padding, and the first of their kind.

    The length stays static, which XLA needs; a repeated unit is switched off, not removed.
    """
    ordered = tf.sort(units)
    before = tf.concat([[-1], ordered[:-1]], axis=0)
    return ordered, (ordered != before) & (ordered > 0)


def log_inclusion(
    units: tf.Tensor, probabilities: tf.Tensor, batch_units: tf.Tensor, sampled: tf.Tensor
) -> tf.Tensor:
    """Log-probability that a unit is among the candidates.

    log(1 − (1 − p_u)^N (1 − q_u)^S) for N units of the batch and S sampled negatives, with p the
    unit distribution and q the one negatives are drawn from.

    Args:
        units: int `[C]`.
        probabilities: p, float32 `[V]`.
        batch_units: N, a float scalar.
        sampled: S, a float scalar.

    Returns:
        float32 `[C]`, at most 0.
    """
    p = tf.clip_by_value(tf.gather(probabilities, units), 1e-9, 1 - 1e-6)
    q = tf.gather(sampling_distribution(probabilities), units)
    q = tf.clip_by_value(q, 1e-9, 1 - 1e-6)
    missed = batch_units * tf.math.log1p(-p) + sampled * tf.math.log1p(-q)
    return tf.math.log(tf.maximum(-tf.math.expm1(missed), 1e-9))


def classify(
    logits: tf.Tensor, targets: tf.Tensor, candidates: tf.Tensor, usable: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Cross-entropy of the targets among the candidates.

    Args:
        logits: float `[N, C]`.
        targets: int `[N]`, the true units.
        candidates: int `[C]`, in ascending order.
        usable: bool `[C]`, which candidates count.

    Returns:
        loss float32 `[N]`, correct bool `[N]` (the target has the highest logit), present bool
        `[N]` (the target is among the usable candidates; otherwise loss is 0).
    """
    logits = tf.where(usable, tf.cast(logits, tf.float32), _LOWEST)
    place = tf.minimum(tf.searchsorted(candidates, targets), tf.shape(candidates)[0] - 1)
    present = (tf.gather(candidates, place) == targets) & tf.gather(usable, place)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=place, logits=logits)
    correct = tf.argmax(logits, axis=-1, output_type=place.dtype) == place
    return tf.where(present, loss, 0.0), correct & present, present
