"""Strategies by name, and batches that replicas can share."""

from __future__ import annotations

import json

import pytest
import tensorflow as tf

from glomo_tf.distribution import check_batch, strategy
from glomo_tf.errors import UserError


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    monkeypatch.delenv("TPU_NAME", raising=False)


@pytest.mark.parametrize("name", ["none", "auto"])
def test_one_cpu_needs_no_strategy(name):
    assert strategy(name) is tf.distribute.get_strategy()


def test_unknown_name_is_refused():
    with pytest.raises(UserError, match="none, mirrored, multi_worker, tpu"):
        strategy("mirrord")


def test_multi_worker_needs_a_cluster(monkeypatch):
    one = {"cluster": {"worker": ["localhost:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(one))
    assert strategy("auto") is tf.distribute.get_strategy()
    with pytest.raises(UserError, match="at least two workers"):
        strategy("multi_worker")
    monkeypatch.setenv("TF_CONFIG", "{not json")
    with pytest.raises(UserError, match="Expected TF_CONFIG to hold JSON"):
        strategy("auto")


class Replicas:
    """Stands for a strategy over some replicas."""

    def __init__(self, number: int) -> None:
        self.num_replicas_in_sync = number


@pytest.mark.parametrize(("batch", "replicas"), [(8, 1), (8, 2), (12, 4)])
def test_even_batches_pass(batch, replicas):
    check_batch(batch, Replicas(replicas))


@pytest.mark.parametrize(("batch", "replicas", "better"), [(3, 2, 4), (1, 2, 2), (9, 4, 12)])
def test_uneven_batches_are_refused_with_a_better_one(batch, replicas, better):
    message = f"multiple of the {replicas} replicas. Received: batch size {batch}. Use {better}"
    with pytest.raises(UserError, match=message):
        check_batch(batch, Replicas(replicas))
