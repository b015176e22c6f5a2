"""Callbacks for pre-training."""

from __future__ import annotations

import time
from typing import Any

import keras


class Throughput(keras.callbacks.Callback):
    """Adds `units_per_second` to the logs of every epoch: real units trained on, by wall time.

    The first epoch holds the compilation of the step.

    Example:

    >>> from glomo_tf.callbacks import Throughput
    >>> callbacks = [Throughput()]
    """

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._start = time.perf_counter()
        self._before_validation: float | None = None

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._before_validation = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        seconds = (self._before_validation or time.perf_counter()) - self._start
        if logs is not None and "units" in logs:
            logs["units_per_second"] = float(logs["units"]) / seconds
