"""TensorFlow Datasets that lie on this machine, as a source of records; never asks the network."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from glomo_tf.data import records
from glomo_tf.data.records import Record, SourceReport
from glomo_tf.errors import UserError, require

_BATCH = 256
_VERSION = r"\d+\.\d+\.\d+"


class LocalTfds:
    """Examples of a prepared TFDS data set.

    Args:
        name: `NAME[/CONFIG][:VERSION]`; the newest prepared version if none is given.
        split: TFDS split, slices such as `"train[:10%]"` included.
        data_dir: folder of prepared data sets; None: `TFDS_DATA_DIR`, else
            `~/tensorflow_datasets`.

    Raises:
        UserError: No prepared copy, no such split, or no text in it.
        MissingExtra: tensorflow-datasets is not installed.
    """

    def __init__(self, name: str, split: str, data_dir: str | os.PathLike | None = None):
        # Looked up in the folders before TFDS is imported or asked: a name that is not there is
        # answered at once, and TFDS has no cause to look for it on the network.
        self._folder = _locate(name, data_dir)
        tfds = require("tensorflow_datasets", "data")
        try:
            builder = tfds.builder_from_directory(self._folder)
        except Exception as error:  # TFDS raises errors of many kinds here
            raise UserError(
                f"Expected a data set prepared by TFDS. Received: {self._folder}, which TFDS "
                f"cannot read ({_first_line(error)}). Prepare it again."
            ) from error
        features = builder.info.features
        kinds = features.items() if isinstance(features, tfds.features.FeaturesDict) else ()
        self.fields: tuple[str, ...] | None = tuple(
            key for key, kind in kinds if kind.shape == () and kind.np_dtype is not None
        )
        self.classes = {
            key: list(kind.names)
            for key, kind in kinds
            if isinstance(kind, tfds.features.ClassLabel) and kind.num_classes is not None
        }
        self._split = split
        try:
            data = builder.as_dataset(split=split, read_config=tfds.ReadConfig(try_autocache=False))
        except (ValueError, AssertionError, KeyError) as error:
            raise UserError(
                f"Expected `split` to be one of {', '.join(builder.info.splits)} or a slice of it. "
                f"Received: split={split!r} of {name}."
            ) from error
        self._data = data

    def identity(self) -> list[Any]:
        info = sorted(self._folder.glob("*.json"))
        return [self._split, *records.stamps(info)]

    def records(self, report: SourceReport) -> Iterator[Record]:
        import tensorflow as tf

        fields = self.fields or ()
        data = self._data.map(lambda example: {key: example[key] for key in fields})
        try:
            for batch in data.batch(_BATCH).as_numpy_iterator():
                columns = [batch[key].tolist() for key in fields]
                for row in zip(*columns, strict=True):
                    report.read += 1
                    yield dict(zip(fields, row, strict=True))
        except tf.errors.OpError as error:
            raise UserError(
                f"Expected whole records. Received: {self._folder}, which is damaged "
                f"({_first_line(error)}). Prepare it again."
            ) from error


def _locate(name: str, data_dir: str | os.PathLike | None) -> Path:
    """Folder of a prepared version of a data set."""
    path, _, version = name.partition(":")
    parts = path.split("/")
    if (
        len(parts) > 2
        or not all(re.fullmatch(r"\w[\w.-]*", part) for part in parts)
        or not re.fullmatch(_VERSION, version or "0.0.0")
    ):
        raise UserError(
            f"Expected a TFDS name as NAME, NAME/CONFIG or NAME/CONFIG:VERSION. Received: {name!r}."
        )
    given = data_dir or os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets"
    root = Path(given).expanduser()
    folder = root.joinpath(*parts)
    if not _versions(folder) and len(parts) == 1 and folder.is_dir():
        configs = sorted(child.name for child in folder.iterdir() if _versions(child))
        if len(configs) > 1:
            names = ", ".join(f"tfds:{path}/{config}" for config in configs)
            raise UserError(
                f"Expected a TFDS name with its configuration. Received: {name!r}, of which {root} "
                f"holds several. Choose one of: {names}."
            )
        folder = folder / configs[0] if configs else folder
    found = [v for v in _versions(folder) if version in ("", v)]
    if not found:
        others = f" (only {', '.join(sorted(_versions(folder)))})" if _versions(folder) else ""
        raise UserError(
            f"Expected a prepared copy of the TFDS data set {name!r}. "
            f"Received: none in {root}{others}. "
            "Name its folder with TFDS_DATA_DIR=DIR; or, with a network, run "
            f"python -c \"import tensorflow_datasets as t; t.load('{path}', data_dir='{root}')\"; "
            "or give files: text:DIR, jsonl:FILE."
        )
    return folder / max(found, key=lambda v: tuple(map(int, v.split("."))))


def _versions(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return [
        child.name
        for child in folder.iterdir()
        if re.fullmatch(_VERSION, child.name) and (child / "dataset_info.json").is_file()
    ]


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
