"""`glomo tune`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from glomo_tf.commands.shared import (
    Debug,
    Json,
    Overwrite,
    Resume,
    Set,
    ShowSettings,
    Smoke,
    answering,
    import_tensorflow,
)

EXAMPLES = """\
Examples:

\b
  glomo tune python:docs --smoke
  glomo tune 'text:articles/*.txt' --out runs/tune --method bayesian --trials 30
  glomo tune 'text:articles/*.txt' --out runs/tune --method bayesian --trials 60 --resume
  glomo tune --show-settings
"""


def tune(
    source: Annotated[
        str | None, typer.Argument(help="The text to learn from, as in `glomo pretrain`.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the search and its trials.")] = None,
    trials: Annotated[int | None, typer.Option(min=1, help="Most trials to run.")] = None,
    method: Annotated[
        Literal["random", "bayesian", "hyperband"] | None,
        typer.Option(help="How to choose trials; at random by default."),
    ] = None,
    figure: Annotated[
        str | None, typer.Option(help="The figure to tune on; val_loss by default.")
    ] = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    smoke: Smoke = False,
    set_: Set = None,
    show_settings: ShowSettings = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Search for settings of pre-training with keras-tuner.

    Each trial learns for a short time on the text and is scored on held-out articles. The best
    settings are printed; every trial is kept in the folder.
    """
    with answering(json, debug) as answer:
        import_tensorflow()
        from glomo_tf.commands import recipes
        from glomo_tf.recipes import tune_text as recipe

        given = {"source": source, "trials": trials, "method": method, "figure": figure}
        settings = recipes.settings_of(recipe, set_, smoke=smoke, **given)
        if show_settings:
            recipes.show_settings(settings, answer)
            return
        folder = out or recipes.default_folder(recipe)
        result = recipes.run(recipe, settings, folder, resume=resume, overwrite=overwrite)
        recipes.outcome(result, folder, answer)
        best = result["hyperparameters"].items()
        answer.text = "\n".join([*(f"{name}: {value}" for name, value in best), answer.text])
