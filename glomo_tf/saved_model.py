"""Runs an exported SavedModel without Python TensorFlow, as a server does.

The TensorFlow wheel carries the C++ runtime that TF Serving is built on, `libtensorflow_cc`, with
its C API. This module loads a SavedModel through it by ctypes, in a process that never imports
TensorFlow, Keras or glomo_tf: what runs here needs nothing but the exported folder.

From Python, `run` starts that process. From a shell, as a plain file (`-I` keeps this package's
modules off the path, where `statistics` and others would hide Python's own):

    python -I glomo_tf/saved_model.py saved_models/docs/1
    python -I glomo_tf/saved_model.py saved_models/docs/1 serving_default 'text=["a cat", ""]'

The first prints signatures with their inputs and outputs, the second outputs, both as JSON.

Reader, C API and shell are in one file, longer than others here, because importing a sibling would
import the package and with it TensorFlow.

References:
    tensorflow/c/c_api.h, tensorflow/core/protobuf/{saved_model,meta_graph}.proto of TensorFlow.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING or __name__ != "__main__":
    from glomo_tf.errors import UserError
else:

    class UserError(ValueError):
        """Stands in for `glomo_tf.errors.UserError`, which cannot be had without TensorFlow."""


# Enum values of tensorflow/core/framework/types.proto.
_STRING = 7
_DTYPES = {
    1: np.float32, 2: np.float64, 3: np.int32, 4: np.uint8, 5: np.int16, 6: np.int8,
    _STRING: np.object_, 9: np.int64, 10: np.bool_, 17: np.uint16, 19: np.float16,
    22: np.uint32, 23: np.uint64,
}  # fmt: skip
_STRING_SIZE = 24  # bytes of a TF_TString
_NUL = ":strings"


@dataclasses.dataclass(frozen=True)
class TensorInfo:
    """One input or output of a signature: where it is in the graph, its dtype and shape."""

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None
    code: int


@dataclasses.dataclass(frozen=True)
class Signature:
    """A named entry of a SavedModel."""

    inputs: dict[str, TensorInfo]
    outputs: dict[str, TensorInfo]


def run(
    path: str | os.PathLike[str], signature: str, inputs: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Runs a signature in a process of its own, through the C API, without Python TensorFlow.

    Args:
        path: Version folder of a SavedModel.
        signature: Name of the signature, such as `"serving_default"`.
        inputs: An array (or nested list) for every input; texts as `str` or `bytes`.

    Returns:
        A dict of arrays; strings are arrays of `bytes` objects.

    Raises:
        UserError: If the folder, signature or an input does not fit, if the model refuses the
            input, or if the installed TensorFlow has no C library.
    """
    entry = _signature(path, signature)
    arrays = _checked(entry, inputs)
    with tempfile.TemporaryDirectory() as folder:
        given, returned = Path(folder, "inputs.npz"), Path(folder, "outputs.npz")
        _write(given, arrays)
        done = subprocess.run(
            [sys.executable, "-I", __file__, str(path), signature,
             "--inputs", str(given), "--outputs", str(returned)],
            capture_output=True, text=True, errors="replace", check=False,
            env={"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ},
        )  # fmt: skip
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise UserError(lines[-1].removeprefix("Error: "))
        return _read(returned)


def signatures(path: str | os.PathLike[str]) -> dict[str, Signature]:
    """Returns the signatures of a SavedModel, read off its file.

    Args:
        path: Version folder of a SavedModel.

    Returns:
        Name of each signature and what goes in and out.

    Raises:
        UserError: If there is no SavedModel for serving.
    """
    found = {}
    for _, entry in _fields(_serving_graph(path), 5):
        pair = _message(entry)
        definition = _message(pair[2][0])
        found[_text(pair[1][0])] = Signature(
            _tensor_infos(definition.get(1, [])), _tensor_infos(definition.get(2, []))
        )
    # TensorFlow keeps an internal one that runs the initialisers.
    return {name: found[name] for name in sorted(found) if not name.startswith("__")}


def operations(path: str | os.PathLike[str]) -> set[str]:
    """Returns the types of all operations of a SavedModel, those inside functions included.

    Calls of the model's own functions are left out: they bring their own operations.

    Args:
        path: Version folder of a SavedModel.

    Returns:
        Names such as `"MatMul"`.

    Raises:
        UserError: If there is no SavedModel for serving.
    """
    kinds: set[str] = set()
    functions: set[str] = set()
    for _, graph in _fields(_serving_graph(path), 2):
        content = _message(graph)
        nodes = list(content.get(1, []))
        for library in content.get(2, []):
            for _, function in _fields(library, 1):
                body = _message(function)
                functions.add(_text(_message(body[1][0])[1][0]))
                nodes += body.get(3, [])
        kinds.update(_text(_message(node)[2][0]) for node in nodes)
    return kinds - functions


# --------------------------------------------------------------------- the file
# Protocol buffers on the wire: (field number << 3 | wire type), then a value. Message classes for
# these files exist only inside the tensorflow package, whose import is what this module avoids.


def _fields(buffer: memoryview, wanted: int | None = None) -> Iterator[tuple[int, Any]]:
    position = 0
    while position < len(buffer):
        key, position = _varint(buffer, position)
        number, kind = key >> 3, key & 7
        value: Any
        if kind == 0:
            value, position = _varint(buffer, position)
        elif kind in (1, 2, 5):
            size = {1: 8, 5: 4}.get(kind)
            if size is None:
                size, position = _varint(buffer, position)
            value = buffer[position : position + size]
            position += size
            if len(value) != size:
                raise ValueError("the file ends in the middle of a field")
        else:
            raise ValueError(f"wire type {kind}")
        if wanted in (None, number):
            yield number, value


def _varint(buffer: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(buffer) or shift > 63:
            raise ValueError("the file ends in the middle of a number")
        byte = buffer[position]
        value |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return value, position


def _message(buffer: memoryview) -> dict[int, list[Any]]:
    content: dict[int, list[Any]] = {}
    for number, value in _fields(buffer):
        content.setdefault(number, []).append(value)
    return content


def _text(buffer: memoryview) -> str:
    return bytes(buffer).decode("utf-8", errors="replace")


def _serving_graph(path: str | os.PathLike[str]) -> memoryview:
    """Returns the MetaGraphDef with the tag `serve`."""
    file = Path(path, "saved_model.pb")
    try:
        content = memoryview(file.read_bytes())
        for _, graph in _fields(content, 2):
            for _, info in _fields(graph, 1):
                if "serve" in [_text(tag) for _, tag in _fields(info, 4)]:
                    return graph
        problem = "no graph with the tag 'serve'"
    except OSError as error:
        problem = error.strerror or str(error)
    except ValueError as error:
        problem = f"a damaged file ({error})"
    raise UserError(
        f"Expected a SavedModel with {file}. Received: {problem}. "
        "Name the version folder that holds saved_model.pb."
    )


def _tensor_infos(entries: Sequence[memoryview]) -> dict[str, TensorInfo]:
    infos = {}
    for entry in entries:
        pair = _message(entry)
        info = _message(pair[2][0])
        code = int(info.get(2, [0])[0])
        shape = None
        content = _message(info[3][0]) if 3 in info else {}
        if not content.get(3, [0])[0]:
            sizes = [_message(size).get(1, [0])[0] for size in content.get(2, [])]
            # An unknown size is -1: all 64 bits set.
            shape = tuple(None if size >> 63 else size for size in sizes)
        kind = np.dtype(_DTYPES[code]).name if code in _DTYPES else f"dtype {code}"
        infos[_text(pair[1][0])] = TensorInfo(
            _text(info[1][0]), "string" if code == _STRING else kind, shape, code
        )
    return dict(sorted(infos.items()))


def _signature(path: str | os.PathLike[str], name: str) -> Signature:
    known = signatures(path)
    if name not in known:
        raise UserError(
            f"Expected a signature of the model: {', '.join(known) or 'it has none'}. "
            f"Received: {name!r}."
        )
    return known[name]


# ------------------------------------------------------------------- the arrays


def _checked(signature: Signature, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    if set(inputs) != set(signature.inputs):
        raise UserError(
            f"Expected the inputs {', '.join(signature.inputs)}. "
            f"Received: {', '.join(sorted(inputs)) or 'none'}."
        )
    arrays = {}
    for name, info in signature.inputs.items():
        try:
            if info.code == _STRING:
                array = np.asarray(inputs[name], dtype=object)
                array = np.frompyfunc(_as_bytes, 1, 1)(array) if array.size else array
                array = np.asarray(array, dtype=object)
            else:
                array = np.ascontiguousarray(inputs[name], dtype=_DTYPES.get(info.code))
        except (TypeError, ValueError) as error:
            raise UserError(
                f"Expected {name} as an array of {info.dtype}. Received: {error}."
            ) from error
        fits = info.shape is None or (
            len(info.shape) == array.ndim
            and all(a in (None, b) for a, b in zip(info.shape, array.shape, strict=True))
        )
        if not fits:
            shown = [size or "any" for size in info.shape or ()]
            raise UserError(
                f"Expected {name} of shape {shown}. Received: shape {list(array.shape)}."
            )
        arrays[name] = array
    return arrays


def _as_bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", errors="surrogateescape")
    if isinstance(value, bytes):
        return value
    raise TypeError(f"{type(value).__name__} where a text is wanted")


def _write(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes arrays as .npz; strings as one run of bytes and their lengths, so NUL survives."""
    plain: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if array.dtype == object:
            strings = [bytes(value) for value in array.ravel()]
            lengths = [len(value) for value in strings]
            plain[name] = np.frombuffer(b"".join(strings), np.uint8)
            plain[name + _NUL] = np.array(lengths, np.int64).reshape(array.shape)
        else:
            plain[name] = array
    with path.open("wb") as file:
        np.savez(file, **plain)  # type: ignore[arg-type]


def _read(path: Path) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    with np.load(path, allow_pickle=False) as archive:
        for name in archive.files:
            if name.endswith(_NUL):
                continue
            array = archive[name]
            if name + _NUL in archive.files:
                lengths = archive[name + _NUL]
                ends = np.cumsum(lengths.ravel())
                content = array.tobytes()
                array = np.empty(lengths.size, object)
                for i, (end, size) in enumerate(zip(ends, lengths.ravel(), strict=True)):
                    array[i] = content[end - size : end]
                array = array.reshape(lengths.shape)
            arrays[name] = array
    return arrays


# -------------------------------------------------------------------- the C API


class _Output(ctypes.Structure):
    _fields_ = (("operation", ctypes.c_void_p), ("index", ctypes.c_int))


class _Library:
    """The functions of TensorFlow's C API that are used here, with their types."""

    def __init__(self) -> None:
        spec = importlib.util.find_spec("tensorflow")  # finds the package, does not import it
        folder = Path(next(iter(spec.submodule_search_locations or [""]))) if spec else Path()
        found = sorted(
            [*folder.glob("libtensorflow_cc.so*"), *folder.glob("libtensorflow_cc*.dylib")]
        )
        if not found:
            raise UserError(
                "Expected libtensorflow_cc in the tensorflow package. Received: none. "
                "Use a tensorflow wheel for Linux or macOS."
            )
        for framework in folder.glob("libtensorflow_framework.*"):
            ctypes.CDLL(str(framework), mode=ctypes.RTLD_GLOBAL)
        self._library = ctypes.CDLL(str(found[0]))
        pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
        outputs, pointers = ctypes.POINTER(_Output), ctypes.POINTER(pointer)
        dims, number = ctypes.POINTER(ctypes.c_int64), ctypes.c_int
        for name, result, arguments in (
            ("TF_NewStatus", pointer, []),
            ("TF_DeleteStatus", None, [pointer]),
            ("TF_GetCode", number, [pointer]),
            ("TF_Message", text, [pointer]),
            ("TF_NewGraph", pointer, []),
            ("TF_DeleteGraph", None, [pointer]),
            ("TF_NewSessionOptions", pointer, []),
            ("TF_DeleteSessionOptions", None, [pointer]),
            ("TF_LoadSessionFromSavedModel", pointer,
             [pointer, pointer, text, ctypes.POINTER(text), number, pointer, pointer, pointer]),
            ("TF_DeleteSession", None, [pointer, pointer]),
            ("TF_GraphOperationByName", pointer, [pointer, text]),
            ("TF_AllocateTensor", pointer, [number, dims, number, size]),
            ("TF_DeleteTensor", None, [pointer]),
            ("TF_TensorType", number, [pointer]),
            ("TF_NumDims", number, [pointer]),
            ("TF_Dim", ctypes.c_int64, [pointer, number]),
            ("TF_TensorByteSize", size, [pointer]),
            ("TF_TensorData", pointer, [pointer]),
            ("TF_StringInit", None, [pointer]),
            ("TF_StringCopy", None, [pointer, text, size]),
            ("TF_StringGetDataPointer", pointer, [pointer]),
            ("TF_StringGetSize", size, [pointer]),
            ("TF_SessionRun", None,
             [pointer, pointer, outputs, pointers, number, outputs, pointers, number,
              pointer, number, pointer, pointer]),
        ):  # fmt: skip
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def __getattr__(self, name: str) -> Any:  # for type checkers: set in __init__
        raise AttributeError(name)


def _run_here(
    path: str, signature: Signature, arrays: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    library = _Library()
    with contextlib.ExitStack() as stack:

        def owned(value: Any, delete: Any, *more: Any) -> Any:
            stack.callback(delete, value, *more)
            return value

        status = owned(library.TF_NewStatus(), library.TF_DeleteStatus)

        def check(what: str) -> None:
            if library.TF_GetCode(status):
                message = library.TF_Message(status).decode("utf-8", errors="replace")
                raise UserError(f"Expected {what}. Received: {message.strip().splitlines()[0]}")

        graph = owned(library.TF_NewGraph(), library.TF_DeleteGraph)
        options = owned(library.TF_NewSessionOptions(), library.TF_DeleteSessionOptions)
        tags = (ctypes.c_char_p * 1)(b"serve")
        session = library.TF_LoadSessionFromSavedModel(
            options, None, os.fsencode(path), tags, 1, graph, None, status
        )
        check(f"{path} to load")
        stack.callback(library.TF_DeleteSession, session, status)

        def output(info: TensorInfo) -> _Output:
            name, _, index = info.name.partition(":")
            operation = library.TF_GraphOperationByName(graph, name.encode())
            if not operation:
                raise UserError(f"Expected the operation {name} in the graph. Received: none.")
            return _Output(operation, int(index or 0))

        feeds = (_Output * len(arrays))(*(output(signature.inputs[name]) for name in arrays))
        fetches = (_Output * len(signature.outputs))(*map(output, signature.outputs.values()))
        given = (ctypes.c_void_p * len(arrays))(
            *(
                owned(_to_tensor(library, array, signature.inputs[name].code),
                      library.TF_DeleteTensor)
                for name, array in arrays.items()
            )
        )  # fmt: skip
        returned = (ctypes.c_void_p * len(signature.outputs))()
        library.TF_SessionRun(
            session, None, feeds, given, len(feeds), fetches, returned, len(fetches), None, 0,
            None, status,
        )  # fmt: skip
        check("inputs that the model accepts")
        return {
            name: _to_array(library, owned(tensor, library.TF_DeleteTensor))
            for name, tensor in zip(signature.outputs, returned, strict=True)
        }


def _to_tensor(library: _Library, array: np.ndarray, code: int) -> int:
    dims = (ctypes.c_int64 * array.ndim)(*array.shape)
    size = _STRING_SIZE * array.size if code == _STRING else array.nbytes
    tensor: int = library.TF_AllocateTensor(code, dims, array.ndim, size)
    data = library.TF_TensorData(tensor)
    if code != _STRING:
        ctypes.memmove(data, array.ctypes.data, size)
        return tensor
    for index, value in enumerate(array.ravel()):
        place = data + _STRING_SIZE * index
        library.TF_StringInit(place)
        library.TF_StringCopy(place, value, len(value))
    return tensor


def _to_array(library: _Library, tensor: int) -> np.ndarray:
    code = library.TF_TensorType(tensor)
    if code not in _DTYPES:
        raise UserError(f"Expected an output of a plain dtype. Received: dtype number {code}.")
    shape = [library.TF_Dim(tensor, axis) for axis in range(library.TF_NumDims(tensor))]
    data, count = library.TF_TensorData(tensor), int(np.prod(shape))
    if code != _STRING:
        content = ctypes.string_at(data, library.TF_TensorByteSize(tensor)) if count else b""
        return np.frombuffer(content, _DTYPES[code]).reshape(shape)
    strings = np.empty(count, object)
    for index in range(count):
        place = data + _STRING_SIZE * index
        strings[index] = ctypes.string_at(
            library.TF_StringGetDataPointer(place), library.TF_StringGetSize(place)
        )
    return strings.reshape(shape)


# -------------------------------------------------------------------- the shell


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints signatures, or runs one; returns the exit code."""
    if "tensorflow" in sys.modules:
        # Started by `python -m glomo_tf.saved_model`, which imports the package first.
        again = [sys.executable, "-I", __file__, *(arguments or sys.argv[1:])]
        return subprocess.run(again, check=False).returncode
    parser = argparse.ArgumentParser(
        prog="saved_model.py",
        description="Run a SavedModel through TensorFlow's C API, without Python TensorFlow.",
    )
    parser.add_argument("path", help="version folder of a SavedModel")
    parser.add_argument("signature", nargs="?", help="such as serving_default; all are listed")
    parser.add_argument("values", nargs="*", metavar="NAME=JSON", help="inputs")
    parser.add_argument("--inputs", type=Path, help="inputs as .npz instead")
    parser.add_argument("--outputs", type=Path, help="write outputs as .npz, print nothing")
    options = parser.parse_args(arguments)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        if options.signature is None:
            listing = {
                name: {
                    side: {
                        key: {"dtype": info.dtype, "shape": info.shape}
                        for key, info in getattr(entry, side).items()
                    }
                    for side in ("inputs", "outputs")
                }
                for name, entry in signatures(options.path).items()
            }
            print(json.dumps(listing, indent=2))
            return 0
        entry = _signature(options.path, options.signature)
        given = _read(options.inputs) if options.inputs else _parsed(options.values)
        outputs = _run_here(options.path, entry, _checked(entry, given))
        if options.outputs:
            _write(options.outputs, outputs)
        else:
            print(json.dumps({name: _plain(array) for name, array in outputs.items()}))
    except (UserError, OSError) as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


def _parsed(values: Sequence[str]) -> dict[str, Any]:
    inputs = {}
    for value in values:
        name, _, text = value.partition("=")
        try:
            inputs[name] = json.loads(text)
        except ValueError as error:
            raise UserError(
                f"Expected inputs as NAME=JSON, such as text='[\"a cat\"]'. Received: {value!r}."
            ) from error
    return inputs


def _plain(array: np.ndarray) -> Any:
    if array.dtype == object:
        array = np.frompyfunc(lambda value: value.decode("utf-8", "replace"), 1, 1)(array)
    return array.tolist()


if __name__ == "__main__":
    sys.exit(main())
