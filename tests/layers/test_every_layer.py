"""What holds for every layer: configs, kinds of call, dtype policies, lengths, files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest

from glomo_tf import FeaturePredictor, layers
from glomo_tf.sparsity import SPARSITIES
from tests import check_layer


class Case(NamedTuple):
    """How a layer is made and called in these tests."""

    cls: type
    arguments: dict[str, Any]  # all of them, none its default
    make_inputs: Callable[[int], Sequence[np.ndarray]]
    call: Callable[..., Any] | None = None  # layer, *inputs -> outputs
    open_axes: Sequence[tuple[int, ...]] | None = None
    gradients: bool = True

    def inputs(self) -> Sequence[np.ndarray]:
        return self.make_inputs(4)

    def caller(self, layer: Any) -> Callable[..., Any]:
        return layer if self.call is None else lambda *x: self.call(layer, *x)  # type: ignore[misc]


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


def graphs(length: int, layers_: int = 4) -> np.ndarray:
    rng = np.random.default_rng(length)
    graph = rng.random((2, layers_, 2, length, length)).astype("float32")
    return np.tril(graph / graph.sum(-1, keepdims=True), -1)


NETWORKS = [(1, 2)]
CASES = {
    "AffinityLayer": Case(
        layers.AffinityLayer,
        {
            "num_heads": 3,
            "head_dim": 4,
            "sparsity": "top_k",
            "causal": False,
            "top_k_rate": 1.5,
            "initial_threshold": -2.0,
            "score_scale": 0.5,
            "kernel_initializer": "he_normal",
        },
        lambda n: [normal(2, n, 6)],
    ),
    "AffinityLayer_with_keys": Case(
        layers.AffinityLayer,
        {},
        lambda n: [normal(2, n, 6), normal(2, n, 5)],
        lambda layer, x, y: layer(x, y, return_factors=True),
    ),
    "CausalConvolution": Case(
        layers.CausalConvolution,
        {
            "width": 5,
            "depth": 2,
            "kernel_size": 2,
            "num_networks": 2,
            "normalization": "layer",
            "dropout": 0.1,
        },
        lambda n: [normal(2, 3, n, 4)],
        open_axes=NETWORKS,
    ),
    "ContextDecoder": Case(
        layers.ContextDecoder,
        {"num_networks": 2, "num_layers": 3},
        lambda n: [normal(2, 3, n, 4), normal(2, 3, n, 2, 5)],
        open_axes=[(1, 2), (1, 2)],
    ),
    "ContextHead": Case(
        layers.ContextHead,
        {"context_length": 2, "width": 3, "num_networks": 2},
        lambda n: [normal(2, 3, n, 4)],
        open_axes=NETWORKS,
    ),
    "FeaturePredictor": Case(
        FeaturePredictor,
        {"composition": "residual", "share_layers": True, "num_directions": 1, "dropout": 0.1},
        lambda n: [normal(2, n, 6), graphs(n)],
        open_axes=[(0, 1), (0, 3, 4)],
    ),
    "GRUComposition": Case(
        layers.GRUComposition,
        {"num_networks": 2, "multiplicative": False},
        lambda n: [normal(2, 3, n, 4), normal(2, 3, n, 5)],
        open_axes=[(1, 2), (1, 2)],
    ),
    "GraphMixLayer": Case(
        layers.GraphMixLayer,
        {
            "num_mixtures": 3,
            "conditional": False,
            "products": False,
            "fusion": "gru",
            "path": "chain",
            "num_directions": 1,
        },
        lambda n: [normal(2, n, 6), graphs(n)],
        open_axes=[(0, 1), (0, 3, 4)],
    ),
    "LockedDropout": Case(
        layers.LockedDropout,
        {"rate": 0.5, "seed": 3},
        lambda n: [normal(2, n, 4)],
    ),
    "MaskedPooling": Case(
        layers.MaskedPooling,
        {"mode": "max"},
        lambda n: [normal(2, n, 4), np.arange(n) < np.array([[n], [0]])],
        lambda layer, x, mask: layer(x, mask=mask),
    ),
    "NetworkNormalization": Case(
        layers.NetworkNormalization,
        {"mode": "layer", "num_networks": 2, "momentum": 0.5},
        lambda n: [normal(2, 3, n, 4)],
        open_axes=NETWORKS,
    ),
    "ResidualComposition": Case(
        layers.ResidualComposition,
        {"num_networks": 2, "value_projection": False},
        lambda n: [normal(2, 3, n, 4), normal(2, 3, n, 4)],
        open_axes=[(1, 2), (1, 2)],
    ),
}
# Further settings that the checks of values run with.
SETTINGS: list[tuple[str, dict[str, Any]]] = [
    (name, {k: v for k, v in case.arguments.items() if k != "dropout"})
    for name, case in CASES.items()
    if case.arguments
]
SETTINGS += [("AffinityLayer_with_keys", {"num_heads": 2, "head_dim": 3})]
SETTINGS += [
    ("AffinityLayer", {"num_heads": 2, "head_dim": 3, "sparsity": mode})
    for mode in SPARSITIES
    if mode != "top_k"
]
SETTINGS += [
    ("CausalConvolution", {"width": 5, "num_networks": 2, "depth": 2, "normalization": mode})
    for mode in ("batch", "none")
]
SETTINGS += [("GraphMixLayer", {"fusion": fusion}) for fusion in ("none", "concat", "gate")]
SETTINGS += [("FeaturePredictor", {}), ("FeaturePredictor", {"composition": "residual"})]
SETTINGS += [("MaskedPooling", {})]
SETTINGS += [("NetworkNormalization", {"mode": m, "num_networks": 2}) for m in ("batch", "none")]
SETTINGS += [("ResidualComposition", {"num_networks": 2})]
IDS = [f"{name}-{'-'.join(str(v) for v in setting.values())}" for name, setting in SETTINGS]


def test_every_public_layer_has_a_case() -> None:
    assert set(layers.__all__) <= {case.cls.__name__ for case in CASES.values()}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.arguments])
def test_report_25_every_argument_is_in_the_config(name: str) -> None:
    check_layer.check_config(CASES[name].cls, CASES[name].arguments)


@pytest.mark.parametrize(("name", "setting"), SETTINGS, ids=IDS)
def test_calls_of_every_kind_agree(name: str, setting: dict[str, Any]) -> None:
    case = CASES[name]
    sizes = {} if case.open_axes is None else {"open_axes": case.open_axes}
    check_layer.check_parity(case.caller(case.cls(**setting)), case.inputs(), **sizes)


@pytest.mark.parametrize(("name", "setting"), SETTINGS, ids=IDS)
def test_dtype_policies(name: str, setting: dict[str, Any]) -> None:
    case = CASES[name]
    graph = case.cls is layers.AffinityLayer
    if graph and setting.get("sparsity") in ("square", "top_k"):
        # Without a threshold a small score decides by its sign and rank: any rounding shows.
        pytest.skip("outputs are no continuous function of the rounding here")
    if name == "AffinityLayer_with_keys":
        pytest.skip("factors mix dtypes on purpose; their graph is compared in AffinityLayer")

    check_layer.check_policies(
        lambda policy: case.cls(**setting, dtype=policy),
        case.inputs(),
        case.call,
        float32_output=graph,
    )


@pytest.mark.parametrize(("name", "setting"), SETTINGS, ids=IDS)
def test_one_trace_serves_all_lengths(name: str, setting: dict[str, Any]) -> None:
    case = CASES[name]
    layer = case.cls(**setting)
    case.caller(layer)(*case.inputs())
    check_layer.check_lengths(case.caller(layer), case.make_inputs)


@pytest.mark.parametrize(("name", "setting"), SETTINGS, ids=IDS)
def test_gradients_are_finite(name: str, setting: dict[str, Any]) -> None:
    case = CASES[name]
    for length in (1, 4):
        layer = case.cls(**setting)
        check_layer.check_gradients(layer, case.caller(layer), case.make_inputs(length))


def test_report_23_files_load_in_a_fresh_process(tmp_path: Path) -> None:
    """Report 23: every layer, in a functional model, after `import glomo_tf` alone."""
    folders = []
    for index, (name, setting) in enumerate(SETTINGS):
        case = CASES[name]
        sizes = {} if case.open_axes is None else {"open_axes": case.open_axes}
        model = check_layer.symbolic(case.caller(case.cls(**setting)), case.inputs(), **sizes)
        for variable in model.weights:  # nothing may depend on the initial values
            if "seed" not in variable.path:
                variable.assign(variable + 0.1 * keras.random.uniform(variable.shape, seed=index))
        folders.append(check_layer.save(tmp_path / IDS[index], model, case.inputs()))
    check_layer.in_a_fresh_process(folders)
