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

from glomo_tf import files
from glomo_tf.data.text_units import TextUnits
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


def save_predictor(
    predictor: GraphPredictor,
    folder: str | Path,
    text_units: TextUnits | None = None,
    **details: Any,
) -> Path:
    """Writes `predictor.keras`, `preset.json` and the vocabulary; each whole or not at all.

    Args:
        predictor: the predictor.
        folder: made where it is missing; other files in it stay.
        text_units: the `TextUnits` that the predictor was trained on; their fingerprint goes into
            `preset.json`, so that another vocabulary is told apart.
        **details: further JSON values for `preset.json`.

    Returns:
        Path of the folder.

    Raises:
        UserError: sizes of predictor and vocabulary differ; or the folder cannot be written, and
            what was there stays as it was.
    """
    folder = Path(folder)
    description = {
        "format": 1,
        "kind": "glomo_tf preset",
        "keras": keras.__version__,
        "vocabulary_size": predictor.vocabulary_size,
        **details,
    }
    if text_units is not None:
        check_vocabulary(predictor, text_units)
        description["vocabulary_fingerprint"] = text_units.fingerprint
    if not predictor.built:
        predictor.build((None, None))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".saving-", dir=folder) as temporary:
            written = Path(temporary)
            predictor.save(written / PREDICTOR)
            if text_units is not None:
                text_units.save(written / VOCABULARY)
            files.write_json(written / DESCRIPTION, description)
            for name in (VOCABULARY, PREDICTOR, DESCRIPTION):
                if (written / name).exists():
                    os.replace(written / name, folder / name)
    except OSError as error:
        raise files.not_writable(folder, error) from error
    return folder


def load(name_or_folder: str | Path) -> tuple[GraphPredictor, TextUnits]:
    """The predictor of a preset and the text units that belong to it.

    Args:
        name_or_folder: name of a shipped preset, or a preset folder.

    Returns:
        The predictor and its `TextUnits`.

    Raises:
        UserError: unknown name, files missing or damaged, or a vocabulary that is not the one
            the predictor was trained on.

    Example:

    >>> import tempfile, glomo_tf
    >>> units = glomo_tf.TextUnits.from_corpus(["the cat sat on the mat", "the dog sat"])
    >>> predictor = glomo_tf.GraphPredictor(units.vocabulary_size, width=8, num_heads=2, head_dim=4)
    >>> folder = predictor.save_to_preset(tempfile.mkdtemp(), units)
    >>> predictor, units = glomo_tf.presets.load(folder)
    >>> predictor(units(["the cat sat"])).shape
    TensorShape([1, 6, 2, 3, 3])
    """
    folder = folder_of(name_or_folder)
    predictor = load_predictor(folder)
    text_units = TextUnits.load(folder / VOCABULARY)
    check_vocabulary(predictor, text_units, f" in {folder}")
    kept = describe(folder).get("vocabulary_fingerprint", text_units.fingerprint)
    if kept != text_units.fingerprint:
        raise UserError(
            f"Expected the vocabulary that the predictor in {folder} was trained on. Received: "
            f"{VOCABULARY} of another one with as many units. Take both from one preset."
        )
    return predictor, text_units


def check_vocabulary(predictor: GraphPredictor, text_units: TextUnits, where: str = "") -> None:
    """Refuses a vocabulary of another size than the predictor's.

    Raises:
        UserError: the sizes differ.
    """
    if predictor.vocabulary_size != text_units.vocabulary_size:
        raise UserError(
            f"Expected a vocabulary of {predictor.vocabulary_size} units, as the predictor{where} "
            "has. "
            f"Received: {text_units.vocabulary_size} units. Use the vocabulary it was trained on."
        )


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
