"""Predictors as versioned SavedModels for TF Serving."""

from __future__ import annotations

import errno
import importlib.util
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from glomo_tf import affinity, saved_model
from glomo_tf.data.text_units import TextUnits
from glomo_tf.errors import UserError, require
from glomo_tf.files import reason, write_json
from glomo_tf.graph_predictor import GraphPredictor

DESCRIPTION = "assets.extra/glomo_tf.json"
"""File of a version that says which vocabulary and settings it was exported with."""

MAX_LENGTH = 512
"""Units of a text that a served model keeps by default."""


def export(
    predictor: GraphPredictor,
    units: TextUnits,
    directory: str | os.PathLike[str],
    version: int | None = None,
    *,
    max_length: int | None = MAX_LENGTH,
    warm_up: bool | None = None,
) -> Path:
    """Writes `<directory>/<version>/`, a SavedModel with three signatures.

    Inputs and outputs are named; B and T may change from call to call.

    - `serving_default`: `text` string [B] -> `graph` float32 [B, G, K, T, T], `length` int32 [B],
      `tokens_bytes` string [B, T]
    - `units`: `units` int32 [B, T], 0 is padding -> `graph` float32 [B, G, K, T, T]
    - `mix`: `text` string [B], `features` float32 [B, S, d], any d -> `features` float32
      [B, S, (1 + R)·d]

    1. `graph[b, g, k, t, s]` is how much receiver t takes from source s. T is the number of units
       of the longest text, at least 1; rows and columns of padding are 0. `tokens_bytes` are the
       tokens as they stand in the text, padded with empty strings.
    2. `mix` needs no learned weights: with Γ the graphs A^1..A^L and prefix products Λ^2..Λ^L of
       one of the R directions, all heads, M_r = mean of Γ, and the output is [H; M_1 H; …; M_R H],
       forward before backward. S is at least T: features may be padded further, and what lies
       beyond T takes nothing.
    3. Texts, and rows of `units`, are cut to their first `max_length` units, because a graph needs
       memory for T² weights: G·K·T² · 4 bytes a text.

    The files are written to a temporary folder whose name no server takes for a version, then
    renamed. Nothing is overwritten. The graph holds operations of core TensorFlow only, unless the
    units need TF Text (`splitter="fastbert"`); `foreign_operations` tells. A description,
    `assets.extra/glomo_tf.json`, holds the vocabulary's fingerprint and the settings.

    Args:
        predictor: A `GraphPredictor`.
        units: The `TextUnits` that it was trained with.
        directory: Folder of the served model; its name is the model's name in warm-up requests.
        version: A whole number from 1; one more than the newest by default.
        max_length: Units of a text that are kept; `None` keeps all.
        warm_up: Whether to add `assets.extra/tf_serving_warmup_requests`, so that a server traces
            before the first request; by default if tensorflow-serving-api is installed.

    Returns:
        The path of the version's folder.

    Raises:
        UserError: If vocabulary and predictor do not belong together, if the version exists or is
            no number from 1, or if the folder cannot be written (earlier versions stay whole).
        MissingExtra: If `warm_up=True` and tensorflow-serving-api is not installed.

    Example:

    >>> import tempfile
    >>> import glomo_tf
    >>> units = glomo_tf.TextUnits.from_corpus(["a cat sat", "a dog sat"], 50)
    >>> predictor = glomo_tf.GraphPredictor(
    ...     units.vocabulary_size, width=8, num_layers=1, num_heads=1, head_dim=4, cnn_depth=1
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     glomo_tf.export.export(predictor, units, folder).name
    '1'

    References:
        SavedModels in TF Serving: https://www.tensorflow.org/tfx/serving/serving_basic
    """
    _check(predictor, units, version, max_length)
    if warm_up is None:
        warm_up = importlib.util.find_spec("tensorflow_serving") is not None
    if warm_up:
        require("tensorflow_serving.apis", "serving")
    base = Path(directory)
    temporary = base / f"tmp-{secrets.token_hex(6)}"
    try:
        base.mkdir(parents=True, exist_ok=True)
        if version is not None and (base / str(version)).exists():
            raise _taken(base, version)
        temporary.mkdir()
        _write(predictor, units, temporary / "model", max_length)
        if warm_up:
            from glomo_tf.warm_up import write_requests

            write_requests(temporary / "model", base.resolve().name, max_length or MAX_LENGTH)
        return _publish(temporary / "model", base, version)
    except (OSError, tf.errors.OpError) as error:
        why = reason(error) if isinstance(error, OSError) else _first_line(error)
        raise UserError(
            f"Expected to write a new version into {base}. Received: {why}. "
            "Earlier versions are unchanged; free some space or choose another folder."
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def foreign_operations(path: str | os.PathLike[str]) -> list[str]:
    """Returns the operations of a SavedModel that core TensorFlow does not register.

    A server without the library that brings them cannot load the model.

    Args:
        path: Version folder of a SavedModel.

    Returns:
        Sorted names, such as `"FastBertNormalizeV2"`; empty if the model loads everywhere.

    Raises:
        UserError: If there is no SavedModel.
    """
    # Names that begin with "_" are made by the runtime itself and have no public wrapper.
    core = set(dir(tf.raw_ops))
    kinds = saved_model.operations(path)
    return sorted(kind for kind in kinds if kind not in core and not kind.startswith("_"))


def _check(
    predictor: GraphPredictor, units: TextUnits, version: int | None, max_length: int | None
) -> None:
    if predictor.vocabulary_size != units.vocabulary_size:
        raise UserError(
            "Expected the vocabulary that the predictor was trained with. Received: "
            f"{units.vocabulary_size} units for a predictor of {predictor.vocabulary_size}. "
            "Take both from the same preset or run."
        )
    for name, value in (("version", version), ("max_length", max_length)):
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int) or value < 1
        ):
            raise UserError(f"Expected `{name}` to be a whole number from 1. Received: {value!r}.")


def _write(predictor: GraphPredictor, units: TextUnits, path: Path, max_length: int | None) -> None:
    predictor(tf.ones([1, 1], tf.int32))  # builds it, should it be new
    archive = keras.export.ExportArchive()
    # The variables are found through the endpoints; tracking the predictor as well would store
    # every one of them twice.
    archive.track(units)  # with its lookup table
    for name, (function, signature) in _endpoints(predictor, units, max_length).items():
        archive.add_endpoint(name, function, input_signature=signature)
    archive.write_out(str(path), verbose=False)
    (path / DESCRIPTION).parent.mkdir()
    write_json(path / DESCRIPTION, _description(predictor, units, max_length))


def _description(
    predictor: GraphPredictor, units: TextUnits, max_length: int | None
) -> dict[str, Any]:
    return {
        "format": 1,
        "vocabulary": {"size": units.vocabulary_size, "sha256": units.fingerprint},
        "splitter": units.splitter,
        "max_length": max_length,
        "directions": list(predictor.directions),
        "layers": predictor.num_layers,
        "heads": predictor.num_heads,
        "sparsity": predictor.sparsity,
        "versions": {"keras": keras.__version__, "tensorflow": tf.__version__},
    }


def _endpoints(
    predictor: GraphPredictor, units: TextUnits, max_length: int | None
) -> dict[str, tuple[Callable[..., dict[str, tf.Tensor]], list[tf.TensorSpec]]]:
    """For each signature its function and what goes in."""

    def cut(rows: tf.RaggedTensor, padding: Any) -> tf.Tensor:
        dense = rows[:, :max_length].to_tensor(padding)
        return tf.pad(
            dense, [[0, 0], [0, tf.maximum(0, 1 - tf.shape(dense)[1])]], constant_values=padding
        )

    def from_text(text: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = cut(units.ragged(text), 0)
        return {
            "graph": predictor(ids, training=False),
            "length": tf.math.count_nonzero(ids, axis=1, dtype=tf.int32),
            "tokens_bytes": cut(units.tokens(text), ""),
        }

    def from_units(units: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"graph": predictor(units[:, :max_length], training=False)}

    def mix(text: tf.Tensor, features: tf.Tensor) -> dict[str, tf.Tensor]:
        ids = cut(units.ragged(text), 0)
        return {"features": _mixed(predictor, ids, features)}

    texts = tf.TensorSpec([None], tf.string, name="text")
    return {
        "serving_default": (from_text, [texts]),
        "units": (from_units, [tf.TensorSpec([None, None], tf.int32, name="units")]),
        "mix": (mix, [texts, tf.TensorSpec([None, None, None], tf.float32, name="features")]),
    }


def _mixed(predictor: GraphPredictor, ids: tf.Tensor, features: tf.Tensor) -> tf.Tensor:
    """[H; M_1 H; …; M_R H] for units [B, T] and features H [B, S, d], S ≥ T."""
    rows, length = tf.shape(ids)[0], tf.shape(ids)[1]
    given = tf.shape(features)
    fits = tf.debugging.assert_equal(
        tf.stack([rows, length]),
        tf.stack([given[0], tf.minimum(given[1], length)]),
        message="Expected features [B, S, d] for the B texts, S at least their longest length",
    )
    with tf.control_dependencies([fits]):
        known = features[:, :length]
    graphs = predictor(ids, training=False)
    results = [features]
    for direction in range(predictor.num_directions):
        start = direction * predictor.num_layers
        layers = affinity.select(graphs, start, start + predictor.num_layers)
        # The dense path: the width of the features is not known here, and it is the one that
        # makes M once for any width.
        stack = tf.concat([layers, affinity.prefix_products(layers)], axis=1)
        mixed = tf.matmul(tf.reduce_mean(stack, axis=[1, 2]), known)
        results.append(tf.pad(mixed, [[0, 0], [0, given[1] - tf.shape(known)[1]], [0, 0]]))
    return tf.concat(results, axis=-1)


def _publish(model: Path, base: Path, version: int | None) -> Path:
    """Gives the finished folder its number, the next one unless a version is asked for."""
    while True:
        number = version or 1 + max(
            (int(p.name) for p in base.iterdir() if p.name.isascii() and p.name.isdigit()),
            default=0,
        )
        target = base / str(number)
        if not target.exists():
            try:
                return model.rename(target)
            except OSError as error:
                # Another export took the number since: its folder holds files, so that renaming
                # onto it fails and leaves it as it is.
                if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                    raise
        if version is not None:
            raise _taken(base, number)


def _taken(base: Path, version: int) -> UserError:
    return UserError(
        f"Expected a new version. Received: version {version}, which exists in {base}. "
        "Leave the version out to take the next one; nothing is overwritten."
    )


def _first_line(error: Exception) -> str:
    return (str(getattr(error, "message", error)).strip().splitlines() or ["unknown"])[0]
