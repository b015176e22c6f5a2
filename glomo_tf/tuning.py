"""Tuning pre-training with keras-tuner: a hypermodel, and the spaces it is composed of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from glomo_tf.errors import require
from glomo_tf.feature_predictor import COMPOSITIONS, FeaturePredictor
from glomo_tf.glomo import GLoMo
from glomo_tf.graph_predictor import GraphPredictor
from glomo_tf.objectives import ContextObjective, ContrastiveContext, GenerativeContext
from glomo_tf.optimizers import LazyAdamW

if TYPE_CHECKING:
    import keras_tuner
else:
    keras_tuner = require("keras_tuner", "tune")


def graph_predictor_space(
    hp: keras_tuner.HyperParameters, vocabulary_size: int, **fixed: Any
) -> GraphPredictor:
    """A predictor whose width, depth, heads and sparsity are tuned; `fixed` arguments are not."""
    chosen = {
        "width": lambda: hp.Choice("width", [64, 128, 256], default=128),
        "num_layers": lambda: hp.Int("num_layers", 1, 3, default=2),
        "num_heads": lambda: hp.Choice("num_heads", [2, 4, 8], default=4),
        "head_dim": lambda: hp.Choice("head_dim", [16, 32, 64], default=32),
        "cnn_depth": lambda: hp.Int("cnn_depth", 1, 4, default=3),
        "sparsity": lambda: hp.Choice(
            "sparsity", ["query_relu", "layer_relu", "relu", "softmax"], default="query_relu"
        ),
        "normalization": lambda: hp.Choice("normalization", ["layer", "batch"], default="layer"),
    }
    return GraphPredictor(
        vocabulary_size,
        **{name: draw() for name, draw in chosen.items() if name not in fixed},
        **fixed,
    )


def feature_predictor_space(hp: keras_tuner.HyperParameters, **fixed: Any) -> FeaturePredictor:
    """A feature predictor whose composition is tuned."""
    if "composition" not in fixed:
        fixed["composition"] = hp.Choice("composition", list(COMPOSITIONS), default="gru")
    return FeaturePredictor(**fixed)


def objective_space(
    hp: keras_tuner.HyperParameters, kind: str = "contrastive", **fixed: Any
) -> ContextObjective:
    """An objective whose context length is tuned.

    Losses of different context lengths do not compare: tune on `val_forward_accuracy_1`, or fix
    `context_length` and tune on `val_loss`.
    """
    if "context_length" not in fixed:
        fixed["context_length"] = hp.Int("context_length", 1, 3, default=3)
    return {"contrastive": ContrastiveContext, "generative": GenerativeContext}[kind](**fixed)


class GLoMoHyperModel(keras_tuner.HyperModel):
    """The pre-training model as a keras-tuner hypermodel.

    What to tune first on a small budget: the learning rate, then the predictor's width and number
    of layers; heads and sparsity move the loss less.

    Args:
        vocabulary_size: number of units, padding included.
        counts: occurrences `[V]` of each unit, for the objective's frequency correction.
        objective: `"contrastive"` or `"generative"`.
        fixed: arguments that are not tuned, by part: keys `graph_predictor`,
            `feature_predictor`, `objective`, each a dict.
        name: of the hypermodel.

    Raises:
        MissingExtra: keras-tuner is not installed.

    Example:

    >>> import keras_tuner
    >>> from glomo_tf.tuning import GLoMoHyperModel
    >>> hypermodel = GLoMoHyperModel(50, fixed={"graph_predictor": {"width": 16, "num_heads": 2}})
    >>> model = hypermodel.build(keras_tuner.HyperParameters())
    >>> model.graph_predictor.width
    16
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        counts: Any = None,
        objective: str = "contrastive",
        fixed: dict[str, dict[str, Any]] | None = None,
        name: str = "glomo",
    ) -> None:
        super().__init__(name=name)
        parts = {"graph_predictor", "feature_predictor", "objective"}
        if unknown := set(fixed or {}) - parts:
            raise ValueError(
                f"Expected `fixed` to have the keys {', '.join(sorted(parts))}. "
                f"Received: {', '.join(sorted(unknown))}."
            )
        self.vocabulary_size = vocabulary_size
        self.counts = None if counts is None else np.asarray(counts)
        self.objective = objective
        self.fixed = fixed or {}

    def build(self, hp: keras_tuner.HyperParameters) -> GLoMo:
        """A built and compiled model for one choice of hyperparameters."""
        model = GLoMo(
            graph_predictor_space(
                hp, self.vocabulary_size, **self.fixed.get("graph_predictor", {})
            ),
            feature_predictor_space(hp, **self.fixed.get("feature_predictor", {})),
            objective_space(hp, self.objective, **self.fixed.get("objective", {})),
        )
        model.build((None, None))
        if self.counts is not None:
            model.objective.adapt(self.counts)
        rate = hp.Float("learning_rate", 5e-4, 1e-2, sampling="log", default=4e-3)
        optimizer = LazyAdamW(rate, weight_decay=1e-2, global_clipnorm=1.0)
        optimizer.exclude_from_weight_decay(var_names=["embeddings", "table"])
        model.compile(optimizer=optimizer)
        return model


def objectives() -> dict[str, keras_tuner.Objective]:
    """Figures of `GLoMo` that can be tuned on, with their direction."""
    up = ["val_forward_accuracy_1", "val_backward_accuracy_1", "val_sparsity"]
    down = ["val_loss", "val_empty_rows"]
    return {
        **{name: keras_tuner.Objective(name, "max") for name in up},
        **{name: keras_tuner.Objective(name, "min") for name in down},
    }


__all__ = [
    "GLoMoHyperModel",
    "feature_predictor_space",
    "graph_predictor_space",
    "objective_space",
    "objectives",
]
