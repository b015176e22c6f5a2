"""Settings: frozen dataclasses of plain values, changed by `name=value` or by a mapping.

A settings class is an ordinary frozen dataclass whose fields are `bool`, `int`, `float`, `str`,
`Literal[…]`, `tuple[…]` or a union of these with or without `None`.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from glomo_tf.errors import UserError

S = TypeVar("S")

WORDS = {"true": True, "yes": True, "on": True, "1": True}
WORDS |= {"false": False, "no": False, "off": False, "0": False}
NOTHING = ("none", "null")
TYPE_NAMES: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    types.NoneType: "none",
}


class _Mismatch(ValueError):
    """A value is not of the wanted type; turned into a `UserError` that names the setting."""


def override(settings: S, changes: Iterable[str] | Mapping[str, Any]) -> S:
    """Return a copy of `settings` with some values changed.

    Args:
        settings: An instance of a settings dataclass.
        changes: `["name=value", …]` as on the command line, where the text is read by the field's
            type (`none` for nothing, commas between the items of a tuple), or a mapping of names
            to values.

    Returns:
        A new instance of the same class.

    Raises:
        UserError: For an unknown name (near matches are named), a name given twice, or a value of
            the wrong type.

    Example:

        >>> import dataclasses
        >>> @dataclasses.dataclass(frozen=True)
        ... class Settings:
        ...     width: int = 128
        ...     labels: tuple[int, ...] = (500,)
        >>> override(Settings(), ["labels=500,2000"])
        Settings(width=128, labels=(500, 2000))
    """
    fields = kinds(settings)
    values: dict[str, Any] = {}
    if isinstance(changes, Mapping):
        for name, value in changes.items():
            values[name] = _checked(name, _kind(fields, name), value, _check)
    else:
        for change in changes:
            name, equals, text = change.partition("=")
            name = name.strip().replace("-", "_")
            if not equals or not name:
                raise UserError(f"Expected a setting as name=value. Received: {change!r}.")
            if name in values:
                raise UserError(f"Expected each setting once. Received: {name} twice.")
            values[name] = _checked(name, _kind(fields, name), text.strip(), _read)
    try:
        return dataclasses.replace(settings, **values)  # type: ignore[type-var]
    except UserError:
        raise
    except (TypeError, ValueError) as error:  # The class's own check of its values.
        raise UserError(" ".join(str(error).split())) from error


def kinds(settings: Any) -> dict[str, Any]:
    """Field names of a settings dataclass (class or instance) with their types, in order."""
    cls = settings if isinstance(settings, type) else type(settings)
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}


def as_dict(settings: Any) -> dict[str, Any]:
    """The values by name, as JSON keeps them (tuples become lists)."""
    return {name: _listed(getattr(settings, name)) for name in kinds(settings)}


def differences(settings: Any, kept: Mapping[str, Any]) -> list[str]:
    """Which settings differ from those kept by an earlier run, each as `name: kept -> now`."""
    now = as_dict(settings)
    names = [*now, *(name for name in kept if name not in now)]
    absent = "(absent)"
    return [
        f"{name}: {kept.get(name, absent)} -> {now.get(name, absent)}"
        for name in names
        if kept.get(name, absent) != now.get(name, absent)
    ]


def type_name(kind: Any) -> str:
    """What values of a type look like, in words.

    Example:

        >>> type_name(tuple[int, ...] | None)
        'a whole number; several with commas between, or none'
    """
    if kind in TYPE_NAMES:
        return TYPE_NAMES[kind]
    origin, members = get_origin(kind), get_args(kind)
    if origin is Literal:
        return "one of " + ", ".join(map(str, members))
    if origin in (Union, types.UnionType):
        names = list(map(type_name, members))
        return (", or " if any("," in name or ";" in name for name in names) else " or ").join(
            names
        )
    if origin is tuple and members[1:] == (Ellipsis,):
        return f"{type_name(members[0])}; several with commas between"
    if origin is tuple:
        return "with commas between: " + ", ".join(map(type_name, members))
    raise TypeError(f"Expected a setting of plain values. Received: the type {kind}.")


def near_matches(name: str, names: Iterable[str]) -> str:
    """` Did you mean …?` for a name that is nearly one of `names`, otherwise what there is."""
    names = list(names)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    # A part of a long name is a frequent slip that the ratio of difflib misses (`heads` for
    # `num_heads`).
    close += [other for other in names if name and name in other and other not in close][:3]
    if close:
        return f"Did you mean {' or '.join(close[:4])}?"
    return f"There are: {', '.join(names)}."


def _kind(fields: dict[str, Any], name: str) -> Any:
    if name not in fields:
        hint = near_matches(name, fields)
        raise UserError(f"Expected a known setting. Received: {_shown(name)}. {hint}")
    return fields[name]


def _checked(name: str, kind: Any, value: Any, convert: Any) -> Any:
    try:
        return convert(kind, value)
    except _Mismatch as error:
        hint = f" {error}" if str(error) else ""
        raise UserError(
            f"Expected {name} to be {type_name(kind)}. Received: {name}={_shown(value)}.{hint}"
        ) from None


def _read(kind: Any, text: str) -> Any:
    """A value of type `kind` from its text."""
    origin, members = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        # Nothing and numbers before free text, which would take everything.
        return _first(sorted(members, key=lambda member: member is str), text, _read)
    if origin is Literal:
        for choice in members:
            if str(choice).lower() == text.lower():
                return choice
        raise _Mismatch(near_matches(text, map(str, members)))
    if origin is tuple:
        items = [item.strip() for item in text.strip("()[]").split(",")]
        items = items[:-1] if items[-1] == "" else items  # "" is empty, and "5," has one item.
        return tuple(_read(one, item) for one, item in zip(*_paired(members, items), strict=True))
    if kind is types.NoneType and text.lower() in NOTHING:
        return None
    if kind is bool and text.lower() in WORDS:
        return WORDS[text.lower()]
    if kind is str:
        return text
    if kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            raise _Mismatch from None
        return _finite(number)
    raise _Mismatch


def _check(kind: Any, value: Any) -> Any:
    """A Python (or JSON) value as type `kind`; whole numbers pass as floats, lists as tuples."""
    origin, members = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _first(members, value, _check)
    if origin is Literal:
        for choice in members:
            if type(choice) is type(value) and choice == value:
                return choice
        raise _Mismatch(near_matches(str(value), map(str, members)))
    if origin is tuple:
        if not isinstance(value, (tuple, list)):
            raise _Mismatch
        return tuple(
            _check(one, item) for one, item in zip(*_paired(members, list(value)), strict=True)
        )
    if kind is float and type(value) in (int, float):
        return _finite(float(value))
    if (
        type(value) is kind
    ):  # `bool` is a subclass of `int`, so isinstance would let True be a number.
        return value
    raise _Mismatch


def _first(kinds_: Iterable[Any], value: Any, convert: Any) -> Any:
    hints = []
    for kind in kinds_:
        try:
            return convert(kind, value)
        except _Mismatch as error:
            hints.append(str(error))
    raise _Mismatch(next((hint for hint in hints if hint), ""))


def _paired(members: tuple, items: list) -> tuple[list, list]:
    if members[1:] == (Ellipsis,):
        return [members[0]] * len(items), items
    if len(members) != len(items):
        raise _Mismatch(f"It takes {len(members)} items, not {len(items)}.")
    return list(members), items


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise _Mismatch("It has to be finite.")
    return number


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, tuple) else value


def _shown(value: Any) -> str:
    """A value as an error shows it: on one line, not too long."""
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else text[:57] + "…"
