"""Metrics by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from glomo_tf.metrics import exact_match, f1, graph_statistics, unlabeled_attachment

# "the small cat sat here": the -> cat, small -> cat, cat -> sat, sat = root, here -> sat.
HEADS = [[2, 2, 3, -1, 3]]


def chain(length: int, offset: int) -> np.ndarray:
    return np.eye(length, k=offset)[None]


def test_previous_word_chain() -> None:
    # Receivers 1..4 answer 0..3; edges: (0,2) (1,2) (2,3) (3,4). Wrong: 1-0. Right: 2-1, 3-2, 4-3.
    result = unlabeled_attachment(chain(5, -1), HEADS)
    assert result["best"] == {
        "direction": "forward",
        "layer": 1,
        "head": 1,
        "score": 0.75,
        "empty_rows": 0.0,
        "words": 4,
    }
    assert result["previous_word"] == 0.75


def test_backward_graph_is_scored_among_later_words() -> None:
    # Receivers 0..3 answer 1..4: 0-1 wrong, the rest right; the last word has nobody to ask.
    (entry,) = unlabeled_attachment(chain(5, 1), HEADS)["per_head"]
    assert (entry["direction"], entry["score"], entry["words"]) == ("backward", 0.75, 4)


def test_orientation_and_position_matter() -> None:
    # Each word but the root takes from its head: all right; the root answers at random.
    graph = np.zeros((1, 5, 5))
    for receiver, source in enumerate(HEADS[0]):
        if source >= 0:
            graph[0, receiver, source] = 1.0
    scored = np.array([[1, 1, 1, 0, 1]], bool)

    def score(matrix: np.ndarray) -> float:
        result = unlabeled_attachment(matrix, HEADS, scored=scored, direction=[0])
        return result["best"]["score"]

    assert score(graph) == 1.0
    # Shifted by one receiver, the answers are: 1 -> 2 (right), 2 -> 2 (not allowed: guess), ...
    assert score(np.roll(graph, 1, axis=1)) < 1.0
    # Transposed, "the", "small" and "here" have empty rows, and guesses are not always right.
    scores = [
        unlabeled_attachment(graph.swapaxes(1, 2), HEADS, scored=scored, direction=[0], seed=seed)[
            "best"
        ]
        for seed in range(20)
    ]
    assert np.mean([entry["score"] for entry in scores]) < 0.9
    assert scores[0]["empty_rows"] == 0.75


def test_empty_graph_scores_like_chance_not_like_the_chain() -> None:
    # A chain-shaped tree: an empty forward graph whose ties went to the nearer word would
    # score 1. By chance receiver t is right with probability 1/t: (1/1 + ... + 1/9) / 9.
    length = 10
    heads = np.tile(np.arange(-1, length - 1), (400, 1))
    empty = np.zeros((400, 1, 1, length, length))
    result = unlabeled_attachment(empty, heads, direction=[1])
    chance = sum(1 / t for t in range(1, length)) / (length - 1)
    assert result["best"]["score"] == pytest.approx(chance, abs=0.02)
    assert result["best"]["empty_rows"] == 1.0
    assert result["previous_word"] == 1.0
    again = unlabeled_attachment(empty, heads, direction=[1])
    other = unlabeled_attachment(empty, heads, direction=[1], seed=1)
    assert again == result
    assert other["best"]["score"] != result["best"]["score"]


def test_padding_does_not_count() -> None:
    longer = np.zeros((1, 8, 8))
    longer[:, :5, :5] = chain(5, -1)
    longer[:, 5:, 4] = 1.0
    heads = np.array([[*HEADS[0], -1, -1, -1]])
    mask = np.arange(8)[None] < 5
    assert unlabeled_attachment(longer, heads, mask=mask)["best"]["score"] == 0.75
    assert unlabeled_attachment(longer, heads, mask=mask)["best"]["words"] == 4


def test_layers_heads_and_directions_are_named() -> None:
    graph = np.zeros((1, 4, 2, 5, 5))
    graph[:, :2] = chain(5, -1)
    graph[:, 2:] = chain(5, 1)
    graph[:, 3, 1] = np.eye(5, k=2)  # 0-2 right, 1-3 wrong, 2-4 wrong, row 3 empty
    result = unlabeled_attachment(graph, HEADS, direction=[1, 1, -1, -1])
    names = [(entry["direction"], entry["layer"], entry["head"]) for entry in result["per_head"]]
    assert names[0] == ("forward", 1, 1)
    assert names[3] == ("forward", 2, 2)
    assert names[-1] == ("backward", 2, 2)
    last = result["per_head"][-1]
    assert last["empty_rows"] == 0.25
    assert last["score"] == 0.5  # row 3 has only word 4 to guess, and that is right
    assert result["best"] == result["per_head"][0]


def test_mean_graph_combines_directions() -> None:
    # Word 2 takes 0.9 from word 3 in the backward graph, 0.2 from word 0 in the forward one.
    graph = np.zeros((1, 2, 1, 5, 5))
    graph[0, 1, 0, 2, 3] = 0.9
    graph[0, 0, 0, 2, 0] = 0.2
    scored = np.array([[0, 0, 1, 0, 0]], bool)
    assert unlabeled_attachment(graph, HEADS, scored=scored)["mean_graph"] == 1.0


@pytest.mark.parametrize(
    ("graph", "heads", "arguments", "message"),
    [
        (np.zeros((2, 3)), [[0]], {}, "Expected `graph` of shape"),
        (np.zeros((1, 3, 3)), [[0, 1]], {}, r"Expected `heads` of shape \[B, T\] = \(1, 3\)"),
        (np.zeros((1, 3, 3)), [[0, 1, 3]], {}, "between -1 and 2. Received: 3"),
        (np.zeros((1, 3, 3)), [[0, 1, -2]], {}, "between -1 and 2. Received: -2"),
        (np.zeros((1, 3, 3)), [[0, 1, 2]], {"mask": [[1, 1]]}, "Expected `mask` of shape"),
        (np.zeros((1, 3, 3)), [[0, 1, 2]], {"direction": [1, 1]}, "Expected `direction`"),
    ],
)
def test_attachment_errors(graph: np.ndarray, heads: list, arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unlabeled_attachment(graph, heads, **arguments)


def test_statistics_by_hand() -> None:
    graph = np.zeros((1, 1, 1, 4, 4))
    graph[0, 0, 0, 1, 0] = 1.0  # entropy 0, distance 1
    graph[0, 0, 0, 2, :2] = 0.5  # entropy ln 2, distance 1.5
    # Row 3 is empty. Allowed pairs 1 + 2 + 3 = 6, of which 3 hold weight.
    overall = graph_statistics(graph)["overall"]
    assert overall["sparsity"] == 0.5
    assert overall["entropy"] == pytest.approx(math.log(2) / 2)
    assert overall["mean_distance"] == 1.25
    assert overall["empty_rows"] == pytest.approx(1 / 3)
    # With the last unit as padding only the full rows are left.
    shorter = graph_statistics(graph, [[1, 1, 1, 0]])["overall"]
    assert (shorter["sparsity"], shorter["empty_rows"]) == (0.0, 0.0)


def test_statistics_of_graphs_without_any_pair() -> None:
    figures = graph_statistics(np.zeros((2, 2, 2, 1, 1)), direction=[1, -1])
    assert set(figures["overall"].values()) == {0.0}
    assert len(figures["per_head"]) == 4


def test_statistics_over_heads_and_rows_that_do_not_sum_to_one() -> None:
    graph = np.zeros((1, 1, 2, 3, 3))
    graph[0, 0, 0] = np.eye(3, k=-1)
    graph[0, 0, 1, 2] = [0.1, 0.1, 0.0]  # as of `relu_length`: spread evenly, whatever the sum
    first, second = graph_statistics(graph)["per_head"]
    assert (first["mean_distance"], first["entropy"]) == (1.0, 0.0)
    assert second["entropy"] == pytest.approx(math.log(2))
    assert second["mean_distance"] == pytest.approx(1.5)
    assert second["empty_rows"] == 0.5


def test_exact_match_prepares_text_as_squad_does() -> None:
    assert exact_match(["The  Oak!"], ["oak"]) == 1.0
    assert exact_match(["an oak", "elm"], [["tree", "Oak."], ["oak"]]) == 0.5
    assert exact_match(["theory"], ["ory"]) == 0.0  # articles are whole words
    assert exact_match(["U.S."], ["us"]) == 1.0


def test_f1_by_hand() -> None:
    # Common: big, oak (2 of 3 words and 2 of 4): F1 = 2·2 / (3 + 4).
    assert f1(["big old oak"], ["big green oak tree"]) == pytest.approx(4 / 7)
    # The best reference counts, not the first or the mean.
    assert f1(["big old oak"], [["elm", "oak"]]) == pytest.approx(2 / 4)
    # A word counts as often as both sides have it.
    assert f1(["oak oak"], ["oak"]) == pytest.approx(2 / 3)
    assert f1(["oak", "elm"], ["oak", "ash"]) == 0.5


def test_answers_without_words() -> None:
    assert f1(["the"], [""]) == 1.0
    assert f1(["the"], ["oak"]) == 0.0
    assert exact_match(["", "?"], ["oak", "the"]) == 0.5


@pytest.mark.parametrize(
    ("predictions", "references", "message"),
    [
        ("oak", ["oak"], "a single string"),
        (["oak"], "oak", "a single string"),
        (["oak"], ["oak", "elm"], "1 and 2"),
        ([], [], "0 and 0"),
        (["oak"], [[]], "none for question 0"),
    ],
)
@pytest.mark.parametrize("metric", [exact_match, f1])
def test_answer_errors(metric, predictions, references, message) -> None:
    with pytest.raises(ValueError, match=message):
        metric(predictions, references)
