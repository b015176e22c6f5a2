"""`glomo demo`."""

from __future__ import annotations

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

EXAMPLES = """\
Examples:

\b
  glomo demo
  glomo demo --out /tmp/demo --overwrite --json > demo.json
  glomo demo --smoke
  glomo demo --show-settings
"""


def demo(
    out: Annotated[Path, typer.Option(help="Folder for everything it makes.")] = Path("glomo-demo"),
    overwrite: Overwrite = False,
    smoke: Smoke = False,
    set_: Set = None,
    show_settings: ShowSettings = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Learn graphs from text, use them in a task, draw them.

    The text is what every Python carries: no network and no data are needed. It learns a predictor
    for about a minute, compares its graphs with controls on a labelled task, exports and reloads
    it, and draws a sentence as PNG and HTML.
    """
    with answering(json, debug) as answer:
        import_tensorflow()
        from glomo_tf.commands import recipes
        from glomo_tf.recipes import demo as recipe

        settings = recipes.settings_of(recipe, set_, smoke=smoke)
        if show_settings:
            recipes.show_settings(settings, answer)
            return
        result = recipes.run(recipe, settings, out, overwrite=overwrite)
        recipes.outcome(result, out, answer)
