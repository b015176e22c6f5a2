"""Files are written whole or not at all, and what happened is said in one line."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from glomo_tf.errors import UserError
from glomo_tf.files import (
    plain,
    read_json,
    replacing,
    to_json,
    write_bytes,
    write_json,
    write_text,
)


def full_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file_whole_and_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    path = tmp_path / "result.json"
    write_json(path, {"version": 1})
    monkeypatch.setattr(os, call, full_disk)
    with pytest.raises(UserError, match="No space left on device") as caught:
        write_json(path, {"version": 2})
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert read_json(path) == {"version": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["result.json"]


def test_a_write_that_stops_half_way_leaves_the_old_file_whole(tmp_path: Path) -> None:
    """A true failure of the system in the middle of the bytes: the largest file allowed is 4 kB."""
    path = tmp_path / "big.json"
    write_json(path, "old")
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096));"
        "sys.path.insert(0, sys.argv[2]); sys.argv[0] = 'glomo'\n"
        "from glomo_tf.files import write_json, UserError\n"
        "try: write_json(sys.argv[1], 'x' * 100_000)\n"
        "except UserError as error: print(error)"
    )
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code, str(path), root], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(f"Expected to write {path}. Received: File too large.")
    assert read_json(path) == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["big.json"]


def test_an_exception_in_the_block_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    write_text(path, "old")

    def interrupted() -> None:
        with replacing(path) as temporary:
            temporary.write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_places_that_cannot_be_written_are_user_errors(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file" / "below.json", tmp_path / "folder"):
        with pytest.raises(UserError, match="Expected to write"):
            write_bytes(path, b"1")
    write_bytes(tmp_path / "new" / "folders" / "x", b"1")
    assert (tmp_path / "new" / "folders" / "x").read_bytes() == b"1"


def test_an_error_about_another_file_is_passed_on(tmp_path: Path) -> None:
    def reads_another() -> None:
        with replacing(tmp_path / "x"):
            open("/nowhere/at/all")  # noqa: SIM115

    with pytest.raises(FileNotFoundError, match="/nowhere/at/all"):
        reads_another()


def test_plain_values() -> None:
    values = {
        1: np.float32(0.5),
        "array": np.arange(3),
        "nan": float("nan"),
        "inf": -np.float64("inf"),
        "tuple": (True, None, Path("a/b")),
        "set": {2, 1},
        "bytes": b"\xc3\xa9\xff",
    }
    assert plain(values) == {
        "1": 0.5,
        "array": [0, 1, 2],
        "nan": None,
        "inf": None,
        "tuple": [True, None, "a/b"],
        "set": [1, 2],
        "bytes": "é\ufffd",
    }
    assert to_json("é") == '"é"'
    with pytest.raises(TypeError, match="JSON can hold"):
        plain(object())


def test_reading_what_is_no_json(tmp_path: Path) -> None:
    (tmp_path / "half").write_text('{"a": ')
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for name, word in (("half", "damaged"), ("bytes", "damaged"), ("none", "No such file")):
        with pytest.raises(UserError, match=word):
            read_json(tmp_path / name)
