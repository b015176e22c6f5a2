"""Which settings learn graphs best on a text, in a given number of short trials?

keras-tuner tries widths, depths, heads, sparsity modes and learning rates of the pre-training model
on windows of the text, and scores each on held-out articles. Losses of different context lengths do
not compare, so the context length stays fixed.

    glomo tune text:articles.txt --trials 20 --out runs/tune

Cost: a trial is `epochs` passes of `steps` batches, about 20 s of it compilation on two cores. The
smoke setting (2 trials) ends in under two minutes. What it finds is the best of few short runs on
one held-out part: check it with `glomo pretrain` and another seed.
"""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import keras
import tensorflow as tf

from glomo_tf import files, tuning
from glomo_tf.data import corpus, sources, text_units, windows
from glomo_tf.errors import UserError, require
from glomo_tf.settings import near_matches


@dataclasses.dataclass(frozen=True)
class Settings:
    """What is searched, how long, and on which text."""

    source: str = "python:docs"
    limit: int | None = None
    trials: int = 10
    method: Literal["random", "bayesian", "hyperband"] = "random"
    figure: str = "val_loss"
    objective: Literal["contrastive", "generative"] = "contrastive"
    context_length: int = 3
    vocabulary_size: int = 5000
    length: int = 64
    batch_size: int = 16
    steps: int = 100
    epochs: int = 2
    held_out: float = 0.1
    seed: int = 0


SMOKE: dict[str, Any] = {
    "limit": 200,
    "trials": 2,
    "vocabulary_size": 500,
    "length": 16,
    "batch_size": 4,
    "steps": 4,
    "epochs": 1,
}
# A search may go on for longer; all else would compare what does not compare.
MAY_CHANGE = ("trials",)


def run(settings: Settings, folder: Path, *, progress: Any) -> dict[str, Any]:
    """Searches; goes on with the trials that the folder holds.

    Returns:
        The best trial's `hyperparameters` and `score`, and all `trials`, the best first.

    Raises:
        UserError: The figure does not exist, the space differs from that of the trials in the
            folder, or every trial failed.
    """
    keras_tuner = require("keras_tuner", "tune")
    require("tensorboard", "tune")  # Without it every trial of keras-tuner fails.
    objectives = tuning.objectives()
    if settings.figure not in objectives:
        raise UserError(
            f"Expected a figure that can be tuned on. Received: {settings.figure}. "
            f"{near_matches(settings.figure, objectives)}"
        )
    progress.stage("read")
    documents = sources.documents(settings.source, limit=settings.limit)
    units = text_units.TextUnits.from_corpus(documents, settings.vocabulary_size)
    whole = corpus.encode_corpus(documents, units)
    train, held_out = whole.split(settings.held_out, settings.seed)
    hypermodel = tuning.GLoMoHyperModel(
        units.vocabulary_size,
        counts=train.counts(units.vocabulary_size),
        objective=settings.objective,
        fixed={"objective": {"context_length": settings.context_length}},
    )
    _same_space(keras_tuner, hypermodel, folder / "space.json")

    progress.stage("search")
    tuner = _tuner(keras_tuner, settings, hypermodel, objectives[settings.figure], folder)
    counter = keras.callbacks.LambdaCallback(
        on_train_begin=lambda logs: progress.advance(len(tuner.oracle.end_order), settings.trials)
    )
    with suppress(RuntimeError):  # Raised after three failures in a row; see below.
        tuner.search(
            _data(settings, train, repeat=True),
            validation_data=_data(settings, held_out),
            steps_per_epoch=settings.steps,
            epochs=settings.epochs,
            callbacks=[counter],
            shuffle=False,
            verbose=0,
        )
    trials = _completed(tuner.oracle)
    progress.advance(settings.trials, settings.trials, **{settings.figure: trials[0].score})
    kept = [{"score": t.score, "hyperparameters": t.hyperparameters.values} for t in trials]
    return {"figure": settings.figure, **kept[0], "trials": kept}


def _completed(oracle: Any) -> list[Any]:
    """The trials that ended well, the best first.

    The oracle's own list of the best goes on with failed trials, as if they had a score.
    """
    trials = oracle.get_best_trials(len(oracle.trials))
    good = [trial for trial in trials if trial.status == "COMPLETED"]
    if not good:
        messages = [trial.message for trial in trials if trial.message]
        last = messages[-1].strip().splitlines()[-1] if messages else "no message"
        raise UserError(
            f"Expected a trial to end well. Received: {len(trials)} failed ones, the last with: "
            f"{last}. Try `glomo doctor`, or other settings."
        )
    return good


def _data(settings: Settings, part: corpus.EncodedCorpus, repeat: bool = False) -> tf.data.Dataset:
    data = windows.windows(
        part,
        length=settings.length,
        stride=settings.length,
        batch_size=settings.batch_size,
        seed=settings.seed,
    ).cache()
    return data.repeat() if repeat else data


def _tuner(keras_tuner: Any, settings: Settings, hypermodel: Any, goal: Any, folder: Path) -> Any:
    """A tuner that keeps its trials in `<folder>/search`."""
    kind, options = {
        "random": (keras_tuner.RandomSearch, {"max_trials": settings.trials}),
        "bayesian": (keras_tuner.BayesianOptimization, {"max_trials": settings.trials}),
        "hyperband": (keras_tuner.Hyperband, {"max_epochs": settings.epochs}),
    }[settings.method]
    return kind(
        hypermodel,
        objective=goal,
        seed=settings.seed,
        directory=str(folder),
        project_name="search",
        overwrite=False,
        max_retries_per_trial=0,
        max_consecutive_failed_trials=3,
        **options,
    )


def _same_space(keras_tuner: Any, hypermodel: Any, file: Path) -> None:
    """Keep the space of the search; trials of another space do not compare with new ones."""
    hp = keras_tuner.HyperParameters()
    hypermodel.build(hp)
    space = files.plain(hp.get_config()["space"])
    if file.exists() and files.read_json(file) != space:
        raise UserError(
            f"Expected the search space of the trials in {file.parent}. Received: another one. "
            "Give --overwrite to start anew, or choose another folder."
        )
    files.write_json(file, space)
