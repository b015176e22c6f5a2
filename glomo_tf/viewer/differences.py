"""Paired differences with their intervals as a PNG."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glomo_tf.errors import UserError, require
from glomo_tf.files import replacing
from glomo_tf.viewer.png import INK, LATER, QUIET

_BETTER = "#0072B2"


def draw_png(
    path: str | os.PathLike[str],
    comparisons: Sequence[Any],
    *,
    target: str = "learned",
    scale: float = 100.0,
) -> Path:
    """Draws, for each group of a result, the target minus every other condition.

    A dot is the mean over seeds, the line its interval. Blue: the target is better beyond noise;
    vermilion: worse; grey: the interval holds 0.

    Args:
        path: file to write; replaced once the new one is whole.
        comparisons: of `glomo_tf.results.compare`.
        target: name of the condition that the others are taken from.
        scale: factor on the differences; 100 makes points of shares.

    Returns:
        The path.

    Raises:
        UserError: nothing to compare.
        MissingExtra: matplotlib is not installed.
    """
    panels = [found for found in comparisons if found.differences]
    if not panels:
        raise UserError("Expected comparisons with differences. Received: none.")
    require("matplotlib", "viz")
    from matplotlib.figure import Figure

    columns = min(len(panels), 4)
    rows = -(-len(panels) // columns)
    names = list(dict.fromkeys(name for found in panels for name in found.differences))
    height = 0.9 + 0.27 * len(names)
    figure = Figure(figsize=(2.3 + 2.3 * columns, height * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False, sharey=True, sharex=True)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    for axes, found in zip(grid.flat, panels, strict=False):
        for place, name in enumerate(names):
            if name not in found.differences:
                continue
            interval = found.differences[name].scaled(scale)
            colour = _BETTER if interval.low > 0 else LATER if interval.high < 0 else QUIET
            if math.isfinite(interval.half_width):  # one seed alone has no interval
                axes.plot([interval.low, interval.high], [place, place], color=colour, linewidth=2)
            axes.plot([interval.mean], [place], "o", color=colour, markersize=4.5)
        axes.axvline(0, color=INK, linewidth=0.8)
        axes.set_yticks(range(len(names)), names)
        title = ", ".join(
            f"{value}" if isinstance(value, str) else f"{key} {value:,}"
            for key, value in found.group.items()
        )
        axes.set_title(title, fontsize=9, color=INK)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.tick_params(axis="x", labelbottom=True)
        axes.grid(axis="x", alpha=0.25)
    grid[0][0].invert_yaxis()
    unit = "points of " if scale == 100 else ""
    figure.supxlabel(f"{target} minus the condition, {unit}{panels[0].metric}", fontsize=9)
    path = Path(path)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=144, format="png")
    return path
