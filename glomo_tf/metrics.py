"""Figures for graphs and for answers: numpy arrays and plain lists in, plain values out.

`graph[..., t, s]` is how much receiver t takes from source s, everywhere in this package.
"""

from __future__ import annotations

import collections
import re
import string
from collections.abc import Sequence
from typing import Any

import numpy as np

_DIRECTIONS = {1: "forward", -1: "backward", 0: "unrestricted"}


def unlabeled_attachment(
    graph: Any,
    heads: Any,
    *,
    mask: Any = None,
    scored: Any = None,
    direction: Sequence[int] | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Undirected, unlabeled attachment score of every graph of a set.

    For a receiver t the graph's answer is `s* = argmax_s graph[t, s]` among the pairs that the
    graph's direction allows. The answer is right when a tree edge joins t and s* in either
    direction: `heads[t] == s*` or `heads[s*] == t`. The score is the share of right answers
    among the receivers that have at least one allowed source.

    1. Ties are broken at random. Breaking them toward the nearer word would hand an almost
       empty graph the score of the previous-word chain (about 43 on English).
    2. An empty row is a tie between all its allowed sources, so it is a guess. The share of
       empty rows is reported beside each score: read the two together.
    3. `mean_graph` scores the mean of all graphs, with every other word as a candidate.
    4. `previous_word` scores the chain t -> t-1, the control to beat.

    Choosing the best of many heads on the sentences that are then reported flatters it: choose
    on one half of the sentences, report on the other.

    Args:
        graph: Float array `[B, G, K, T, T]`, `[B, K, T, T]` or `[B, T, T]`.
        heads: Integer array `[B, T]`: position of each word's head, counted from 0; -1 for the
            root and for padding. (CoNLL-U heads minus 1.)
        mask: Boolean array `[B, T]` of real words. Default: all are real.
        scored: Boolean array `[B, T]` of the receivers that count (for example all but
            punctuation). Default: all real words.
        direction: One of 1 (draws from earlier words), -1 (later words), 0 (both) for each of
            the G graphs, as in graph factors. Default: read off where the weights lie.
        seed: Seed of the tie breaking.

    Returns:
        A dict of plain values: `per_head` (list of dicts with `direction`, `layer` counted from
        1 within its direction, `head` counted from 1, `score`, `empty_rows`, `words`), `best`
        (the entry of `per_head` with the highest score), `mean_graph` and `previous_word`
        (floats). Shares lie between 0 and 1; a share over no words is 0.

    Raises:
        ValueError: If shapes do not agree or a head lies outside the sentence.

    Example:

    >>> graph = [[[0, 0, 0], [1, 0, 0], [1, 0, 0]]]
    >>> unlabeled_attachment(graph, [[-1, 0, 1]])["best"]["score"]
    0.5
    """
    weights, real, directions = _checked(graph, mask, direction)
    batch, _, num_heads, length, _ = weights.shape
    edges = np.asarray(heads)
    if edges.shape != (batch, length):
        raise ValueError(
            f"Expected `heads` of shape [B, T] = {(batch, length)}. Received: {edges.shape}. "
            "Give the position of each word's head, -1 for the root and for padding."
        )
    beyond = (edges < -1) | (edges >= length)
    if beyond.any():
        raise ValueError(
            f"Expected `heads` between -1 and {length - 1}. Received: {int(edges[beyond][0])}. "
            "Count positions from 0; -1 stands for the root (CoNLL-U heads minus 1)."
        )
    tree = edges[:, :, None] == np.arange(length)
    tree = (tree | np.swapaxes(tree, 1, 2)) & real[:, :, None] & real[:, None, :]
    counted = real if scored is None else real & np.asarray(scored, bool)
    rng = np.random.default_rng(seed)

    def score(matrix: np.ndarray, allowed: np.ndarray) -> dict[str, Any]:
        rows = counted & allowed.any(-1)
        words = int(rows.sum())
        held = np.where(allowed, matrix, -np.inf)
        tied = allowed & (held == held.max(-1, keepdims=True))
        answer = np.where(tied, rng.random(held.shape), -1.0).argmax(-1)
        right = np.take_along_axis(tree, answer[..., None], -1)[..., 0]
        empty = ~(np.where(allowed, matrix, 0.0) > 0).any(-1)
        return {
            "score": _share((right & rows).sum(), words),
            "empty_rows": _share((empty & rows).sum(), words),
            "words": words,
        }

    per_head: list[dict[str, Any]] = []
    for index, (name, layer) in enumerate(_layer_names(directions)):
        allowed = _allowed(real, directions[index])
        for head in range(num_heads):
            place: dict[str, Any] = {"direction": name, "layer": layer, "head": head + 1}
            per_head.append(place | score(weights[:, index, head], allowed))
    everything = _allowed(real, 0)
    chain = np.broadcast_to(np.eye(length, k=-1), (batch, length, length))
    return {
        "per_head": per_head,
        "best": max(per_head, key=lambda entry: entry["score"]),
        "mean_graph": score(weights.mean((1, 2)), everything)["score"],
        "previous_word": score(chain, _allowed(real, 1))["score"],
    }


def graph_statistics(
    graph: Any, mask: Any = None, *, direction: Sequence[int] | None = None
) -> dict[str, Any]:
    """How sparse, how spread and how far-reaching graphs are.

    Over the pairs (t, s) of real units that a graph's direction allows:

    1. `sparsity`: share of pairs whose weight is exactly 0.
    2. `entropy`: mean over rows with any weight of `-sum_s a log a`, in nats, with a the row
       divided by its sum. 0 means that every receiver takes from a single source.
    3. `mean_distance`: mean over the same rows of `sum_s a |t - s|`, in units.
    4. `empty_rows`: share of rows without any weight among those with an allowed source.

    Args:
        graph: Float array `[B, G, K, T, T]`, `[B, K, T, T]` or `[B, T, T]`.
        mask: Boolean array `[B, T]` of real units. Default: all are real.
        direction: See `unlabeled_attachment`.

    Returns:
        A dict of plain values: `per_head`, a list of dicts with `direction`, `layer`, `head`
        and the four figures, and `overall`, their means over all graphs. A figure over nothing
        is 0.

    Raises:
        ValueError: If shapes do not agree.

    Example:

    >>> graph_statistics([[[0, 0, 0], [1, 0, 0], [0.5, 0.5, 0]]])["overall"]["mean_distance"]
    1.25
    """
    weights, real, directions = _checked(graph, mask, direction)
    positions = np.arange(weights.shape[-1])
    distance = np.abs(positions[:, None] - positions)
    per_head = []
    for index, (name, layer) in enumerate(_layer_names(directions)):
        allowed = _allowed(real, directions[index])
        rows = allowed.any(-1)
        for head in range(weights.shape[2]):
            matrix = np.where(allowed, weights[:, index, head], 0.0)
            total = matrix.sum(-1, keepdims=True)
            filled = total[..., 0] > 0
            share = np.divide(matrix, total, out=np.zeros_like(matrix), where=total > 0)
            logarithm = np.log(share, out=np.zeros_like(share), where=share > 0)
            count = int(filled.sum())
            per_head.append(
                {
                    "direction": name,
                    "layer": layer,
                    "head": head + 1,
                    "sparsity": _share((allowed & (matrix == 0)).sum(), allowed.sum()),
                    "entropy": _share(-(share * logarithm).sum(), count) + 0.0,
                    "mean_distance": _share((share * distance).sum(), count),
                    "empty_rows": _share((rows & ~filled).sum(), rows.sum()),
                }
            )
    figures = ("sparsity", "entropy", "mean_distance", "empty_rows")
    overall = {name: float(np.mean([entry[name] for entry in per_head])) for name in figures}
    return {"per_head": per_head, "overall": overall}


def exact_match(predictions: Sequence[str], references: Sequence[str | Sequence[str]]) -> float:
    """Share of predictions that equal one of their references, by SQuAD's definition.

    Both sides are lower-cased, lose ASCII punctuation and the articles a, an, the, and have
    runs of blanks joined before they are compared.

    Args:
        predictions: One string a question.
        references: For each question its reference, or a sequence of references.

    Returns:
        A float between 0 and 1 (the official script prints it times 100).

    Raises:
        ValueError: If the two differ in length, are empty, or a question has no reference.

    Example:

    >>> exact_match(["The Oak!"], [["an oak", "oak tree"]])
    1.0

    References:
        [Rajpurkar et al., 2016](https://arxiv.org/abs/1606.05250), evaluation script.
    """
    pairs = _answer_pairs(predictions, references)
    return float(
        np.mean([max(float(_plain(p) == _plain(r)) for r in several) for p, several in pairs])
    )


def f1(predictions: Sequence[str], references: Sequence[str | Sequence[str]]) -> float:
    """Mean overlap of words between predictions and references, by SQuAD's definition.

    For each question the best F1 over its references, with text prepared as in `exact_match`
    and words counted as often as they occur. If one side has no word left, the two must both
    be empty to score 1 (the rule of SQuAD 2.0).

    Args:
        predictions: One string a question.
        references: For each question its reference, or a sequence of references.

    Returns:
        A float between 0 and 1 (the official script prints it times 100).

    Raises:
        ValueError: If the two differ in length, are empty, or a question has no reference.

    Example:

    >>> f1(["the big oak"], [["oak", "oak tree hill"]])
    0.6666666666666666

    References:
        [Rajpurkar et al., 2016](https://arxiv.org/abs/1606.05250), evaluation script.
    """
    pairs = _answer_pairs(predictions, references)
    return float(np.mean([max(_overlap(p, r) for r in several) for p, several in pairs]))


def _overlap(prediction: str, reference: str) -> float:
    ours, theirs = _plain(prediction).split(), _plain(reference).split()
    if not ours or not theirs:
        return float(ours == theirs)
    same = sum((collections.Counter(ours) & collections.Counter(theirs)).values())
    return 2.0 * same / (len(ours) + len(theirs))


def _plain(text: str) -> str:
    kept = "".join(c for c in text.lower() if c not in string.punctuation)
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())


def _answer_pairs(
    predictions: Sequence[str], references: Sequence[str | Sequence[str]]
) -> list[tuple[str, Sequence[str]]]:
    if isinstance(predictions, str) or isinstance(references, str):
        raise ValueError(
            "Expected sequences of predictions and of references. Received: a single string. "
            "Put it in a list."
        )
    if len(predictions) != len(references) or not len(predictions):
        raise ValueError(
            "Expected as many predictions as references, at least one. Received: "
            f"{len(predictions)} and {len(references)}."
        )
    pairs: list[tuple[str, Sequence[str]]] = []
    for number, (prediction, several) in enumerate(zip(predictions, references, strict=True)):
        several = [several] if isinstance(several, str) else list(several)
        if not several:
            raise ValueError(
                f"Expected at least one reference a question. Received: none for question "
                f"{number}. Leave questions without a reference out of both lists."
            )
        pairs.append((prediction, several))
    return pairs


def _checked(
    graph: Any, mask: Any, direction: Sequence[int] | None
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Returns weights [B, G, K, T, T] in float64, real [B, T] and a direction for each of G."""
    weights = np.asarray(graph, np.float64)
    shape = weights.shape
    if weights.ndim not in (3, 4, 5) or shape[-1] != shape[-2]:
        raise ValueError(
            "Expected `graph` of shape [B, G, K, T, T], [B, K, T, T] or [B, T, T]. "
            f"Received: {shape}."
        )
    if weights.ndim == 3:
        weights = weights[:, None, None]
    elif weights.ndim == 4:
        weights = weights[:, None]
    expected = (weights.shape[0], weights.shape[-1])
    real = np.ones(expected, bool) if mask is None else np.asarray(mask, bool)
    if real.shape != expected:
        raise ValueError(f"Expected `mask` of shape [B, T] = {expected}. Received: {real.shape}.")
    if direction is None:
        found = [_direction_of(weights[:, index]) for index in range(weights.shape[1])]
    else:
        found = [int(value) for value in direction]
        if len(found) != weights.shape[1] or not set(found) <= set(_DIRECTIONS):
            raise ValueError(
                f"Expected `direction` to hold 1, -1 or 0 for each of {weights.shape[1]} "
                f"graphs. Received: {found}."
            )
    return weights, real, found


def _direction_of(weights: np.ndarray) -> int:
    earlier, later = np.tril(weights).any(), np.triu(weights).any()
    return 0 if earlier == later else 1 if earlier else -1


def _allowed(real: np.ndarray, direction: int) -> np.ndarray:
    length = real.shape[1]
    pairs = ~np.eye(length, dtype=bool)
    if direction:
        pairs = np.tril(pairs) if direction > 0 else np.triu(pairs)
    return pairs & real[:, :, None] & real[:, None, :]


def _layer_names(directions: list[int]) -> list[tuple[str, int]]:
    """Names each graph by its direction and its layer within that direction, from 1."""
    seen: collections.Counter[int] = collections.Counter()
    names = []
    for direction in directions:
        seen[direction] += 1
        names.append((_DIRECTIONS[direction], seen[direction]))
    return names


def _share(part: Any, whole: Any) -> float:
    return float(part) / float(whole) if whole else 0.0
