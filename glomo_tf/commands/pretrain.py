"""`glomo pretrain`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
Sources:

\b
  text:PATH      text files: a file, a folder or a pattern such as 'text:notes/*.txt'
  jsonl:PATH     lines of JSON, also packed (.jsonl, .jsonl.gz, .jsonl.xz)
  tfds:NAME      a data set of TensorFlow Datasets that is prepared on this machine
  python:docs    the documentation that every Python carries

Examples:

\b
  glomo pretrain python:docs --out runs/docs --smoke
  glomo pretrain 'text:articles/*.txt' --out runs/articles --set width=128
  glomo pretrain tfds:imdb_reviews --out runs/imdb --resume
  glomo pretrain --show-settings
"""


def pretrain(
    source: Annotated[
        str | None, typer.Argument(help="The text to learn from; see the sources below.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the run and its preset.")] = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    smoke: Smoke = False,
    set_: Set = None,
    show_settings: ShowSettings = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Learn a graph predictor from text without labels.

    The folder holds checkpoints from which an interrupted run goes on (--resume), every figure on
    the way (metrics.jsonl), and at the end a preset that `transfer`, `export` and `draw` take.
    """
    with answering(json, debug) as answer:
        import_tensorflow()
        from glomo_tf.commands import recipes
        from glomo_tf.recipes import pretrain_text as recipe

        settings = recipes.settings_of(recipe, set_, smoke=smoke, source=source)
        if show_settings:
            recipes.show_settings(settings, answer)
            return
        folder = out or recipes.default_folder(recipe)
        result = recipes.run(recipe, settings, folder, resume=resume, overwrite=overwrite)
        recipes.outcome(result, folder, answer)
