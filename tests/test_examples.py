"""The examples in the docstrings run and give what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import glomo_tf

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(glomo_tf.__path__, "glomo_tf.")
    if not module.name.startswith(("glomo_tf.__main__", "glomo_tf.saved_models"))
)


@pytest.mark.parametrize("name", ["glomo_tf", *MODULES])
def test_examples(name: str) -> None:
    module = importlib.import_module(name)
    found = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert found.failed == 0, f"{found.failed} of {found.attempted} examples; see above"


def test_modules_are_found() -> None:
    assert {"glomo_tf.affinity", "glomo_tf.layers.affinity_layer", "glomo_tf.data"} <= set(MODULES)
