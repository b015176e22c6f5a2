"""The page: its numbers, its escaping, and that it asks the network for nothing."""

from __future__ import annotations

import base64
import hashlib
import html.parser
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

from glomo_tf.errors import UserError
from glomo_tf.viewer import Sentence, draw_html

HOSTILE = ['</script><script>alert(1)</script>', '"><img src=x onerror=alert(2)>', "<!--", "\u2028",
           "&lt;", "@DATA@", "@SCRIPT@", "\ud800", "日本語"]  # fmt: skip


class Elements(html.parser.HTMLParser):
    """All elements of a page with their attributes, and the text of each script and style."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.texts: dict[int, str] = {}
        self.open = -1
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open = len(self.tags) - 1 if tag in ("script", "style", "title", "h1") else -1

    def handle_endtag(self, tag):
        self.open = -1

    def handle_data(self, data):
        if self.open >= 0:
            self.texts[self.open] = self.texts.get(self.open, "") + data

    def of(self, tag: str) -> list[tuple[dict, str]]:
        return [
            (attributes, self.texts.get(index, ""))
            for index, (name, attributes) in enumerate(self.tags)
            if name == tag
        ]


def read(path) -> tuple[Elements, dict]:
    elements = Elements(path.read_text(encoding="utf-8"))
    (data,) = [text for attributes, text in elements.of("script") if attributes.get("id") == "data"]
    assert not set("<>&") & set(data)  # nothing in it can end the element or open another
    return elements, json.loads(data)


def weights(graph: dict, length: int) -> np.ndarray:
    steps = np.frombuffer(base64.b64decode(graph["weights"]), "<u2").astype(np.float64)
    shape = (len(graph["directions"]) * graph["layers"], graph["heads"], length, length)
    return (steps * graph["scale"] / 65535).reshape(shape)


def test_weights_keep_their_place_and_value(tmp_path):
    graph = np.zeros((2, 2, 3, 3))
    graph[0, 1, 2, 0] = 0.7  # forward, layer 1, head 2: word 3 takes 0.7 from word 1
    graph[1, 0, 0, 1] = 0.123456
    path = draw_html(
        tmp_path / "g.html",
        [Sentence(["a", "b", "c"], graph, heads=[2, 0, 2], compared=np.eye(3) * 3, name="learned")],
    )
    (entry,) = read(path)[1]["sentences"]
    assert (entry["tokens"], entry["parse"], entry["note"]) == (["a", "b", "c"], [2, 0, 2], "")
    first, second = entry["graphs"]
    assert (first["name"], first["directions"]) == ("learned", ["forward", "backward"])
    assert (first["layers"], first["heads"]) == (1, 2)
    np.testing.assert_allclose(weights(first, 3), graph, atol=1e-5)
    assert second["directions"] == ["unrestricted"]
    np.testing.assert_allclose(weights(second, 3)[0, 0], np.eye(3) * 3, atol=3e-5)


def test_nothing_typed_becomes_markup(tmp_path):
    sentence = Sentence(
        HOSTILE, np.zeros((9, 9)), title=HOSTILE[0], name=HOSTILE[1],
        compared=np.zeros((9, 9)), compared_name=HOSTILE[0],
    )  # fmt: skip
    plain = Sentence(["a"], np.zeros((1, 1)))
    hostile = read(draw_html(tmp_path / "h.html", [sentence], title=HOSTILE[0] + "\ud800&amp;"))
    simple = read(draw_html(tmp_path / "p.html", [plain], title="t"))
    assert [tag for tag, _ in hostile[0].tags] == [tag for tag, _ in simple[0].tags]
    assert len(hostile[0].of("script")) == 2
    assert hostile[0].of("title")[0][1].startswith(HOSTILE[0])
    assert hostile[0].of("h1")[0][1].endswith("&amp;")
    tokens = hostile[1]["sentences"][0]["tokens"]
    assert tokens[:7] == HOSTILE[:7]
    assert tokens[8] == "日本語"
    # The page's own code is what the policy's digests allow, and is the same for every input.
    assert hostile[0].of("script")[1] == simple[0].of("script")[1]


def test_policy_allows_only_the_pages_own_code(tmp_path):
    path = draw_html(tmp_path / "g.html", [Sentence(["a"], np.zeros((1, 1)))])
    elements, _ = read(path)
    (policy,) = [
        attributes["content"]
        for attributes, _ in elements.of("meta")
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for rule, text in (
        ("script-src", elements.of("script")[1][1]),
        ("style-src", elements.of("style")[0][1]),
    ):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[rule] == f"'sha256-{digest}'"
    page = path.read_text(encoding="utf-8")
    assert not re.search(r"https?:|\burl\(|@import|//cdn", page)
    for _, attributes in elements.tags:
        assert not {"src", "href", "style", "srcset", "action"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)


def test_long_texts_are_cut_with_a_note(tmp_path):
    length = 10_000
    # A view of one number: ten thousand words without the memory of their graph.
    graph = np.broadcast_to(np.float32(0), (1, 1, 300, 300))
    path = draw_html(tmp_path / "g.html", [Sentence(["x" * length] * 300, graph)])
    (entry,) = read(path)[1]["sentences"]
    assert entry["note"] == "The first 200 of 300 words are shown."
    assert len(entry["tokens"]) == 200
    assert entry["tokens"][0] == "x" * 200 + "…"
    assert path.stat().st_size < 500_000


def test_too_much_for_a_page_is_refused(tmp_path):
    sentence = Sentence(["x"] * 200, np.zeros((4, 8, 200, 200), np.float32))
    with pytest.raises(UserError, match="at most 16,000,000 weights"):
        draw_html(tmp_path / "g.html", [sentence] * 13)
    with pytest.raises(UserError, match="at least one sentence"):
        draw_html(tmp_path / "g.html", [])
    assert not list(tmp_path.iterdir())


def test_older_page_stays_when_the_new_one_cannot_be_written(tmp_path, monkeypatch):
    path = draw_html(tmp_path / "g.html", [Sentence(["a"], np.zeros((1, 1)))], title="old")
    before = path.read_bytes()

    def full(*args):
        raise OSError(28, "No space left on device", str(args[0]))

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(UserError, match="No space left"):
        draw_html(path, [Sentence(["b"], np.zeros((1, 1)))], title="new")
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["g.html"]


def test_browser_draws_the_arcs(tmp_path):
    browser = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
    if browser is None:
        pytest.skip("no Chromium is installed: the page is not opened in a browser")
    graph = np.zeros((3, 3))
    graph[2, 0] = 0.9
    graph[1, 0] = 0.04
    path = draw_html(
        tmp_path / "g.html", [Sentence([HOSTILE[0], "b", "c"], graph, heads=[0, 1, 1])]
    )
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
        "--no-first-run", "--disable-background-networking", "--disable-component-update",
        "--disable-sync", f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=2000",
        "--dump-dom", path.as_uri(),
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, timeout=60, check=True)
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"Chromium does not start here: {type(error).__name__}")
    page = done.stdout.decode("utf-8")
    arcs = re.findall(r'class="arc (\w+)"[^>]*data-source="(\d+)" data-receiver="(\d+)"', page)
    assert arcs == [("earlier", "0", "2"), ("lower", "0", "1"), ("lower", "0", "2")]
    assert "1 arc of weight ≥ 0.05" in page
    assert len(Elements(page).of("script")) == 2
