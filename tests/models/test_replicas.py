"""Two replicas are one device: reports 1, 2, 3 and 5."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from glomo_tf import distribution
from glomo_tf.errors import UserError
from tests.models.replicas_process import CASES

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All cases in one other process: TensorFlow fixes its devices when it starts."""
    path = tmp_path_factory.mktemp("replicas") / "results.json"
    script = Path(__file__).with_name("replicas_process.py")
    done = subprocess.run(
        [sys.executable, str(script), str(path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(path.read_text())


@pytest.mark.parametrize("case", CASES)
def test_reports_1_2_3_two_replicas_are_one_device(results: dict[str, Any], case: str) -> None:
    """Losses and all figures, in training and evaluation, and every weight after a few steps.

    Negatives are those of the global batch, and the halves of a batch hold unequal numbers of
    predictions, so a mean of replicas' means would be another number.
    """
    assert results["replicas"] == 2
    one, two = results[case]["one"], results[case]["two"]
    for part in ("history", "evaluated"):
        assert set(one[part]) == set(two[part])
        for name, value in one[part].items():
            np.testing.assert_allclose(two[part][name], value, rtol=1e-5, err_msg=f"{part} {name}")
    assert one["moved"] > 1e-3
    assert len(one["weights"]) == len(two["weights"])
    for (name, value), other in zip(one["weights"].items(), two["weights"].values(), strict=True):
        np.testing.assert_allclose(other, value, atol=1e-5, err_msg=name)


def test_report_5_a_last_batch_that_replicas_cannot_share(results: dict[str, Any]) -> None:
    assert isinstance(results["remainder"], float), results["remainder"]
    assert np.isfinite(results["remainder"])


class Two(tf.distribute.Strategy):
    """Two replicas, for the check alone."""

    def __init__(self) -> None:
        pass

    num_replicas_in_sync = 2


def test_replicas_draw_negatives_of_their_own(results: dict[str, Any]) -> None:
    first, second = results["seeds"]
    assert first != second


def test_report_5_batch_size_that_does_not_divide() -> None:
    distribution.check_batch(4, Two())
    with pytest.raises(UserError, match=r"multiple of the 2 replicas. Received: batch size 3"):
        distribution.check_batch(3, Two())


def test_unknown_strategy() -> None:
    with pytest.raises(UserError, match=r"one of auto, none, mirrored.* Received: 'horovod'"):
        distribution.strategy("horovod")
