"""Result files of recipes: checked reading, atomic writing, tables with paired differences.

A result file is one JSON object for a run of a recipe:

    {"format": 1, "recipe": "sentiment", "settings": {...}, "environment": {...},
     "conditions": [{"name": "learned", "group": {"dataset": "sst2", "labels": 500}, "seed": 0,
                     "metrics": {"accuracy": 0.81}, "parameters": 123, "seconds": 4.5}, ...]}

`group` says what was held equal: conditions are compared within a group, seed by seed.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from glomo_tf.errors import UserError
from glomo_tf.files import read_json, write_text
from glomo_tf.statistics import Interval, mean_interval, paired_difference, verdict

FORMAT = 1
"""Version of the file format."""

_SHARES = ("accuracy", "exact_match", "f1", "attachment")
_Group = tuple[tuple[str, Any], ...]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One group of a result: means by condition, and the target minus every other condition.

    Args:
        group: What was held equal, as in the result file.
        metric: Name of the figure.
        means: Interval by condition, in the order of the file.
        differences: Interval of target minus condition, paired over seeds; empty if the target
            is not in this group.
        parameters: Trained parameters by condition.
        seconds: Mean wall time of a run by condition.
    """

    group: dict[str, Any]
    metric: str
    means: dict[str, Interval]
    differences: dict[str, Interval]
    parameters: dict[str, int]
    seconds: dict[str, float]


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads and checks a result file.

    Args:
        path: The file, or the folder of a run that holds `result.json`.

    Returns:
        The result.

    Raises:
        UserError: If there is no such file, or it does not hold a result of this format.
    """
    file = pathlib.Path(path)
    if file.is_dir():
        file = file / "result.json"
    if not file.exists():
        raise UserError(
            f"Expected a result file. Received: {file}, which does not exist. Give the "
            "result.json of a finished run, or its folder."
        )
    return check(read_json(file), str(file))


def check(result: Any, source: str = "result") -> dict[str, Any]:
    """Checks that an object is a result of this format.

    Args:
        result: The object.
        source: Name of its origin, for the message.

    Returns:
        The same object.

    Raises:
        UserError: Naming the first field that is missing or of the wrong kind.
    """

    def expect(truth: bool, what: str, received: Any) -> None:
        if not truth:
            raise UserError(
                f"Expected {what} in {source}. Received: {received!r}. Run the recipe again, or "
                "give a file that a recipe wrote."
            )

    expect(isinstance(result, dict), "a JSON object", type(result).__name__)
    expect(result.get("format") == FORMAT, f"format {FORMAT}", result.get("format"))
    expect(isinstance(result.get("recipe"), str), "`recipe` (a string)", result.get("recipe"))
    for name in ("settings", "environment"):
        kind = type(result.get(name)).__name__
        expect(isinstance(result.get(name), dict), f"`{name}` (an object)", kind)
    conditions = result.get("conditions")
    expect(isinstance(conditions, list), "`conditions` (a list)", type(conditions).__name__)
    seen: set[tuple[Any, ...]] = set()
    for number, condition in enumerate(conditions):
        where = f"condition {number}"
        expect(isinstance(condition, dict), f"{where} to be an object", condition)
        name, group, seed = (condition.get(key) for key in ("name", "group", "seed"))
        expect(isinstance(name, str), f"`name` (a string) of {where}", name)
        expect(isinstance(group, dict), f"`group` (an object) of {where}", group)
        plain = all(isinstance(value, str | int | float) for value in group.values())
        expect(plain, f"plain values in `group` of {where}", group)
        expect(_is_whole(seed), f"`seed` (a whole number) of {where}", seed)
        metrics = condition.get("metrics")
        expect(isinstance(metrics, dict), f"`metrics` (an object) of {where}", metrics)
        for metric, value in metrics.items():
            expect(_is_finite(value), f"a finite `{metric}` of {where}", value)
        parameters, seconds = condition.get("parameters"), condition.get("seconds")
        expect(_is_whole(parameters), f"`parameters` (a whole number) of {where}", parameters)
        expect(_is_finite(seconds), f"`seconds` (a number) of {where}", seconds)
        key = (name, _key(group), seed)
        expect(key not in seen, "every condition once a group and seed", f"{name}, seed {seed}")
        seen.add(key)
    return result


def write(path: str | os.PathLike[str], result: Mapping[str, Any]) -> pathlib.Path:
    """Checks a result and writes it as JSON, whole or not at all.

    Args:
        path: The file; an existing one is replaced.
        result: See the module's docstring.

    Returns:
        The path.

    Raises:
        UserError: If the result is not valid or the file cannot be written.
    """
    text = json.dumps(check(result), indent=1, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n")
    return pathlib.Path(path)


def compare(
    result: Mapping[str, Any], *, target: str = "learned", confidence: float = 0.95
) -> list[Comparison]:
    """Means by condition and paired differences of the target to every other condition.

    Args:
        result: A checked result.
        target: The condition that the others are taken from.
        confidence: Coverage of the intervals.

    Returns:
        A `Comparison` for each metric and group, in the order of the file.

    Raises:
        UserError: If no condition has the target's name.
    """
    conditions = result["conditions"]
    names = list(dict.fromkeys(condition["name"] for condition in conditions))
    if target not in names:
        raise UserError(
            f"Expected a condition of the result as target. Received: {target!r}. "
            f"Choose one of: {', '.join(names) or 'none (the result is empty)'}."
        )
    metrics = list(dict.fromkeys(m for condition in conditions for m in condition["metrics"]))
    groups = list(dict.fromkeys(_key(condition["group"]) for condition in conditions))
    comparisons = []
    for metric in metrics:
        for group in groups:
            rows = [
                condition
                for condition in conditions
                if _key(condition["group"]) == group and metric in condition["metrics"]
            ]
            values: dict[str, dict[int, float]] = {}
            for row in rows:
                values.setdefault(row["name"], {})[row["seed"]] = row["metrics"][metric]
            if not values:
                continue
            held = values.get(target, {})
            comparisons.append(
                Comparison(
                    group=dict(group),
                    metric=metric,
                    means={
                        name: mean_interval(list(by_seed.values()), confidence=confidence)
                        for name, by_seed in values.items()
                    },
                    differences={
                        name: paired_difference(held, by_seed, confidence=confidence)
                        for name, by_seed in values.items()
                        if name != target and set(held) & set(by_seed)
                    },
                    parameters={row["name"]: row["parameters"] for row in rows},
                    seconds={
                        name: sum(row["seconds"] for row in rows if row["name"] == name)
                        / len(values[name])
                        for name in values
                    },
                )
            )
    return comparisons


def summary(
    result: Mapping[str, Any], *, target: str = "learned", confidence: float = 0.95
) -> dict[str, Any]:
    """The comparisons of a result as plain values, for JSON.

    Arguments and errors are those of `compare`.

    Returns:
        A dict with `recipe`, `target` and `comparisons`; an infinite half width is None.
    """
    comparisons = [
        {
            "group": found.group,
            "metric": found.metric,
            "means": {name: value.as_dict() for name, value in found.means.items()},
            "differences": {
                name: value.as_dict() | {"verdict": verdict(value, target, name)}
                for name, value in found.differences.items()
            },
            "parameters": found.parameters,
            "seconds": found.seconds,
        }
        for found in compare(result, target=target, confidence=confidence)
    ]
    return {"recipe": result["recipe"], "target": target, "comparisons": comparisons}


def markdown(
    result: Mapping[str, Any], *, target: str = "learned", confidence: float = 0.95
) -> str:
    """Writes the tables of a result.

    Groups that differ in their last numeric field only (say, the number of labels) stand side
    by side as columns. For each set of columns three tables: means, target minus every other
    condition, cost. A difference whose interval holds 0 is marked as within noise.

    Arguments and errors are those of `compare`.

    Returns:
        Markdown text, the same for the same result.
    """
    found = compare(result, target=target, confidence=confidence)
    column = _column_field(found)
    seeds = sorted({condition["seed"] for condition in result["conditions"]})
    note = (
        f"Mean ± half width of the {confidence:.0%} t interval over {len(seeds)} seeds. "
        f"Differences are {target} minus the condition, paired over seeds (same examples, "
        "batches and initial weights). **Bold**: the interval leaves out 0; otherwise the "
        "difference is within noise. The intervals cover the seeds only, not the pre-training "
        "run, and are not corrected for the number of comparisons."
    )
    lines = [f"# {result['recipe']}", "", note]
    for title, columns in _sections(found, column):
        metric = columns[0].metric
        factor, unit = (100.0, "%") if metric.startswith(_SHARES) else (1.0, "")
        points = "points" if unit else metric
        names = list(dict.fromkeys(name for part in columns for name in part.means))
        heads = [f"{column} = {part.group[column]}" if column else metric for part in columns]
        lines += ["", f"## {title}", ""]
        lines += _table(
            [f"{metric} {f'({unit})' if unit else ''}".strip(), *heads],
            [[name, *(_mean(part, name, factor) for part in columns)] for name in names],
        )
        if any(part.differences for part in columns):
            lines += [""]
            lines += _table(
                [f"{target} minus ({points})", *heads],
                [
                    [name, *(_difference(part, name, factor) for part in columns)]
                    for name in names
                    if name != target
                ],
            )
        lines += [""]
        lines += _table(
            ["parameters; seconds a run", *heads],
            [[name, *(_cost(part, name) for part in columns)] for name in names],
        )
    return "\n".join(lines) + "\n"


def _sections(
    found: Sequence[Comparison], column: str | None
) -> Iterator[tuple[str, list[Comparison]]]:
    sections: dict[tuple[str, _Group], list[Comparison]] = {}
    for part in found:
        rest = tuple((name, value) for name, value in _key(part.group) if name != column)
        sections.setdefault((part.metric, rest), []).append(part)
    for (metric, rest), columns in sections.items():
        place = ", ".join(f"{name} {value}" for name, value in rest)
        yield f"{metric}: {place}" if place else metric, columns


def _column_field(found: Sequence[Comparison]) -> str | None:
    """The last field of the groups that is a number in all of them."""
    fields = list(found[0].group) if found else []
    for name in reversed(fields):
        if all(_is_finite(part.group.get(name)) for part in found):
            return name
    return None


def _mean(part: Comparison, name: str, factor: float) -> str:
    return part.means[name].scaled(factor).text() if name in part.means else ""


def _difference(part: Comparison, name: str, factor: float) -> str:
    if name not in part.differences:
        return ""
    interval = part.differences[name].scaled(factor)
    text = interval.text(signed=True)
    return text if interval.within_noise else f"**{text}**"


def _cost(part: Comparison, name: str) -> str:
    if name not in part.means:
        return ""
    return f"{part.parameters[name]:,}; {part.seconds[name]:.1f}"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    marks = ["---", *("---:" for _ in head[1:])]
    return ["| " + " | ".join(cells) + " |" for cells in (head, marks, *rows)]


def _key(group: Mapping[str, Any]) -> _Group:
    return tuple(group.items())


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value)
