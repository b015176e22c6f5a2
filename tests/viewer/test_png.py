"""The picture: it decodes, shows the arcs of the graph, and copes with any word."""

from __future__ import annotations

import struct
import zlib

import numpy as np
import pytest

from glomo_tf.errors import UserError
from glomo_tf.viewer import Sentence, draw_png

matplotlib = pytest.importorskip("matplotlib", reason="the extra `viz` is not installed")


def png_size(path) -> tuple[int, int]:
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    assert content[-8:-4] == b"IEND"
    start = content.index(b"IHDR")
    header = content[start : start + 17]
    assert zlib.crc32(header) == int.from_bytes(content[start + 17 : start + 21], "big")
    return struct.unpack(">II", header[4:12])


def random_sentence(length: int, words: list[str] | None = None) -> Sentence:
    weights = np.random.default_rng(0).random((2, 2, length, length))
    lower = np.tril(np.ones((length, length)), -1)
    weights[0] *= lower
    weights[1] *= lower.T
    tokens = (words or ["word"]) * length
    return Sentence(tokens[:length], weights / max(length, 1), direction="both")


@pytest.fixture
def figures(monkeypatch):
    """Keeps the figures that were drawn, to look into them."""
    from matplotlib.figure import Figure

    kept = []
    original = Figure.savefig

    def savefig(self, *args, **kwargs):
        kept.append(self)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Figure, "savefig", savefig)
    return kept


def test_arcs_run_from_source_to_receiver_and_grow_with_weight(tmp_path, figures):
    graph = np.zeros((3, 3))
    graph[2, 0] = 0.9  # "c" takes from "a"
    graph[0, 1] = 0.3  # "a" takes from "b", a later word
    graph[1, 0] = 0.04  # below the threshold
    path = draw_png(tmp_path / "g.png", Sentence(["a", "b", "c"], graph), threshold=0.05)
    arcs = {patch.get_gid(): patch for axes in figures[0].axes for patch in axes.patches
            if patch.get_gid()}  # fmt: skip
    assert set(arcs) == {"arc-0-2", "arc-1-0"}
    assert arcs["arc-0-2"].get_linewidth() > arcs["arc-1-0"].get_linewidth()
    assert matplotlib.colors.to_hex(arcs["arc-0-2"].get_edgecolor()) == "#0072b2"
    assert matplotlib.colors.to_hex(arcs["arc-1-0"].get_edgecolor()) == "#d55e00"
    # The path starts at the source's word and ends at the receiver's.
    words = {text.get_text(): text.get_position()[0] for text in figures[0].axes[0].texts}
    vertices = arcs["arc-0-2"]._path_original.vertices
    assert abs(vertices[0, 0] - words["a"]) < 0.05
    assert abs(vertices[-1, 0] - words["c"]) < 0.05
    np.testing.assert_array_equal(figures[0].axes[1].images[0].get_array(), np.float32(graph))
    assert png_size(path)[0] > 600


def test_parse_is_drawn_below_with_the_arrow_at_the_dependent(tmp_path, figures):
    draw_png(tmp_path / "g.png", Sentence(["a", "b"], np.zeros((2, 2)), heads=[2, 0]))
    patches = [p for axes in figures[0].axes for p in axes.patches if p.get_gid()]
    assert [p.get_gid() for p in patches] == ["arc-1-0"]
    assert (patches[0]._path_original.vertices[:, 1] < 0).all()


@pytest.mark.parametrize("length", [1, 2, 13, 60])
def test_sizes_stay_sensible(tmp_path, length):
    path = draw_png(tmp_path / "g.png", random_sentence(length), dpi=60)
    width, height = png_size(path)
    assert 300 < width < 1000
    assert 200 < height < 1100


def test_long_sentences_are_cut_with_a_note(tmp_path, figures):
    draw_png(tmp_path / "g.png", random_sentence(120), dpi=40)
    texts = [text.get_text() for text in figures[0].texts]
    assert any("first 80 of 120 words" in text for text in texts)
    assert len(figures[0].axes[0].texts) == 80


def test_any_word_can_be_drawn(tmp_path, figures):
    # A character that no font has must not warn (warnings are errors here).
    words = ["$x_1$", "\\frac", "日本語", "Привет", "שלום", "👩\u200d👧", "a\x00b", "",
             "\U000f0000", "x" * 100_000, "<script>", "e\u0301"]  # fmt: skip
    draw_png(tmp_path / "g.png", random_sentence(len(words), words), dpi=60)
    drawn = [text.get_text() for text in figures[0].axes[0].texts]
    assert "$x_1$" in drawn
    assert "Привет" in drawn
    assert "□" in drawn


def test_what_cannot_be_drawn_is_refused_and_leaves_the_old_file(tmp_path):
    path = tmp_path / "g.png"
    path.write_bytes(b"old")
    with pytest.raises(UserError, match="layer"):
        draw_png(path, random_sentence(3), layer=7)
    with pytest.raises(UserError, match="threshold"):
        draw_png(path, random_sentence(3), threshold=float("nan"))
    assert path.read_bytes() == b"old"
    with pytest.raises(UserError, match="Expected"):
        draw_png(path / "inside-a-file.png", random_sentence(3))
    assert [p.name for p in tmp_path.iterdir()] == ["g.png"]
