"""Published tables and the README's figures come out of the published result files again."""

from __future__ import annotations

from pathlib import Path

import pytest

from glomo_tf import results
from glomo_tf.recipes import demo

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "docs" / "results").glob("*.json"))


def test_there_are_results():
    assert {path.stem for path in FILES} >= {"demo", "sentiment"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_table_is_rebuilt_from_its_result(path):
    table = results.markdown(results.read(path))
    assert path.with_suffix(".md").read_text("utf-8") == table


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_result_names_no_place_of_a_machine(path):
    text = path.read_text("utf-8")
    for place in ("/work", "/root", "/home", "/tmp", "http"):
        assert place not in text


def test_readme_shows_the_table_of_the_demo():
    readme = (ROOT / "README.md").read_text("utf-8")
    table = demo.table(results.read(ROOT / "docs" / "results" / "demo.json"))
    assert table in readme


def test_readme_quotes_rows_of_the_sentiment_table():
    readme = (ROOT / "README.md").read_text("utf-8")
    section = readme.split("### 2.")[1].split("### 3.")[0]
    table = (ROOT / "docs" / "results" / "sentiment.md").read_text("utf-8")
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    assert len(rows) >= 5
    imdb = table.split("## accuracy: dataset imdb, encoder pooling")[1].split("\n## ")[0]
    for row in rows:
        assert row in imdb, row
