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
  glomo tune python:docs --out runs/tune --smoke --trials 3
  glomo tune 'text:articles/*.txt' --method hyperband --trials 30 --resume
"""


def tune(
    source: Annotated[
        str | None, typer.Argument(help="The text to learn from, as in `glomo pretrain`.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the search and its trials.")] = Path(
        "runs/tune"
    ),
    trials: Annotated[int, typer.Option(min=1, help="Most trials to run.")] = 10,
    method: Annotated[
        Literal["random", "bayesian", "hyperband"], typer.Option(help="How to choose trials.")
    ] = "random",
    objective: Annotated[
        str, typer.Option(help="The figure to make small, or large if it is an accuracy.")
    ] = "val_loss",
    resume: Resume = False,
    overwrite: Overwrite = False,
    smoke: Smoke = False,
    set_: Set = None,
    show_settings: ShowSettings = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Search for settings of pre-training with keras-tuner.

    Settings given with --set stay fixed and begin where `glomo pretrain` does.
    """
    with answering(json, debug) as answer:
        import_tensorflow()
        from glomo_tf import tuning
        from glomo_tf.commands import recipes
        from glomo_tf.recipes import pretrain_text as recipe
        from glomo_tf.runs import Run

        settings = recipes.settings_of(recipe, set_, smoke=smoke, source=source)
        if show_settings:
            recipes.show_settings(settings, answer)
            return
        with (
            Run(out, settings, recipe="tune", resume=resume, overwrite=overwrite) as run,
            run.progress() as progress,
        ):
            found = tuning.tune(
                settings,
                run.folder,
                method=method,
                trials=trials,
                objective=objective,
                progress=progress,
            )
            result = run.finish(found)
        recipes.outcome(result, out, answer)
