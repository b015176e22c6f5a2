"""Do learned graphs help to tell whether a review is for or against? IMDB and SST-2.

Frozen GloVe vectors, a small encoder (pooling or BiGRU), few labels, several seeds. The graphs of
a frozen predictor are compared with no graph, with the control graphs of `glomo_tf.transfer` and
with self-attention trained from scratch. For a seed all conditions have the same labelled
examples, batches and first weights. The step is chosen on development data, the test is scored
once.

    glomo transfer sentiment --preset PRESET --set vectors=glove.6B.50d.txt --out runs/sentiment

Cost: docs/results/README.md has the command of the published table, 270 trainings in about half an
hour on two cores. Expect learned graphs within noise of untrained ones everywhere, and ahead of
none in three of four settings of the pooling encoder; see docs/results/sentiment.md.

SST-2's official test has no labels in GLUE. Name a file of labelled examples as `sst2_test`;
without one, the validation split is scored and part of train is held out to choose the step.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from glomo_tf import files, presets, results
from glomo_tf.data import sources, word_vectors
from glomo_tf.data.text_units import TextUnits
from glomo_tf.errors import UserError
from glomo_tf.graph_predictor import GraphPredictor
from glomo_tf.transfer import CONTROLS, GraphFeatures, graph_messages
from glomo_tf.transfer.text_classifier import classifier
from glomo_tf.transfer.trials import Examples, Trials, check_sizes, subset

Encoder = Literal["pooling", "bigru"]
ATTENTION, BOTH = "self-attention", "learned+self-attention"
CONDITIONS = (*(name for name in CONTROLS if name != "learned"), ATTENTION, BOTH, "learned")


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings; numbers of examples are per data set."""

    preset: str | None = None
    vectors: str = ""
    datasets: tuple[Literal["sst2", "imdb"], ...] = ("sst2", "imdb")
    encoders: tuple[Encoder, ...] = ("pooling", "bigru")
    conditions: tuple[str, ...] = CONDITIONS
    seeds: int = 5
    sst2_labels: tuple[int, ...] = (250, 500, 1000, 2000)
    imdb_labels: tuple[int, ...] = (500, 2000)
    bigru_labels: tuple[int, ...] = (500,)
    sst2: str = "tfds:glue/sst2"
    sst2_test: str | None = None
    imdb: str = "tfds:imdb_reviews"
    sst2_length: int = 48
    imdb_length: int = 100
    pool_examples: int = 3000
    development_examples: int = 500
    test_examples: int = 2000
    steps: int = 300
    bigru_steps: int = 150
    batch_size: int = 25
    evaluations: int = 6
    learning_rate: float = 2e-3
    fusion: Literal["gate", "concat", "gru"] = "gate"
    hidden: int = 64
    dropout: float = 0.3


SMOKE: dict[str, Any] = {
    "datasets": ("sst2",),
    "conditions": ("none", "local", ATTENTION, "learned"),
    "seeds": 2,
    "encoders": ("pooling",),
    "sst2_labels": (100,),
    "sst2_length": 24,
    "pool_examples": 300,
    "development_examples": 100,
    "test_examples": 200,
    "steps": 40,
    "evaluations": 2,
}


def run(settings: Settings, folder: Path, *, progress: Any) -> dict[str, Any]:
    """Runs all conditions; writes `table.md` to the folder.

    Returns:
        The result's `conditions`, the `table` and the `files` written.
    """
    _check(settings)
    preset = presets.folder_of(_preset(settings.preset))
    predictor = GraphPredictor.from_preset(preset)
    text_units = TextUnits.load(preset / presets.VOCABULARY)
    if text_units.vocabulary_size != predictor.vocabulary_size:
        raise UserError(
            f"Expected a vocabulary of {predictor.vocabulary_size} units for the predictor. "
            f"Received: {text_units.vocabulary_size} in {preset}. Take both from one preset."
        )
    vectors, found = word_vectors.load(settings.vectors, text_units.words)
    progress.note(f"vectors: {found}")
    conditions: list[dict[str, Any]] = []
    sizes = [len(_labels(settings, d, e)) for d in settings.datasets for e in settings.encoders]
    total = sum(sizes) * len(settings.conditions) * settings.seeds
    progress.stage("sentiment")
    for dataset in settings.datasets:
        sets = {
            name: _units(examples, text_units, getattr(settings, f"{dataset}_length"))
            for name, examples in _load(settings, dataset).items()
        }
        progress.note(f"{dataset}: " + ", ".join(f"{n} {len(s.labels)}" for n, s in sets.items()))
        for condition in _compare(settings, dataset, sets, predictor, vectors):
            conditions.append(condition)
            place = condition["group"]
            progress.note(
                f"{dataset} {place['encoder']} {place['labels']} {condition['name']} seed "
                f"{condition['seed']}: {condition['metrics']['accuracy']:.4f} "
                f"({condition['seconds']:.1f} s)"
            )
            progress.advance(len(conditions), total, accuracy=condition["metrics"]["accuracy"])
    result = {"recipe": "sentiment", "conditions": conditions}
    target = "learned" if "learned" in settings.conditions else settings.conditions[-1]
    table = results.markdown(result, target=target)
    files.write_text(Path(folder) / "table.md", table)
    return {"conditions": conditions, "table": table, "files": [str(Path(folder) / "table.md")]}


def _compare(
    settings: Settings,
    dataset: str,
    sets: dict[str, Examples],
    predictor: GraphPredictor,
    vectors: np.ndarray,
) -> Iterator[dict[str, Any]]:
    """All conditions on one data set; graphs are applied once for each condition."""
    compiled: dict[Any, Trials] = {}
    for name in settings.conditions:
        attention = name in (ATTENTION, BOTH)
        control = {ATTENTION: "none", BOTH: "learned"}.get(name, name)
        ready = {key: with_messages(s, control, predictor, vectors) for key, s in sets.items()}
        kept = ready["train"].inputs.get("messages")
        shape = None if kept is None else (kept.shape[1], kept.shape[3])
        for encoder in settings.encoders:
            # Conditions of one architecture share the model and its compiled steps.
            key = (encoder, shape, attention)
            if key not in compiled:
                model = classifier(
                    encoder,
                    vectors,
                    getattr(settings, f"{dataset}_length"),
                    messages=shape,
                    attention=attention,
                    fusion=settings.fusion,
                    hidden=settings.hidden,
                    dropout=settings.dropout,
                )
                compiled[key] = Trials(model, learning_rate=settings.learning_rate)
            for labels in _labels(settings, dataset, encoder):
                for seed in range(settings.seeds):
                    outcome = compiled[key].run(
                        ready["train"].take(subset(len(ready["train"].labels), labels, seed)),
                        ready["development"],
                        ready["test"],
                        seed=seed,
                        steps=settings.bigru_steps if encoder == "bigru" else settings.steps,
                        batch_size=settings.batch_size,
                        evaluations=settings.evaluations,
                    )
                    yield {
                        "name": name,
                        "group": {"dataset": dataset, "encoder": encoder, "labels": labels},
                        "seed": seed,
                        "metrics": {"accuracy": outcome.accuracy},
                        "development_accuracy": outcome.development,
                        "step": outcome.step,
                        "parameters": compiled[key].parameters,
                        "seconds": round(outcome.seconds, 3),
                        "examples": {key: len(s.labels) for key, s in sets.items()},
                    }


def with_messages(
    examples: Examples, control: str, predictor: GraphPredictor, vectors: np.ndarray
) -> Examples:
    """Adds the graph messages of a condition (see `GraphFeatures`) to the examples' units."""
    if control == "none":
        return examples
    layer = GraphFeatures(predictor, control=control)

    @tf.function(autograph=False)
    def messages(units: tf.Tensor) -> tf.Tensor:
        kept = graph_messages(
            layer.graphs(units),
            tf.gather(tf.constant(vectors), units),
            num_directions=predictor.num_directions,
            products=control != "local",
        )
        return tf.cast(kept, tf.float16)

    units = examples.inputs["units"]
    parts = [messages(units[i : i + 50]).numpy() for i in range(0, len(units), 50)]
    return Examples({**examples.inputs, "messages": np.concatenate(parts)}, examples.labels)


def _load(settings: Settings, dataset: str) -> dict[str, list[sources.Example]]:
    """Examples for training, choosing the step, and testing; fixed, whatever the seed."""
    spec, field = getattr(settings, dataset), "sentence" if dataset == "sst2" else "text"
    if not spec.startswith("tfds:"):
        field = "text"
    labelled = sources.labelled(spec, "train", field, "label")
    train = _some(labelled, None)
    size = settings.development_examples
    test: list[sources.Example]
    development: list[sources.Example]
    if dataset == "sst2":
        test = development = sources.labelled(spec, "validation", field, "label")
        if settings.sst2_test:
            test = sources.labelled(f"jsonl:{settings.sst2_test}", "train", "text", "label")
        else:
            development, train = train[:size], train[size:]
    else:
        test = sources.labelled(spec, "test", field, "label")
        development, train = train[:size], train[size:]
    wanted = min(settings.pool_examples, len(train))
    most = max(max(_labels(settings, dataset, encoder)) for encoder in settings.encoders)
    if wanted < most:
        raise UserError(
            f"Expected at least {most} examples of {dataset} to train on. "
            f"Received: {wanted} (train: {labelled.report}; {size} of them may go to choosing the "
            "step). Give more labelled texts, or ask for fewer labels."
        )
    return {
        "train": train[:wanted],
        "development": _some(development, size),
        "test": _some(test, settings.test_examples),
    }


def _some(examples: list[sources.Example], count: int | None) -> list[sources.Example]:
    """A fixed random choice of examples; all of them, shuffled, for None."""
    order = np.random.default_rng(0).permutation(len(examples))[:count]
    return [examples[i] for i in order]


def _units(examples: list[sources.Example], text_units: TextUnits, length: int) -> Examples:
    """The first `length` units of each text."""
    ragged = text_units.ragged([example.texts[0] for example in examples])
    units = ragged[:, :length].to_tensor(0, shape=(None, length)).numpy()
    return Examples({"units": units}, np.array([int(e.label) for e in examples], np.int32))


def _labels(settings: Settings, dataset: str, encoder: str) -> tuple[int, ...]:
    named = "bigru_labels" if encoder == "bigru" else f"{dataset}_labels"
    return getattr(settings, named)


def _preset(name: str | None) -> str:
    shipped = presets.names()
    if name is None and len(shipped) == 1:
        return shipped[0]
    if name is None:
        raise UserError(
            f"Expected a preset. Received: none; shipped: {', '.join(shipped) or '-'}. Give its "
            "name or folder, or make one with `glomo pretrain`."
        )
    return name


def _check(settings: Settings) -> None:
    if not settings.vectors:
        raise UserError(
            "Expected a file of word vectors. Received: none. Give it with "
            "--set vectors=glove.6B.50d.txt (or .npz)."
        )
    unknown = sorted(set(settings.conditions) - set(CONDITIONS))
    if unknown:
        raise UserError(
            f"Expected conditions among {', '.join(CONDITIONS)}. Received: {', '.join(unknown)}."
        )
    for dataset in settings.datasets:
        for encoder in settings.encoders:
            check_sizes(_labels(settings, dataset, encoder), settings.batch_size)
