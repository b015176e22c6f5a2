"""Labelled text that every Python carries: its standard library's source, parsed by `ast`.

The question is which kind of statement each name stands in. The answer often lies far from the
name, at the statement's first word or at its `=`, and it comes from Python's own parser.
"""

from __future__ import annotations

import ast
import io
import sysconfig
import tokenize
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from glomo_tf.errors import UserError

KINDS = ("assignment", "expression", "if", "return", "definition", "for", "raise", "other")
"""Kinds of statements; a label is a position in this tuple."""

NO_LABEL = -1
"""Label of tokens that are not names of variables, attributes, parameters or keyword arguments."""

STRING, NUMBER, NEWLINE, INDENT, DEDENT = "<string>", "0", "<newline>", "<indent>", "<dedent>"

_KIND_OF = {
    ast.Assign: "assignment",
    ast.AugAssign: "assignment",
    ast.AnnAssign: "assignment",
    ast.Expr: "expression",
    ast.If: "if",
    ast.Return: "return",
    ast.FunctionDef: "definition",
    ast.AsyncFunctionDef: "definition",
    ast.ClassDef: "definition",
    ast.For: "for",
    ast.AsyncFor: "for",
    ast.Raise: "raise",
}
# Besides what is installed and tests: tables made by programs, nearly the same in every module.
_LEFT_OUT = {"site-packages", "dist-packages", "test", "tests", "idle_test", "encodings"}
_LEFT_OUT |= {"__pycache__", "pydoc_data"}
_AS_THEY_ARE = {tokenize.NAME, tokenize.OP}
_REPLACED = {
    tokenize.STRING: STRING,
    tokenize.NUMBER: NUMBER,
    tokenize.NEWLINE: NEWLINE,
    tokenize.INDENT: INDENT,
    tokenize.DEDENT: DEDENT,
}
# From Python 3.12 on an f-string is several tokens; before, it is one.
_PARTED = ("FSTRING", "TSTRING")
_STRING_STARTS = {getattr(tokenize, f"{kind}_START", None) for kind in _PARTED} - {None}
_STRING_ENDS = {getattr(tokenize, f"{kind}_END", None) for kind in _PARTED} - {None}


@dataclass(frozen=True)
class Module:
    """One module of the standard library.

    Attributes:
        name: such as `json.decoder`.
        tokens: T tokens; no token holds a blank.
        labels: int32 [T], positions in `KINDS`, or `NO_LABEL`.
    """

    name: str
    tokens: list[str]
    labels: np.ndarray


def modules(*, least: int = 200) -> Iterator[Module]:
    """The modules of the standard library in an order that mixes packages, always the same.

    Files are read, no module is imported. Those that cannot be parsed are left out.

    Args:
        least: tokens that a module has at least.

    Yields:
        A `Module` at a time.

    Raises:
        UserError: This Python carries no source files.

    Example:

    >>> module = next(modules())
    >>> len(module.tokens) == len(module.labels)
    True
    """
    root = Path(sysconfig.get_path("stdlib"))
    if not (root / "ast.py").is_file():
        raise UserError(
            f"Expected the standard library's source files in {root}. Received: none. "
            "Use a Python that was installed with them."
        )
    paths = (path.relative_to(root) for path in root.rglob("*.py"))
    names = [path.as_posix() for path in paths if not _LEFT_OUT.intersection(path.parts)]
    for name in sorted(names, key=lambda name: (zlib.crc32(name.encode()), name)):
        try:
            with warnings.catch_warnings(), tokenize.open(root / name) as file:
                warnings.simplefilter("ignore")  # about escapes in old files
                tokens, labels = label(file.read())
        except (SyntaxError, ValueError, OSError, RecursionError, tokenize.TokenError):
            continue
        if len(tokens) >= least:
            title = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            yield Module(title, tokens, labels)


def label(source: str) -> tuple[list[str], np.ndarray]:
    """Cuts source code into tokens and says of each name in which kind of statement it stands.

    1. Tokens are those of `tokenize` without comments and blank lines. Strings become `<string>`,
       numbers `0`; the ends of statements and changes of indentation are tokens too.
    2. The label of a name is the kind of the innermost statement around it (`ast`). A condition
       or a loop inside an expression does not count: `a = b if c else d` is one assignment.

    Args:
        source: Python source code.

    Returns:
        T tokens and int32 labels [T].

    Raises:
        SyntaxError: This is not Python source (or of a newer Python).

    Example:

    >>> tokens, labels = label("if ready: start(now)")
    >>> [(token, KINDS[kind]) for token, kind in zip(tokens, labels) if kind != NO_LABEL]
    [('ready', 'if'), ('start', 'expression'), ('now', 'expression')]
    """
    kinds = _kinds_by_position(ast.parse(source))
    lines = source.splitlines(keepends=True)
    tokens, labels = [], []
    depth = 0  # of strings in parts
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        found, kind = None, None
        if token.type in _STRING_STARTS:
            found = STRING if not depth else None
            depth += 1
        elif token.type in _STRING_ENDS:
            depth -= 1
        elif depth:
            pass
        elif token.type in _AS_THEY_ARE:
            found = token.string
            row, column = token.start
            if token.type == tokenize.NAME:
                # `ast` counts bytes, `tokenize` characters.
                kind = kinds.get((row, len(lines[row - 1][:column].encode())))
        else:
            found = _REPLACED.get(token.type)
        if found is not None:
            tokens.append(found)
            labels.append(NO_LABEL if kind is None else KINDS.index(kind))
    return tokens, np.array(labels, np.int32)


def _kinds_by_position(tree: ast.Module) -> dict[tuple[int, int], str]:
    """(line, byte) where a name begins -> the kind of the statement it stands in."""
    kinds: dict[tuple[int, int], str] = {}
    waiting: list[tuple[ast.AST, str]] = [(tree, "other")]
    while waiting:
        node, kind = waiting.pop()
        if isinstance(node, ast.stmt):
            kind = _KIND_OF.get(type(node), "other")
        elif isinstance(node, ast.Attribute) and node.end_lineno and node.end_col_offset:
            kinds[node.end_lineno, node.end_col_offset - len(node.attr.encode())] = kind
        elif isinstance(node, (ast.Name, ast.arg)) or (isinstance(node, ast.keyword) and node.arg):
            kinds[node.lineno, node.col_offset] = kind
        waiting += [(child, kind) for child in ast.iter_child_nodes(node)]
    return kinds


def windows(
    source: Iterator[Module], number: int, length: int, *, most: int = 20
) -> list[tuple[list[str], np.ndarray]]:
    """Takes modules from an iterator until they give enough labelled windows.

    Modules that were taken are gone from the iterator, so that parts that are taken one after the
    other share no module.

    Args:
        source: `modules()`.
        number: windows wanted.
        length: T, tokens of a window; windows do not overlap.
        most: windows of one module at most, evenly spread; the rest of it is left out.

    Returns:
        Tokens, a list of T, and labels, int32 [T], of each window.

    Raises:
        UserError: The modules do not give as many windows.
    """
    found: list[tuple[list[str], np.ndarray]] = []
    for module in source:
        whole = len(module.tokens) // length
        chosen = np.unique(np.linspace(0, whole - 1, min(whole, most)).astype(int)) * length
        found += [(module.tokens[i : i + length], module.labels[i : i + length]) for i in chosen]
        if len(found) >= number:
            return found[:number]
    raise UserError(
        f"Expected {number} windows of {length} tokens. Received: modules for {len(found)}. "
        "Ask for fewer or shorter windows."
    )


def texts(source: Iterator[Module], number: int) -> list[str]:
    """Takes modules from an iterator until they have so many tokens; fewer if it ends.

    Args:
        source: `modules()`, or what is left of it.
        number: tokens wanted.

    Returns:
        Their texts, tokens parted by blanks (for `TextUnits` with `splitter="whitespace"`).
    """
    found: list[str] = []
    while number > 0 and (module := next(source, None)):
        found.append(" ".join(module.tokens))
        number -= len(module.tokens)
    return found
