"""Graphs from factors: allowed pairs, every mode, both directions, and what they never see."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from glomo_tf import affinity
from tests import reference

MODES = affinity.SPARSITIES


def make_factors(
    seed: int,
    mode: str,
    *,
    length: int | None = None,
    directions: tuple[int, ...] = (1, 1, -1, -1),
    dtype: str = "float32",
) -> dict[str, tf.Tensor]:
    rng = np.random.default_rng(seed)
    batch, heads, width = 3, 2, 3
    length = length or int(rng.integers(1, 7))
    layers = len(directions)
    mask = np.arange(length) < rng.integers(0, length + 1, batch)[:, np.newaxis]
    mask[0] = True
    full = (batch, layers, heads, length)
    parameter = rng.normal(0, 1, full)
    if mode == "top_k":
        parameter = rng.integers(1, 4, full)
    elif mode == "relu_length":
        parameter = np.broadcast_to(mask.sum(-1)[:, None, None, None], full)
    return {
        "query": tf.cast(rng.normal(size=(*full, width)), dtype),
        "key": tf.cast(rng.normal(size=(*full, width)), dtype),
        "mask": tf.constant(mask),
        "direction": tf.tile(tf.constant([directions]), [batch, 1]),
        mode: tf.constant(parameter, tf.float32),
    }


@pytest.mark.parametrize("direction", [1, -1, 0])
def test_allowed_pairs_by_hand(direction: int) -> None:
    mask = tf.constant([[True, True, True, False]])
    expected = {
        1: [[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]],
        -1: [[0, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]],
        0: [[1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 0]],
    }[direction]
    got = affinity.allowed_pairs(mask, tf.constant([direction]))
    np.testing.assert_array_equal(got, np.array([expected], bool))
    layers = affinity.allowed_pairs(mask, tf.constant([[direction, -direction]]))
    np.testing.assert_array_equal(layers[:, 0], got)
    np.testing.assert_array_equal(layers[:, 1], np.transpose(got, [0, 2, 1]))


@pytest.mark.parametrize("mode", MODES)
@given(seed=st.integers(0, 10_000))
def test_graph_like_the_reference(mode: str, seed: int) -> None:
    factors = make_factors(seed, mode, directions=(1, 0, -1))
    got = affinity.graph(factors)
    assert got.dtype == tf.float32
    np.testing.assert_allclose(got, reference.graph(factors, mode), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("mode", MODES)
@given(seed=st.integers(0, 10_000), place=st.integers(0, 4))
def test_strict_causality_by_perturbation(mode: str, seed: int, place: int) -> None:
    """A row depends on its own query and on the keys on one side, strictly."""
    factors = make_factors(seed, mode, length=5)
    moved = dict(factors)
    rng = np.random.default_rng(seed + 1)
    for name in ("query", "key"):
        change = np.zeros(factors[name].shape, "float32")
        change[:, :, :, place] = rng.normal(0, 100, change[:, :, :, place].shape)
        moved[name] = factors[name] + change
    before, after = (affinity.graph(f).numpy() for f in (factors, moved))
    np.testing.assert_array_equal(before[:, :2, :, :place], after[:, :2, :, :place])
    np.testing.assert_array_equal(before[:, 2:, :, place + 1 :], after[:, 2:, :, place + 1 :])
    diagonal = np.einsum("bgktt->bgkt", after)
    assert (diagonal == 0).all()
    assert (np.triu(after[:, :2]) == 0).all()
    assert (np.tril(after[:, 2:]) == 0).all()


@pytest.mark.parametrize("mode", MODES)
@given(seed=st.integers(0, 10_000))
def test_padding_changes_no_bit(mode: str, seed: int) -> None:
    factors = make_factors(seed, mode, length=6)
    mask = factors["mask"].numpy()
    rng = np.random.default_rng(seed)
    other = dict(factors)
    for name in ("query", "key"):
        x = factors[name].numpy()
        noise = rng.normal(0, 1e3, x.shape)
        other[name] = tf.constant(np.where(mask[:, None, None, :, None], x, noise), tf.float32)
    first, second = (affinity.graph(f).numpy() for f in (factors, other))
    np.testing.assert_array_equal(first, second)
    real = mask[:, None, None, :, None] & mask[:, None, None, None, :]
    assert (first[~np.broadcast_to(real, first.shape)] == 0).all()


@pytest.mark.parametrize("mode", MODES)
def test_longer_padding_gives_the_same_graph(mode: str) -> None:
    factors = make_factors(1, mode, length=4)
    longer = {"direction": factors["direction"]}
    for name in ("query", "key", "mask", mode):
        pads = [[0, 0] for _ in factors[name].shape]
        pads[1 if name == "mask" else 3] = [0, 3]
        longer[name] = tf.pad(factors[name], pads)
    short, long = affinity.graph(factors).numpy(), affinity.graph(longer).numpy()
    np.testing.assert_allclose(long[..., :4, :4], short, rtol=1e-6, atol=1e-7)
    assert (long[..., 4:, :] == 0).all()
    assert (long[..., :, 4:] == 0).all()


@pytest.mark.parametrize("mode", MODES)
def test_backward_is_forward_on_the_reversed_sequence(mode: str) -> None:
    forward = make_factors(5, mode, length=5, directions=(1,))
    forward["mask"] = tf.ones_like(forward["mask"])
    backward = {
        name: x if name in ("mask", "direction") else tf.reverse(x, [3])
        for name, x in forward.items()
    }
    backward["direction"] = -forward["direction"]
    np.testing.assert_allclose(
        tf.reverse(affinity.graph(backward), [3, 4]), affinity.graph(forward), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("mode", MODES)
def test_one_unit_takes_nothing(mode: str) -> None:
    factors = make_factors(2, mode, length=1)
    with tf.GradientTape() as tape:
        tape.watch([factors["query"], factors["key"]])
        graph = affinity.graph(factors)
        total = tf.reduce_sum(graph)
    assert (graph.numpy() == 0).all()
    for gradient in tape.gradient(total, [factors["query"], factors["key"]]):
        assert (gradient.numpy() == 0).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("mode", MODES)
def test_half_precision_factors(mode: str, dtype: str) -> None:
    factors = make_factors(9, mode, length=5, dtype=dtype)
    with tf.GradientTape() as tape:
        tape.watch([factors["query"], factors["key"]])
        graph = affinity.graph(factors)
        total = tf.reduce_sum(graph**2)
    assert graph.dtype == tf.float32
    sums = graph.numpy().sum(-1)
    if mode != "relu_length":
        assert (np.isclose(sums, 1, atol=1e-5) | (sums == 0)).all()
    for gradient in tape.gradient(total, [factors["query"], factors["key"]]):
        assert np.isfinite(tf.cast(gradient, tf.float32)).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("mode", ["query_relu", "relu", "square", "top_k"])
def test_scores_beyond_half_precision_give_a_finite_graph(mode: str, dtype: str) -> None:
    """A score of 4 · 200² = 160,000 has no float16."""
    factors = make_factors(9, mode, length=3, directions=(1,))
    big = {name: tf.fill((*factors[name].shape[:-1], 4), 200.0) for name in ("query", "key")}
    factors |= {name: tf.cast(x, dtype) for name, x in big.items()}
    if mode != "top_k":
        factors[mode] = tf.zeros_like(factors[mode])
    factors["mask"] = tf.ones_like(factors["mask"])
    graph = affinity.graph(factors).numpy()[0, 0, 0]
    assert np.isfinite(graph).all()
    np.testing.assert_allclose(graph.sum(-1), [0, 1, 1], rtol=1e-5)


def test_mode_is_told_by_the_name_of_an_entry() -> None:
    factors = make_factors(0, "softmax")
    assert affinity.sparsity_of(factors) == "softmax"
    for wrong in (
        {name: x for name, x in factors.items() if name != "softmax"},
        {name: x for name, x in factors.items() if name != "mask"},
        {**factors, "relu": factors["softmax"]},
    ):
        with pytest.raises(ValueError, match="Expected graph factors"):
            affinity.graph(wrong)


def test_select_and_layer_axis() -> None:
    factors = make_factors(0, "relu", length=4)
    part = affinity.select(factors, 1, 3)
    assert affinity.num_graph_layers(part) == 2
    assert affinity.num_heads(part) == 2
    whole = affinity.graph(factors)
    np.testing.assert_array_equal(affinity.graph(part), whole[:, 1:3])
    np.testing.assert_array_equal(affinity.select(whole, 1, 3), whole[:, 1:3])
    single = {name: x if name == "mask" else x[:, 0] for name, x in factors.items()}
    np.testing.assert_array_equal(affinity.graph(single), whole[:, 0])
    again = affinity.with_layer_axis(single)
    np.testing.assert_array_equal(affinity.graph(again), whole[:, :1])
    assert affinity.with_layer_axis(whole) is whole
    np.testing.assert_array_equal(affinity.with_layer_axis(whole[:, 0]), whole[:, :1])


@given(seed=st.integers(0, 10_000))
def test_counts_behind_sparsity(seed: int) -> None:
    factors = make_factors(seed, "relu", directions=(1, 1, -1, -1))
    graph, mask = affinity.graph(factors).numpy(), factors["mask"].numpy()
    zeros = pairs = empty = rows = 0
    for g, sign in enumerate((1, 1, -1, -1)):
        for (b, t), sources in _sources(reference.allowed(mask, sign)):
            for k in range(graph.shape[2]):
                values = graph[b, g, k, t, sources]
                pairs += len(sources)
                zeros += int((values == 0).sum())
                rows += bool(len(sources))
                empty += bool(len(sources)) and values.sum() == 0
    got = affinity.count_zeros(tf.constant(graph), factors["mask"], (1, -1))
    assert [float(x) for x in got] == [zeros, pairs, empty, rows]


def _sources(allowed: np.ndarray) -> list[tuple[tuple[int, int], np.ndarray]]:
    batch, length, _ = allowed.shape
    return [((b, t), np.flatnonzero(allowed[b, t])) for b in range(batch) for t in range(length)]
