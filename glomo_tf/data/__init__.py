"""From texts and files to units and `tf.data` pipelines."""

from __future__ import annotations

import importlib
from types import ModuleType

_MODULES = ("candidates", "corpus", "sources", "text_units", "windows", "word_vectors")

__all__ = list(_MODULES)


def __getattr__(name: str) -> ModuleType:
    # On first use, so that a source that is not there is told without waiting for TensorFlow.
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
