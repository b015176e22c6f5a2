"""`glomo draw`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glomo_tf.commands.shared import Debug, Json, Preset, answering, import_tensorflow, show_path
from glomo_tf.errors import UserError

EXAMPLES = """\
Examples:

\b
  glomo draw "The cat that the dog chased sat on the mat." --preset runs/docs
  glomo draw "First sentence." "Second sentence." --preset runs/docs --out pictures/two
  glomo draw "The cat sat." --preset runs/docs --layer 1 --head 2 --direction backward
"""
MAX_UNITS = 400


def draw(
    texts: Annotated[list[str], typer.Argument(help="The sentences to draw.")],
    out: Annotated[
        Path, typer.Option(help="Where to: OUT.html, OUT.png, then OUT-2.png and so on.")
    ] = Path("graph"),
    layer: Annotated[int | None, typer.Option(min=1, help="One layer; all by default.")] = None,
    head: Annotated[int | None, typer.Option(min=1, help="One head; all by default.")] = None,
    direction: Annotated[
        str | None, typer.Option(help="forward or backward; both by default.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Put the pictures in place of earlier ones.")
    ] = False,
    preset: Preset = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Draw the graphs that a predictor sees in sentences.

    Each sentence as a PNG, and all of them as one page to explore.     An arc goes from the word
    that gives to the word that takes; the page lets one pick layer, head and direction, the PNG
    shows their mean or the one asked for.
    """
    with answering(json, debug) as answer:
        pictures = [
            out.with_name(f"{out.name}{'' if i == 0 else f'-{i + 1}'}.png")
            for i in range(len(texts))
        ]
        page = out.with_name(f"{out.name}.html")
        there = [path for path in (page, *pictures) if path.exists()]
        if there and not overwrite:
            raise UserError(
                f"Expected new names for the pictures. Received: {there[0]}, which exists. "
                "Choose another --out, or give --overwrite."
            )
        import_tensorflow()
        from glomo_tf.commands import presets

        sentences = presets.sentences(preset, texts, MAX_UNITS)
        from glomo_tf.viewer import draw_html, draw_png

        for path, sentence in zip(pictures, sentences, strict=True):
            draw_png(path, sentence, layer=layer, head=head, direction=direction)
        draw_html(page, sentences)
        answer.data = {
            "preset": str(presets.find(preset)),
            "png": list(map(str, pictures)),
            "html": str(page),
        }
        answer.text = "\n".join(show_path(path) for path in (*pictures, page))
