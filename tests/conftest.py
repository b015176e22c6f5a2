"""Before TensorFlow is imported: quiet, on the CPU, one thread a process where several run."""

from __future__ import annotations

import os
import sys

import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ["KERAS_BACKEND"] = "tensorflow"

# Examples are the same in every run, and how long one takes says nothing (the first one traces).
settings.register_profile(
    "house",
    deadline=None,
    derandomize=True,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("house")


@pytest.fixture(autouse=True)
def _same_start() -> None:
    """Every test begins with the same random numbers and in float32, whatever ran before it."""
    keras = sys.modules.get("keras")
    if keras is not None:
        keras.utils.set_random_seed(0)
        keras.config.set_dtype_policy("float32")
    return
