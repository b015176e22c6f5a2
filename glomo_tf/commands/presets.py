"""A preset as commands need it: predictor and vocabulary, and sentences with their graphs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glomo_tf.errors import UserError

if TYPE_CHECKING:
    from glomo_tf import GraphPredictor, TextUnits
    from glomo_tf.viewer import Sentence


def find(name: str | None) -> Path:
    """The folder of a preset: shipped, given by its folder, or in the folder of a run.

    None stands for the shipped preset if there is just one.

    Raises:
        UserError: There is no such preset.
    """
    from glomo_tf import presets

    shipped = presets.names()
    if name is None and len(shipped) != 1:
        raise UserError(
            "Expected --preset with a folder that `glomo pretrain` made, or the name of a shipped "
            f"preset ({', '.join(shipped) or 'none is shipped'}). Received: nothing."
        )
    return presets.folder_of(in_run(name or shipped[0]))


def in_run(name: str) -> str:
    """The folder `preset` of a run where `name` is the run's folder; `name` itself otherwise."""
    from glomo_tf import presets

    folder = Path(name) / "preset"
    return str(folder) if (folder / presets.PREDICTOR).is_file() else name


def load(name: str | None) -> tuple[GraphPredictor, TextUnits]:
    """The predictor of a preset and the text units that belong to it.

    Raises:
        UserError: There is no such preset, or its vocabulary is that of another predictor.
    """
    from glomo_tf import presets

    return presets.load(find(name))


def sentences(name: str | None, texts: Sequence[str], limit: int) -> list[Sentence]:
    """Texts with the graphs that a preset's predictor sees in them; texts are cut at `limit` units.

    Raises:
        UserError: A text has no words.
    """
    predictor, units = load(name)
    from glomo_tf.viewer import Sentence

    found = []
    for text in texts:
        # One by one: texts of other lengths in the batch would only add padding.
        tokens = [token.decode() for token in units.tokens([text])[0].numpy()][:limit]
        if not tokens:
            raise UserError(f"Expected a text with words. Received: {text!r}.")
        graph = np.asarray(predictor(units([text])[:, :limit]))[0]
        found.append(Sentence(tokens, graph, direction=predictor.direction, title=text))
    return found
