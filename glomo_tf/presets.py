"""Preset folders: a trained predictor with what is needed to use it.

A preset folder holds `predictor.keras`, `preset.json` (what it is, versions, fingerprint of the
vocabulary), and as a rule `vocabulary.json`, a model card `README.md` and numbered SavedModel
versions. Shipped presets live in the package's `saved_models` folder, by name.
"""

from __future__ import annotations

import difflib
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import keras

from glomo_tf.errors import UserError

if TYPE_CHECKING:
    from glomo_tf.graph_predictor import GraphPredictor

SHIPPED = Path(__file__).resolve().parent / "saved_models"
PREDICTOR, DESCRIPTION, VOCABULARY = "predictor.keras", "preset.json", "vocabulary.json"


def names() -> list[str]:
    """Names of the shipped presets."""
    if not SHIPPED.is_dir():
        return []
    return sorted(p.name for p in SHIPPED.iterdir() if (p / PREDICTOR).is_file())


def folder_of(name_or_folder: str | Path) -> Path:
    """The folder of a preset, by the name of a shipped one or by path.

    Raises:
        UserError: neither a shipped preset nor a folder with `predictor.keras`.
    """
    for candidate in (SHIPPED / str(name_or_folder), Path(name_or_folder)):
        if (candidate / PREDICTOR).is_file():
            return candidate
    known = names()
    near = difflib.get_close_matches(str(name_or_folder), known, n=2)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"Shipped: {', '.join(known) or '-'}."
    raise UserError(
        f"Expected the name of a shipped preset, or a folder with {PREDICTOR}. "
        f"Received: {str(name_or_folder)!r}. {hint}"
    )


def save_predictor(predictor: GraphPredictor, folder: str | Path, **details: Any) -> Path:
    """Writes `predictor.keras` and `preset.json`; each appears whole or not at all.

    Args:
        predictor: the predictor.
        folder: made where it is missing.
        **details: further JSON values for `preset.json`, such as the vocabulary's fingerprint.

    Returns:
        Path of the folder.

    Raises:
        UserError: the folder cannot be written; what was there stays as it was.
    """
    folder = Path(folder)
    description = {
        "format": 1,
        "kind": "glomo_tf preset",
        "keras": keras.__version__,
        "vocabulary_size": predictor.vocabulary_size,
        **details,
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".saving-", dir=folder) as temporary:
            written = Path(temporary)
            predictor.save(written / PREDICTOR)
            text = json.dumps(description, indent=2, sort_keys=True) + "\n"
            (written / DESCRIPTION).write_text(text, "utf-8")
            for name in (PREDICTOR, DESCRIPTION):
                os.replace(written / name, folder / name)
    except OSError as error:
        raise UserError(
            f"Expected to write a preset to {folder}. Received: {error.strerror or error}. "
            "Free some space or choose another folder; earlier files there are unchanged."
        ) from error
    return folder


def describe(name_or_folder: str | Path) -> dict[str, Any]:
    """The contents of `preset.json`.

    Raises:
        UserError: missing or damaged.
    """
    path = folder_of(name_or_folder) / DESCRIPTION
    try:
        description = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(
            f"Expected a readable {DESCRIPTION} in {path.parent}. Received: {error}. "
            "Save the preset again."
        ) from error
    if not isinstance(description, dict) or description.get("kind") != "glomo_tf preset":
        raise UserError(
            f"Expected {path} to describe a glomo_tf preset. Received another JSON file."
        )
    return description


def load_predictor(name_or_folder: str | Path) -> GraphPredictor:
    """Loads the predictor of a preset. Nothing stored in the files is executed.

    Raises:
        UserError: unknown name, or files missing or damaged.
    """
    from glomo_tf.graph_predictor import GraphPredictor

    folder = folder_of(name_or_folder)
    try:
        predictor = keras.models.load_model(folder / PREDICTOR, compile=False)
    except Exception as error:  # Keras raises many kinds for a damaged archive
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"Expected a predictor saved by glomo_tf in {folder / PREDICTOR}. "
            f"Received a file that does not load: {reason}"
        ) from error
    if not isinstance(predictor, GraphPredictor):
        raise UserError(
            f"Expected a GraphPredictor in {folder / PREDICTOR}. "
            f"Received: {type(predictor).__name__}."
        )
    return predictor
