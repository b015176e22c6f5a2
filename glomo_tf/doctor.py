"""Is everything in place? Versions, devices, optional packages, presets and data."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

# What each extra brings: the package whose presence is asked for, and what must import with it.
EXTRAS: dict[str, tuple[str, ...]] = {
    "text": ("tensorflow_text",),
    "data": ("tensorflow_datasets", "importlib_resources"),
    # keras-tuner does not declare tensorboard, and without it every trial fails.
    "tune": ("keras_tuner", "tensorboard", "scipy", "sklearn"),
    "viz": ("matplotlib",),
    "serving": ("tensorflow_serving",),
}
KERAS = "3.15"


@dataclass(frozen=True)
class Check:
    """One thing looked at. `ok` is None where a thing is optional and not there."""

    name: str
    ok: bool | None
    detail: str


def examine() -> list[Check]:
    """Look at everything and return what was found, in a fixed order; nothing here raises."""
    return [*_core(), *_extras(), *_presets(), *_data()]


def report(checks: list[Check]) -> str:
    """The checks as lines for people."""
    marks = {True: "ok", False: "FAILED", None: "-"}
    width = max(len(check.name) for check in checks)
    return "\n".join(
        f"{check.name:<{width}}  {marks[check.ok]:<6}  {check.detail}" for check in checks
    )


def _core() -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("python", sys.version_info >= (3, 11), version)
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    if backend != "tensorflow":
        detail = f"KERAS_BACKEND={backend}: unset it, glomo-tf runs on TensorFlow"
        yield Check("keras backend", False, detail)
        return
    tensorflow = _imported("tensorflow", "tensorflow")
    yield tensorflow
    keras = _imported("keras", "keras")
    if keras.ok and not keras.detail.startswith(f"{KERAS}."):
        detail = f"{keras.detail}: tested with {KERAS} only; install 'keras~={KERAS}.0'"
        keras = Check("keras", False, detail)
    yield keras
    if tensorflow.ok:
        tf = importlib.import_module("tensorflow")
        devices = tf.config.list_physical_devices()
        kinds = [device.device_type for device in devices]
        detail = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
        yield Check("devices", True, f"{detail}; {os.cpu_count()} cores")


def _extras() -> Iterator[Check]:
    for extra, packages in EXTRAS.items():
        if find_spec(packages[0]) is None:
            yield Check(extra, None, f"not installed: pip install 'glomo-tf[{extra}]'")
            continue
        found = [_imported(package, package) for package in packages]
        broken = [f"{check.name}: {check.detail}" for check in found if not check.ok]
        if broken:
            detail = "; ".join(broken) + f". Install it with: pip install 'glomo-tf[{extra}]'"
            yield Check(extra, False, detail)
        else:
            yield Check(extra, True, ", ".join(f"{check.name} {check.detail}" for check in found))


def _presets() -> Iterator[Check]:
    try:
        from glomo_tf import presets
    except Exception:  # Keras does not import; it has its own line above.
        yield Check("presets", None, "not looked at")
        return
    names = presets.names()
    yield Check("presets", True if names else None, ", ".join(names) or "none shipped")


def _data() -> Iterator[Check]:
    folder = Path(os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")).expanduser()
    found = sorted(
        file.parent.relative_to(folder).as_posix() for file in folder.glob("**/dataset_info.json")
    )
    yield Check("TFDS data", True if found else None, f"{folder}: {', '.join(found) or 'none'}")


def _imported(name: str, package: str) -> Check:
    try:
        importlib.import_module(package)
    except Exception as error:  # A broken wheel can raise anything.
        return Check(name, False, f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
    return Check(name, True, _version(package))


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()  # It reads the files of every installed package.


def _version(package: str) -> str:
    distributions = _distributions().get(package, [package])
    try:
        return metadata.version(distributions[0])
    except metadata.PackageNotFoundError:
        return "of unknown version"
