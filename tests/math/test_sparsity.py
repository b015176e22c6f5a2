"""The normaliser against the numpy reference, by hand, and by its invariants."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from glomo_tf.sparsity import SPARSITIES, normalize
from tests import reference

RATIOS = [mode for mode in SPARSITIES if mode != "relu_length"]
HALF = ["float16", "bfloat16", "float32"]


def parameter_for(mode: str, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    if mode == "top_k":
        return rng.integers(1, 5, shape).astype("float32")
    if mode == "relu_length":
        return rng.integers(0, 7, shape).astype("float32")
    return rng.normal(0, 1, shape).astype("float32")


def case(seed: int) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:
    """Scores of a random scale, size and share of allowed sources (some rows have none)."""
    rng = np.random.default_rng(seed)
    shape = (2, int(rng.integers(1, 7)), int(rng.integers(1, 7)))
    scores = rng.normal(0, 10.0 ** rng.uniform(-2, 2), shape).astype("float32")
    return rng, scores, rng.random(shape) < rng.choice([0.2, 0.7, 1.0])


@pytest.mark.parametrize("mode", SPARSITIES)
@given(seed=st.integers(0, 10_000))
def test_like_the_reference(mode: str, seed: int) -> None:
    rng, scores, allowed = case(seed)
    parameter = parameter_for(mode, rng, scores.shape[:-1])
    got = normalize(scores, allowed, mode, parameter).numpy()
    assert got.dtype == np.float32
    assert got.shape == scores.shape
    expected = reference.normalize(scores, allowed, mode, parameter)
    # What is subtracted from scores of size s costs s·2^-24 in float32.
    slack = 1e-5 + 3e-7 * (np.abs(scores).max() if mode in ("softmax", "sparsemax") else 0)
    np.testing.assert_allclose(got, expected, rtol=2e-4, atol=slack)


@pytest.mark.parametrize("mode", RATIOS)
@given(seed=st.integers(0, 10_000))
def test_rows_sum_to_one_or_zero_and_the_rest_is_exactly_zero(mode: str, seed: int) -> None:
    rng, scores, allowed = case(seed)
    got = normalize(scores, allowed, mode, parameter_for(mode, rng, scores.shape[:-1])).numpy()
    assert (got[~allowed] == 0).all()
    assert (got >= 0).all()
    sums = got.sum(axis=-1)
    assert (np.isclose(sums, 1, atol=1e-5) | (sums == 0)).all()
    assert (sums[~allowed.any(axis=-1)] == 0).all()
    if mode in ("softmax", "sparsemax"):
        assert (sums[allowed.any(axis=-1)] > 0).all()


@pytest.mark.parametrize("mode", SPARSITIES)
@given(seed=st.integers(0, 10_000))
def test_scores_that_are_not_allowed_change_no_bit(mode: str, seed: int) -> None:
    rng, scores, allowed = case(seed)
    parameter = parameter_for(mode, rng, scores.shape[:-1])
    other = np.where(allowed, scores, rng.normal(0, 1e6, scores.shape)).astype("float32")
    first, second = (normalize(x, allowed, mode, parameter).numpy() for x in (scores, other))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("mode", SPARSITIES)
@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e-19, 1e-12, 1e-3, 1.0, 1e4, 1e9])
def test_gradients_are_finite_at_every_scale(mode: str, scale: float) -> None:
    rng = np.random.default_rng(3)
    scores = tf.constant(rng.normal(0, scale, (20, 6)), tf.float32)
    allowed = rng.random((20, 6)) < 0.6
    allowed[:4] = False
    parameter = tf.constant(parameter_for(mode, rng, (20,)))
    if mode.endswith("_relu"):
        parameter = parameter * scale
    with tf.GradientTape() as tape:
        tape.watch([scores, parameter])
        loss = tf.reduce_sum(normalize(scores, allowed, mode, parameter) * rng.normal(size=(20, 6)))
    gradients = tape.gradient(loss, [scores, parameter], unconnected_gradients="zero")
    for gradient in gradients:
        assert np.isfinite(gradient).all()
    assert (gradients[0].numpy()[~allowed] == 0).all()


@pytest.mark.parametrize("mode", SPARSITIES)
def test_gradients_are_those_of_the_reference(mode: str) -> None:
    rng = np.random.default_rng(8)
    scores = rng.normal(0, 1, (5, 6))
    allowed = rng.random((5, 6)) < 0.8
    parameter = np.full(5, {"top_k": 3.0, "relu_length": 5.0}.get(mode, -0.3))
    direction = rng.normal(size=(5, 6))

    def loss(x: np.ndarray) -> float:
        return float((reference.normalize(x, allowed, mode, parameter) * direction).sum())

    step, expected = 1e-6, np.zeros_like(scores)
    for place in np.ndindex(*scores.shape):
        change = np.zeros_like(scores)
        change[place] = step
        expected[place] = (loss(scores + change) - loss(scores - change)) / (2 * step)
    x = tf.constant(scores, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(normalize(x, allowed, mode, parameter) * direction.astype("float32"))
    np.testing.assert_allclose(tape.gradient(total, x), expected, atol=2e-4)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize(
    ("scores", "expected", "gradient_is_zero"),
    [
        ([[-1.0, -2.0]], [[0.0, 0.0]], True),
        ([[1e-3, 2e-3]], [[0.2, 0.8]], False),
        ([[300.0, 1.0]], [[90000 / 90001, 1 / 90001]], False),
    ],
)
def test_report_10_half_precision(
    dtype: str, scores: list, expected: list, gradient_is_zero: bool
) -> None:
    """Report 10: no 0/0, no epsilon that vanishes, no square that overflows."""
    x = tf.constant(scores, dtype)
    with tf.GradientTape() as tape:
        tape.watch(x)
        graph = normalize(x, tf.constant(True), "relu")
        loss = graph[0, 0]
    assert graph.dtype == tf.float32
    rounding = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-6}[dtype]
    np.testing.assert_allclose(graph, expected, rtol=rounding)
    gradient = tf.cast(tape.gradient(loss, x), tf.float32).numpy()
    assert np.isfinite(gradient).all()
    assert (gradient == 0).all() == gradient_is_zero


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("mode", SPARSITIES)
def test_half_precision_scores_are_computed_in_float32(mode: str, dtype: str) -> None:
    scores = tf.cast(tf.constant([[[3.0, -1.0, 0.5], [200.0, 100.0, 250.0]]]), dtype)
    parameter = {"top_k": 2.0, "relu_length": 3.0}.get(mode, 0.25)
    allowed = [[[True, True, False], [True, True, True]]]
    exact = normalize(tf.cast(scores, tf.float32), allowed, mode, parameter)
    np.testing.assert_array_equal(normalize(scores, allowed, mode, parameter), exact)


@given(seed=st.integers(0, 10_000))
def test_top_k_keeps_exactly_k(seed: int) -> None:
    rng = np.random.default_rng(seed)
    length = int(rng.integers(1, 9))
    scores = np.stack([rng.permutation(length) + 1.0 for _ in range(4)]).astype("float32")
    scores *= rng.choice([-1, 1], scores.shape)  # squares count, signs do not
    allowed = rng.random((4, length)) < 0.7
    count = rng.integers(1, 10, 4)
    got = normalize(scores, allowed, "top_k", count.astype("float32")).numpy()
    np.testing.assert_array_equal((got > 0).sum(-1), np.minimum(count, allowed.sum(-1)))
    for receiver in range(4):
        strength = np.where(allowed[receiver], np.abs(scores[receiver]), 0)
        kept = set(np.flatnonzero(got[receiver]))
        assert kept == set(np.argsort(-strength)[: len(kept)])


def test_top_k_by_hand() -> None:
    scores = [[1.0, -2.0, 3.0, 0.5]]
    np.testing.assert_allclose(
        normalize(scores, [[True] * 4], "top_k", 2.0), [[0, 4 / 13, 9 / 13, 0]], rtol=1e-6
    )


def test_sparsemax_by_hand() -> None:
    """τ = (1 + 0.8 − 1)/2 = 0.4 with two members; a lead of 1 takes everything."""
    scores = [[1.0, 0.8, -0.5], [3.0, 1.9, 1.0], [0.0, 0.0, 0.0]]
    expected = [[0.6, 0.4, 0.0], [1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]]
    np.testing.assert_allclose(normalize(scores, True, "sparsemax"), expected, atol=1e-6)


def test_sparsemax_gradient_by_hand() -> None:
    """The Jacobian is 1 − 1/|S| on the diagonal of the support S and −1/|S| beside it."""
    x = tf.constant([[1.0, 0.8, -0.5]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        first = normalize(x, tf.constant(True), "sparsemax")[0, 0]
    np.testing.assert_allclose(tape.gradient(first, x), [[0.5, -0.5, 0.0]], atol=1e-6)


def test_relu_divided_by_length() -> None:
    scores = [[2.0, -1.0, 4.0], [1.0, 1.0, 1.0]]
    got = normalize(scores, [[True, True, False], [True] * 3], "relu_length", [4.0, 0.0])
    np.testing.assert_array_equal(got, [[0.5, 0, 0], [0, 0, 0]])


def test_threshold_moves_scores() -> None:
    scores = [[1.0, 2.0, 3.0]]
    for mode in ("query_relu", "layer_relu"):
        got = normalize(scores, True, mode, [1.0])
        np.testing.assert_allclose(got, [[0, 1 / 5, 4 / 5]], rtol=1e-6)
        np.testing.assert_allclose(normalize(scores, True, mode, 1.0), got)


def test_softmax_is_not_moved_by_scores_that_are_not_allowed() -> None:
    got = normalize([[0.0, np.log(3.0), 5000.0]], [[True, True, False]], "softmax")
    np.testing.assert_allclose(got, [[0.25, 0.75, 0]], rtol=1e-6)


def test_unknown_mode() -> None:
    with pytest.raises(ValueError, match=r"Expected `sparsity`.*query_relu.*Received: 'entmax'"):
        normalize([[1.0]], True, "entmax")
