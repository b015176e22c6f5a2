"""Batches that do not depend on where a run was stopped, and the optimizer's schedule."""

from __future__ import annotations

import numpy as np
import pytest

from glomo_tf import pretraining
from glomo_tf.data.corpus import EncodedCorpus


@pytest.fixture(scope="module")
def corpus() -> EncodedCorpus:
    rng = np.random.default_rng(0)
    return EncodedCorpus(rng.integers(3, 40, 400).astype("int32"), np.array([0, 150, 260, 400]))


def batches(corpus, steps, done=0):
    return pretraining.batches(
        corpus,
        steps=steps,
        done=done,
        length=(6, 8),
        stride=8,
        batch_size=8,
        candidates=60,
        counts=corpus.counts(40),
        seed=3,
    )


def test_step_n_has_the_same_batch_after_a_stop(corpus):
    whole = list(batches(corpus, 20))
    assert len(whole) == 20  # more than one pass over the corpus
    for done in (1, 6, 13):
        rest = batches(corpus, 20, done)
        assert int(rest.cardinality()) == 20 - done
        for a, b in zip(whole[done:], rest, strict=True):
            np.testing.assert_array_equal(a["units"], b["units"])
            np.testing.assert_array_equal(a["candidates"], b["candidates"])


def test_passes_differ_and_shapes_do_not(corpus):
    whole = list(batches(corpus, 20))
    assert {tuple(b["units"].shape) for b in whole} == {(8, 8)}
    assert {tuple(b["candidates"].shape) for b in whole} == {(39,)}
    assert len({b["units"].numpy().tobytes() for b in whole}) == 20


def test_learning_rate_warms_up_then_falls_to_0():
    rate = pretraining.optimizer(1e-2, steps=1000, warmup_steps=100)._learning_rate
    assert float(rate(0)) == 0
    assert float(rate(50)) == pytest.approx(5e-3)
    assert float(rate(100)) == pytest.approx(1e-2)
    # A quarter, a half and the whole of the 900 steps of decay: (1 + cos πx) / 2.
    assert float(rate(325)) == pytest.approx(1e-2 * (1 + np.cos(np.pi / 4)) / 2)
    assert float(rate(550)) == pytest.approx(5e-3)
    assert float(rate(1000)) == pytest.approx(0, abs=1e-9)


def test_short_runs_warm_up_for_a_quarter():
    rate = pretraining.optimizer(1e-2, steps=40, warmup_steps=100)._learning_rate
    assert float(rate(10)) == pytest.approx(1e-2)
