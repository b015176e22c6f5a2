"""Progress: plain lines in a log, bars on a terminal."""

from __future__ import annotations

import io

import numpy as np
import pytest

from glomo_tf.progress import Progress, duration


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_of_a_log_come_at_most_once_an_interval_and_tell_the_time_left() -> None:
    clock, log = Clock(), io.StringIO()
    with Progress(log, interval=10, clock=clock) as progress:
        progress.stage("train")
        for step in range(1, 9):
            clock.now += 4  # Lines are due after 12 and 24 seconds; the end is always shown.
            progress.advance(step, 8, loss=np.float32(1 / step))
        progress.stage("write")
        progress.note("a [note]")
    assert log.getvalue().splitlines() == [
        "train",
        "train 3/8  loss=0.3333  0:20 left",
        "train 6/8  loss=0.1667  0:08 left",
        "train 8/8  loss=0.125",
        "write",
        "a [note]",
    ]


def test_unknown_totals_have_no_time_left() -> None:
    clock, log = Clock(), io.StringIO()
    with Progress(log, interval=0, clock=clock) as progress:
        progress.stage("read")
        progress.advance(5)
        progress.advance(0, 10)
    assert log.getvalue().splitlines() == ["read", "read 5", "read 0/10"]


def test_every_figure_is_recorded() -> None:
    kept: list[tuple] = []
    with Progress(io.StringIO(), record=lambda *figures: kept.append(figures)) as progress:
        progress.stage("train")
        progress.advance(np.int64(1), 2, loss=np.float32(0.5), note="warm")
    assert kept == [("train", 1, 2, {"loss": 0.5, "note": "warm"})]
    assert type(kept[0][1]) is int
    assert type(kept[0][3]["loss"]) is float


def test_a_terminal_gets_bars_that_keep_brackets() -> None:
    terminal = Terminal()
    with Progress(terminal) as progress:
        progress.stage("train [1]")
        progress.advance(1, 2, loss=4.5)
        progress.note("a [note] that stays")
        progress.stage("next")
    shown = terminal.getvalue()
    for words in ("train [1]", "1/2", "loss=4.5", "a [note] that stays", "next"):
        assert words in shown


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (750, "12:30"), (3720, "1:02:00")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
