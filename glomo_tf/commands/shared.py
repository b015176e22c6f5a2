"""What all commands share: common options, one answer on standard output, errors as one line."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from glomo_tf.errors import UserError
from glomo_tf.files import reason, to_json

EXIT_USER, EXIT_DEFECT, EXIT_INTERRUPTED = 2, 1, 130

Json = Annotated[
    bool,
    typer.Option(
        "--json", help="Print one JSON object on standard output; all else goes to standard error."
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the whole traceback of an error.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Change a setting; may be given more than once."
    ),
]
ShowSettings = Annotated[
    bool,
    typer.Option("--show-settings", help="Print the settings and what they take, and end."),
]
Smoke = Annotated[
    bool,
    typer.Option("--smoke", help="Use small settings that end in under two minutes on two cores."),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Put the output in place of that of an earlier run.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on with an earlier run that was interrupted.")
]
Preset = Annotated[
    str | None,
    typer.Option(
        "--preset",
        help="A shipped preset by name, or a folder that `pretrain` made; the shipped one if there "
        "is just one.",
    ),
]


@dataclass
class Answer:
    """What a command found: `data` for `--json`, `text` for people."""

    data: Any = None
    text: str = ""
    exit_code: int = 0


@contextmanager
def answering(as_json: bool, debug: bool) -> Iterator[Answer]:
    """Run a command's body and print its answer, or its error as one line on standard error.

    Whatever libraries print in the body goes to standard error, so that standard output holds the
    answer only. With `as_json` an error is answered too: `{"error": "…"}`.

    Raises:
        typer.Exit: The exit code: 2 for what the user can mend, 1 for a defect, 130 for Ctrl-C.
    """
    answer = Answer()
    try:
        with redirect_stdout(sys.stderr):
            yield answer
        put(to_json(answer.data) if as_json else answer.text)
    except typer.Exit:
        raise
    except BrokenPipeError:
        # The reader (`head`, say) has gone; Python's own flush at the end would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            traceback.print_exc()
        line, code = explain(error)
        print(line, file=sys.stderr, flush=True)
        if as_json:
            put(to_json({"error": line.removeprefix("error: ")}))
        raise typer.Exit(code) from None
    if answer.exit_code:
        raise typer.Exit(answer.exit_code)


def explain(error: BaseException) -> tuple[str, int]:
    """The line to show for an error, and the exit code."""
    if isinstance(error, KeyboardInterrupt):
        return "error: interrupted", EXIT_INTERRUPTED
    if isinstance(error, UserError) or _says_what_to_do(error):
        return f"error: {one_line(error)}", EXIT_USER
    if isinstance(error, OSError) and error.errno is not None:
        place = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        return f"error: {place}{reason(error)}", EXIT_USER
    what = f"unexpected {type(error).__name__}: {one_line(error) or 'no message'}"
    return f"error: {what} (a defect of glomo-tf; --debug shows where)", EXIT_DEFECT


def one_line(error: BaseException) -> str:
    """An error's message on one line, without Keras' frame around it and without colours."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error))
    text = re.sub(r"^Exception encountered when calling \S+\s+", "", text)
    text = re.split(r"\n\s*Arguments received by ", text)[0]
    return " ".join(text.split())


def import_tensorflow() -> None:
    """Import TensorFlow without the start-up lines that it prints whatever its log level is.

    They come from C++, so the file descriptor is turned away for that time; what else was
    written in it is shown afterwards.
    """
    if "tensorflow" in sys.modules:
        return
    # On a machine without a GPU TensorFlow reports that as an error; whoever looks for a GPU sets
    # the level, or asks `glomo doctor`.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile("w+", errors="replace") as caught:
        os.dup2(caught.fileno(), 2)
        try:
            import tensorflow  # noqa: F401
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            caught.seek(0)
            for line in caught:
                if not re.match(r"I0000 |WARNING: All log messages before absl::", line):
                    sys.stderr.write(line)


def put(text: str) -> None:
    """Print on standard output, at once, so that a closed pipe is noticed here."""
    if text:
        print(text, flush=True)


def show_path(path: str | os.PathLike) -> str:
    """A path as short as it gets from here."""
    absolute = Path(path).absolute()
    here = Path.cwd()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(absolute)


def _says_what_to_do(error: BaseException) -> bool:
    """Whether an error is one of the house's public ones: `Expected … Received: …`."""
    return isinstance(error, (ValueError, TypeError)) and bool(
        re.search(r"Expected .*Received", str(error), re.S)
    )
