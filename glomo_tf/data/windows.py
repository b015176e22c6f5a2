"""Windows of random length over the articles of a corpus, as batches for pre-training."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import tensorflow as tf

from glomo_tf.data.corpus import CorpusReport, EncodedCorpus, encode_corpus
from glomo_tf.errors import UserError

__all__ = ["CorpusReport", "EncodedCorpus", "encode_corpus", "windows"]

_NUM_BUCKETS = 4


def windows(
    corpus: EncodedCorpus,
    *,
    length: int | tuple[int, int],
    stride: int | tuple[int, int],
    batch_size: int,
    seed: int,
    epoch: int = 0,
    buckets: Sequence[int] | None = None,
    drop_remainder: bool = True,
) -> tf.data.Dataset:
    """Cut articles into windows, in batches of similar length, in random order.

    1. The first window of an article begins at its first unit, the next ones a random stride
       later, as long as they begin inside the article and none has reached its end; one that
       would cross the end is moved back to end there. An article shorter than its window is one
       short window; one without units gives none.
    2. A window goes to the smallest bucket that holds it and is padded with 0 to the bucket's
       length, so that there are only as many shapes as buckets. What does not fill a batch moves
       to the next longer bucket.
    3. Batches are drawn in random order.

    All of it follows from (`seed`, `epoch`): give each epoch its number to see other windows, and
    `.skip(n)` to go on after n batches. `epoch` changes the number of batches a little.

    Args:
        corpus: the articles.
        length: units of a window, fixed or drawn evenly from (least, most).
        stride: units between the beginnings of windows, likewise. With strides up to the least
            length every unit is in some window.
        batch_size: windows of a batch.
        seed: decides windows and order.
        epoch: number of the pass over the corpus.
        buckets: rising lengths that batches are padded to; the last is at least the greatest
            length. None: the greatest length alone for a fixed length, else four even steps.
        drop_remainder: leave out the windows that fill no batch; False gives one smaller batch.

    Returns:
        Dataset of int32 [batch_size, T], T a bucket's length, with known cardinality.

    Raises:
        UserError: A setting is wrong, or the corpus does not fill one batch.

    Example:

    >>> import numpy as np
    >>> from glomo_tf.data.windows import EncodedCorpus, windows
    >>> corpus = EncodedCorpus(np.arange(3, 23, dtype="int32"), np.array([0, 12, 20]))
    >>> data = windows(corpus, length=(4, 6), stride=4, batch_size=2, seed=0)
    >>> data.element_spec.shape[0], int(data.cardinality()) > 0
    (2, True)
    """
    shortest, longest = _range("length", length)
    strides = _range("stride", stride)
    for name, value, least in (("batch_size", batch_size, 1), ("epoch", epoch, 0)):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise UserError(
                f"Expected `{name}` to be an integer of at least {least}. "
                f"Received: {name}={value!r}."
            )
    widths = _buckets(buckets, shortest, longest)
    rng = np.random.default_rng([seed, epoch])
    starts, lengths = _cut(corpus, (shortest, longest), strides, rng)
    batches = _batches(lengths, widths, batch_size, drop_remainder, rng)
    if not batches:
        raise UserError(
            f"Expected enough text for one batch of {batch_size} windows. Received: "
            f"{len(starts)} windows from {corpus.num_units} units. Give more text or lower "
            "`batch_size` or `length`."
        )
    units = corpus.units

    def gather(index: np.ndarray) -> np.ndarray:
        width, chosen = batches[int(index)]
        offsets = np.arange(width)
        positions = starts[chosen, None] + offsets
        real = offsets < lengths[chosen, None]
        return np.where(real, units[np.where(real, positions, 0)], 0).astype(np.int32, copy=False)

    def batch(index: tf.Tensor) -> tf.Tensor:
        found = tf.numpy_function(gather, [index], tf.int32, stateful=False)
        found.set_shape(
            [batch_size if drop_remainder else None, widths[0] if len(widths) == 1 else None]
        )
        return found

    data = tf.data.Dataset.range(len(batches)).map(batch)
    return data.apply(tf.data.experimental.assert_cardinality(len(batches))).prefetch(
        tf.data.AUTOTUNE
    )


def _cut(
    corpus: EncodedCorpus,
    length: tuple[int, int],
    stride: tuple[int, int],
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Begin [W] and length [W] of all windows, by article; see step 1 of `windows`."""
    kept = corpus.lengths > 0
    sizes, begins = corpus.lengths[kept], corpus.starts[kept]
    if not len(sizes):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    # As many windows an article as the least stride could need; those past its end go below.
    most = (sizes - 1) // stride[0] + 1
    firsts = np.cumsum(most) - most
    steps = rng.integers(stride[0], stride[1] + 1, most.sum())
    ways = np.cumsum(steps)
    starts = np.repeat(begins - ways[firsts], most) + ways
    ends = np.repeat(begins + sizes, most)
    lengths = np.minimum(
        rng.integers(length[0], length[1] + 1, len(starts)), np.repeat(sizes, most)
    )
    reached = np.maximum.accumulate(np.minimum(starts + lengths, ends))
    needed = np.ones(len(starts), bool)
    needed[1:] = reached[:-1] < ends[1:]
    needed[firsts] = True
    needed &= starts < ends
    return np.minimum(starts, ends - lengths)[needed], lengths[needed]


def _batches(
    lengths: np.ndarray,
    widths: list[int],
    batch_size: int,
    drop_remainder: bool,
    rng: np.random.Generator,
) -> list[tuple[int, np.ndarray]]:
    """(padded length, indices of the windows) of every batch; see steps 2 and 3 of `windows`."""
    order = rng.permutation(len(lengths))
    bucket = np.searchsorted(widths, lengths[order])
    batches = []
    rest = order[:0]
    for number, width in enumerate(widths):
        members = np.concatenate([rest, order[bucket == number]])
        full = len(members) // batch_size * batch_size
        batches += [(width, row) for row in members[:full].reshape(-1, batch_size)]
        rest = members[full:]
    if len(rest) and not drop_remainder:
        batches.append((widths[-1], rest))
    return [batches[i] for i in rng.permutation(len(batches))]


def _range(name: str, value: Any) -> tuple[int, int]:
    pair = (value, value) if isinstance(value, (int, np.integer)) else value
    if (
        not isinstance(pair, (tuple, list))
        or len(pair) != 2
        or not all(isinstance(v, (int, np.integer)) and not isinstance(v, bool) for v in pair)
        or not 1 <= pair[0] <= pair[1]
    ):
        raise UserError(
            f"Expected `{name}` to be a positive integer or a pair (least, most). "
            f"Received: {name}={value!r}."
        )
    return int(pair[0]), int(pair[1])


def _buckets(buckets: Sequence[int] | None, shortest: int, longest: int) -> list[int]:
    if buckets is None:
        steps = min(_NUM_BUCKETS, longest - shortest) or 1
        return [shortest + -(-(longest - shortest) * step // steps) for step in range(1, steps + 1)]
    widths = list(buckets)
    if (
        not widths
        or not all(isinstance(w, (int, np.integer)) and w > 0 for w in widths)
        or any(a >= b for a, b in pairwise(widths))
        or widths[-1] < longest
    ):
        raise UserError(
            "Expected `buckets` to be rising positive lengths of which the last is at least the "
            f"greatest window length {longest}. Received: buckets={buckets!r}."
        )
    return [int(w) for w in widths]
