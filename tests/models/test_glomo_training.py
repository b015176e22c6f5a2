"""GLoMo trained: precision, compilation, traces, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from glomo_tf import ContrastiveContext, FeaturePredictor, GenerativeContext, GLoMo, GraphPredictor
from tests import check_layer
from tests.models.small import dataset, make, make_batches


@pytest.mark.parametrize("kind", ["contrastive", "generative"])
def test_learns_a_text_that_repeats(kind: str) -> None:
    """In 1 2 3 1 2 3 … the next unit is known from the last one."""
    objective = {
        "contrastive": ContrastiveContext(context_length=2, num_negatives=4),
        "generative": GenerativeContext(context_length=2),
    }[kind]
    model = make(objective, num_layers=1)
    units = np.tile(np.arange(1, 10), 2)[None, :12] + np.zeros((6, 1), "int32")
    model.compile(keras.optimizers.Adam(0.03))
    history = model.fit(units, epochs=25, batch_size=6, shuffle=False, verbose=0).history
    assert history["loss"][-1] < 0.5 * history["loss"][0]
    assert history["forward_accuracy_1"][-1] > 0.8
    assert history["backward_accuracy_1"][-1] > 0.8


# --- precision and compilation --------------------------------------------------------------------


def test_report_11_mixed_float16() -> None:
    """20 steps beside float32: the loss falls, weights stay near, the optimizer scales the loss."""
    batches = make_batches(number=3, batch=8) * 4
    weights: dict[str, list[np.ndarray]] = {}
    losses: dict[str, list[float]] = {}
    start: list[np.ndarray] = []
    for policy in ("float32", "mixed_float16"):
        keras.config.set_dtype_policy(policy)
        keras.utils.set_random_seed(1)
        model = make()
        model.build()
        start = start or [v.numpy() for v in model.trainable_variables]
        for v, value in zip(model.trainable_variables, start, strict=True):
            v.assign(value)
        model.compile(keras.optimizers.SGD(0.03))
        scaled = isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
        assert scaled == (policy == "mixed_float16")
        losses[policy] = model.fit(
            dataset(batches[:10]), epochs=2, verbose=0, shuffle=False
        ).history["loss"]
        weights[policy] = [v.numpy() for v in model.trainable_variables]
    for policy in losses:
        assert losses[policy][1] < losses[policy][0]
    moved = max(np.abs(v - value).max() for v, value in zip(weights["float32"], start, strict=True))
    assert moved > 0.01
    for half, full in zip(weights["mixed_float16"], weights["float32"], strict=True):
        np.testing.assert_allclose(half, full, atol=1e-2)


def test_report_19_compiled_by_xla() -> None:
    """`jit_compile=True` stays on, gives what eager gives, and one compilation serves a shape."""
    batches = make_batches()
    eager, compiled = make(), make()
    compiled.build()
    eager.build()
    compiled.set_weights(eager.get_weights())
    eager.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    compiled.compile(keras.optimizers.SGD(0.1), jit_compile=True)
    assert compiled.jit_compile is True
    one, two = (
        model.fit(dataset(batches), epochs=2, verbose=0, shuffle=False).history
        for model in (eager, compiled)
    )
    assert compiled.jit_compile is True
    for name, values in one.items():
        np.testing.assert_allclose(two[name], values, rtol=1e-3, atol=1e-4, err_msg=name)
    for v, w in zip(compiled.trainable_variables, eager.trainable_variables, strict=True):
        np.testing.assert_allclose(v, w, atol=1e-4)


def test_report_18_every_layer_says_that_it_can_be_compiled() -> None:
    model = make(GenerativeContext(context_length=2))
    model.build()
    model.compile("sgd", jit_compile="auto")
    for layer in model._flatten_layers():
        assert layer.supports_jit, layer.name


class Counted(GraphPredictor):
    """Counts how often Python runs `call`: once a trace."""

    calls = 0

    def call(self, *arguments: Any, **named: Any) -> Any:
        Counted.calls += 1
        return super().call(*arguments, **named)


def test_report_21_lengths_do_not_trace_anew() -> None:
    predictor = Counted(20, width=8, num_layers=1, num_heads=2, head_dim=4, cnn_depth=1)
    model = GLoMo(
        predictor, FeaturePredictor(), ContrastiveContext(context_length=2, num_negatives=2)
    )
    model.build()
    model.compile("sgd")
    rng = np.random.default_rng(0)
    texts = [rng.integers(1, 20, (2, length)).astype("int32") for length in range(3, 13)]
    data = tf.data.Dataset.from_generator(
        lambda: iter(texts), output_signature=tf.TensorSpec([None, None], tf.int32)
    ).apply(tf.data.experimental.assert_cardinality(len(texts)))
    Counted.calls = 0
    model.fit(data, epochs=2, verbose=0, shuffle=False)
    assert Counted.calls == 1


# --- files --------------------------------------------------------------------------------------


def test_files(tmp_path: Path) -> None:
    """Trained models, both objectives, come back in a fresh process and go on training here."""
    folders = []
    for name, objective in {
        "contrastive": ContrastiveContext(context_length=2, num_negatives=3, output_table="own"),
        "generative": GenerativeContext(context_length=2, learn_temperature=True),
        "narrow": GenerativeContext(context_length=1, sampled_softmax=True, num_layers=1),
    }.items():
        changes = {"embedding_width": 5} if name == "narrow" else {"normalization": "batch"}
        model = make(objective, **changes)
        model.compile(keras.optimizers.Adam(0.01), run_eagerly=True)
        model.build()
        model.objective.adapt(np.arange(20) + 1)
        units = make_batches()[0]
        model.fit(dataset([units]), epochs=2, verbose=0, shuffle=False)
        folders.append(check_layer.save(tmp_path / name, model, [units]))
        again = keras.saving.load_model(tmp_path / name / "model.keras")
        np.testing.assert_allclose(
            again.objective.unit_probabilities, model.objective.unit_probabilities
        )
        assert {"graph_predictor", "feature_predictor", "objective"} <= set(model.get_config())
        for part in ("graph_predictor", "feature_predictor", "objective"):
            assert getattr(again, part).get_config() == getattr(model, part).get_config()
        assert int(again.optimizer.iterations) == 2
        for v, w in zip(again.weights, model.weights, strict=True):
            np.testing.assert_array_equal(v, w)
    check_layer.in_a_fresh_process(folders)
