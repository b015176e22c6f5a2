"""Sources: every record is used or skipped with a reason, bad bytes are repaired and counted."""

from __future__ import annotations

import gzip
import io
import json
import lzma
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glomo_tf.data.file_sources import _articles
from glomo_tf.data.records import SourceReport
from glomo_tf.data.sources import Document, documents, labelled
from glomo_tf.errors import UserError

OPENERS = {"": open, ".gz": gzip.open, ".xz": lzma.open}


def write_jsonl(path: Path, rows: list) -> Path:
    lines = [row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows]
    with OPENERS[path.suffix if path.suffix in OPENERS else ""](path, "wb") as file:
        file.write(b"\n".join(lines) + b"\n")
    return path


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_jsonl_counts_what_it_skips(tmp_path, ending):
    path = write_jsonl(
        tmp_path / f"a.jsonl{ending}",
        [
            b'\xef\xbb\xbf{"title": "One", "text": "first"}',
            {"paragraphs": ["second", "third"]},
            b"",
            b"not json",
            [1, 2],
            {"title": "no text"},
            {"text": 3},
            {"text": " \n"},
            b'{"text": "bad \xff byte"}',
            b'{"text": "lone \\ud800 half"}',
        ],
    )
    source = documents(f"jsonl:{path}")
    assert list(source) == [
        Document("One", "first"),
        Document(None, "second\n\nthird"),
        Document(None, "bad \ufffd byte"),
        Document(None, "lone \ufffd\ufffd\ufffd half"),
    ]
    assert source.report == SourceReport(
        read=9,
        used=4,
        skipped={
            "not JSON": 1,
            "not a JSON object": 1,
            "no field 'text'": 1,
            "field 'text' is not text": 1,
            "empty": 1,
        },
        repaired=2,
    )
    # A second reading counts anew.
    assert len(list(source)) == 4
    assert source.report.read == 9
    assert str(source.report).startswith("9 read, 4 used, 1 skipped (not JSON)")


def test_field_and_limit(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"body": f"text {i}", "text": "x"} for i in range(5)])
    source = documents(f"jsonl:{path}", field="body", limit=2)
    assert [document.text for document in source] == ["text 0", "text 1"]
    assert (source.report.read, source.report.used) == (2, 2)


def test_folders_globs_and_splits(tmp_path):
    (tmp_path / "deep").mkdir()
    write_jsonl(tmp_path / "train.jsonl", [{"text": "a"}])
    write_jsonl(tmp_path / "deep" / "test.jsonl.gz", [{"text": "b"}])
    (tmp_path / "note.txt").write_text("c")

    def texts(spec, **options):
        return [document.text for document in documents(spec, **options)]

    assert texts(f"jsonl:{tmp_path}") == ["b", "a"]
    assert texts(f"jsonl:{tmp_path}/*.jsonl") == ["a"]
    assert texts(f"jsonl:{tmp_path}/**/*.jsonl.gz") == ["b"]
    assert texts(f"text:{tmp_path}") == ["c"]
    assert texts(f"jsonl:{tmp_path}/{{split}}.jsonl", split="train") == ["a"]
    with pytest.raises(UserError, match=r"Expected \{split\} in the path"):
        documents(f"jsonl:{tmp_path}/train.jsonl", split="test")
    with pytest.raises(UserError, match="Expected an existing file, folder or glob"):
        documents(f"jsonl:{tmp_path}/{{split}}.jsonl", split="none")


def test_text_files_are_cut_at_empty_lines_after_ten_thousand_bytes(tmp_path):
    short, long = "short\n\n", "x" * 9_990 + "\n"
    (tmp_path / "a.txt").write_text(short * 3)
    (tmp_path / "b.txt").write_bytes((long + short + "rest ").encode() + b"\xff\n")
    (tmp_path / "c.txt").write_text("")
    source = documents(f"text:{tmp_path}/*.txt")
    assert [(d.title, d.text) for d in source] == [
        ("a.txt", short * 3),
        ("b.txt", long + short + "rest \ufffd\n"),
    ]
    assert source.report == SourceReport(read=3, used=2, skipped={"empty": 1}, repaired=1)

    (tmp_path / "b.txt").write_text(long + short * 2 + "rest")
    assert [d.text for d in documents(f"text:{tmp_path}/b.txt")] == [long + short * 2, "rest"]


@given(
    st.lists(st.sampled_from(["\n", "word ", "é", "日本", "x" * 30, "\n\n"]), max_size=60).map(
        "".join
    )
)
def test_articles_join_to_the_file_and_cut_no_character(text):
    with (
        mock.patch("glomo_tf.data.file_sources._ARTICLE_BYTES", 20),
        mock.patch("glomo_tf.data.file_sources._MOST_BYTES", 32),
    ):
        pieces = list(_articles(io.BytesIO(text.encode())))
    assert b"".join(pieces) == text.encode()
    assert all(len(piece) <= 64 for piece in pieces)
    for piece in pieces:
        piece.decode()


def test_bytes_that_are_no_text_do_not_stop_the_cutting():
    with mock.patch("glomo_tf.data.file_sources._MOST_BYTES", 8):
        for raw in (b"\x80" * 50, b"\xff" * 50, b"\xe6" * 50, b"a\x80\x80\x80\x80" * 10):
            assert b"".join(_articles(io.BytesIO(raw))) == raw


@pytest.mark.parametrize("ending", [".gz", ".xz"])
def test_damaged_archives_are_named(tmp_path, ending):
    path = write_jsonl(tmp_path / f"a.jsonl{ending}", [{"text": str(i)} for i in range(2000)])
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"no archive"):
        path.write_bytes(content)
        with pytest.raises(UserError, match="which is damaged") as caught:
            list(documents(f"jsonl:{path}"))
        assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "spec", ["", "text:", "name", "csv:a.csv", "python:source", "jsonl:/none/such", 3]
)
def test_wrong_specs(spec):
    with pytest.raises(UserError, match=r"^Expected .* Received: .*\.$"):
        documents(spec)


def test_nothing_to_use_is_an_error_that_tells_the_fields(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"body": "b", "id": 1}])
    with pytest.raises(UserError, match=r"1 skipped \(no field 'text'\); fields of a .*body, id"):
        list(documents(f"jsonl:{path}"))
    path.write_text("")
    with pytest.raises(UserError, match="0 read, 0 used"):
        list(documents(f"jsonl:{path}"))


def test_identity_follows_the_content_and_the_request(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": "a"}])
    before = documents(f"jsonl:{path}").identity
    assert documents(f"jsonl:{path}").identity == before
    assert documents(f"jsonl:{path}", limit=1).identity != before
    assert documents(f"jsonl:{path}", field="text").identity != before
    write_jsonl(path, [{"text": "ab"}])
    assert documents(f"jsonl:{path}").identity != before


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A standard library of a few files, whose modules tell when they are imported."""
    trap = f"open({str(tmp_path / 'imported')!r}, 'w')\n"
    contents = {
        "ast.py": '"""Trees."""\n' + trap,
        "pydoc_data/topics.py": "topics = {'assert': 'Says so.', 'with': 'Does so.'}\n" + trap,
        "pydoc_data/__init__.py": "",
        "pack/__init__.py": '"""Pack."""\nclass A:\n    """Of a class."""\n'
        '    if True:\n        def f(self):\n            """Of a method."""\n' + trap,
        "pack/bare.py": "x = 1\n",
        "pack/broken.py": '"""Broken."""\ndef (\n',
        "test/test_ast.py": '"""Left out."""\n',
        "site-packages/other.py": '"""Left out."""\n',
    }
    for name, content in contents.items():
        path = tmp_path / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path / "lib"))
    return tmp_path


def test_python_docs_by_hand(library):
    source = documents("python:docs", split="all")
    assert list(source) == [
        Document("assert", "Says so."),
        Document("with", "Does so."),
        Document("ast", "Trees."),
        Document("pack", "Pack.\n\nOf a class.\n\nOf a method."),
    ]
    assert source.report == SourceReport(read=4, used=4)
    assert not (library / "imported").exists()


def test_python_docs_splits(library):
    topics = {f"topic {i}": "text" for i in range(2000)}
    (library / "lib" / "pydoc_data" / "topics.py").write_text(f"topics = {topics}")
    parts = [
        {document.title for document in documents("python:docs", split=split)}
        for split in ("train", "validation", "all")
    ]
    assert parts[0] | parts[1] == parts[2]
    assert not parts[0] & parts[1]
    # One in twenty: four standard errors of a draw of 2,000.
    assert abs(len(parts[1]) / 2000 - 0.05) < 4 * (0.05 * 0.95 / 2000) ** 0.5
    with pytest.raises(UserError, match="train, validation or all"):
        documents("python:docs", split="test")


def test_python_docs_without_sources(library):
    (library / "lib" / "ast.py").unlink()
    with pytest.raises(UserError, match="Give another corpus"):
        documents("python:docs")


def test_this_python_has_docs():
    found = list(documents("python:docs", limit=50))
    assert "Assert statements are a convenient way" in found[0].text
    assert len(found) == 50


def test_labelled_by_hand(tmp_path):
    path = write_jsonl(
        tmp_path / "a.jsonl",
        [
            {"left": "a", "right": "b", "label": "yes"},
            {"left": "", "right": "b", "label": "no"},
            {"left": "a", "right": "b", "label": None},
            {"left": "a", "right": "b"},
            {"left": "a", "label": "yes"},
        ],
    )
    found = labelled(f"jsonl:{path}", "train", ["left", "right"], "label")
    assert [(example.texts, example.label) for example in found] == [
        (("a", "b"), "yes"),
        (("", "b"), "no"),  # an empty text is an example all the same
    ]
    assert found.classes is None
    assert found.report == SourceReport(5, 2, {"no label": 2, "no text": 1}, 0)
    single = labelled(f"jsonl:{path}", "train", "left", "label")
    assert single[0].texts == ("a",)


def test_missing_labels_are_an_error(tmp_path):
    path = write_jsonl(tmp_path / "a.jsonl", [{"text": "a", "label": None}] * 3)
    with pytest.raises(UserError, match=r"3 read, 0 used, 3 skipped \(no label\)"):
        labelled(f"jsonl:{path}", "train", "text", "label")
