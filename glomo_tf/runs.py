"""A run's folder: what was asked, on which versions, every figure on the way, and the result."""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import Any

from glomo_tf.errors import UserError
from glomo_tf.files import (
    not_writable,
    plain,
    read_json,
    reason,
    replacing,
    to_json,
    write_json,
    write_text,
)
from glomo_tf.progress import Progress
from glomo_tf.settings import as_dict, differences

__all__ = [
    "Progress",
    "Run",
    "empty_folder",
    "environment",
    "read_json",
    "replacing",
    "write_json",
    "write_text",
]

FORMAT = 1
PACKAGES = (
    "glomo-tf",
    "tensorflow",
    "keras",
    "numpy",
    "tensorflow-text",
    "tensorflow-datasets",
    "keras-tuner",
)


class Run:
    """One run of a recipe in a folder of its own.

    The folder gets `settings.json`, `environment.json` (versions, seed, command), `metrics.jsonl`
    (one line per `log`, in order) and, by `finish`, `result.json`. Used as a context manager.

    Args:
        folder: Where the run lives; made if it does not exist.
        settings: The settings dataclass of the recipe.
        recipe: Name of the recipe, kept with the result.
        resume: Go on in a folder that holds an earlier run with the same settings.
        overwrite: Put a new run in place of an earlier one; a folder that holds no run is never
            touched.
        may_change: Names of settings that may differ when resuming, such as the number of steps.
        command: The command to keep in `environment.json`; that of this process by default.

    Raises:
        UserError: The folder is not empty (and neither `resume` nor `overwrite` was given), cannot
            be written, or holds a run with other settings.

    Example:

        >>> import dataclasses, tempfile
        >>> @dataclasses.dataclass(frozen=True)
        ... class Settings:
        ...     steps: int = 2
        >>> with Run(tempfile.mkdtemp() + "/run", Settings(), recipe="count") as run:
        ...     run.log(step=1, loss=0.5)
        ...     result = run.finish({"loss": 0.5})
        >>> result["recipe"], result["settings"]
        ('count', {'steps': 2})
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        settings: Any,
        *,
        recipe: str | None = None,
        resume: bool = False,
        overwrite: bool = False,
        may_change: Sequence[str] = (),
        command: Sequence[str] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.settings = settings
        self.recipe = recipe
        self.resume = resume
        self.overwrite = overwrite
        self.may_change = tuple(may_change)
        self.command = command
        self.resumed = False
        self._made = False

    def __enter__(self) -> Run:
        self.resumed = self.resume and (self.folder / "settings.json").exists()
        if self.resumed:
            self._same_settings()
        else:
            self._made = not self.folder.exists()
            empty_folder(
                self.folder, overwrite=self.overwrite, mark="settings.json", resumable=True
            )
        write_json(self.folder / "settings.json", as_dict(self.settings))
        self.environment = environment(
            seed=getattr(self.settings, "seed", None), command=self.command
        )
        write_json(self.folder / "environment.json", self.environment)
        if self.resumed:
            self.log(resumed=self.environment["started"])
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            return
        if isinstance(error, ValueError) and not self.resumed and self._only_begun():
            # A wrong setting that the recipe found must not cost an empty run and a new name.
            with suppress(OSError):
                _remove(self.folder)
                if self._made:
                    self.folder.rmdir()
            return
        with suppress(UserError):  # The first error is the one to show.
            self.log(ended=f"{type(error).__name__}: {error}".rstrip(": "))

    def _only_begun(self) -> bool:
        """Whether no figure was written yet: what else is there costs little to make again."""
        return not (self.folder / "metrics.jsonl").exists()

    def log(self, **figures: Any) -> None:
        """Append one line to `metrics.jsonl`.

        Raises:
            UserError: The file cannot be written.
        """
        path = self.folder / "metrics.jsonl"
        try:
            with open(path, "a", encoding="utf-8") as file:
                file.write(to_json(figures) + "\n")
        except OSError as error:
            raise not_writable(path, error) from error

    def progress(self, **arguments: Any) -> Progress:
        """A `Progress` whose figures are kept in `metrics.jsonl` too."""
        return Progress(record=self._record, **arguments)

    def finish(self, result: dict[str, Any]) -> dict[str, Any]:
        """Write `result.json`, the result with settings and environment, and return it."""
        whole = {
            "format": FORMAT,
            "recipe": self.recipe,
            "settings": as_dict(self.settings),
            "environment": self.environment,
        }
        whole = plain({**whole, **result})
        write_json(self.folder / "result.json", whole)
        return whole

    def _record(self, stage: str, done: int, total: int | None, figures: dict[str, Any]) -> None:
        if figures:
            self.log(stage=stage, done=done, total=total, **figures)

    def _same_settings(self) -> None:
        kept = read_json(self.folder / "settings.json")
        if not isinstance(kept, dict):
            raise UserError(
                "Expected the settings of an earlier run. "
                f"Received: {self.folder / 'settings.json'}, which holds none."
            )
        changed = [
            line
            for line in differences(self.settings, kept)
            if line.split(":")[0] not in self.may_change
        ]
        if changed:
            raise UserError(
                f"Expected the settings of the run in {self.folder} to resume it. "
                f"Received: {'; '.join(changed)}. Give the same settings, or choose another folder."
            )


def empty_folder(
    folder: str | os.PathLike,
    *,
    overwrite: bool = False,
    mark: str | None = None,
    resumable: bool = False,
) -> Path:
    """Make an empty folder for output and return it.

    Args:
        folder: The folder.
        overwrite: Remove the output of an earlier run; only if the folder holds a file named
            `mark`, so that a folder of somebody's documents named by mistake is safe.
        mark: Name of the file by which such an output is known.
        resumable: Mention `--resume` in the error.

    Raises:
        UserError: The folder exists and is not empty, is a file, or cannot be made.
    """
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        entries = sorted(entry.name for entry in path.iterdir())
        if entries and overwrite:
            if mark is not None and mark not in entries:
                raise UserError(
                    f"Expected a folder of an earlier run to overwrite (with a file {mark}). "
                    f"Received: {path}, with {', '.join(entries[:3])} in it. Choose another folder."
                )
            _remove(path)
            entries = []
    except FileExistsError:
        raise UserError(
            f"Expected a folder for the output. Received: {path}, which is a file."
        ) from None
    except OSError as error:
        raise UserError(
            f"Expected a folder that can be written. Received: {path}: {reason(error)}. "
            "Choose another folder."
        ) from error
    if entries:
        choices = (
            "--resume to go on, --overwrite to start anew"
            if resumable
            else "--overwrite to start anew"
        )
        raise UserError(
            f"Expected a new or empty folder for the output. Received: {path}, which is not empty. "
            f"Choose another folder, or give {choices}."
        )
    return path


def environment(*, seed: int | None = None, command: Sequence[str] | None = None) -> dict[str, Any]:
    """Versions, machine, seed and command of this process; nothing is imported for it."""
    if command is None:
        program = Path(sys.argv[0]).name
        # `python -m glomo_tf` is the same command.
        command = ["glomo" if program == "__main__.py" else program, *sys.argv[1:]]
    versions: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "command": shlex.join(command),
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "seed": seed,
        "python": platform.python_version(),
        "system": platform.platform(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "versions": versions,
    }


def _remove(folder: Path) -> None:
    """Remove what is in a folder, not the folder itself: it may be a mount point or a link."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
