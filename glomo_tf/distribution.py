"""Choosing a `tf.distribute` strategy by name."""

from __future__ import annotations

import json
import os

import tensorflow as tf

from glomo_tf.errors import UserError

STRATEGIES = ("auto", "none", "mirrored", "multi_worker", "tpu")


def strategy(name: str = "auto") -> tf.distribute.Strategy:
    """A distribution strategy; make and compile the model under its `scope()`.

    Negatives of the contrastive objective, batch statistics and the loss are those of the global
    batch, so the weights after a step do not depend on the number of replicas. Batches must divide
    evenly: see `check_batch`.

    Args:
        name: `"none"` (one device), `"mirrored"` (all GPUs of this machine, or all logical CPU
            devices where there is no GPU), `"multi_worker"` (the cluster in `TF_CONFIG`), `"tpu"`,
            or `"auto"`: multi_worker where `TF_CONFIG` names several workers, tpu where
            `TPU_NAME` is set, mirrored with more than one GPU, else none.

    Returns:
        The strategy. `"multi_worker"` and `"tpu"` connect to other machines.

    Raises:
        UserError: unknown name, or what it needs is not there.

    Example:

    >>> import glomo_tf
    >>> with glomo_tf.distribution.strategy("none").scope():
    ...     predictor = glomo_tf.GraphPredictor(50, width=16, num_heads=2, head_dim=8)
    """
    if name not in STRATEGIES:
        raise UserError(
            f"Expected the strategy to be one of {', '.join(STRATEGIES)}. Received: {name!r}."
        )
    if name == "auto":
        name = _best()
    if name == "none":
        return tf.distribute.get_strategy()
    if name == "mirrored":
        devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        return tf.distribute.MirroredStrategy([device.name for device in devices])
    if name == "multi_worker":
        if _workers() < 2:
            raise UserError(
                "Expected TF_CONFIG to describe a cluster of at least two workers. Received: "
                f"{os.environ.get('TF_CONFIG', 'nothing')}. Set it, or use another strategy."
            )
        return tf.distribute.MultiWorkerMirroredStrategy()
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(os.environ.get("TPU_NAME", ""))
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, tf.errors.OpError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"Expected a TPU, named by TPU_NAME. Received: {reason}") from error
    return tf.distribute.TPUStrategy(resolver)


def check_batch(batch_size: int, strategy: tf.distribute.Strategy) -> None:
    """Refuses a global batch that replicas cannot share evenly, before the first step.

    Raises:
        UserError: the batch size is not a multiple of the number of replicas.
    """
    replicas = strategy.num_replicas_in_sync
    if batch_size % replicas:
        raise UserError(
            f"Expected the batch size to be a multiple of the {replicas} replicas. "
            f"Received: batch size {batch_size}. Use {(batch_size // replicas + 1) * replicas}."
        )


def _best() -> str:
    if _workers() > 1:
        return "multi_worker"
    if os.environ.get("TPU_NAME"):
        return "tpu"
    return "mirrored" if len(tf.config.list_physical_devices("GPU")) > 1 else "none"


def _workers() -> int:
    try:
        cluster = json.loads(os.environ.get("TF_CONFIG", "{}")).get("cluster", {})
        return sum(len(cluster.get(role, [])) for role in ("chief", "worker"))
    except (ValueError, AttributeError) as error:
        raise UserError(
            f"Expected TF_CONFIG to hold JSON with a cluster. Received: {error}."
        ) from error
