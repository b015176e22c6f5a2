"""Errors that a user can cause and mend, each one line: expected, received, what to do."""

from __future__ import annotations

import importlib
from types import ModuleType


class UserError(ValueError):
    """An input, file or setting that cannot be used as it is.

    The message is one line: what was expected, what was received, what to do. The command line
    prints it and ends with exit code 2.
    """


class MissingExtra(UserError, ImportError):
    """A package that belongs to an optional extra is not installed."""


def require(package: str, extra: str) -> ModuleType:
    """Imports an optional package.

    Args:
        package: importable name, such as `"tensorflow_text"`.
        extra: the extra of glomo-tf that installs it, such as `"text"`.

    Returns:
        The imported module.

    Raises:
        MissingExtra: the package is not installed; the message names the extra.

    Example:

    >>> from glomo_tf.errors import require
    >>> require("json", "text").dumps([1])
    '[1]'
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise MissingExtra(
            f"Expected the package {package!r} to be installed. Received: {error}. "
            f"Install it with: pip install 'glomo-tf[{extra}]'."
        ) from error
