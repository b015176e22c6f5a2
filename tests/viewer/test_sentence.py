"""The record: shapes, orientation, means, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from glomo_tf.errors import UserError
from glomo_tf.viewer import Sentence
from glomo_tf.viewer.labels import as_text, columns, line, shorten
from glomo_tf.viewer.sentence import automatic_threshold


def four_graphs() -> np.ndarray:
    """Two layers forward, two backward, two heads, three words; every weight told apart."""
    graph = np.zeros((4, 2, 3, 3))
    graph[0, 0, 2, 1] = 0.8  # forward, layer 1, head 1: word 3 takes 0.8 from word 2
    graph[0, 0, 2, 0] = 0.2
    graph[1, 1, 1, 0] = 1.0  # forward, layer 2, head 2
    graph[2, 0, 0, 2] = 0.4  # backward, layer 1, head 1: word 1 takes 0.4 from word 3
    graph[3, 1, 1, 2] = 1.0  # backward, layer 2, head 2
    return graph


def test_choices_pick_the_graph_that_the_layout_names():
    sentence = Sentence(["a", "b", "c"], four_graphs())
    assert sentence.directions == ("forward", "backward")
    assert (sentence.num_layers, sentence.num_heads) == (2, 2)
    forward = sentence.matrix(layer=1, head=1, direction="forward")
    np.testing.assert_allclose(forward, [[0, 0, 0], [0, 0, 0], [0.2, 0.8, 0]], atol=1e-7)
    backward = sentence.matrix(layer=1, head=1, direction="backward")
    np.testing.assert_allclose(backward, [[0, 0, 0.4], [0, 0, 0], [0, 0, 0]], atol=1e-7)


def test_heads_and_layers_are_averaged_and_directions_added():
    sentence = Sentence(["a", "b", "c"], four_graphs())
    np.testing.assert_allclose(
        sentence.matrix(), [[0, 0, 0.1], [0.25, 0, 0.25], [0.05, 0.2, 0]], atol=1e-7
    )
    np.testing.assert_allclose(
        sentence.matrix(layer=2), [[0, 0, 0], [0.5, 0, 0.5], [0, 0, 0]], atol=1e-7
    )


@pytest.mark.parametrize(
    ("graph", "direction"),
    [
        (np.tril(np.ones((2, 1, 3, 3)), -1), "forward"),
        (np.triu(np.ones((3, 3)), 1), "backward"),
        (np.ones((3, 3)), "unrestricted"),
        (np.stack([np.tril(np.ones((1, 3, 3)), -1), np.triu(np.ones((1, 3, 3)), 1)]), "both"),
        (np.stack([np.triu(np.ones((1, 3, 3)), 1), np.tril(np.ones((1, 3, 3)), -1)]),
         "unrestricted"),
    ],
)  # fmt: skip
def test_direction_is_read_off_the_zeros(graph, direction):
    assert Sentence(["a", "b", "c"], graph).direction == direction


def test_padding_of_the_graph_is_cut_to_the_words():
    graph = np.zeros((1, 1, 5, 5))
    graph[0, 0, 1, 0] = 1.0
    sentence = Sentence([b"caf\xc3\xa9", "b"], graph)
    assert sentence.tokens == ("café", "b")
    assert sentence.graph.shape == (1, 1, 2, 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sentence([], np.zeros((0, 0))),
        lambda: Sentence("a text", np.zeros((6, 6))),
        lambda: Sentence(["a", "b", "c"], np.zeros((2, 2))),
        lambda: Sentence(["a", "b"], np.zeros((1, 1, 1, 2, 2))),
        lambda: Sentence(["a", "b"], np.zeros((2, 3))),
        lambda: Sentence(["a", "b"], np.full((2, 2), np.nan)),
        lambda: Sentence(["a", "b"], np.full((2, 2), -1.0)),
        lambda: Sentence(["a", "b"], np.array([["x", "y"], ["z", "w"]])),
        lambda: Sentence(["a", "b"], np.zeros((3, 1, 2, 2)), direction="both"),
        lambda: Sentence(["a", "b"], np.zeros((2, 2)), direction="sideways"),
        lambda: Sentence(["a", "b"], np.zeros((2, 2)), heads=[0]),
        lambda: Sentence(["a", "b"], np.zeros((2, 2)), heads=[0, 3]),
        lambda: Sentence(["a", "b"], np.zeros((2, 2)), compared=np.zeros((1, 1))),
        lambda: Sentence(["a", "b"], np.zeros((2, 2))).matrix(layer=0),
        lambda: Sentence(["a", "b"], np.zeros((2, 2))).matrix(head=2),
        lambda: Sentence(["a", "b"], np.zeros((2, 2))).matrix(direction="backward"),
    ],
)
def test_what_does_not_fit_is_one_clear_line(make):
    with pytest.raises(UserError, match=r"^Expected .*Received: [^\n]*$"):
        make()


def test_first_keeps_what_belongs_together():
    sentence = Sentence(["a", "b", "c"], four_graphs(), heads=[3, 1, 0], direction="both").first(2)
    assert (sentence.tokens, sentence.heads) == (("a", "b"), (0, 1))
    assert sentence.graph.shape == (4, 2, 2, 2)
    assert sentence.direction == "both"


def test_automatic_threshold_keeps_two_arcs_a_word():
    # 12 weights of 4 words: the eighth from the top is 0.25.
    matrix = np.zeros((4, 4), np.float32)
    matrix[~np.eye(4, dtype=bool)] = [
        0.6,
        0.55,
        0.5,
        0.45,
        0.4,
        0.35,
        0.3,
        0.25,
        0.2,
        0.1,
        0.1,
        0.1,
    ]
    threshold = automatic_threshold(matrix)
    assert threshold == pytest.approx(0.25)
    assert (matrix >= threshold).sum() == 8
    assert automatic_threshold(np.zeros((2, 2), np.float32)) == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("token", "limit", "label"),
    [
        ("word", 8, "word"),
        ("internationalisation", 10, "internati…"),
        ("", 8, "∅"),
        ("a b\tc", 8, "a␣b␣c"),
        ("x\x00\u202ey", 8, "x··y"),
        ("日本語テキスト", 7, "日本語…"),  # two columns each
        ("e\u0301" * 12, 4, "e\u0301" * 3 + "…"),  # marks stay with their letters
        ("👩\u200d👩\u200d👧" * 3, 7, "👩\u200d👩\u200d👧…"),  # a family is not torn apart
        ("x" * 1_000_000, 6, "xxxxx…"),
    ],
)
def test_labels_are_short_and_whole(token, limit, label):
    assert shorten(token, limit) == label
    assert columns(label) <= limit


def test_text_that_is_not_unicode_is_repaired():
    assert as_text(b"a\xff") == "a\ufffd"
    assert "\ud800" not in as_text("a\ud800")
    assert line(" a\n b ", 10) == "a b"
    with pytest.raises(TypeError, match="decode"):
        as_text(17)
