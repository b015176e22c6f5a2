"""Every snippet of the README runs: commands in their small form, Python as it stands.

Commands run in order in one folder with a few articles, word vectors and labelled texts, as a
reader would type them; to those that train, `--smoke` and the place of the texts are added.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from glomo_tf.cli import app

README = Path(__file__).parents[1] / "README.md"
SNIPPETS = re.findall(r"^```(\w+)\n(.*?)^```", README.read_text("utf-8"), re.M | re.S)
COMMANDS = [
    line.split("  #")[0].strip()
    for kind, text in SNIPPETS
    if kind == "shell"
    for line in text.splitlines()
]
PYTHON = [text for kind, text in SNIPPETS if kind == "python"]

TINY = "--set width=8 --set head_dim=4 --set steps=4 --set round_steps=2 --set vocabulary_size=200"
ADDED = {
    "glomo demo": "--smoke --set steps=6 --set seeds=2 --set tagging_steps=8",
    "glomo transfer": "--smoke --set steps=8 --set seeds=2 --set sst2=jsonl:{split}.jsonl",
    "glomo pretrain": f"--smoke {TINY}",
}
NOT_RUN = ("pip install",)  # installs from a registry; `make` does it from the lock


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    words = ["film", "good", "bad", "story", "actor", "the", "a", "is", "was", "not", "very"]
    where = tmp_path_factory.mktemp("reader")
    (where / "articles").mkdir()
    for name in range(12):
        text = " ".join(rng.choice(words, 400))
        (where / "articles" / f"{name}.txt").write_text(text, "utf-8")
    for split in ("train", "validation", "test"):
        rows = [
            {"text": " ".join(rng.choice(words, 8)), "label": index % 2} for index in range(500)
        ]
        lines = "\n".join(json.dumps(row) for row in rows)
        (where / f"{split}.jsonl").write_text(lines, "utf-8")
    lines = [" ".join([word, *map(str, rng.normal(size=8).round(3))]) for word in words]
    (where / "glove.6B.50d.txt").write_text("\n".join(lines), "utf-8")
    return where


def test_readme_has_what_it_promises():
    assert len(PYTHON) >= 4
    assert {line.split()[1] for line in COMMANDS if line.startswith("glomo")} >= {
        "demo",
        "transfer",
        "evaluate",
        "pretrain",
        "draw",
        "export",
    }


def test_commands_then_python(folder, monkeypatch):
    monkeypatch.chdir(folder)
    for line in COMMANDS:
        if line.startswith(NOT_RUN):
            continue
        assert line.startswith("glomo "), f"not a command of ours, and not known: {line}"
        added = next((more for start, more in ADDED.items() if line.startswith(start)), "")
        answer = CliRunner().invoke(app, shlex.split(f"{line} {added}")[1:])
        assert answer.exit_code == 0, f"{line} {added}\n{answer.output}"
    for text in PYTHON:
        exec(compile(text, "README.md", "exec"), {})
    for made in ("glomo-demo/graph.html", "runs/sentiment.md", "runs/sentiment.png"):
        assert (folder / made).stat().st_size > 0


def test_pictures_and_links_are_there():
    prose = re.sub(r"^```.*?^```", "", README.read_text("utf-8"), flags=re.M | re.S)
    targets = re.findall(r"\]\(([^)#]+)\)", prose)
    assert len(targets) >= 6
    for target in targets:
        if not target.startswith("https://"):
            assert (README.parent / target).is_file(), target
