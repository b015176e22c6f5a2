"""The sentiment recipe on small data whose labels depend on related units."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import glomo_tf
from glomo_tf import results
from glomo_tf.data.text_units import TextUnits
from glomo_tf.errors import UserError
from glomo_tf.recipes import sentiment
from glomo_tf.settings import override
from glomo_tf.transfer.trials import Examples, Trials

WORDS = ["good", "bad", "not", "so", *(f"w{i}" for i in range(12))]


class Silent:
    """Progress that keeps its notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def stage(self, title: str) -> None: ...

    def advance(self, done: int, total: int, **figures: Any) -> None: ...

    def note(self, line: str) -> None:
        self.notes.append(line)


@pytest.fixture
def settings(tmp_path: pathlib.Path) -> sentiment.Settings:
    rng = np.random.default_rng(0)
    for split, count in {"train": 160, "validation": 60, "test": 60}.items():
        rows = []
        for _ in range(count):
            words = list(rng.choice(WORDS[2:], 6))
            label = int(rng.integers(2))
            words[rng.integers(6)] = ["bad", "good"][label]
            rows.append(json.dumps({"text": " ".join(words), "label": label}))
        (tmp_path / f"{split}.jsonl").write_text("\n".join(rows))
    vectors = rng.normal(size=(len(WORDS), 8)).astype("float32")
    np.savez(tmp_path / "vectors.npz", words=np.array(WORDS), vectors=vectors)
    units = TextUnits.from_corpus([" ".join(WORDS)], 50)
    predictor = glomo_tf.GraphPredictor(
        units.vocabulary_size, width=8, num_layers=1, num_heads=2, head_dim=4, cnn_depth=1
    )
    predictor.build((None, None))
    predictor.save_to_preset(tmp_path / "preset")
    units.save(tmp_path / "preset" / "vocabulary.json")
    spec = f"jsonl:{tmp_path}/{{split}}.jsonl"
    changes = {
        "preset": str(tmp_path / "preset"),
        "vectors": str(tmp_path / "vectors.npz"),
        "sst2": spec,
        "imdb": spec,
        "sst2_length": 8,
        "imdb_length": 8,
        "datasets": ("imdb",),
        "encoders": ("pooling",),
        "imdb_labels": (50, 100),
        "sst2_labels": (50,),
        "seeds": 2,
        "steps": 60,
        "pool_examples": 100,
        "development_examples": 40,
        "test_examples": 50,
        "hidden": 16,
        "learning_rate": 1e-2,
    }
    return override(override(sentiment.Settings(), sentiment.SMOKE), changes)


def test_result_of_a_small_run(settings: sentiment.Settings, tmp_path: pathlib.Path) -> None:
    settings = override(settings, {"conditions": ("none", "learned")})
    progress = Silent()
    result = sentiment.run(settings, tmp_path / "out", progress=progress)
    whole = {"format": 1, "recipe": "sentiment", "settings": {}, "environment": {}} | result
    results.check(whole)
    assert len(result["conditions"]) == 2 * 2 * 2
    assert result["conditions"][0]["group"] == {
        "dataset": "imdb",
        "encoder": "pooling",
        "labels": 50,
    }
    assert result["conditions"][0]["examples"] == {"train": 100, "development": 40, "test": 50}
    # "good" and "bad" are in the text: anything that reads it finds them. Chance is 0.5 ± 0.07
    # on 50 texts.
    found = [c["metrics"]["accuracy"] for c in result["conditions"]]
    assert min(found) > 0.6
    assert np.mean(found) > 0.8
    assert (tmp_path / "out" / "table.md").read_text() == result["table"]
    assert "learned minus" in result["table"]
    assert sum("imdb pooling" in line for line in progress.notes) == 8
    again = sentiment.run(settings, tmp_path / "again", progress=Silent())
    assert [c["metrics"] for c in again["conditions"]] == [
        c["metrics"] for c in result["conditions"]
    ]


class Marked(glomo_tf.GraphPredictor):
    """Every unit takes from the unit two places before it; backward from two behind."""

    def factors(self, inputs: Any, mask: Any = None, training: bool = False) -> Any:
        """Factors of that graph: keys and queries are positions, far above any threshold."""
        batch, length = inputs.shape
        key = np.eye(length)
        query = np.stack([np.eye(length, k=-2), np.eye(length, k=2)])
        shape = (batch, 2, 1, length, length)
        return {
            "query": tf.constant(np.broadcast_to(query[None, :, None], shape), tf.float32),
            "key": tf.constant(np.broadcast_to(key, shape), tf.float32),
            "mask": inputs != 0,
            "direction": tf.constant([[1, -1]] * batch),
            "relu": tf.zeros(shape[:-1]),
        }


@pytest.mark.parametrize("wrong", [None, "ignored", "shifted", "shuffled"])
def test_a_label_that_needs_the_graph(wrong: str | None) -> None:
    # Every text has units 3 and 4 once among the same others. The label is 1 where 4 stands two
    # places before 3, and 0 where it stands elsewhere: pooling cannot tell, nor can it along a
    # graph that looks at other distances (shifted, they are -3 and +1). Transposed, the graph
    # would show the same pair from its other end; orientation is held by the messages' values.
    rng = np.random.default_rng(0)
    length, count = 24, 400  # so long that no end of a text is near
    units = rng.integers(5, 9, (count, length)).astype("int32")
    labels = rng.integers(0, 2, count).astype("int32")
    for row, label in zip(units, labels, strict=True):
        place = rng.integers(9, 14)
        row[place] = 3
        row[place - 2 if label else place + rng.choice([-6, -5, 5, 6])] = 4
    vectors = np.eye(9, dtype="float32")
    data = Examples({"units": units}, labels)
    predictor = Marked(9, width=4, num_layers=1, num_heads=1, head_dim=4, cnn_depth=1)
    data = sentiment.with_messages(data, "learned", predictor, vectors)
    messages = data.inputs["messages"]
    assert messages.shape == (count, 2, length, 1, 9)
    assert np.array_equal(messages[0, 0, 2:, 0], vectors[units[0, :-2]])
    if wrong == "shuffled":
        messages = np.roll(messages, 1, axis=0)
    elif wrong == "shifted":
        messages = np.roll(messages, 1, axis=2)
    elif wrong == "ignored":
        messages = messages * 0
    data = Examples({"units": units, "messages": messages}, labels)
    model = sentiment.classifier(
        "pooling",
        vectors,
        length,
        messages=(2, 1),
        attention=False,
        fusion="gate",
        hidden=16,
        dropout=0.0,
    )
    trials = Trials(model, learning_rate=0.02)
    train, test = data.take(np.arange(300)), data.take(np.arange(300, 400))
    arguments = {"seed": 0, "steps": 250, "batch_size": 50, "evaluations": 5}
    accuracy = trials.run(train, train, test, **arguments).accuracy
    assert accuracy > 0.9 if wrong is None else accuracy < 0.8


def test_messages_of_controls(settings: sentiment.Settings) -> None:
    keras.utils.set_random_seed(1)
    predictor = glomo_tf.GraphPredictor.from_preset(settings.preset)
    vectors = np.random.default_rng(0).normal(size=(19, 8)).astype("float32")
    data = Examples({"units": np.array([[3, 4, 5, 0], [6, 7, 0, 0]], "int32")}, np.array([0, 1]))
    assert sentiment.with_messages(data, "none", predictor, vectors) is data
    uniform = sentiment.with_messages(data, "uniform", predictor, vectors).inputs["messages"]
    assert uniform.shape == (2, 2, 4, 2, 8)
    expected = vectors[[3, 4, 5]].mean(0)
    assert np.allclose(uniform[0, 1, :3, 1], expected, atol=2e-3)
    assert not uniform[0, :, 3].any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vectors": ""}, "Expected a file of word vectors"),
        ({"conditions": ("lokal",)}, "Expected conditions among .*Received: lokal"),
        ({"imdb_labels": (150,)}, "at least 150 examples of imdb.*Received: 100"),
        ({"imdb_labels": (10,)}, "at least 25 labels"),
        ({"preset": "nowhere"}, "name of a shipped preset"),
    ],
)
def test_bad_settings(settings, changes, message, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        sentiment.run(override(settings, changes), tmp_path / "out", progress=Silent())
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_vocabulary_of_another_predictor(settings, tmp_path: pathlib.Path) -> None:
    TextUnits.from_corpus(["one two three"], 50).save(tmp_path / "preset" / "vocabulary.json")
    with pytest.raises(UserError, match="Expected a vocabulary of 19 units"):
        sentiment.run(settings, tmp_path / "out", progress=Silent())


def test_labelled_test_of_sst2(settings, tmp_path: pathlib.Path) -> None:
    settings = dataclasses.replace(settings, datasets=("sst2",), sst2_test=None)
    found = sentiment._load(settings, "sst2")
    validation = {
        e.texts for e in sentiment.sources.labelled(settings.sst2, "validation", "text", "label")
    }
    assert {e.texts for e in found["test"]} <= validation
    assert len({e.texts for e in found["development"]} & validation) == 0
    named = dataclasses.replace(settings, sst2_test=str(tmp_path / "test.jsonl"))
    found = sentiment._load(named, "sst2")
    assert {e.texts for e in found["development"]} <= validation
    assert len({e.texts for e in found["test"]} & validation) == 0
