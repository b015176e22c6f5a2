"""Where texts come from: TFDS on this machine, text and JSON-lines files, Python's own docs."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from glomo_tf.data import records
from glomo_tf.data.file_sources import JsonLines, TextFiles
from glomo_tf.data.python_docs import PythonDocs
from glomo_tf.data.records import Record, Source, SourceReport
from glomo_tf.errors import UserError

__all__ = [
    "Document",
    "Documents",
    "Example",
    "Examples",
    "SourceReport",
    "documents",
    "labelled",
]

_FORMS = "tfds:NAME[/CONFIG], text:FILE_OR_GLOB_OR_DIR, jsonl:FILE_OR_GLOB_OR_DIR, python:docs"
# Where the text stands if no field is named, the first that a record has.
_TEXT_FIELDS = ("text", "paragraphs", "document", "content", "sentence", "review", "article")


@dataclass(frozen=True)
class Document:
    """A text with its title, if it has one."""

    title: str | None
    text: str


@dataclass(frozen=True)
class Example:
    """Texts of one labelled example, in the order of the fields asked for, and its label."""

    texts: tuple[str, ...]
    label: Any


class Documents:
    """Documents of a source, read anew by each iteration; made by `documents`.

    Attributes:
        report: what became of the records, of the latest iteration.
        identity: changes when the content of the source does.
    """

    def __init__(self, spec: str, source: Source, field: str | None, limit: int | None):
        self._spec, self._source, self._field, self._limit = spec, source, field, limit
        self.report = SourceReport()

    @property
    def identity(self) -> str:
        values = [self._spec, self._field, self._limit, self._source.identity()]
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()

    def __iter__(self) -> Iterator[Document]:
        report = self.report = SourceReport()
        record: Record = {}
        for record in self._source.records(report):
            field = self._field or next((n for n in _TEXT_FIELDS if n in record), "text")
            found = records.text_of(record.get(field))
            if field not in record:
                report.skip(f"no field {field!r}")
            elif found is None:
                report.skip(f"field {field!r} is not text")
            elif not found[0].strip():
                report.skip("empty")
            else:
                title = records.text_of(record.get("title"))
                report.used += 1
                report.repaired += found[1]
                yield Document(title[0] if title else None, found[0])
                if self._limit is not None and report.used >= self._limit:
                    return
        if not report.used:
            names = f"; fields of a record: {', '.join(record)}" if record else ""
            raise UserError(
                f"Expected documents with text. Received: {self._spec}: {report}{names}. Check the "
                "path and the name of the text field."
            )


class Examples(list[Example]):
    """List of `Example`, made by `labelled`.

    Attributes:
        classes: names of the integer labels, or None if the source does not name them.
        report: what became of the records.
    """

    def __init__(self, items: list[Example], classes: list[str] | None, report: SourceReport):
        super().__init__(items)
        self.classes = classes
        self.report = report


def documents(
    spec: str,
    *,
    split: str = "train",
    field: str | None = None,
    limit: int | None = None,
    data_dir: str | os.PathLike | None = None,
) -> Documents:
    """Documents of a source, as a stream.

    Bad bytes are repaired and counted; records without text are skipped and counted by reason, in
    `.report` of the result.

    Args:
        spec: one of
            - `tfds:NAME[/CONFIG][:VERSION]`: a TFDS data set prepared on this machine; the network
              is never asked.
            - `text:FILE_OR_GLOB_OR_DIR`: text files, cut at empty lines into articles of about
              10,000 bytes.
            - `jsonl:FILE_OR_GLOB_OR_DIR`: one JSON object a line.
            - `python:docs`: Python's language reference and the standard library's docstrings.
            Files that end in .gz or .xz are decompressed.
        split: split of the data set; for files it takes the place of `{split}` in the path.
        field: name of the text in a record; None takes the first of `text`, `paragraphs`,
            `document`, `content`, `sentence`, `review`, `article` that a record has. A list of
            strings is joined.
        limit: most documents wanted.
        data_dir: folder of prepared TFDS data sets; None: `TFDS_DATA_DIR`, else
            `~/tensorflow_datasets`.

    Returns:
        Iterable of `Document`, which can be read several times.

    Raises:
        UserError: The source is not there or cannot be read; while it is read: no record has text.
        MissingExtra: `tfds:` without tensorflow-datasets.

    Example:

    >>> from glomo_tf.data.sources import documents
    >>> first = next(iter(documents("python:docs", limit=1)))
    >>> first.title
    'assert'
    """
    if limit is not None and (not isinstance(limit, int) or limit < 1):
        raise UserError(f"Expected `limit` to be a positive integer. Received: limit={limit!r}.")
    source = _open(spec, split, data_dir)
    if field is None and source.fields is not None:
        field = _text_field(source.fields, spec)
    elif field is not None:
        _check_fields([field], source, spec)
    return Documents(spec, source, field, limit)


def labelled(
    spec: str,
    split: str,
    text_fields: str | Sequence[str],
    label_field: str,
    *,
    data_dir: str | os.PathLike | None = None,
) -> Examples:
    """Labelled examples of a source, as a list.

    An example with an empty text stays; one without label (no such field, null, or a negative
    number in place of a class, as TFDS marks it) or without text is skipped and counted.

    Args:
        spec, split, data_dir: see `documents`.
        text_fields: name of the text in a record, or names of several (sentence pairs).
        label_field: name of the label.

    Returns:
        List of `Example` with `.classes` and `.report`.

    Raises:
        UserError: The source is not there or cannot be read, has no such field, or no labels.
    """
    names = [text_fields] if isinstance(text_fields, str) else list(text_fields)
    source = _open(spec, split, data_dir)
    _check_fields([*names, label_field], source, spec)
    classes = getattr(source, "classes", {}).get(label_field)
    report = SourceReport()
    examples = []
    for record in source.records(report):
        texts = [records.text_of(record.get(name)) for name in names]
        label = record.get(label_field)
        label = label.decode("utf-8", "replace") if isinstance(label, bytes) else label
        known = [text for text in texts if text is not None]
        if len(known) < len(names):
            report.skip("no text")
        elif label is None or (classes is not None and isinstance(label, int) and label < 0):
            report.skip("no label")
        else:
            report.used += 1
            report.repaired += any(bad for _, bad in known)
            examples.append(Example(tuple(text for text, _ in known), label))
    if not examples:
        raise UserError(
            f"Expected examples with text {', '.join(names)} and label {label_field!r}. Received: "
            f"{spec}, split {split!r}: {report}. Check the names of the fields and the split."
        )
    return Examples(examples, classes, report)


def _open(spec: str, split: str, data_dir: str | os.PathLike | None) -> Source:
    kind, separator, place = spec.partition(":") if isinstance(spec, str) else ("", "", "")
    if not separator or not place or kind not in ("tfds", "text", "jsonl", "python"):
        raise UserError(f"Expected a source as one of {_FORMS}. Received: {spec!r}.")
    if kind == "tfds":
        # Imported here, so that files are read without waiting for TensorFlow.
        from glomo_tf.data.tfds_source import LocalTfds

        return LocalTfds(place, split, data_dir)
    if kind == "python":
        if place != "docs":
            raise UserError(f"Expected python:docs. Received: {spec!r}.")
        return PythonDocs(split)
    if "{split}" not in place and split != "train":
        raise UserError(
            f"Expected {{split}} in the path of files that have splits. Received: {spec!r}, "
            f"split={split!r}. Write {kind}:FOLDER/{{split}}.{kind}, or hold out articles with "
            "EncodedCorpus.split."
        )
    place = place.replace("{split}", split)
    return TextFiles(place) if kind == "text" else JsonLines(place)


def _text_field(fields: tuple[str, ...], spec: str) -> str:
    for name in _TEXT_FIELDS:
        if name in fields:
            return name
    raise UserError(
        f"Expected a text in one of the fields {', '.join(_TEXT_FIELDS)}. Received: {spec} with "
        f"{', '.join(fields) or 'no fields'}. Name the text with `field`."
    )


def _check_fields(wanted: list[str], source: Source, spec: str) -> None:
    for name in wanted:
        if source.fields is not None and name not in source.fields:
            raise UserError(
                f"Expected a field {name!r} in {spec}. Received: {', '.join(source.fields)}. "
                "Name one of these."
            )
