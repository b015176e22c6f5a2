"""`glomo evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from glomo_tf.commands.shared import Debug, Json, answering, show_path

EXAMPLES = """\
Examples:

\b
  glomo evaluate runs/sentiment
  glomo evaluate runs/*/result.json --out results.md --picture results.png
  glomo evaluate runs/sentiment --target learned --json
"""


def evaluate(
    results: Annotated[
        list[Path], typer.Argument(help="Result files (result.json), or folders of runs.")
    ],
    target: Annotated[
        str, typer.Option(help="The condition that all others are compared with.")
    ] = "learned",
    out: Annotated[Path | None, typer.Option(help="Write the Markdown to this file.")] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the differences to this file (PNG).")
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Make tables with intervals out of results.

    Means, and paired differences with 95% intervals. Prints Markdown. With --json the same numbers
    come as one object.
    """
    with answering(json, debug) as answer:
        from glomo_tf import results as tables
        from glomo_tf.files import write_text

        read = [tables.read(path) for path in results]
        answer.data = {
            "results": [
                {"file": str(path), **tables.summary(result, target=target)}
                for path, result in zip(results, read, strict=True)
            ]
        }
        text = "\n".join(tables.markdown(result, target=target) for result in read)
        answer.text = text.rstrip("\n")
        if out is not None:
            write_text(out, text)
            answer.data["out"] = str(out)
            answer.text = f"The tables are in {show_path(out)}."
        if picture is not None:
            from glomo_tf.viewer import differences

            found = [part for result in read for part in tables.compare(result, target=target)]
            differences.draw_png(picture, found, target=target)
            answer.data["picture"] = str(picture)
            answer.text += f"\nThe picture is in {show_path(picture)}."
