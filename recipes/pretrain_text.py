"""Learn a graph predictor from unlabeled text.

The contrastive objective predicts the units at offsets 1..D in both directions from features that
know their context only through the graphs. Word vectors (GloVe), where given, are the frozen input
of the predictor; the table of true representations is trained and dropped afterwards.

    glomo pretrain tfds:wikipedia_sample --out runs/wiki --set vectors=glove.6B.50d.txt

Cost: the 20,000 steps of 1,024 units of the preset `english_wiki` took 42 minutes on two cores that
did other work as well; the default is 30,000. Validation articles are scored after every round. A
run that was stopped goes on with `--resume` and ends in the same weights. The folder gets `preset/`
(predictor, vocabulary), checkpoints, and `curve.png` with matplotlib.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf

from glomo_tf import distribution, files, presets, pretraining
from glomo_tf.callbacks import Rounds, Throughput
from glomo_tf.checkpoints import Checkpoint
from glomo_tf.data import sources, word_vectors
from glomo_tf.data.corpus import EncodedCorpus, encode_corpus
from glomo_tf.data.text_units import TextUnits
from glomo_tf.errors import UserError
from glomo_tf.feature_predictor import FeaturePredictor
from glomo_tf.glomo import GLoMo
from glomo_tf.graph_predictor import GraphPredictor
from glomo_tf.objectives import ContextObjective, ContrastiveContext, GenerativeContext
from glomo_tf.viewer import curve


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the recipe; the model's are those of `GraphPredictor` and the objectives."""

    source: str = "python:docs"
    field: str | None = None
    vocabulary_size: int = 30_000
    splitter: Literal["words", "whitespace", "fastbert"] = "words"
    vectors: str | None = None
    width: int = 128
    num_layers: int = 2
    num_heads: int = 4
    head_dim: int = 32
    cnn_depth: int = 3
    sparsity: str = "query_relu"
    initial_threshold: float = -2.0
    normalization: Literal["batch", "layer", "none"] = "layer"
    composition: Literal["gru", "residual"] = "gru"
    objective: Literal["contrastive", "generative"] = "contrastive"
    context_length: int = 3
    num_positions: int = 20
    candidates: int = 768
    length: tuple[int, ...] = (64, 64)
    stride: tuple[int, ...] = (48, 64)
    batch_size: int = 16
    steps: int = 30_000
    round_steps: int = 500
    validation_share: float = 0.02
    validation_batches: int = 60
    learning_rate: float = 4.5e-3
    warmup_steps: int = 100
    weight_decay: float = 0.01
    jit_compile: bool = True
    mixed_precision: bool = False
    strategy: str = "auto"
    seed: int = 0


SMOKE: dict[str, Any] = {
    "vocabulary_size": 2000,
    "width": 32,
    "num_heads": 2,
    "head_dim": 16,
    "cnn_depth": 2,
    "candidates": 256,
    "steps": 60,
    "round_steps": 30,
    "validation_batches": 4,
    "jit_compile": False,
}

MAY_CHANGE = ("strategy",)

_PARTS = 10  # of a corpus that is one article


def run(settings: Settings, folder: Path, *, progress: Any) -> dict[str, Any]:
    """Trains, saves the preset and returns the figures of the last round."""
    keras.utils.set_random_seed(settings.seed)
    rounds = settings.steps // settings.round_steps
    if rounds < 1:
        raise UserError(
            f"Expected `steps` to hold at least one round of {settings.round_steps} steps. "
            f"Received: steps={settings.steps}."
        )
    strategy = distribution.strategy(settings.strategy)
    distribution.check_batch(settings.batch_size, strategy)
    text_units = _vocabulary(settings, folder, progress)
    corpus = _corpus(settings, folder, text_units, progress)
    # A small corpus has to give up more than its share, or validation would not fill one batch.
    one_batch = 2 * settings.batch_size * settings.length[-1]
    share = max(settings.validation_share, min(one_batch / corpus.num_units, 0.5))
    training, validation = corpus.split(share, seed=settings.seed)
    with strategy.scope():
        model = make_model(settings, text_units)
    checkpoint = Checkpoint(folder / "checkpoints")
    done, notes = checkpoint.restore(model)
    for note in notes:
        progress.note(note)
    progress.stage("pre-train")
    curve_file = folder / "curve.jsonl"
    if done < rounds:
        model.fit(
            _batches(settings, training, text_units, settings.steps, done * settings.round_steps),
            validation_data=_batches(
                settings, validation, text_units, settings.validation_batches
            ).cache(),
            initial_epoch=done,
            epochs=rounds,
            steps_per_epoch=settings.round_steps,
            callbacks=[
                Throughput(),
                Rounds(curve_file, progress, settings.round_steps, rounds, keep=done),
                checkpoint,
                keras.callbacks.TerminateOnNaN(raise_error=True),
            ],
            shuffle=False,
            verbose=0,
        )
    return _finish(settings, folder, model, text_units, progress)


def make_model(settings: Settings, text_units: TextUnits) -> GLoMo:
    """The built and compiled pre-training model."""
    policy = "mixed_bfloat16" if settings.mixed_precision else "float32"
    vectors = None
    if settings.vectors:
        vectors, _ = word_vectors.load(settings.vectors, text_units.words)
    predictor = GraphPredictor(
        text_units.vocabulary_size,
        width=settings.width,
        num_layers=settings.num_layers,
        num_heads=settings.num_heads,
        head_dim=settings.head_dim,
        cnn_depth=settings.cnn_depth,
        sparsity=settings.sparsity,
        initial_threshold=settings.initial_threshold,
        normalization=settings.normalization,
        embedding_width=None if vectors is None else vectors.shape[1],
        train_embeddings=vectors is None,
        embedding_dtype=None if vectors is None else "float16",
        dtype=policy,
    )
    objective: ContextObjective
    table = "tied" if vectors is None else "own"
    arguments: dict[str, Any] = {
        "context_length": settings.context_length,
        "num_positions": settings.num_positions,
        "output_table": table,
        "seed": settings.seed,
    }
    if settings.objective == "contrastive":
        objective = ContrastiveContext(**arguments)
    else:
        objective = GenerativeContext(sampled_softmax=True, **arguments)
    model = GLoMo(predictor, FeaturePredictor(composition=settings.composition), objective)
    model.build((None, None))
    if vectors is not None:
        predictor.set_embeddings(vectors)
    objective.adapt(text_units.counts)
    optimizer = pretraining.optimizer(
        settings.learning_rate,
        steps=settings.steps,
        warmup_steps=settings.warmup_steps,
        weight_decay=settings.weight_decay,
    )
    model.compile(optimizer=optimizer, jit_compile=settings.jit_compile)
    optimizer.build(model.trainable_variables)
    return model


def _vocabulary(settings: Settings, folder: Path, progress: Any) -> TextUnits:
    path = folder / "preset" / presets.VOCABULARY
    if path.is_file():
        return TextUnits.load(path)
    progress.stage("vocabulary")
    documents = sources.documents(settings.source, field=settings.field)
    keep = word_vectors.words(settings.vectors) if settings.vectors else None
    units = TextUnits.from_corpus(
        (document.text for document in documents),
        settings.vocabulary_size,
        splitter=settings.splitter,
        keep=keep,
    )
    progress.note(f"{settings.source}: {documents.report}; {units.vocabulary_size:,} units")
    path.parent.mkdir(parents=True, exist_ok=True)
    units.save(path)
    return units


def _corpus(
    settings: Settings, folder: Path, text_units: TextUnits, progress: Any
) -> EncodedCorpus:
    progress.stage("encode")
    documents = sources.documents(settings.source, field=settings.field)
    corpus = encode_corpus(documents, text_units, cache_dir=folder / "corpus")
    if corpus.num_articles == 1:  # one long file: parts of it are held out for validation
        bounds = np.linspace(0, corpus.num_units, _PARTS + 1).astype("int64")
        corpus = EncodedCorpus(corpus.units, bounds)
    progress.note(f"{corpus.num_articles:,} articles, {corpus.num_units:,} units")
    return corpus


def _batches(
    settings: Settings, corpus: EncodedCorpus, text_units: TextUnits, steps: int, done: int = 0
) -> tf.data.Dataset:
    return pretraining.batches(
        corpus,
        steps=steps,
        done=done,
        length=(settings.length[0], settings.length[-1]),
        stride=(settings.stride[0], settings.stride[-1]),
        batch_size=settings.batch_size,
        candidates=settings.candidates,
        counts=text_units.counts,
        seed=settings.seed,
    )


def _finish(
    settings: Settings, folder: Path, model: GLoMo, text_units: TextUnits, progress: Any
) -> dict[str, Any]:
    lines = (folder / "curve.jsonl").read_text("utf-8").splitlines()
    rounds = [json.loads(line) for line in lines]
    preset = folder / "preset"
    described = {k: v for k, v in dataclasses.asdict(settings).items() if k != "vectors"}
    described["vectors"] = Path(settings.vectors).name if settings.vectors else None
    presets.save_predictor(
        model.graph_predictor,
        preset,
        text_units,
        settings=described,
        figures=rounds[-1],
    )
    files.write_text(preset / "curve.jsonl", "\n".join(lines) + "\n")
    written = ["preset", "curve.jsonl"]
    if curve.available():
        curve.draw_png(preset / "curve.png", rounds, title=settings.source)
        written.append("preset/curve.png")
    figures = {name: value for name, value in rounds[-1].items() if name != "round"}
    return {**figures, "parameters": model.graph_predictor.count_params(), "files": written}
