"""Text and JSON-lines files as sources of records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from glomo_tf.data import records
from glomo_tf.data.records import Record, SourceReport

_ARTICLE_BYTES = 10_000  # an article ends at the first empty line after so much text
_MOST_BYTES = 1_000_000  # and here in any case, so that memory stays flat
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class TextFiles:
    """Plain text files. A file is cut into articles at empty lines, each of about 10,000 bytes.

    Args:
        pattern: file, folder or glob; `.gz` and `.xz` files are decompressed.
    """

    fields: tuple[str, ...] | None = ("title", "text")

    def __init__(self, pattern: str):
        self._paths = records.find(pattern, (".txt", ".txt.gz", ".txt.xz", ".md", ".rst"))

    def identity(self) -> list[Any]:
        return records.stamps(self._paths)

    def records(self, report: SourceReport) -> Iterator[Record]:
        for path in self._paths:
            with records.opened(path) as file:
                for article in _articles(file):
                    report.read += 1
                    yield {"title": path.name, "text": article}


class JsonLines:
    """Files of one JSON object a line.

    Args:
        pattern: file, folder or glob; `.gz` and `.xz` files are decompressed.
    """

    fields: tuple[str, ...] | None = None

    def __init__(self, pattern: str):
        self._paths = records.find(pattern, (".jsonl", ".jsonl.gz", ".jsonl.xz"))

    def identity(self) -> list[Any]:
        return records.stamps(self._paths)

    def records(self, report: SourceReport) -> Iterator[Record]:
        for path in self._paths:
            with records.opened(path) as file:
                for number, raw in enumerate(file):
                    line = raw.removeprefix(_BYTE_ORDER_MARK) if number == 0 else raw
                    if not line.strip():
                        continue
                    report.read += 1
                    text, repaired = records.decode(line)
                    try:
                        record = json.loads(text)
                    except (ValueError, RecursionError):
                        report.skip("not JSON")
                        continue
                    if not isinstance(record, dict):
                        report.skip("not a JSON object")
                        continue
                    report.repaired += repaired
                    yield record


def _articles(file: BinaryIO) -> Iterator[bytes]:
    """Pieces of a file, cut at empty lines; an empty file is one empty piece."""
    parts: list[bytes] = []
    size = number = 0
    while line := file.readline(_MOST_BYTES):
        parts.append(line)
        size += len(line)
        if size < _MOST_BYTES and not (size >= _ARTICLE_BYTES and line.isspace()):
            continue
        block = b"".join(parts)
        cut = len(block) if line.endswith(b"\n") else _last_blank(block)
        yield block[:cut].removeprefix(_BYTE_ORDER_MARK if number == 0 else b"")
        number += 1
        parts = [block[cut:]] if cut < len(block) else []
        size = len(block) - cut
    if parts or not number:
        yield b"".join(parts).removeprefix(_BYTE_ORDER_MARK if number == 0 else b"")


def _last_blank(block: bytes) -> int:
    """Where to cut a block that ends inside a line: after a blank, else between characters.

    Only blanks of the second half count, so that what is left over does not grow.
    """
    cut = block.rfind(b" ", len(block) // 2) + 1
    if cut:
        return cut
    cut = len(block)
    for back in range(1, min(4, cut) + 1):
        if block[-back] & 0xC0 != 0x80:  # not a continuation byte: a character begins here
            return cut - back if block[-back] >= 0xC0 else cut
    return cut
