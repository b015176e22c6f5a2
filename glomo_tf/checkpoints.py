"""Checkpoints of a training run from which it goes on exactly where it was."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import keras

from glomo_tf import files
from glomo_tf.errors import UserError

_WEIGHTS, _STATE = "model.weights.h5", "state.json"


class Checkpoint(keras.callbacks.Callback):
    """Saves model, optimizer and random state after every epoch; keeps the last two.

    Each checkpoint is a folder that appears whole, by a rename, with a checksum: a run that is
    killed while it saves goes on from the one before.

    Args:
        folder: where checkpoints go; made where it is missing.

    Example:

    >>> from glomo_tf.checkpoints import Checkpoint
    >>> checkpoint = Checkpoint("runs/wiki/checkpoints")
    """

    def __init__(self, folder: str | Path) -> None:
        super().__init__()
        self.folder = Path(folder)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.save(self.model, epoch + 1)

    def save(self, model: keras.Model, epochs: int) -> Path:
        """Writes the checkpoint of a model that was trained for some epochs.

        Raises:
            UserError: the folder cannot be written; earlier checkpoints stay whole.
        """
        target = self.folder / f"{epochs:06d}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".saving-", dir=self.folder) as temporary:
                weights = Path(temporary, "new", _WEIGHTS)
                weights.parent.mkdir()
                model.save_weights(weights)
                state = {"format": 1, "epochs": epochs, "sha256": _digest(weights)}
                files.write_json(weights.with_name(_STATE), state)
                if target.exists():
                    shutil.rmtree(target)
                os.replace(weights.parent, target)
            for old in self._all()[:-2]:
                shutil.rmtree(old)
        except OSError as error:
            raise files.not_writable(target, error) from error
        return target

    def restore(self, model: keras.Model) -> tuple[int, list[str]]:
        """Loads the newest whole checkpoint into a built model with a built optimizer.

        Returns:
            Epochs that were trained (0 where there is no checkpoint), and a line for each
            damaged checkpoint that was passed over.
        """
        notes: list[str] = []
        for folder in reversed(self._all()):
            try:
                state = files.read_json(folder / _STATE)
                if state["sha256"] != _digest(folder / _WEIGHTS):
                    raise UserError("its checksum differs")
                model.load_weights(folder / _WEIGHTS)
                return int(state["epochs"]), notes
            except (OSError, KeyError, TypeError, ValueError) as error:
                reason = " ".join(str(error).split())[:150]
                notes.append(f"Checkpoint {folder.name} is damaged and is passed over: {reason}")
        return 0, notes

    def _all(self) -> list[Path]:
        if not self.folder.is_dir():
            return []
        return sorted(p for p in self.folder.iterdir() if p.name.isdigit() and p.is_dir())


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
