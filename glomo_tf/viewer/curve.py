"""Training curve of a pre-training run as a PNG."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from glomo_tf.errors import UserError, require
from glomo_tf.files import replacing
from glomo_tf.viewer.png import EARLIER, INK, LATER


def available() -> bool:
    """Whether matplotlib (extra `viz`) is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def draw_png(
    path: str | os.PathLike[str], rounds: Sequence[dict[str, Any]], *, title: str = ""
) -> Path:
    """Draws loss and accuracy of every round of a run.

    Args:
        path: file to write; replaced once the new one is whole.
        rounds: figures of each round, with `steps`, `loss` and, where there was validation,
            `val_loss`, `val_forward_accuracy_1` and `val_backward_accuracy_1`.
        title: what was learned from.

    Returns:
        The path.

    Raises:
        UserError: no rounds.
        MissingExtra: matplotlib is not installed.
    """
    if not rounds:
        raise UserError("Expected the figures of at least one round. Received: none.")
    require("matplotlib", "viz")
    from matplotlib.figure import Figure

    steps = [row["steps"] for row in rounds]
    figure = Figure(figsize=(8.5, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    panels = (
        (left, "loss", (("loss", "training", EARLIER), ("val_loss", "validation", LATER))),
        (
            right,
            "accuracy at offset 1, validation",
            (
                ("val_forward_accuracy_1", "next unit", EARLIER),
                ("val_backward_accuracy_1", "previous unit", LATER),
            ),
        ),
    )
    for axes, label, lines in panels:
        for name, legend, colour in lines:
            values = [row.get(name) for row in rounds]
            if None not in values:
                axes.plot(steps, values, color=colour, label=legend, linewidth=1.6)
        axes.set_xlabel("steps")
        axes.set_ylabel(label)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False)
    if title:
        figure.suptitle(title, color=INK, fontsize=11)
    path = Path(path)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=144, format="png")
    return path
