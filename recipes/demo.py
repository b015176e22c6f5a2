"""Learn graphs from text in about a minute, use them in a task, export them, look at one.

The text is the source of Python's standard library, so nothing has to be there but Python itself.

1. Graphs are learned without labels, by contrastive context prediction, on most of the modules.
2. Task: in which kind of statement does each name stand (`glomo_tf.data.python_source`)? The tagger
   sees the vector of one token at a time, so all that it knows of the context comes through the
   graph. Learned graphs are compared with no graph, a uniform one, that of an untrained predictor
   and the ±1 window (`glomo_tf.transfer.tagging.compare`), on modules that nothing else has seen.
3. The predictor is exported and loaded again, and draws what it sees; so does a shipped preset.

    glomo demo

Cost: about 190 s of processor time. Expect (5 seeds, accuracy on test modules, one pre-training
run): none 44.9, uniform 56.3, random 66.9, local 66.2, learned 81.2 %; learned minus local
+15.0 ± 1.5 points.

The task was chosen on development data, among others where learned graphs were no better than the
±1 window: the role of a name in the syntax tree (its neighbours tell), words of the reference that
are marked as code, punctuation of docstrings (every condition found the commonest label only), and
this task in windows of 64 tokens. So it is a task that suits graphs, not a typical one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf

from glomo_tf import files, presets, pretraining, results, viewer
from glomo_tf.callbacks import Throughput
from glomo_tf.data import python_source
from glomo_tf.data.corpus import EncodedCorpus, encode_corpus
from glomo_tf.data.text_units import TextUnits
from glomo_tf.errors import MissingExtra
from glomo_tf.export import export
from glomo_tf.feature_predictor import FeaturePredictor
from glomo_tf.glomo import GLoMo
from glomo_tf.graph_predictor import GraphPredictor
from glomo_tf.objectives import ContrastiveContext
from glomo_tf.statistics import verdict
from glomo_tf.transfer import tagging
from glomo_tf.transfer.trials import Examples, check_sizes

Condition = Literal["none", "uniform", "random", "local", "learned"]
SENTENCE = "The function that the class calls returns a list of the files in the given folder."


@dataclasses.dataclass(frozen=True)
class Settings:
    """Sizes; a window is `length` tokens."""

    tokens: int = 600_000
    vocabulary_size: int = 6000
    length: int = 32
    steps: int = 1000
    batch_size: int = 32
    learning_rate: float = 5e-3
    width: int = 64
    num_layers: int = 2
    num_heads: int = 4
    head_dim: int = 32
    cnn_depth: int = 1
    candidates: int = 512
    conditions: tuple[Condition, ...] = ("none", "uniform", "random", "local", "learned")
    seeds: int = 5
    train_windows: int = 600
    development_windows: int = 400
    test_windows: int = 600
    tagging_steps: int = 200
    jit_compile: bool = True
    seed: int = 0


SMOKE: dict[str, Any] = {
    "tokens": 20_000,
    "vocabulary_size": 500,
    "steps": 40,
    "width": 32,
    "num_layers": 1,
    "num_heads": 2,
    "head_dim": 16,
    "candidates": 128,
    "conditions": ("none", "local", "learned"),
    "seeds": 2,
    "train_windows": 100,
    "development_windows": 50,
    "test_windows": 100,
    "tagging_steps": 80,
    "jit_compile": False,
}


def run(settings: Settings, folder: Path, *, progress: Any) -> dict[str, Any]:
    """Does all of it in `folder`.

    Returns:
        `conditions` and `table` of the comparison, `loss` of pre-training, and the `files` to see.
    """
    check_sizes((settings.train_windows,), settings.batch_size)
    progress.stage("read the standard library")
    parts, texts = read(settings)
    units = TextUnits.from_corpus(
        texts, settings.vocabulary_size, splitter="whitespace", max_units=512
    )
    corpus = encode_corpus(texts, units)
    progress.note(f"{corpus.num_articles} modules, {corpus.num_units:,} tokens to learn from")
    progress.stage("learn graphs (the first step is compiled for about 20 s)")
    predictor, loss = learn(settings, corpus, units.vocabulary_size, progress)

    progress.stage("tag names with their statement")
    sets = {name: examples(part, units, settings.length) for name, part in parts.items()}
    labels = sets["test"].labels[sets["test"].labels >= 0]
    commonest = np.bincount(labels).max() / len(labels)
    progress.note(f"{len(labels):,} names to tag; the commonest kind: {commonest:.1%} of them")
    conditions: list[dict[str, Any]] = []
    for condition in tagging.compare(
        predictor,
        sets,
        np.asarray(predictor.embedding.embeddings, np.float32),
        len(python_source.KINDS),
        conditions=settings.conditions,
        seeds=settings.seeds,
        labelled=settings.train_windows,
        steps=settings.tagging_steps,
        batch_size=settings.batch_size,
    ):
        conditions.append({**condition, "group": {"task": "statement of each name"}})
        total = len(settings.conditions) * settings.seeds
        progress.advance(len(conditions), total, **condition["metrics"])
    lines = table({"conditions": conditions})

    progress.stage("export, load again, draw")
    predictor.save_to_preset(folder / "preset", units)
    model = export(predictor, units, folder / "saved_model")
    pictures = draw(model, " ".join(parts["test"][0][0]), folder, progress)
    files.write_text(folder / "table.txt", lines + "\n")
    made = [folder / "table.txt", *pictures, model, folder / "preset"]
    return {
        "conditions": conditions,
        "table": lines,
        "loss": loss,
        "files": [str(path) for path in made],
    }


def read(settings: Settings) -> tuple[dict[str, list[tuple[list[str], np.ndarray]]], list[str]]:
    """Labelled windows for test, development and training, and texts without labels.

    Each module serves one purpose only.
    """
    modules = python_source.modules()
    sizes = {
        "test": settings.test_windows,
        "development": settings.development_windows,
        "train": 2 * settings.train_windows,  # a seed draws its own half
    }
    parts = {
        name: python_source.windows(modules, size, settings.length) for name, size in sizes.items()
    }
    return parts, python_source.texts(modules, settings.tokens)


def learn(
    settings: Settings, corpus: EncodedCorpus, vocabulary_size: int, progress: Any
) -> tuple[GraphPredictor, float]:
    """Learns a predictor from a corpus; returns it and the loss at the end."""
    keras.utils.set_random_seed(settings.seed)
    predictor = GraphPredictor(
        vocabulary_size,
        width=settings.width,
        num_layers=settings.num_layers,
        num_heads=settings.num_heads,
        head_dim=settings.head_dim,
        cnn_depth=settings.cnn_depth,
        normalization="layer",
    )
    objective = ContrastiveContext(num_positions=20, output_table="own", seed=settings.seed)
    model = GLoMo(predictor, FeaturePredictor(), objective)
    model.build((settings.batch_size, settings.length))
    counts = corpus.counts(vocabulary_size)
    objective.adapt(counts)
    model.compile(
        optimizer=pretraining.optimizer(settings.learning_rate, steps=settings.steps),
        jit_compile=settings.jit_compile,
    )
    rounds = min(20, settings.steps)
    steps = settings.steps // rounds

    def show(number: int, logs: dict[str, float]) -> None:
        figures = {name: logs[name] for name in ("loss", "forward_accuracy_1", "units_per_second")}
        progress.advance((number + 1) * steps, rounds * steps, **figures)

    history = model.fit(
        pretraining.batches(
            corpus,
            steps=rounds * steps,
            length=settings.length,
            stride=settings.length,
            batch_size=settings.batch_size,
            candidates=settings.candidates,
            counts=counts,
            seed=settings.seed,
        ),
        epochs=rounds,
        steps_per_epoch=steps,
        callbacks=[Throughput(), keras.callbacks.LambdaCallback(on_epoch_end=show)],
        shuffle=False,
        verbose=0,
    ).history
    return predictor, history["loss"][-1]


def examples(
    part: Iterable[tuple[list[str], np.ndarray]], units: TextUnits, length: int
) -> Examples:
    """Units and labels `[windows, length]`."""
    tokens, labels = zip(*part, strict=True)
    ids = units.lookup_tokens(list(tokens)).to_tensor(shape=(None, length)).numpy()
    return Examples({"units": ids}, np.stack(labels))


def table(result: dict[str, Any]) -> str:
    """The comparison in a few lines; a difference whose interval holds 0 is said to be noise."""
    (found,) = results.compare(result)
    lines = [f"{'graph':<8} {'accuracy %':>12}   learned minus it, points (95% interval)"]
    for name, mean in found.means.items():
        line = f"{name:<8} {mean.scaled(100).text():>12}"
        if name in found.differences:
            difference = found.differences[name]
            points = difference.scaled(100).text(signed=True)
            line += f"   {points:>12}  {verdict(difference, 'learned', name)}"
        lines.append(line)
    return "\n".join(lines)


def draw(model: Path, text: str, folder: Path, progress: Any) -> list[Path]:
    """Pictures of what the loaded model sees in a text, and shipped presets in a sentence."""
    shown = {"graph": (model, text)}
    for name in presets.names():
        versions = [path for path in presets.folder_of(name).iterdir() if path.name.isdigit()]
        if versions:
            newest = max(versions, key=lambda path: int(path.name))
            shown[f"graph-{name}"] = (newest, SENTENCE)
    sentences, made = [], []
    for name, (path, sentence) in shown.items():
        loaded = tf.saved_model.load(str(path))  # kept alive while its signature is used
        answer = loaded.signatures["serving_default"](text=tf.constant([sentence]))
        tokens = answer["tokens_bytes"].numpy()[0].tolist()
        sentences.append(viewer.Sentence(tokens, answer["graph"].numpy()[0], name=name))
        try:
            made.append(viewer.draw_png(folder / f"{name}.png", sentences[-1]))
        except MissingExtra as error:
            progress.note(f"no picture: {error}")
    return [*made, viewer.draw_html(folder / "graph.html", sentences, title="glomo demo")]
