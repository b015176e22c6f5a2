"""How far a long piece of work is: bars with the time left on a terminal, plain lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, TextIO


class Progress:
    """Shows stages of work and their figures.

    On a terminal each stage is a bar with the time left and its newest figures. Elsewhere (a log
    file, a pipe) it is a line at its start, one at most every `interval` seconds, and one at its
    end. Everything goes to standard error, so that standard output holds results only.

    Args:
        stream: Where to write; standard error by default.
        interval: Least number of seconds between two lines of one stage in a log.
        record: Called with `(stage, done, total, figures)` at every `advance`; a `Run` keeps them
            in a file.
        clock: Seconds that only grow; for tests.

    Example:

        >>> with Progress() as progress:
        ...     progress.stage("pre-train")
        ...     for step in range(3):
        ...         progress.advance(step + 1, 3, loss=1 / (step + 1))
        ...     progress.note("done")
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        interval: float = 10.0,
        *,
        record: Callable[[str, int, int | None, dict[str, Any]], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stream = sys.stderr if stream is None else stream
        self.interval = interval
        self.record = record
        self.clock = clock
        self.title = ""
        self._started = self._shown = clock()
        self._last: tuple[int, int | None, dict[str, Any]] | None = None
        self._unshown = False
        self._bars: Any = None
        self._task: Any = None
        if self.stream.isatty():
            self._bars = _bars(self.stream)
            self._bars.start()

    def stage(self, title: str) -> None:
        """Begin a new stage; the one before it is finished."""
        self._finish()
        self.title = title
        self._started = self._shown = self.clock()
        self._last = None
        if self._bars is not None:
            self._task = self._bars.add_task(title, total=None, figures="")
        else:
            self._line(title)

    def advance(self, done: int, total: int | None = None, **figures: Any) -> None:
        """Say that `done` of `total` (None: unknown) is done, with figures such as `loss=4.2`."""
        figures = {name: _number(value) for name, value in figures.items()}
        if self.record is not None:
            self.record(self.title, int(done), None if total is None else int(total), figures)
        self._last, self._unshown = (done, total, figures), True
        if self._bars is not None:
            self._bars.update(self._task, completed=done, total=total, figures=shown(figures))
        elif self.clock() - self._shown >= self.interval:
            self._show()

    def note(self, line: str) -> None:
        """Show one line that stays."""
        if self._bars is not None:
            self._bars.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            self._line(line)

    def close(self) -> None:
        """Finish the last stage; nothing may be shown afterwards."""
        self._finish()
        if self._bars is not None:
            self._bars.stop()
            self._bars = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _finish(self) -> None:
        if self._bars is not None:
            if self._task is not None:
                self._bars.stop_task(self._task)
        elif self._last is not None and self._unshown:
            self._show()
        self._last = None

    def _show(self) -> None:
        assert self._last is not None
        done, total, figures = self._last
        now = self.clock()
        self._shown, self._unshown = now, False
        parts = [f"{self.title} {done}" if total is None else f"{self.title} {done}/{total}"]
        if figures:
            parts.append(shown(figures))
        if total is not None and 0 < done < total:
            parts.append(f"{duration((now - self._started) * (total - done) / done)} left")
        self._line("  ".join(parts))

    def _line(self, text: str) -> None:
        print(text, file=self.stream, flush=True)


def shown(figures: dict[str, Any]) -> str:
    """Figures on one line.

    Example:

        >>> shown({"loss": 4.123456, "tokens_per_second": 13912.4})
        'loss=4.123  tokens_per_second=13,912'
    """
    return "  ".join(f"{name}={figure(value)}" for name, value in figures.items())


def duration(seconds: float) -> str:
    """A time to come, such as `0:05`, `12:30` or `1:02:00`."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def figure(value: Any) -> str:
    """A figure in four digits, or whole with commas from a thousand on."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _number(value: Any) -> Any:
    """A Python number out of a tensor's or an array's single value."""
    return (
        value.item()
        if hasattr(value, "item")
        else float(value)
        if hasattr(value, "numpy")
        else value
    )


def _bars(stream: TextIO) -> Any:
    from rich import progress  # Only a terminal pays for the import.
    from rich.console import Console

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(bar_width=24),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(elapsed_when_finished=True),
        progress.TextColumn("{task.fields[figures]}"),
        console=Console(file=stream, force_terminal=True),
    )
