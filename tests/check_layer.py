"""What every layer and model of the package has to hold, as functions that tests call.

* `check_config`: the constructor's arguments are in the config, and survive a round trip
* `check_parity`: eager, traced, compiled and symbolic calls agree
* `check_policies`: half-precision policies give finite outputs near those of float32
* `check_lengths`: one trace serves all lengths, 1 included
* `check_gradients`: finite for every weight, also where rows are all padding
* `save` and `in_a_fresh_process`: a `.keras` file gives the same outputs in another process
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

ROOT = Path(__file__).resolve().parents[1]
POLICIES = ("float32", "mixed_float16", "mixed_bfloat16")


def arrays(outputs: Any) -> list[np.ndarray]:
    """All tensors of a nested output, dicts in the order of their keys; half becomes float32."""
    return [
        np.asarray(tf.cast(x, tf.float32) if x.dtype in ("float16", "bfloat16") else x)
        for x in tf.nest.flatten(outputs)
    ]


def assert_same(got: Any, expected: Any, **tolerance: float) -> None:
    """Nested outputs have equal structure, shapes and values."""
    tf.nest.assert_same_structure(got, expected)
    for value, wanted in zip(arrays(got), arrays(expected), strict=True):
        assert value.shape == wanted.shape
        np.testing.assert_allclose(value, wanted, **({"rtol": 1e-5, "atol": 1e-5} | tolerance))


def check_config(cls: type, arguments: Mapping[str, Any]) -> None:
    """Every argument is in the config (report 25), and values unlike the defaults come back.

    Args:
        cls: a registered class.
        arguments: values for all of the constructor's arguments, none of them its default.
    """
    parameters = {
        name: p
        for name, p in inspect.signature(cls).parameters.items()
        if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    }
    assert set(arguments) == set(parameters), "give every argument a value"
    for name, parameter in parameters.items():
        assert arguments[name] != parameter.default, f"{name} is given its default"
    assert keras.saving.get_registered_name(cls) == f"glomo_tf>{cls.__name__}"
    assert keras.saving.get_registered_object(f"glomo_tf>{cls.__name__}") is cls
    config = cls(**arguments, name="its_name", dtype="mixed_bfloat16").get_config()
    assert set(parameters) <= set(config)
    for name, value in arguments.items():
        if not isinstance(config[name], dict):  # initializers and the like are serialised
            assert config[name] == value, name
    assert config["name"] == "its_name"
    config = json.loads(json.dumps(config))  # what a file would hold
    again = cls.from_config(config)
    assert again.get_config() == config
    assert again.dtype_policy.name == "mixed_bfloat16"


def symbolic(call: Callable[..., Any], inputs: Sequence[np.ndarray], **sizes: Any) -> keras.Model:
    """A functional model around a call; batch and length (axes 0 and 1) are open.

    Args:
        call: takes the inputs.
        inputs: arrays that give ranks, dtypes and the fixed sizes.
        **sizes: `open_axes`, for each input the axes without a fixed size.
    """
    open_axes = sizes.get("open_axes", [(0, 1)] * len(inputs))
    symbols = [
        keras.Input(
            batch_shape=[None if axis in free else n for axis, n in enumerate(x.shape)],
            dtype=str(x.dtype),
        )
        for x, free in zip(inputs, open_axes, strict=True)
    ]
    return keras.Model(symbols, call(*symbols))


def check_parity(call: Callable[..., Any], inputs: Sequence[np.ndarray], **sizes: Any) -> None:
    """Eager, traced, XLA-compiled and symbolic calls give the same."""
    tensors = [tf.constant(x) for x in inputs]
    eager = call(*tensors)
    assert_same(tf.function(call)(*tensors), eager)
    assert_same(tf.function(call, jit_compile=True)(*tensors), eager, rtol=1e-4, atol=1e-4)
    model = symbolic(call, inputs, **sizes)
    assert_same(model(tensors), eager)
    for symbol, value in zip(tf.nest.flatten(model.output), tf.nest.flatten(eager), strict=True):
        assert len(symbol.shape) == len(value.shape)
        for known, size in zip(symbol.shape, value.shape, strict=True):
            assert known in (None, size)
        assert keras.backend.standardize_dtype(symbol.dtype) == value.dtype.name


def check_policies(
    make: Callable[[str], Any],
    inputs: Sequence[np.ndarray],
    call: Callable[..., Any] | None = None,
    *,
    atol: float = 0.06,
    float32_output: bool = False,
) -> None:
    """Half precision stays near float32 with the same weights, and variables stay float32.

    Args:
        make: makes the layer, given the name of a dtype policy.
        inputs: arrays.
        call: calls the layer, which comes first, with the inputs; by default with them in order.
        atol: how far half precision may be off.
        float32_output: whether outputs are float32 whatever the policy.
    """
    call = call or (lambda layer, *tensors: layer(*tensors))
    tensors = [tf.constant(x) for x in inputs]
    exact, weights = None, None
    for policy in POLICIES:  # the policy of the layer has to hold, not that of the process
        layer = make(policy)
        outputs = call(layer, *tensors)
        if weights is None:
            weights, exact = layer.get_weights(), arrays(outputs)
        else:
            layer.set_weights(weights)
            outputs = call(layer, *tensors)
        for variable in layer.trainable_variables:
            assert variable.dtype == "float32", variable.path
        for value in tf.nest.flatten(outputs):
            if value.dtype.is_floating and not float32_output:
                assert value.dtype.name == layer.compute_dtype
            elif value.dtype.is_floating:
                assert value.dtype == tf.float32
        for value, wanted in zip(arrays(outputs), exact, strict=True):
            assert np.isfinite(value).all()
            np.testing.assert_allclose(value, wanted, atol=atol, err_msg=policy)


def check_lengths(call: Callable[..., Any], make: Callable[[int], Sequence[np.ndarray]]) -> None:
    """One trace serves every length.

    Args:
        call: takes the inputs.
        make: makes inputs of a length; all axes whose size depends on it are open.
    """
    lengths = (1, 2, 5, 9)
    specs = []
    for one, other in zip(make(2), make(5), strict=True):
        shape = [n if n == m else None for n, m in zip(one.shape, other.shape, strict=True)]
        specs.append(tf.TensorSpec(shape, one.dtype))
    traced = tf.function(call, input_signature=specs)
    for length in lengths:
        inputs = [tf.constant(x) for x in make(length)]
        assert_same(traced(*inputs), call(*inputs))
    assert traced.experimental_get_tracing_count() == 1


def check_gradients(layer: Any, call: Callable[..., Any], inputs: Sequence[np.ndarray]) -> None:
    """Every weight and every float input has a finite gradient."""
    tensors = [tf.constant(x) for x in inputs]
    floats = [x for x in tensors if x.dtype.is_floating]
    call(*tensors)
    with tf.GradientTape() as tape:
        tape.watch(floats)
        outputs = [x for x in tf.nest.flatten(call(*tensors)) if x.dtype.is_floating]
        loss = tf.add_n([tf.reduce_sum(tf.sin(tf.cast(x, tf.float32))) for x in outputs])
    variables = layer.trainable_variables
    assert variables or not layer.weights or not layer.trainable
    gradients = tape.gradient(loss, [v.value for v in variables] + floats)
    names = [v.path for v in variables] + ["input"] * len(floats)
    for name, gradient in zip(names, gradients, strict=True):
        assert gradient is not None, f"{name} has no gradient"
        assert np.isfinite(tf.convert_to_tensor(gradient)).all(), name


_LOADER = """
import sys, json
import numpy as np
import glomo_tf
import keras, tensorflow as tf
sys.path.insert(0, "tests")
from check_layer import arrays
for folder in json.loads(sys.argv[1]):
    inputs = dict(np.load(folder + "/inputs.npz"))
    model = keras.saving.load_model(folder + "/model.keras")
    tensors = [tf.constant(inputs[str(i)]) for i in range(len(inputs))]
    outputs = arrays(model(tensors if len(tensors) > 1 else tensors[0]))
    np.savez(folder + "/outputs.npz", *outputs)
"""


def save(folder: Path, model: keras.Model, inputs: Sequence[np.ndarray]) -> Path:
    """Saves a model with inputs to try and the outputs it gives for them."""
    folder.mkdir(parents=True)
    model.save(folder / "model.keras")
    np.savez(folder / "inputs.npz", **{str(i): x for i, x in enumerate(inputs)})
    tensors = [tf.constant(x) for x in inputs]
    np.savez(folder / "expected.npz", *arrays(model(tensors if len(tensors) > 1 else tensors[0])))
    return folder


def in_a_fresh_process(folders: Sequence[Path]) -> None:
    """Loads all saved models in one other process, which has imported glomo_tf and no more."""
    result = subprocess.run(
        [sys.executable, "-c", _LOADER, json.dumps([str(folder) for folder in folders])],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    for folder in folders:
        expected, got = np.load(folder / "expected.npz"), np.load(folder / "outputs.npz")
        assert set(got) == set(expected)
        for name in expected:
            np.testing.assert_allclose(
                got[name], expected[name], rtol=1e-6, atol=1e-6, err_msg=folder.name
            )
