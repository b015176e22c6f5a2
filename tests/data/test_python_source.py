"""The standard library's source: labels checked by hand, and parts that share no module."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

from glomo_tf.data import python_source
from glomo_tf.data.python_source import KINDS, NO_LABEL, Module, label, modules, texts, windows
from glomo_tf.errors import UserError

SNIPPET = '''\
class A(B, metaclass=M):
    """Words in here are no names."""

    async def f(self, x: int = d) -> T:  # nor are these
        y = [a for a in b if c] if self.q else x.r
        if é.ö and y:
            return g(y.z, k=1)
        elif u: v += 2.5
        for i in range(3):
            pass
        raise E(f"{y} {y!r}") from y
        with open(p) as h:
            h.read()
        del w
import m
'''
EXPECTED = {
    "definition": "B metaclass M self x int d T",
    "assignment": "y a a b c self q x r v",
    "if": "é ö y u",
    "return": "g y z k",
    "for": "i range",
    "raise": "E y",
    "other": "open p h w",
    "expression": "h read",
}


def test_every_name_gets_the_innermost_statement_around_it() -> None:
    tokens, labels = label(SNIPPET)
    found: dict[str, list[str]] = {}
    for token, kind in zip(tokens, labels, strict=True):
        if kind != NO_LABEL:
            found.setdefault(KINDS[kind], []).append(token)
    assert {kind: " ".join(names) for kind, names in found.items()} == EXPECTED


def test_tokens_without_comments_and_with_strings_and_numbers_replaced() -> None:
    tokens, labels = label('if x == "a b":  # why\n\n    y = f"{x} {z}" + 1.5\n')
    assert " ".join(tokens) == (
        "if x == <string> : <newline> <indent> y = <string> + 0 <newline> <dedent>"
    )
    assert labels.tolist() == [
        -1,
        KINDS.index("if"),
        *[-1] * 5,
        KINDS.index("assignment"),
        *[-1] * 6,
    ]


def test_columns_count_bytes_where_names_follow_other_scripts() -> None:
    tokens, labels = label("f('дом', name)")
    assert tokens == ["f", "(", "<string>", ",", "name", ")", "<newline>"]
    assert labels.tolist() == [1, -1, -1, -1, 1, -1, -1]


def test_modules_are_the_same_each_time_and_hold_no_blank() -> None:
    first = [next(iterator) for iterator in [modules()] for _ in range(3)]
    again = [next(iterator) for iterator in [modules()] for _ in range(3)]
    assert [m.name for m in first] == [m.name for m in again]
    for module in first:
        assert len(module.tokens) == len(module.labels) >= 200
        assert not any(" " in token for token in module.tokens)
        assert (module.labels >= 0).any()


def test_a_python_without_its_source_says_so(tmp_path) -> None:
    with (
        mock.patch("sysconfig.get_path", return_value=str(tmp_path)),
        pytest.raises(UserError, match="Expected the standard library's source"),
    ):
        next(modules())


def made(name: str, size: int) -> Module:
    return Module(name, [f"{name}{i}" for i in range(size)], np.arange(size, dtype=np.int32))


def test_windows_are_spread_over_a_module_and_leave_the_next_one_alone() -> None:
    source = iter([made("a", 95), made("b", 7), made("c", 40), made("d", 40)])
    found = windows(source, 5, 10, most=3)
    # Of a's nine whole windows the first, the middle and the last; b has none.
    assert [tokens[0] for tokens, _ in found] == ["a0", "a40", "a80", "c0", "c10"]
    assert all(len(tokens) == 10 for tokens, _ in found)
    assert [labels[0] for _, labels in found] == [0, 40, 80, 0, 10]
    assert next(source).name == "d"


def test_too_few_windows_is_an_error_and_not_a_smaller_part() -> None:
    with pytest.raises(UserError, match="Received: modules for 2"):
        windows(iter([made("a", 25)]), 3, 10)


def test_texts_take_whole_modules() -> None:
    source = iter([made("a", 3), made("b", 2), made("c", 2)])
    assert texts(source, 4) == ["a0 a1 a2", "b0 b1"]
    assert texts(source, 100) == ["c0 c1"]
    assert texts(source, 100) == []


def test_generated_tables_and_tests_are_left_out() -> None:
    assert {"encodings", "test", "site-packages"} <= python_source._LEFT_OUT
