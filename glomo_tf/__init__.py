"""glomo-tf: learn relational graphs without labels and carry them into any Keras model.

    >>> import numpy as np
    >>> import glomo_tf
    >>> predictor = glomo_tf.GraphPredictor(50, width=16, num_layers=1, num_heads=2, head_dim=8)
    >>> predictor(np.array([[4, 8, 15, 16]])).shape
    TensorShape([1, 2, 2, 4, 4])

`graph[b, g, k, t, s]` is how much receiver t takes from source s.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

__version__ = "0.1.0"

_HOME = Path(__file__).resolve().parent
if not (_HOME / "layers").is_dir():  # a checkout without symbolic links
    __path__.append(str(_HOME.parent))

_CLASSES = {
    "GraphPredictor": "glomo_tf.graph_predictor",
    "FeaturePredictor": "glomo_tf.feature_predictor",
    "ContrastiveContext": "glomo_tf.objectives",
    "GenerativeContext": "glomo_tf.objectives",
    "GLoMo": "glomo_tf.glomo",
    "TextUnits": "glomo_tf.data.text_units",
}
_MODULES = (
    "affinity",
    "callbacks",
    "data",
    "distribution",
    "export",
    "layers",
    "metrics",
    "objectives",
    "optimizers",
    "presets",
    "transfer",
    "tuning",
    "viewer",
)

__all__ = ["__version__", *_CLASSES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _CLASSES:
        return getattr(importlib.import_module(_CLASSES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


# Keras finds a class by name on loading, so importing the package registers them all. The `glomo`
# command imports what a sub-command needs by itself: its help must not wait for TensorFlow.
if Path(sys.argv[0] if sys.argv else "").stem != "glomo":
    for _name in __all__[1:]:
        if _name != "tuning":  # needs an extra
            globals()[_name] = __getattr__(_name)
