"""`glomo transfer`."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Annotated

import typer

from glomo_tf.commands.shared import (
    Debug,
    Json,
    Overwrite,
    Set,
    ShowSettings,
    Smoke,
    answering,
    import_tensorflow,
)
from glomo_tf.errors import UserError
from glomo_tf.settings import near_matches

# A task's name on the command line, its recipe in glomo_tf.recipes, and what it does.
TASKS = {
    "sentiment": ("sentiment", "Is a review for or against? IMDB or SST-2."),
}
EXAMPLES = (
    """\
Tasks:

\b
"""
    + "".join(f"  {name:<12} {text}\n" for name, (_, text) in TASKS.items())
    + """
Examples:

\b
  glomo transfer sentiment --preset runs/docs --out runs/sentiment --smoke
  glomo transfer sentiment --set labels=500,2000 --set seeds=5
  glomo transfer sentiment --show-settings
  glomo evaluate runs/sentiment
"""
)


def transfer(
    task: Annotated[str, typer.Argument(help="The task; see the list below.")],
    preset: Annotated[
        str | None,
        typer.Option(help="A shipped preset by name, or a folder that `pretrain` made."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run.")] = None,
    overwrite: Overwrite = False,
    smoke: Smoke = False,
    set_: Set = None,
    show_settings: ShowSettings = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Compare learned graphs with controls on a labelled task.

    Trains the task's model with the frozen predictor's graphs and with controls, several times each
    with the same data and first weights, and writes a table of paired differences with intervals.
    """
    with answering(json, debug) as answer:
        if task not in TASKS:
            raise UserError(f"Expected a known task. Received: {task}. {near_matches(task, TASKS)}")
        import_tensorflow()
        from glomo_tf.commands import presets, recipes

        preset = None if preset is None else presets.in_run(preset)
        recipe = importlib.import_module(f"glomo_tf.recipes.{TASKS[task][0]}")
        settings = recipes.settings_of(recipe, set_, smoke=smoke, preset=preset)
        if show_settings:
            recipes.show_settings(settings, answer)
            return
        folder = out or recipes.default_folder(recipe)
        result = recipes.run(recipe, settings, folder, overwrite=overwrite)
        recipes.outcome(result, folder, answer)
