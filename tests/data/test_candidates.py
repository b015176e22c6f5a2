"""Candidates: all units of the batch first, then draws in proportion to counts ** 0.75."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from glomo_tf.data.candidates import with_candidates
from glomo_tf.errors import UserError


def candidates(batches, number, counts, seed=0) -> list[list[int]]:
    data = tf.data.Dataset.from_tensor_slices(tf.constant(batches, tf.int32))
    found = with_candidates(data, number=number, counts=counts, seed=seed)
    assert int(found.cardinality()) == len(batches)
    assert found.element_spec["candidates"] == tf.TensorSpec([number], tf.int32)
    rows = list(found)
    assert np.array_equal([row["units"] for row in rows], batches)
    return [row["candidates"].numpy().tolist() for row in rows]


def test_by_hand():
    batch = [[[5, 3, 3], [4, 0, 0]]]
    counts = [99, 2, 0, 9, 9, 9, 0]
    # 1 is the only unit left that can be drawn; padding and units of count 0 never are.
    assert candidates(batch, 6, counts) == [[3, 4, 5, 1, 0, 0]]
    assert candidates(batch, 3, counts) == [[3, 4, 5]]


def test_cut_keeps_the_units_that_most_positions_need():
    batch = [[[3, 3, 4, 5, 5, 6]]]
    assert candidates(batch, 2, [0, 1, 1, 1, 1, 1, 1]) == [[3, 5]]
    # 4 and 6 occur once each; 6 is the rarer one in the corpus.
    assert candidates(batch, 3, [0, 1, 1, 9, 9, 9, 3]) == [[3, 5, 6]]


@settings(max_examples=15)  # each one builds a pipeline
@given(
    st.lists(st.integers(0, 19), min_size=6, max_size=6),
    st.integers(1, 25),
    st.lists(st.integers(0, 9), min_size=20, max_size=20),
    st.integers(0, 2),
)
def test_any_batch(units, number, counts, seed):
    (row,) = candidates([[units]], number, counts, seed)
    present = set(units) - {0}
    drawable = {i for i, count in enumerate(counts) if count and i} - present
    real = [unit for unit in row if unit]
    assert row == real + [0] * (number - len(real))  # padding at the end
    assert len(set(real)) == len(real)
    assert len(real) == min(number, len(present) + len(drawable))
    if len(present) <= number:
        assert real[: len(present)] == sorted(present)
        assert set(real[len(present) :]) <= drawable
    else:
        assert set(real) <= present


def test_same_seed_same_draws_and_batches_differ():
    batches = [[[1]]] * 4
    counts = [1] * 100
    first = candidates(batches, 10, counts, seed=5)
    assert first == candidates(batches, 10, counts, seed=5)
    assert first != candidates(batches, 10, counts, seed=6)
    assert len({tuple(row) for row in first}) == 4


def test_draws_follow_counts_to_the_power_of_three_quarters():
    # 16 ** 0.75 = 8, so unit 2 is drawn first in 8 of 9 cases.
    rows = candidates([[[3]]] * 2000, 2, [0, 1, 16, 0])
    share = np.mean([row[1] == 2 for row in rows])
    assert abs(share - 8 / 9) < 4 * np.sqrt(8 / 81 / 2000)


def test_a_unit_beyond_counts_is_an_error():
    with pytest.raises(tf.errors.InvalidArgumentError, match="not in `counts`"):
        candidates([[[3]]], 2, [1, 1, 1])


def test_wrong_settings():
    data = tf.data.Dataset.from_tensors(tf.constant([[1]]))
    for number in (0, True, "3"):
        with pytest.raises(UserError, match="Expected `number`"):
            with_candidates(data, number=number, counts=[1, 1], seed=0)
    for counts in ([], [[1]], [-1, 2]):
        with pytest.raises(UserError, match="Expected `counts`"):
            with_candidates(data, number=2, counts=counts, seed=0)
    with pytest.raises(UserError, match="Expected a dataset of int32 units"):
        with_candidates(data.map(lambda x: (x, x)), number=2, counts=[1, 1], seed=0)
