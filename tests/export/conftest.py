"""One small predictor and its export, shared by the tests of this folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import keras
import pytest

import glomo_tf

LINES = [
    "The cat sat on the mat .",
    "A dog sat , too .",
    "l'été : 日本語 , naïve привет",
    "42 cats",
]
MAX_LENGTH = 9


class Exported(NamedTuple):
    predictor: glomo_tf.GraphPredictor
    units: glomo_tf.TextUnits
    path: Path

    def description(self) -> dict:
        return json.loads((self.path / "assets.extra" / "glomo_tf.json").read_text("utf-8"))


@pytest.fixture(scope="session")
def units() -> glomo_tf.TextUnits:
    return glomo_tf.TextUnits.from_corpus(LINES, 100)


@pytest.fixture(scope="session")
def predictor(units) -> glomo_tf.GraphPredictor:
    keras.utils.set_random_seed(7)
    return glomo_tf.GraphPredictor(
        units.vocabulary_size, width=16, num_layers=2, num_heads=2, head_dim=4, cnn_depth=1
    )


@pytest.fixture(scope="session")
def exported(tmp_path_factory, predictor, units) -> Exported:
    folder = tmp_path_factory.mktemp("served") / "docs"
    path = glomo_tf.export.export(predictor, units, folder, max_length=MAX_LENGTH)
    return Exported(predictor, units, path)
