"""English that every Python carries: its reference and the standard library's docstrings."""

from __future__ import annotations

import ast
import sys
import sysconfig
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from glomo_tf.data.records import Record, SourceReport
from glomo_tf.errors import UserError

_LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__"}
_TOPICS = Path("pydoc_data", "topics.py")


class PythonDocs:
    """One record a topic of the language reference and one a module with docstrings.

    Files are parsed, no module is imported. About one record in twenty is kept for validation,
    chosen by its title.

    Args:
        split: `"train"`, `"validation"` or `"all"`.
    """

    fields: tuple[str, ...] | None = ("title", "text")

    def __init__(self, split: str):
        if split not in ("train", "validation", "all"):
            raise UserError(
                "Expected `split` of python:docs to be train, validation or all. "
                f"Received: split={split!r}."
            )
        self._split = split
        self._root = Path(sysconfig.get_path("stdlib"))
        if not (self._root / "ast.py").is_file():
            raise UserError(
                f"Expected the standard library's source files in {self._root}. Received: none. "
                "Give another corpus, such as text:FOLDER."
            )

    def identity(self) -> list[Any]:
        return ["python", sys.version, self._split]

    def records(self, report: SourceReport) -> Iterator[Record]:
        for title, text in self._all():
            held_out = zlib.crc32(title.encode()) % 20 == 0
            if self._split == "all" or held_out == (self._split == "validation"):
                report.read += 1
                yield {"title": title, "text": text}

    def _all(self) -> Iterator[tuple[str, str]]:
        if (self._root / _TOPICS).is_file():
            for node in _parse(self._root / _TOPICS).body:
                if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
                    yield from ast.literal_eval(node.value).items()
        for path in sorted(self._root.rglob("*.py")):
            local = path.relative_to(self._root)
            if _LEFT_OUT.intersection(local.parts) or local == _TOPICS:
                continue
            if texts := list(_docstrings(_parse(path))):
                name = ".".join(local.with_suffix("").parts).removesuffix(".__init__")
                yield name, "\n\n".join(texts)


def _docstrings(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and (
        text := ast.get_docstring(node)
    ):
        yield text
    for child in ast.iter_child_nodes(node):
        # Expressions hold no docstrings; passing them by is what makes this fast.
        if isinstance(child, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield from _docstrings(child)


def _parse(path: Path) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about escapes in old files
        try:
            return ast.parse(path.read_bytes())
        except (SyntaxError, ValueError, OSError, RecursionError):  # templates and the like
            return ast.Module([], [])
