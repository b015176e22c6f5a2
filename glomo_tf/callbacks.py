"""Callbacks for pre-training."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import keras

from glomo_tf import files


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


class Rounds(keras.callbacks.Callback):
    """Writes the figures of every epoch ("round") as a line of JSON, and shows progress.

    Args:
        path: file of lines; lines of rounds that will be trained again are dropped.
        progress: object with `advance(done, total, **figures)`, such as `glomo_tf.runs.Progress`.
        round_steps: steps in a round.
        rounds: number of rounds in the whole run.
        keep: rounds that were trained before.
    """

    def __init__(
        self, path: str | Path, progress: Any, round_steps: int, rounds: int, *, keep: int = 0
    ) -> None:
        super().__init__()
        self.path = Path(path)
        self.progress = progress
        self.round_steps = round_steps
        self.total = round_steps * rounds
        self.rounds = rounds
        lines = self.path.read_text("utf-8").splitlines() if self.path.exists() else []
        files.write_text(self.path, "".join(line + "\n" for line in lines[:keep]))

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        figures = {name: round(float(value), 5) for name, value in (logs or {}).items()}
        steps = (epoch + 1) * self.round_steps
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"round": epoch + 1, "steps": steps, **figures}) + "\n")
        shown = ("loss", "val_loss", "val_forward_accuracy_1", "units_per_second")
        few = {name: figures[name] for name in shown if name in figures}
        self.progress.advance(steps, self.total, **few)
