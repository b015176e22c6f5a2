"""The `glomo` command line. Nothing here imports TensorFlow, so that `glomo --help` is quick."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from glomo_tf.commands.demo import EXAMPLES as DEMO
from glomo_tf.commands.demo import demo
from glomo_tf.commands.doctor import EXAMPLES as DOCTOR
from glomo_tf.commands.doctor import doctor
from glomo_tf.commands.draw import EXAMPLES as DRAW
from glomo_tf.commands.draw import draw
from glomo_tf.commands.evaluate import EXAMPLES as EVALUATE
from glomo_tf.commands.evaluate import evaluate
from glomo_tf.commands.export import EXAMPLES as EXPORT
from glomo_tf.commands.export import export
from glomo_tf.commands.pretrain import EXAMPLES as PRETRAIN
from glomo_tf.commands.pretrain import pretrain
from glomo_tf.commands.shared import EXIT_INTERRUPTED
from glomo_tf.commands.transfer import EXAMPLES as TRANSFER
from glomo_tf.commands.transfer import transfer
from glomo_tf.commands.tune import EXAMPLES as TUNE
from glomo_tf.commands.tune import tune

COMMANDS: dict[Callable[..., None], str] = {
    demo: DEMO,
    pretrain: PRETRAIN,
    transfer: TRANSFER,
    evaluate: EVALUATE,
    export: EXPORT,
    tune: TUNE,
    draw: DRAW,
    doctor: DOCTOR,
}

app = typer.Typer(
    name="glomo",
    help="Learn relational graphs from unlabeled text, use them in Keras models, serve them.",
    epilog="Begin with `glomo demo`; `glomo doctor` tells whether everything is in place.",
    rich_markup_mode=None,  # Plain help reads the same on a terminal and in a log, and is quicker.
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command, examples in COMMANDS.items():
    app.command(command.__name__, epilog=examples)(command)


def _show_version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        print(f"glomo-tf {version('glomo-tf')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code.

    Args:
        arguments: The words after `glomo`; those of this process by default.

    Raises:
        SystemExit: 0 if all is well, 2 for what the user can mend, 1 for a defect (or for what
            `doctor` found), 130 for Ctrl-C.
    """
    # Before TensorFlow is imported: its start-up lines are of no use to the user of a command.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        code = app(args=words, prog_name="glomo", standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        print("error: interrupted", file=sys.stderr)
        code = EXIT_INTERRUPTED
    except Exception as error:
        # What is wrong with the words themselves; typer keeps its error classes to itself.
        if not hasattr(error, "format_message"):
            raise
        print(f"error: {_usage(error.format_message(), words)}", file=sys.stderr)
        code = 2
    raise SystemExit(code if isinstance(code, int) else 0)


def _usage(message: str, words: list[str]) -> str:
    """Typer's message on one line, with where to look."""
    names = [function.__name__ for function in COMMANDS]
    command = next((word for word in words if not word.startswith("-")), "")
    message = " ".join(message.split())
    if message.startswith("No such command") and "Did you mean" not in message:
        message += f" There are {', '.join(names)}."
    if not message.endswith((".", "?")):
        message += "."
    return f"{message} See: glomo {command + ' ' if command in names else ''}--help"


if __name__ == "__main__":
    main()
