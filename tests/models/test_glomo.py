"""GLoMo: what it reports and what a step applies, against loops by hand."""

from __future__ import annotations

import inspect
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from glomo_tf import ContrastiveContext, GLoMo, callbacks
from tests import reference
from tests.models.small import dataset, make, make_batches


def figures_by_hand(model: GLoMo, batches: list[np.ndarray]) -> dict[str, float]:
    """Mean loss over batches; accuracies over predictions; shares over pairs and rows."""
    losses = []
    correct, count = np.zeros((2, 2)), np.zeros((2, 2))
    zeros = pairs = empty = rows = units_seen = 0
    for units in batches:
        outputs = model(units)
        table = model.graph_predictor.embedding.embeddings.numpy()
        p = model.objective.unit_probabilities.numpy().astype("float64")
        present = sorted(set(units.ravel()) - {0})
        number = (units > 0).sum()
        correction = {u: np.log(1 - (1 - p[u]) ** number) for u in present}
        predictions = model.objective.head(tf.transpose(outputs["features"], [1, 0, 2, 3])).numpy()
        total = n = 0
        for direction, sign in enumerate((1, -1)):
            for b, t, offset, target in reference.contexts(units, sign, 2):
                vector = predictions[direction, b, t, offset - 1].astype("float64")
                logits = {u: vector @ table[u] - correction[u] for u in present}
                total += reference.cross_entropy(logits, target)
                n += 1
                cell = direction, offset - 1
                count[cell] += 1
                correct[cell] += max(logits, key=logits.__getitem__) == target
        losses.append(total / n)
        graph, mask = outputs["graph"].numpy(), units > 0
        units_seen += int(mask.sum())
        for g in range(4):
            pairs_ = reference.allowed(mask, 1 if g < 2 else -1)
            for k in range(2):
                zeros += int((graph[:, g, k][pairs_] == 0).sum())
                pairs += int(pairs_.sum())
                some = pairs_.any(-1)
                rows += int(some.sum())
                empty += int((graph[:, g, k].sum(-1)[some] == 0).sum())
    names = [f"{name}_accuracy_{offset}" for name in ("forward", "backward") for offset in (1, 2)]
    return {
        "loss": np.mean(losses),
        **dict(zip(names, (correct / count).ravel(), strict=True)),
        "sparsity": zeros / pairs,
        "empty_rows": empty / rows,
        "units": units_seen,
    }


def test_report_13_history_is_the_mean_over_batches_of_each_epoch() -> None:
    """At rate 0 nothing is learned: both epochs and evaluations give what a loop gives."""
    model, batches = make(), make_batches()
    model.compile(keras.optimizers.SGD(0.0), run_eagerly=True)
    history = model.fit(
        dataset(batches), epochs=2, verbose=0, shuffle=False, validation_data=dataset(batches)
    ).history
    for name, value in figures_by_hand(model, batches).items():
        np.testing.assert_allclose(history[name], [value, value], rtol=1e-4, err_msg=name)
        np.testing.assert_allclose(history[f"val_{name}"], [value, value], rtol=1e-4)
    assert 0 < history["sparsity"][0] < 1


def test_one_step_is_plain_gradient_descent() -> None:
    model, units = make(), make_batches()[0]
    model(units)
    model.build()
    before = [v.numpy() for v in model.trainable_variables]
    with tf.GradientTape() as tape:
        loss, _ = model.compute_loss(x=tf.constant(units), training=True)
    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    assert model.train_on_batch(units, return_dict=True)["loss"] == pytest.approx(float(loss), 1e-5)
    for v, start, gradient in zip(model.trainable_variables, before, gradients, strict=True):
        assert gradient is not None, v.path
        expected = start - 0.1 * tf.convert_to_tensor(gradient).numpy()
        np.testing.assert_allclose(v, expected, atol=1e-6, err_msg=v.path)


def test_every_weight_is_trained() -> None:
    """A gradient reaches embeddings, both networks, every graph layer, compositions and head."""
    model = make(ContrastiveContext(context_length=2, num_negatives=3), initial_threshold=-1.0)
    units = make_batches(batch=8, length=9)[0]
    model.build()
    with tf.GradientTape() as tape:
        loss, _ = model.compute_loss(x=tf.constant(units), training=True)
    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
    for v, gradient in zip(model.trainable_variables, gradients, strict=True):
        dense = tf.convert_to_tensor(gradient).numpy()
        assert np.isfinite(dense).all(), v.path
        assert np.abs(dense).max() > 0, v.path


def test_steps_are_short() -> None:
    for method in (GLoMo.train_step, GLoMo.test_step):
        assert len(inspect.getsource(method).splitlines()) <= 25


def test_report_14_batch_without_any_context() -> None:
    model = make()
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    model.build()
    before = [v.numpy() for v in model.trainable_variables]
    for units in (np.zeros((2, 5), "int32"), np.array([[4, 0, 0]], "int32"), np.array([[4]])):
        got = model.train_on_batch(units, return_dict=True)
        assert got["loss"] == 0
        assert all(np.isfinite(value) for value in got.values())
    for v, start in zip(model.trainable_variables, before, strict=True):
        np.testing.assert_array_equal(v, start)


def test_report_42_text_no_longer_than_the_context() -> None:
    model = make(ContrastiveContext(context_length=3, num_negatives=0))
    model.compile("sgd", run_eagerly=True)
    for length in (1, 2, 3, 4):
        got = model.train_on_batch(np.arange(1, 1 + length)[None], return_dict=True)
        assert np.isfinite(list(got.values())).all()


def test_candidates_from_the_pipeline() -> None:
    """A dict of units and candidates gives the loss over those candidates."""
    model, units = make(), make_batches()[1]
    model.build()
    everything = np.arange(20, dtype="int32")
    given, _ = model.compute_loss(x={"units": units, "candidates": everything}, training=False)
    own, _ = model.compute_loss(x=units, training=False)
    assert float(given) > float(own)  # more negatives
    present = np.unique(units)
    model.objective.frequency_correction = False
    given, _ = model.compute_loss(x={"units": units, "candidates": present}, training=False)
    own, _ = model.compute_loss(x=units, training=False)
    np.testing.assert_allclose(given, own, rtol=1e-6)
    batches = [make_batches()[1]] * 2
    data = dataset(batches).map(lambda x: {"units": x, "candidates": tf.constant(present)})
    model.compile("sgd")
    got = model.evaluate(data, verbose=0, return_dict=True)
    np.testing.assert_allclose(got["loss"], own, rtol=1e-5)


def test_predict_gives_features_and_graphs() -> None:
    model, units = make(), make_batches()[0]
    out = model.predict(units, verbose=0)
    assert out["features"].shape == (4, 2, 7, 8)
    assert out["graph"].shape == (4, 4, 2, 7, 7)
    np.testing.assert_allclose(out["graph"], model.graph_predictor(units), atol=1e-6)


# --- throughput ---------------------------------------------------------------------------------


def test_units_per_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Real units of training over the time of training; validation is not counted in."""
    callback = callbacks.Throughput()
    times = iter([10.0, 14.0, 100.0, 102.0])
    monkeypatch.setattr("time.perf_counter", lambda: next(times))
    logs: dict[str, Any] = {"units": 80.0}
    callback.on_epoch_begin(0)
    callback.on_test_begin()
    callback.on_epoch_end(0, logs)
    assert logs["units_per_second"] == 20
    callback.on_epoch_begin(1)
    callback.on_epoch_end(1, logs)
    assert logs["units_per_second"] == 40
