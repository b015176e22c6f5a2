"""Writing files whole: whatever happens, a file is its previous version or the new one, no part."""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from glomo_tf.errors import UserError


@contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """Give the name of a temporary file that takes the place of `path` if the block ends well.

    The folder is made if it does not exist.

    The temporary file lies in the same folder and keeps the ending of `path` (Keras looks at it).
    If the block raises, it is removed and `path` is as it was.

    Raises:
        UserError: The file cannot be written (full disk, no permission, a folder in its place, …).

    Example:

        >>> import tempfile
        >>> target = Path(tempfile.mkdtemp()) / "notes.txt"
        >>> with replacing(target) as temporary:
        ...     _ = temporary.write_text("all of it")
        >>> target.read_text()
        'all of it'
    """
    target = Path(path)
    temporary = target.with_name(f".tmp-{secrets.token_hex(4)}-{target.name}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        yield temporary
        _flush(temporary)
        os.replace(temporary, target)
    except OSError as error:
        # Of other files (one that the block reads, say) the block's caller knows more.
        if error.filename is not None and Path(os.fsdecode(error.filename)) not in (
            temporary,
            target,
            *target.parents,
        ):
            raise
        raise not_writable(target, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def write_text(path: str | os.PathLike, text: str) -> None:
    """Write `text` as UTF-8 to `path`, whole or not at all."""
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


def write_bytes(path: str | os.PathLike, content: bytes) -> None:
    """Write `content` to `path`, whole or not at all."""
    with replacing(path) as temporary, open(temporary, "wb") as file:
        file.write(content)


def write_json(path: str | os.PathLike, obj: Any) -> None:
    """Write `obj` as JSON to `path`, whole or not at all; see `plain` for what it may hold.

    Raises:
        UserError: The file cannot be written; an existing file is left as it was.
    """
    write_text(path, to_json(obj, indent=2) + "\n")


def read_json(path: str | os.PathLike) -> Any:
    """Read a JSON file.

    Raises:
        UserError: There is no such file, or it does not hold JSON.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(
            f"Expected a readable JSON file. Received: {path}: {reason(error)}."
        ) from error
    except ValueError as error:  # Not UTF-8, or not JSON.
        raise UserError(
            f"Expected a JSON file. Received: {path}, damaged or of another kind ({error})."
        ) from error


def to_json(obj: Any, *, indent: int | None = None) -> str:
    """JSON text of `obj`, without NaN and infinities, which JSON lacks: they become null."""
    return json.dumps(plain(obj), indent=indent, ensure_ascii=False, allow_nan=False)


def plain(obj: Any) -> Any:
    """Turn numbers, arrays, tensors, paths, tuples, sets and dataclasses into what JSON holds."""
    if obj is None or isinstance(obj, (bool, int, str)):
        return obj
    if isinstance(obj, float):
        return obj if math.isfinite(obj) else None
    if isinstance(obj, dict):
        return {str(key): plain(value) for key, value in obj.items()}
    if isinstance(obj, (set, frozenset)):
        return sorted(map(plain, obj))
    if isinstance(obj, (list, tuple)):
        return [plain(item) for item in obj]
    if is_dataclass(obj) and not isinstance(obj, type):
        return plain(asdict(obj))
    if isinstance(obj, os.PathLike):
        return os.fspath(obj)
    if isinstance(obj, bytes):
        return obj.decode("utf-8", errors="replace")
    if hasattr(obj, "numpy"):
        return plain(obj.numpy())
    if hasattr(obj, "tolist"):
        return plain(obj.tolist())
    raise TypeError(f"Expected values that JSON can hold. Received: {type(obj).__name__}.")


def not_writable(path: str | os.PathLike, error: OSError) -> UserError:
    """The one line for a file or folder that cannot be written."""
    return UserError(
        f"Expected to write {path}. Received: {reason(error)}. "
        "What was there before is unchanged; free some space or choose another folder."
    )


def reason(error: OSError) -> str:
    """The system's words for an error, without number and path."""
    return error.strerror or str(error) or type(error).__name__


def _flush(path: Path) -> None:
    """Wait until the bytes are on the disk, so that the new name never points to an empty file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
