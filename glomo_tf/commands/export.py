"""`glomo export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from glomo_tf.commands.shared import Debug, Json, Preset, answering, import_tensorflow, show_path

EXAMPLES = """\
Examples:

\b
  glomo export --preset runs/docs --out served/docs
  glomo export --preset runs/docs --out served/docs --model-version 7 --max-length 128
  tensorflow_model_server --model_name=docs --model_base_path=$PWD/served/docs
"""


def export(
    out: Annotated[Path, typer.Option(help="Folder of the served model; versions lie in it.")],
    model_version: Annotated[
        int | None, typer.Option(min=1, help="Version; one more than the newest by default.")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(min=1, help="Longest text in units; longer ones are cut.")
    ] = None,
    preset: Preset = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a predictor as a SavedModel for TF Serving.

    Nothing is overwritten: each export is a new version, and it appears whole or not at all.
    """
    with answering(json, debug) as answer:
        import_tensorflow()
        from glomo_tf import export as exporting
        from glomo_tf.commands import presets

        predictor, units = presets.load(preset)
        options: dict[str, Any] = {} if max_length is None else {"max_length": max_length}
        folder = exporting.export(predictor, units, out, model_version, **options)
        answer.data = {
            "preset": str(presets.find(preset)),
            "folder": str(folder),
            "version": int(folder.name),
        }
        answer.text = f"Version {folder.name} is in {show_path(folder)}."
