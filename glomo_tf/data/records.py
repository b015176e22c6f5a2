"""What sources hand on: records of named values, and the count of what became of them."""

from __future__ import annotations

import gzip
import lzma
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from glomo_tf import files
from glomo_tf.errors import UserError

Record = dict[str, Any]


@dataclass
class SourceReport:
    """What became of the records of a source: `read == used + sum(skipped.values())`.

    Attributes:
        read: records met.
        used: records handed on.
        skipped: number of records left out, by reason.
        repaired: texts handed on in which bad bytes were replaced by U+FFFD.
    """

    read: int = 0
    used: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    repaired: int = 0

    def skip(self, reason: str) -> None:
        """Count one record that is left out."""
        self.skipped[reason] = self.skipped.get(reason, 0) + 1

    def __str__(self) -> str:
        parts = [f"{self.read} read", f"{self.used} used"]
        parts += [f"{number} skipped ({reason})" for reason, number in self.skipped.items()]
        parts += [f"{self.repaired} repaired"] * bool(self.repaired)
        return ", ".join(parts)


class Source(Protocol):
    """A place that records come from."""

    fields: tuple[str, ...] | None
    """Names that records have, or None if only the records tell."""

    def identity(self) -> list[Any]:
        """JSON values that change when the content does."""

    def records(self, report: SourceReport) -> Iterator[Record]:
        """All records; counts `read`, and `skipped` for what is no record."""


def decode(raw: bytes) -> tuple[str, bool]:
    """UTF-8 text and whether bad bytes had to be replaced."""
    try:
        return raw.decode("utf-8"), False
    except UnicodeDecodeError:
        return raw.decode("utf-8", "replace"), True


def text_of(value: Any) -> tuple[str, bool] | None:
    """Text of a value (str, bytes, or a list of them), and whether it was repaired.

    Lists are paragraphs, joined by an empty line. None if the value is no text.
    """
    if isinstance(value, bytes):
        return decode(value)
    if isinstance(value, str):
        if value.isascii():
            return value, False
        # A str may hold lone surrogates (JSON allows them), which are no text.
        return decode(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, list):
        parts = [text_of(part) for part in value]
        if all(part is not None and isinstance(part[0], str) for part in parts):
            found = cast(list[tuple[str, bool]], parts)
            return "\n\n".join(text for text, _ in found), any(bad for _, bad in found)
    return None


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading bytes, decompressed by its ending (.gz, .xz).

    Raises:
        UserError: The file cannot be read, or its compressed data are damaged.
    """
    opener: Any = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    try:
        with opener(path, "rb") as file:
            yield file
    except (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile) as error:
        raise UserError(
            f"Expected a whole {path.suffix} file. Received: {path}, which is damaged ({error}). "
            "Get a new copy of it."
        ) from error
    except OSError as error:
        raise UserError(
            f"Expected a readable file. Received: {path}: {files.reason(error)}."
        ) from error


def find(pattern: str, endings: tuple[str, ...]) -> list[Path]:
    """Files of a path, a folder (by their endings, at any depth) or a glob, in sorted order.

    Raises:
        UserError: There are none.
    """
    import glob

    pattern = os.path.expanduser(pattern)
    path = Path(pattern)
    if path.is_dir():
        found = [p for p in path.rglob("*") if p.name.endswith(endings)]
        wanted = f"files that end in {', '.join(endings)} in this folder"
    elif path.exists():
        found, wanted = [path], ""
    else:
        found = [Path(name) for name in glob.glob(pattern, recursive=True)]
        wanted = "an existing file, folder or glob"
    found = sorted(p for p in found if not p.is_dir())
    if not found:
        raise UserError(f"Expected {wanted}. Received: {pattern!r}. Check the path.")
    return found


def stamps(paths: list[Path]) -> list[Any]:
    """Name, size and time of change of files, to tell whether they are still the same."""
    stats = [(path, path.stat()) for path in paths]
    return [[str(path.resolve()), stat.st_size, stat.st_mtime_ns] for path, stat in stats]
