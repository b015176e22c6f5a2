"""The objectives: by hand, against loops, and against the probabilities they claim."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from glomo_tf import ContrastiveContext, GenerativeContext
from glomo_tf.objectives import UnitTable, candidates
from tests import check_layer, reference

VOCABULARY, WIDTH = 9, 4
OBJECTIVES = (ContrastiveContext, GenerativeContext)


def build(objective: Any, directions: int = 2, width: int = WIDTH, table: int = WIDTH) -> Any:
    objective.build((directions, None, None, width), vocabulary_size=VOCABULARY, table_width=table)
    rng = np.random.default_rng(3)
    for v in objective.trainable_variables:
        v.assign(v + tf.constant(rng.normal(0, 0.3, v.shape), tf.float32))
    return objective


def make_inputs(
    units: np.ndarray, directions: int = 2, table: int = WIDTH
) -> tuple[np.ndarray, UnitTable]:
    rng = np.random.default_rng(7)
    features = rng.normal(size=(directions, *units.shape, WIDTH)).astype("float32")
    rows = rng.normal(size=(VOCABULARY, table)).astype("float32")
    return features, UnitTable(keras.Variable(rows))


def sums(objective: Any, features: Any, units: Any, table: UnitTable, **more: Any) -> dict:
    signs = (1, -1)[: len(features)]
    out = objective(
        tf.constant(features), tf.constant(units, tf.int32), table=table, directions=signs, **more
    )
    return {name: x.numpy() for name, x in out.items()}


UNITS = np.array([[3, 5, 3, 8, 1], [2, 5, 7, 0, 0], [4, 0, 0, 0, 0]])


# --- by hand ------------------------------------------------------------------------------------


def simple(units: list[list[int]], rows: list[list[float]], **more: Any) -> dict:
    """Forward, D = 1, identity head, features equal to the rows of the units themselves."""
    objective = ContrastiveContext(
        context_length=1, num_negatives=0, frequency_correction=False, temperature=1.0, **more
    )
    objective.build((1, None, None, 2), vocabulary_size=len(rows), table_width=2)
    objective.head.set_weights([np.eye(2)[None], np.zeros((1, 1, 1, 2))])
    table = np.array(rows, "float32")
    return sums(
        objective, table[np.array(units)][None], np.array(units), UnitTable(keras.Variable(table))
    )


def test_two_units_by_hand() -> None:
    """Unit 1 = (1, 0) predicts unit 2 = (0, 1) among both: logits 1 and 0, loss log(1 + e)."""
    got = simple([[1, 2]], [[9, 9], [1, 0], [0, 1]])
    np.testing.assert_allclose(got["loss"], [[np.log(1 + np.e)]], rtol=1e-6)
    np.testing.assert_array_equal(got["count"], [[1]])
    np.testing.assert_array_equal(got["correct"], [[0]])


def test_report_49_equal_units_are_no_negatives_of_each_other() -> None:
    """Three places hold unit 2: it is one candidate, so 1 → 2 costs log(1 + e) and 2 → 2 less."""
    got = simple([[1, 2, 2, 2]], [[9, 9], [1, 0], [0, 1]])
    again = 2 * np.log(1 + np.exp(-1))  # twice 2 → 2: logits 1 for unit 2, 0 for unit 1
    np.testing.assert_allclose(got["loss"], [[np.log(1 + np.e) + again]], rtol=1e-6)
    np.testing.assert_array_equal(got["correct"], [[2]])
    np.testing.assert_array_equal(got["count"], [[3]])


def test_temperature_divides_the_logits() -> None:
    objective = ContrastiveContext(
        context_length=1, num_negatives=0, frequency_correction=False, temperature=0.5
    )
    objective.build((1, None, None, 2), vocabulary_size=3, table_width=2)
    objective.head.set_weights([np.eye(2)[None], np.zeros((1, 1, 1, 2))])
    table = UnitTable(keras.Variable([[9.0, 9.0], [1.0, 0.0], [0.0, 1.0]]))
    got = sums(objective, np.array([[[[1.0, 0], [0, 1]]]], "float32"), np.array([[1, 2]]), table)
    np.testing.assert_allclose(got["loss"], [[np.log(1 + np.exp(2))]], rtol=1e-6)


# --- against loops ------------------------------------------------------------------------------


@pytest.mark.parametrize("correction", [False, True])
@pytest.mark.parametrize("given", [None, [1, 2, 3, 5, 6, 7, 0, 0]])
def test_contrastive_like_a_loop(given: list[int] | None, correction: bool) -> None:
    """Candidates of the batch, or given ones, in which targets 4 and 8 are missing."""
    objective = build(
        ContrastiveContext(
            context_length=3, num_negatives=0, temperature=0.7, frequency_correction=correction
        )
    )
    counts = np.arange(VOCABULARY) + 1.0
    objective.adapt(counts)
    p = counts / counts[1:].sum()
    features, table = make_inputs(UNITS)
    rows = table.variable.numpy()
    present = sorted(set(UNITS.ravel()) - {0}) if given is None else [1, 2, 3, 5, 6, 7]
    number = int((UNITS > 0).sum())
    kernel, bias = (w.numpy() for w in objective.head.weights)
    if given is not None:
        # Batch units are candidates; the rest of the places is filled with drawn ones.
        own = 1 - (1 - p[1:]) ** number
        extra = max(len(given) - own.sum(), 0)
        q = p[1:] ** 0.75 / (p[1:] ** 0.75).sum()
    else:
        extra, q = 0, p[1:]
    expected = {name: np.zeros((2, 3)) for name in ("loss", "correct", "count")}
    for direction, sign in enumerate((1, -1)):
        for b, t, offset, target in reference.contexts(UNITS, sign, 3):
            if target not in present:
                continue
            prediction = (features[direction, b, t] @ kernel[direction] + bias[direction]).reshape(
                3, WIDTH
            )[offset - 1]
            logits = {}
            for unit in present:
                logits[unit] = float(prediction @ rows[unit]) / 0.7 + np.log(p[unit])
                if correction:
                    missed = (1 - p[unit]) ** number * (1 - q[unit - 1]) ** extra
                    logits[unit] -= np.log(1 - missed)
            cell = direction, offset - 1
            expected["loss"][cell] += reference.cross_entropy(logits, target)
            expected["correct"][cell] += max(logits, key=logits.__getitem__) == target
            expected["count"][cell] += 1
    more = {} if given is None else {"candidate_units": tf.constant(given)}
    got = sums(objective, features, UNITS, table, **more)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("table_width", [WIDTH, 3])
def test_generative_like_a_loop(table_width: int) -> None:
    """A decoder from every unit's features, teacher forced, softmax over all units but padding."""
    objective = build(GenerativeContext(context_length=2, num_layers=2), table=table_width)
    features, table = make_inputs(UNITS, table=table_width)
    rows = table.variable.numpy()
    names = ("kernel", "recurrent_kernel", "bias", "recurrent_bias")
    w = {v.path.split("/", 1)[1]: v.numpy() for v in objective.weights}
    expected = np.zeros((2, 2))
    for direction, sign in enumerate((1, -1)):
        for b, t, offset, target in reference.contexts(UNITS, sign, 2):
            states = [features[direction, b, t][None]] * 2
            for step in range(1, offset + 1):
                x = np.zeros((1, table_width))
                if step > 1:
                    x = rows[UNITS[b, t + sign * (step - 1)]][None]
                for level in range(2):
                    parts = [w[f"decoder/cell_{level}/{name}"][direction] for name in names]
                    states[level] = x = reference.gru(
                        states[level], x, *(part.reshape(-1, part.shape[-1]) for part in parts)
                    )
            prediction = states[1][0]
            if table_width != WIDTH:
                prediction = (
                    prediction @ w["head/kernel"][direction] + w["head/bias"][direction].ravel()
                )
            logits = {unit: float(prediction @ rows[unit]) for unit in range(1, VOCABULARY)}
            expected[direction, offset - 1] += reference.cross_entropy(logits, target)
    np.testing.assert_allclose(sums(objective, features, UNITS, table)["loss"], expected, rtol=1e-4)


@pytest.mark.parametrize("offset", [1, 2, 3])
def test_teacher_forcing_does_not_show_the_target(offset: int) -> None:
    """A prediction for offset δ depends on the true units before t + δ, never on t + δ itself."""
    objective = build(GenerativeContext(context_length=3))
    units = np.array([[3, 5, 2, 8, 1, 4, 6]])
    features, table = make_inputs(units)
    other = units.copy()
    other[0, offset] = 7  # the target at offset δ from unit 0
    predictions = []
    for x in (units, other):
        contexts = objective.contexts(
            tf.constant(features), tf.constant(x, tf.int32), (1, -1), False
        )
        predictions.append(objective.predict(contexts, table, False).numpy()[0, 0, 0])
    np.testing.assert_array_equal(predictions[0][:offset], predictions[1][:offset])
    assert (predictions[0][offset:] != predictions[1][offset:]).any() == (offset < 3)


@pytest.mark.parametrize("cls", OBJECTIVES)
def test_sampled_and_full_softmax_agree_over_the_whole_vocabulary(cls: type) -> None:
    setting = {"sampled_softmax": True} if cls is GenerativeContext else {}
    sampled = build(cls(context_length=2, frequency_correction=False, **setting))
    features, table = make_inputs(UNITS)
    everything = tf.range(VOCABULARY)
    got = sums(sampled, features, UNITS, table, candidate_units=everything)
    if cls is GenerativeContext:
        full = build(GenerativeContext(context_length=2))
        full.set_weights(sampled.get_weights())
        expected = sums(full, features, UNITS, table)
        for name, value in expected.items():
            np.testing.assert_allclose(got[name], value, rtol=1e-5)
    # Order and repetition of candidates say nothing.
    again = tf.concat([tf.reverse(everything, [0]), everything[3:6]], axis=0)
    for name, value in sums(sampled, features, UNITS, table, candidate_units=again).items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5)


# --- what the frequency correction claims ---------------------------------------------------------


def test_inclusion_probability_by_exact_enumeration() -> None:
    """All outcomes of two batch units and one sampled negative, over three units."""
    p = np.array([0.0, 0.6, 0.3, 0.1])
    q = p**0.75 / (p**0.75).sum()
    expected = np.zeros(4)
    for a in range(1, 4):
        for b in range(1, 4):
            for c in range(1, 4):
                for unit in {a, b, c}:
                    expected[unit] += p[a] * p[b] * q[c]
    got = candidates.log_inclusion(
        tf.range(1, 4), tf.constant(p, tf.float32), tf.constant(2.0), tf.constant(1.0)
    )
    np.testing.assert_allclose(np.exp(got), expected[1:], rtol=1e-5)


def test_inclusion_probability_by_monte_carlo() -> None:
    """Sets drawn as the objective draws them hold each unit as often as the correction says."""
    rng = np.random.default_rng(0)
    p = np.zeros(30)
    p[1:] = rng.dirichlet(np.ones(29))
    probabilities = tf.constant(p, tf.float32)
    draws, batch, negatives = 3000, 6, 5
    distribution = candidates.sampling_distribution(probabilities)
    sampled = candidates.sample(distribution, draws * negatives, tf.constant([1, 2])).numpy()
    hits = np.zeros(30)
    for i in range(draws):
        chosen = set(rng.choice(30, batch, p=p)) | set(sampled[i * negatives : (i + 1) * negatives])
        hits[list(chosen)] += 1
    expected = np.exp(candidates.log_inclusion(tf.range(30), probabilities, 6.0, 5.0))
    error = np.sqrt(expected * (1 - expected) / draws)
    assert hits[0] == 0
    assert (np.abs(hits / draws - expected)[1:] < 4.5 * error[1:] + 1e-3).all()


def test_start_is_the_law_of_zipf() -> None:
    objective = build(ContrastiveContext())
    got = objective.unit_probabilities.numpy()
    harmonic = sum(1 / rank for rank in range(1, VOCABULARY))
    expected = [0, *(1 / rank / harmonic for rank in range(1, VOCABULARY))]
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_adapt() -> None:
    objective = build(ContrastiveContext())
    counts = [100, 0, 1, 3, 0, 0, 0, 0, 4]
    objective.adapt(counts)
    got = objective.unit_probabilities.numpy()
    np.testing.assert_allclose(got, [0, 0, 1 / 8, 3 / 8, 0, 0, 0, 0, 1 / 2])
    assert counts[0] == 100
    for wrong in ([1, 2], [5] + [0] * 8):
        with pytest.raises(ValueError, match="Expected counts of 9 units with a positive sum"):
            objective.adapt(wrong)
    drawn = candidates.sample(candidates.sampling_distribution(tf.constant(got)), 500, [1, 2])
    assert set(drawn.numpy()) == {2, 3, 8}


@pytest.mark.parametrize("cls", OBJECTIVES)
def test_predictions_start_at_the_frequencies(cls: type) -> None:
    """Features of 0 give every unit its frequency once `adapt` knows it, else equal shares."""
    objective = cls(context_length=1, num_negatives=0)
    objective.build((2, None, None, WIDTH), vocabulary_size=VOCABULARY, table_width=WIDTH)
    features, table = make_inputs(UNITS)
    everything = {} if cls is GenerativeContext else {"candidate_units": tf.range(VOCABULARY)}
    objective.frequency_correction = False
    targets = [[target for *_, target in reference.contexts(UNITS, sign, 1)] for sign in (1, -1)]
    got = sums(objective, 0 * features, UNITS, table, **everything)["loss"]
    np.testing.assert_allclose(got[:, 0], 6 * np.log(VOCABULARY - 1), rtol=1e-5)
    counts = np.arange(VOCABULARY) ** 2 + 1.0
    objective.adapt(counts)
    p = counts / counts[1:].sum()
    got = sums(objective, 0 * features, UNITS, table, **everything)["loss"]
    expected = [-np.log(p[list(units)]).sum() for units in targets]
    np.testing.assert_allclose(got[:, 0], expected, rtol=1e-5)


def test_units_never_counted_leave_everything_finite() -> None:
    objective = build(ContrastiveContext(context_length=2, num_negatives=4))
    objective.adapt([0, 1, 0, 0, 0, 0, 0, 0, 0])
    features, table = make_inputs(UNITS)
    assert np.isfinite(sums(objective, features, UNITS, table)["loss"]).all()


# --- edges --------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", OBJECTIVES)
@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_report_42_texts_shorter_than_the_context(cls: type, length: int) -> None:
    """Report 42: an offset that no unit has adds exactly 0, and nothing is undefined."""
    objective = build(cls(context_length=3, num_negatives=2))
    units = np.array([[3, 5, 2, 8][:length]])
    features, table = make_inputs(units)
    got = sums(objective, features, units, table)
    expected = [[max(length - offset, 0) for offset in (1, 2, 3)]] * 2
    np.testing.assert_array_equal(got["count"], expected)
    assert np.isfinite(got["loss"]).all()
    np.testing.assert_array_equal(got["loss"][got["count"] == 0], 0)


@pytest.mark.parametrize("cls", OBJECTIVES)
@pytest.mark.parametrize("units", [[[0, 0, 0]], [[4, 0, 0], [0, 0, 0]]])
def test_report_14_no_valid_context(cls: type, units: list[list[int]]) -> None:
    objective = build(cls(context_length=2, num_negatives=3))
    units_ = np.array(units)
    features, table = make_inputs(units_)
    x = tf.constant(features)
    with tf.GradientTape() as tape:
        tape.watch(x)
        out = objective(
            x, tf.constant(units_, tf.int32), table=table, directions=(1, -1), training=True
        )
        total = tf.reduce_sum(out["loss"])
    assert float(total) == 0
    assert float(tf.reduce_sum(out["count"])) == 0
    gradients = tape.gradient(
        total, [x, *objective.trainable_variables], unconnected_gradients="zero"
    )
    for gradient in gradients:
        np.testing.assert_array_equal(tf.convert_to_tensor(gradient), tf.zeros(gradient.shape))


@pytest.mark.parametrize("cls", OBJECTIVES)
def test_report_8_the_loss_does_not_see_padding(cls: type) -> None:
    """More padding, or other features there: the same sums, the frequency correction included."""
    setting = {"sampled_softmax": True} if cls is GenerativeContext else {}
    objective = build(cls(context_length=3, num_negatives=0, **setting))
    features, table = make_inputs(UNITS)
    expected = sums(objective, features, UNITS, table)
    longer = np.pad(UNITS, [(0, 2), (0, 6)])
    wide = np.pad(features, [(0, 0), (0, 2), (0, 6), (0, 0)], constant_values=1e3)
    wide[:, :3, :5] = np.where(UNITS[..., None] > 0, features, 1e3)
    for name, value in sums(objective, wide, longer, table).items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-5, err_msg=name)


def test_sampled_positions() -> None:
    """Training predicts from P units that have a context; evaluation from all of them."""
    objective = build(
        ContrastiveContext(context_length=2, num_positions=2, num_negatives=0, seed=5)
    )
    features, table = make_inputs(UNITS)
    everywhere = sums(objective, features, UNITS, table)["count"]
    np.testing.assert_array_equal(everywhere, [[4 + 2, 3 + 1]] * 2)
    seen: list[set[tuple[int, int]]] = [set(), set()]
    for _ in range(30):
        contexts = objective.contexts(
            tf.broadcast_to(tf.range(5.0)[:, None], [2, 3, 5, 4]),  # a feature is its position
            tf.constant(UNITS, tf.int32),
            (1, -1),
            True,
        )
        assert contexts.features.shape == (2, 3, 2, 4)
        positions = contexts.features.numpy()[..., 0].astype(int)
        for direction, sign in enumerate((1, -1)):
            for b in range(2):  # the third text has no context
                chosen = positions[direction, b]
                assert chosen[0] != chosen[1]
                for t, target, valid in zip(
                    chosen,
                    contexts.targets.numpy()[direction, b],
                    contexts.valid.numpy()[direction, b],
                    strict=True,
                ):
                    assert valid[0]
                    assert target[0] == UNITS[b, t + sign]
                    seen[direction].add((b, int(t)))
    assert seen[0] == {(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)}
    assert seen[1] == {(0, 1), (0, 2), (0, 3), (0, 4), (1, 1), (1, 2)}
    more = build(ContrastiveContext(context_length=2, num_positions=50, num_negatives=0))
    trained = sums(more, features, UNITS, table, training=True)
    np.testing.assert_allclose(trained["count"], everywhere)


@pytest.mark.parametrize("cls", OBJECTIVES)
def test_own_table(cls: type) -> None:
    """An own table takes the place of the tied one and is trained."""
    objective = build(cls(context_length=2, output_table="own", num_negatives=0))
    features, table = make_inputs(UNITS)
    names = [v.path.split("/")[-1] for v in objective.trainable_variables]
    assert "table" in names
    with tf.GradientTape() as tape:
        out = objective(
            tf.constant(features), tf.constant(UNITS, tf.int32), table=table, directions=(1, -1)
        )
        loss = tf.reduce_sum(out["loss"])
    gradients = tape.gradient(loss, [table.variable.value, objective.table_variable.value])
    assert gradients[0] is None
    assert np.abs(tf.convert_to_tensor(gradients[1])).max() > 0


def test_gradient_of_a_tied_table_holds_the_candidates_alone() -> None:
    objective = build(ContrastiveContext(context_length=2, num_negatives=0))
    features, table = make_inputs(UNITS)
    with tf.GradientTape() as tape:
        out = objective(
            tf.constant(features), tf.constant(UNITS, tf.int32), table=table, directions=(1, -1)
        )
        loss = tf.reduce_sum(out["loss"])
    gradient = tape.gradient(loss, table.variable.value)
    assert isinstance(gradient, tf.IndexedSlices)
    dense = tf.convert_to_tensor(gradient).numpy()
    np.testing.assert_array_equal(dense[[0, 6]], 0)  # padding, and a unit that is not there
    assert (np.abs(dense[[1, 2, 3, 4, 5, 7, 8]]).max(axis=1) > 0).all()


@pytest.mark.parametrize("cls", OBJECTIVES)
def test_learned_temperature(cls: type) -> None:
    fixed = build(cls(context_length=2, temperature=0.4, num_negatives=0))
    learned = build(cls(context_length=2, temperature=0.4, num_negatives=0, learn_temperature=True))
    learned.log_temperature.assign(np.log(0.4))
    for v in learned.trainable_variables:
        for w in fixed.trainable_variables:
            if v.path.split("/")[1:] == w.path.split("/")[1:]:
                v.assign(w)
    features, table = make_inputs(UNITS)
    expected = sums(fixed, features, UNITS, table)
    np.testing.assert_allclose(
        sums(learned, features, UNITS, table)["loss"], expected["loss"], rtol=1e-5
    )
    with tf.GradientTape() as tape:
        out = learned(
            tf.constant(features), tf.constant(UNITS, tf.int32), table=table, directions=(1, -1)
        )
        loss = tf.reduce_sum(out["loss"])
    assert abs(float(tape.gradient(loss, learned.log_temperature.value))) > 0


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("cls", OBJECTIVES)
def test_half_precision(cls: type, policy: str) -> None:
    """Under the layer's own policy; sums are float32 and near those of float32."""
    results, weights = [], None
    for name in ("float32", policy):
        objective = build(cls(context_length=2, num_negatives=0, dtype=name), table=3)
        weights = weights or objective.get_weights()
        objective.set_weights(weights)
        features, table = make_inputs(UNITS, table=3)
        out = sums(objective, features, UNITS, table)
        assert out["loss"].dtype == np.float32
        results.append(out)
    np.testing.assert_allclose(results[1]["loss"], results[0]["loss"], rtol=0.03)


@pytest.mark.parametrize("cls", OBJECTIVES)
def test_compiled_like_eager(cls: type) -> None:
    objective = build(cls(context_length=2, num_negatives=0))
    features, table = make_inputs(UNITS)

    def run(x: tf.Tensor, units: tf.Tensor) -> dict[str, tf.Tensor]:
        return objective(x, units, table=table, directions=(1, -1), training=True)

    inputs = tf.constant(features), tf.constant(UNITS, tf.int32)
    check_layer.assert_same(tf.function(run, jit_compile=True)(*inputs), run(*inputs), rtol=1e-4)


def test_negatives_are_drawn_anew() -> None:
    objective = build(ContrastiveContext(context_length=1, num_negatives=3, seed=1))
    units = np.array([[1, 2]])
    features, table = make_inputs(units)
    losses = {float(sums(objective, features, units, table)["loss"].sum()) for _ in range(8)}
    assert len(losses) > 1


@pytest.mark.parametrize("cls", OBJECTIVES)
def test_report_25_every_argument_is_in_the_config(cls: type) -> None:
    arguments = {
        "context_length": 2,
        "num_negatives": 7,
        "num_positions": 4,
        "temperature": 0.5,
        "learn_temperature": True,
        "frequency_correction": False,
        "output_table": "own",
        "seed": 3,
    }
    if cls is GenerativeContext:
        arguments |= {"num_layers": 1, "sampled_softmax": True}
    check_layer.check_config(cls, arguments)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"context_length": 0}, "`context_length` to be at least 1"),
        ({"output_table": "mine"}, "`output_table` to be tied or own. Received: 'mine'"),
        ({"temperature": 0.0}, "`temperature` above 0"),
        ({"num_negatives": -1}, "`num_negatives` at least 0"),
    ],
)
@pytest.mark.parametrize("cls", OBJECTIVES)
def test_errors_of_arguments(cls: type, setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cls(**setting)
