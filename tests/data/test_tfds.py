"""TFDS: prepared copies only. A name that is not there is answered at once, without a network."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from glomo_tf.data.sources import documents, labelled
from glomo_tf.errors import MissingExtra, UserError

tfds = pytest.importorskip("tensorflow_datasets", reason="needs the extra `data`")


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    """Two prepared data sets: `notes` without, `pairs` with configurations."""
    root = tmp_path_factory.mktemp("tfds")
    feat = tfds.features

    def store(name, config, version, features, examples):
        tfds.dataset_builders.store_as_tfds_dataset(
            name=name,
            config=config,
            version=version,
            features=feat.FeaturesDict(features),
            split_datasets=examples,
            data_dir=root,
            disable_shuffling=True,
        )

    notes = {"title": feat.Text(), "text": feat.Text()}
    rows = [{"title": "One", "text": "first"}, {"title": "Two", "text": " "}]
    rows += [{"title": "Three", "text": b"bad \xff"}]
    for version in ("1.9.0", "1.10.0"):
        store("notes", None, version, notes, {"train": list(enumerate(rows))})
    pairs = {"sentence": feat.Text(), "label": feat.ClassLabel(names=["no", "yes"])}
    rows = [{"sentence": "a", "label": 1}, {"sentence": "b", "label": -1}]
    for config in ("small", "large"):
        examples = {"train": list(enumerate(rows)), "test": [(0, rows[1])]}
        store("pairs", config, "2.0.0", pairs, examples)
    return root


def test_documents(data_dir):
    source = documents("tfds:notes", data_dir=data_dir)
    assert [(d.title, d.text) for d in source] == [("One", "first"), ("Three", "bad \ufffd")]
    report = source.report
    assert (report.read, report.used, report.skipped, report.repaired) == (3, 2, {"empty": 1}, 1)
    assert len(list(documents("tfds:notes", split="train[:1]", data_dir=data_dir))) == 1


def test_data_dir_from_the_environment(data_dir, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(data_dir))
    assert len(list(documents("tfds:notes"))) == 2
    with pytest.raises(UserError, match="none in /none"):
        documents("tfds:notes", data_dir="/none")


def test_newest_version_or_the_one_named(data_dir):
    newest, named = (documents(f"tfds:notes{v}", data_dir=data_dir) for v in ("", ":1.9.0"))
    exact = documents("tfds:notes:1.10.0", data_dir=data_dir)
    folders = [str(source._source.identity()) for source in (newest, named, exact)]
    assert folders[0] == folders[2]
    assert "1.10.0" in folders[0]
    assert "1.9.0" in folders[1]
    with pytest.raises(UserError, match=r"none in .* \(only 1\.10\.0, 1\.9\.0\)"):
        documents("tfds:notes:3.0.0", data_dir=data_dir)


def test_labelled(data_dir):
    found = labelled("tfds:pairs/small", "train", "sentence", "label", data_dir=data_dir)
    assert [(example.texts, example.label) for example in found] == [(("a",), 1)]
    assert found.classes == ["no", "yes"]
    assert found.report.skipped == {"no label": 1}  # TFDS marks it with -1
    with pytest.raises(UserError, match="0 used, 1 skipped"):
        labelled("tfds:pairs/small", "test", "sentence", "label", data_dir=data_dir)


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("tfds:pairs", {}, "Choose one of: tfds:pairs/large, tfds:pairs/small"),
        ("tfds:pairs/huge", {}, "Expected a prepared copy of the TFDS data set 'pairs/huge'"),
        ("tfds:notes", {"split": "dev"}, "Expected `split` to be one of train or a slice"),
        ("tfds:notes", {"field": "body"}, "Received: title, text|Received: text, title"),
        ("tfds:../notes", {}, "Expected a TFDS name"),
        ("tfds:hub:notes", {}, "Expected a TFDS name"),
    ],
)
def test_what_is_not_there(data_dir, spec, options, message):
    with pytest.raises(UserError, match=message):
        documents(spec, data_dir=data_dir, **options)


def test_damaged_copies_are_named(data_dir, tmp_path):
    folder = tmp_path / "broken" / "1.0.0"
    folder.mkdir(parents=True)
    (folder / "dataset_info.json").write_text("{")
    with pytest.raises(UserError, match="which TFDS cannot read"):
        documents("tfds:broken", data_dir=tmp_path)

    (tmp_path / "notes").mkdir()
    folder = tmp_path / "notes" / "1.9.0"
    folder.mkdir()
    for path in (data_dir / "notes" / "1.9.0").iterdir():
        content = path.read_bytes()
        (folder / path.name).write_bytes(content[:-9] if "tfrecord" in path.name else content)
    with pytest.raises(UserError, match="which is damaged"):
        list(documents("tfds:notes", data_dir=tmp_path))


def test_row_48_missing_name_is_answered_without_tensorflow_or_a_socket(tmp_path):
    code = """
        import socket, sys
        def refuse(*_, **__):
            raise AssertionError("the network was asked")
        socket.socket.connect = socket.getaddrinfo = refuse
        sys.argv[0] = "glomo"  # as in the command, where the package imports on first use
        from glomo_tf.data.sources import documents
        from glomo_tf.errors import UserError
        try:
            documents("tfds:imdb_reviews")
        except UserError as error:
            print(error)
        assert "tensorflow_datasets" not in sys.modules
        assert "tensorflow" not in sys.modules
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "TFDS_DATA_DIR": str(tmp_path)},
    )
    assert str(tmp_path) in ran.stdout
    for step in ("TFDS_DATA_DIR=DIR", "t.load('imdb_reviews'", "text:DIR"):
        assert step in ran.stdout


def test_missing_extra_is_named(data_dir, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(MissingExtra, match=r"glomo-tf\[data\]"):
        documents("tfds:notes", data_dir=data_dir)
