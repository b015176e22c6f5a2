"""What every pre-training run needs: its batches, step by step, and an optimizer that suits it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from glomo_tf.data.candidates import with_candidates
from glomo_tf.data.corpus import EncodedCorpus
from glomo_tf.data.windows import windows
from glomo_tf.optimizers import LazyAdamW


def batches(
    corpus: EncodedCorpus,
    *,
    steps: int,
    length: int | tuple[int, int],
    stride: int | tuple[int, int],
    batch_size: int,
    candidates: int,
    counts: Sequence[int] | np.ndarray,
    seed: int,
    done: int = 0,
) -> tf.data.Dataset:
    """The batches of steps `done + 1` to `steps`, pass after pass over the corpus.

    Step n gets the same batch whatever `done` is, so a run can go on where it was stopped. Windows
    are padded to the greatest length, so that all batches have one shape.

    Args:
        corpus: the articles.
        steps: of the whole run.
        length: of the windows, see `glomo_tf.data.windows.windows`.
        stride: of the windows.
        batch_size: windows of a batch.
        candidates: for the objective, at most; see `glomo_tf.data.candidates`.
        counts: occurrences of each unit `[V]`.
        seed: decides windows, order and candidates.
        done: steps that were trained before.

    Returns:
        Dataset of `{"units": int32 [batch_size, T], "candidates": int32 [C]}` with known
        cardinality `steps − done`.

    Raises:
        UserError: a setting is wrong, or the corpus does not fill one batch.
    """
    longest = length if isinstance(length, int) else length[1]
    data, to_skip, size, epoch = None, done, 0, 0
    while size < steps - done or data is None:
        part = windows(
            corpus,
            length=length,
            stride=stride,
            batch_size=batch_size,
            seed=seed,
            epoch=epoch,
            buckets=[longest],
        )
        cardinality = int(part.cardinality())
        if to_skip < cardinality:
            number = min(candidates, len(counts) - 1)
            part = with_candidates(part, number=number, counts=counts, seed=seed + epoch)
            part = part.skip(to_skip)
            size += cardinality - to_skip
            data = part if data is None else data.concatenate(part)
        to_skip = max(to_skip - cardinality, 0)
        epoch += 1
    return data.take(steps - done).prefetch(8)


def optimizer(
    learning_rate: float, *, steps: int, warmup_steps: int = 100, weight_decay: float = 0.01
) -> keras.optimizers.Optimizer:
    """AdamW with linear warm-up, cosine decay to 0 at `steps`, and gradients clipped to norm 1.

    Rows of embedding tables that a batch does not touch stay as they are (`LazyAdamW`), and tables
    do not decay.
    """
    warmup_steps = min(warmup_steps, steps // 4)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.0,
        max(steps - warmup_steps, 1),
        warmup_target=learning_rate,
        warmup_steps=warmup_steps,
    )
    made: Any = LazyAdamW(schedule, weight_decay=weight_decay, global_clipnorm=1.0)
    made.exclude_from_weight_decay(var_names=["embeddings", "table"])
    return made
