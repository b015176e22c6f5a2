"""Running a recipe in a folder: settings from the command line, progress, `result.json`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from glomo_tf.commands.shared import Answer, show_path
from glomo_tf.progress import figure
from glomo_tf.runs import Run
from glomo_tf.settings import as_dict, kinds, override, type_name


def settings_of(
    recipe: ModuleType, changes: Sequence[str] | None, *, smoke: bool = False, **given: Any
) -> Any:
    """The settings of a recipe: its defaults, then `SMOKE`, then options, then `--set name=value`.

    Args:
        recipe: A recipe module with `Settings` and `SMOKE`.
        changes: `name=value` texts.
        smoke: Whether to begin with the recipe's small settings.
        **given: Values of options that stand for settings; None where the option was not used.
    """
    settings = recipe.Settings()
    if smoke:
        settings = override(settings, recipe.SMOKE)
    settings = override(settings, {n: value for n, value in given.items() if value is not None})
    return override(settings, changes or ())


def run(
    recipe: ModuleType,
    settings: Any,
    folder: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Run a recipe in its folder and return what is in its `result.json`."""
    name = recipe.__name__.rpartition(".")[2]
    may_change = getattr(recipe, "MAY_CHANGE", ())
    with (
        Run(
            folder,
            settings,
            recipe=name,
            resume=resume,
            overwrite=overwrite,
            may_change=may_change,
        ) as this,
        this.progress() as progress,
    ):
        return this.finish(recipe.run(settings, this.folder, progress=progress))


def default_folder(recipe: ModuleType) -> Path:
    """Where a run goes that was given no folder."""
    return Path("runs") / recipe.__name__.rpartition(".")[2]


def show_settings(settings: Any, answer: Answer) -> None:
    """Answer with the settings as they are now and what each takes."""
    fields = kinds(settings)
    notes = {f.name: f.metadata.get("help", "") for f in dataclasses.fields(settings)}
    values = as_dict(settings)
    answer.data = {"settings": values}
    width = max(map(len, fields), default=0)
    lines = []
    for name, kind in fields.items():
        note = f"; {notes[name]}" if notes[name] else ""
        lines.append(f"{name:<{width}} = {as_given(values[name])}  ({type_name(kind)}{note})")
    answer.text = "\n".join(lines)


def as_given(value: Any) -> str:
    """A setting's value as it is written after `--set name=`."""
    if isinstance(value, list):
        return ",".join(map(as_given, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def outcome(result: dict[str, Any], folder: Path, answer: Answer) -> None:
    """Answer with a recipe's result: the whole of it as JSON, its figures and its files as text."""
    answer.data = {**result, "folder": str(folder)}
    lines = [result["table"]] if isinstance(result.get("table"), str) else []
    told = ("format", "recipe", "settings", "environment", "table", "files")
    for name, value in result.items():
        if name not in told and isinstance(value, (int, float, str)):
            lines.append(f"{name}: {figure(value)}")
    files = result.get("files", [])
    # Recipes name their files as seen from their folder, or as a whole.
    named = map(Path, files.values() if isinstance(files, dict) else files)
    lines += [show_path(folder / file if (folder / file).exists() else file) for file in named]
    lines.append(f"Everything is in {show_path(folder)}.")
    answer.text = "\n".join(lines)
