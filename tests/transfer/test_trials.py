"""What paired comparisons rest on: the same weights, batches and draws for a seed."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from glomo_tf.transfer.text_classifier import classifier
from glomo_tf.transfer.trials import Examples, Trials, _batches, check_sizes, subset

LENGTH = 5


def trials(messages: tuple[int, int] | None = None, **arguments) -> Trials:
    vectors = np.random.default_rng(0).normal(size=(12, 4)).astype("float32")
    given = {"attention": False, "fusion": "gate", "hidden": 8, "dropout": 0.1} | arguments
    encoder = given.pop("encoder", "pooling")
    model = classifier(encoder, vectors, LENGTH, messages=messages, **given)
    return Trials(model, learning_rate=0.01)


def examples(count: int = 40) -> Examples:
    """Label 1 where unit 3 is in the text."""
    units = np.random.default_rng(1).integers(4, 12, (count, LENGTH)).astype("int32")
    labels = (np.arange(count) % 2).astype("int32")
    units[labels == 1, 2] = 3
    return Examples({"units": units}, labels)


def weights(trial: Trials) -> dict[str, np.ndarray]:
    names = trial._names
    return {names[id(v)]: v.numpy() for v in trial.model.trainable_variables}


def test_first_weights_by_seed_and_name() -> None:
    one, other, wider = trials(), trials(), trials((2, 3))
    one.reset(5)
    other.reset(5)
    wider.reset(5)
    first, same, more = weights(one), weights(other), weights(wider)
    assert set(first) < set(more)
    for name, value in first.items():
        assert np.array_equal(value, same[name]), name
        if value.shape == more[name].shape:
            assert np.array_equal(value, more[name]), name
    kernel = "hidden/kernel#1"
    assert first[kernel].shape == (8, 8)
    assert more[kernel].shape == (16, 8)
    # Glorot's limit, and not the same numbers for every weight of a shape.
    assert abs(first[kernel]).max() <= np.sqrt(6 / 16)
    assert not np.array_equal(more["mix/gate/kernel#1"], more["mix/gate_value/kernel#1"])
    assert np.array_equal(more["mix/scale#1"], np.ones((2, 2)))
    one.reset(6)
    assert not np.array_equal(first[kernel], weights(one)[kernel])


def test_a_run_can_be_repeated_and_finds_an_easy_rule() -> None:
    trial, data = trials(), examples()
    arguments = {"steps": 300, "batch_size": 10, "evaluations": 3}
    first = trial.run(data, data, data, seed=1, **arguments)
    between = trial.run(data, data, data, seed=2, **arguments)
    again = trial.run(data, data, data, seed=1, **arguments)
    assert first.accuracy == again.accuracy
    assert first.accuracy >= 0.9
    assert (first.development, first.step) == (again.development, again.step)
    assert between.accuracy >= 0.9
    fresh = trials().run(data, data, data, seed=1, **arguments)
    assert (fresh.accuracy, fresh.step) == (first.accuracy, first.step)


def test_the_best_step_on_development_data_is_scored() -> None:
    trial, data = trials(), examples()
    seen = iter([0.5, 0.9, 0.7])
    kept: list[np.ndarray] = []
    accuracy = trial.accuracy

    def told(given: Examples) -> float:
        if len(given.labels) == 30:  # development
            kept.append(trial.model.trainable_variables[0].numpy())
            return next(seen)
        return accuracy(given)

    trial.accuracy = told
    outcome = trial.run(
        data, data.take(np.arange(30)), data, seed=0, steps=9, batch_size=10, evaluations=3
    )
    assert (outcome.step, outcome.development) == (6, 0.9)
    assert np.array_equal(trial.model.trainable_variables[0].numpy(), kept[1])
    assert not np.array_equal(kept[1], kept[2])


def test_accuracy_counts_every_example_once() -> None:
    trial, data = trials(), examples(23)
    trial.reset(0)
    found = trial.model({"units": data.inputs["units"]}, training=False).numpy()[:, 0] > 0
    assert trial.accuracy(data, chunk=10) == np.mean(found == data.labels)
    assert trial.accuracy(data) == np.mean(found == data.labels)


def test_subsets_are_nested_and_batches_cover_an_epoch() -> None:
    assert np.array_equal(subset(100, 20, 3), subset(100, 50, 3)[:20])
    assert not np.array_equal(subset(100, 20, 3), subset(100, 20, 4))
    batches = _batches(6, 2, np.random.default_rng(0))
    epoch = [next(batches) for _ in range(3)]
    assert sorted(np.concatenate(epoch)) == list(range(6))
    with pytest.raises(ValueError, match="at least 25 labels"):
        check_sizes((100, 20), 25)


@pytest.mark.parametrize("encoder", ["pooling", "bigru"])
@pytest.mark.parametrize(("messages", "attention"), [(None, True), ((2, 3), False), ((2, 3), True)])
def test_padding_does_not_change_the_answer(encoder, messages, attention) -> None:
    model = trials(messages, encoder=encoder, attention=attention).model
    units = np.array([[3, 4, 5, 0, 0], [0] * LENGTH], "int32")
    inputs = {"units": units}
    if messages is not None:
        inputs["messages"] = np.random.default_rng(0).normal(size=(2, 2, LENGTH, 3, 4))
        inputs["messages"] = inputs["messages"].astype("float16")
    before = model(inputs).numpy()
    assert np.isfinite(before).all()
    if messages is not None:
        inputs["messages"][0, :, 3:] = 9.0
    # The vector of padding is not zero here, and must not matter.
    table = model.get_layer("vectors")
    vectors = table.get_weights()[0]
    vectors[0] = 7.0
    table.set_weights([vectors])
    assert np.allclose(model(inputs).numpy()[0], before[0], atol=1e-5)
    assert keras.backend.standardize_dtype(model.output.dtype) == "float32"
