"""GraphPredictor: against the reference end to end, and what its graphs never depend on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from glomo_tf import GraphPredictor, affinity, presets
from glomo_tf.errors import UserError
from tests import check_layer, reference

SMALL: dict[str, Any] = {
    "width": 8,
    "num_layers": 2,
    "num_heads": 2,
    "head_dim": 4,
    "cnn_depth": 2,
}
UNITS = np.array([[3, 5, 2, 9, 4, 7], [6, 1, 8, 0, 0, 0], [2, 0, 0, 0, 0, 0]])


def make(seed: int = 1, **changes: Any) -> GraphPredictor:
    """A predictor whose weights are all unlike their start."""
    predictor = GraphPredictor(12, **{**SMALL, **changes})
    predictor.build((None, None))
    rng = np.random.default_rng(seed)
    for v in predictor.weights:
        if "seed" not in v.path:
            noise = np.abs(rng.normal(0, 0.3, v.shape))
            sign = 1 if "variance" in v.path else rng.choice([-1, 1], v.shape)
            v.assign(v + tf.cast(noise * sign, v.dtype))
    return predictor


@pytest.mark.parametrize("direction", ["both", "forward", "backward"])
def test_like_the_reference(direction: str) -> None:
    """Embeddings, convolutions, projections, thresholds and normaliser, all in numpy.

    Networks stand in the order query, key for each direction.
    """
    predictor = make(direction=direction, normalization="none")
    w = {v.path.split("/", 1)[1]: v.numpy() for v in predictor.weights}
    signs = {"both": (1, -1), "forward": (1,), "backward": (-1,)}[direction]
    x, mask = w["embedding/embeddings"][UNITS].astype("float64"), UNITS != 0
    expected = []
    for which, sign in enumerate(signs):
        outputs = []
        for network in (2 * which, 2 * which + 1):
            kernels = [
                w[f"convolutions/kernel_{block}"][network].reshape(3, 8, 8) for block in range(2)
            ]
            offsets = [
                w[f"convolutions/normalization_{block}/offset"][network, 0, 0] for block in range(2)
            ]
            out = reference.causal_convolution(x[:, ::sign], mask[:, ::sign], kernels, offsets)
            outputs.append(out[:, ::sign])
        for layer in range(2):
            name = f"affinity_{2 * which + layer}"
            query, key = (
                outputs[role] @ w[f"{name}/{part}/kernel"] + w[f"{name}/{part}/bias"]
                for role, part in enumerate(("query", "key"))
            )
            threshold = query @ w[f"{name}/threshold/kernel"] + w[f"{name}/threshold/bias"]
            query, key = (z.reshape(3, 6, 2, 4).transpose(0, 2, 1, 3) for z in (query, key))
            scores = np.einsum("bkth,bksh->bkts", query, key)
            pairs = np.repeat(reference.allowed(mask, sign)[:, None], 2, axis=1)
            rows = reference.normalize(scores, pairs, "query_relu", threshold.transpose(0, 2, 1))
            expected.append(rows)
    got = predictor(UNITS)
    assert got.dtype == tf.float32
    assert got.shape == (3, 2 * len(signs), 2, 6, 6)
    np.testing.assert_allclose(got, np.stack(expected, axis=1), atol=1e-4)


@pytest.mark.parametrize("normalization", ["batch", "layer"])
def test_backward_is_forward_on_the_reversed_text(normalization: str) -> None:
    """Same weights, text turned round: the same graph turned round, with padding in front."""
    forward = make(direction="forward", normalization=normalization)
    backward = make(direction="backward", normalization=normalization)
    backward.set_weights(forward.get_weights())
    got = tf.reverse(backward(UNITS[:, ::-1]), [3, 4])
    np.testing.assert_allclose(got, forward(UNITS), atol=1e-6)


def test_both_directions_are_forward_then_backward() -> None:
    graph = make()(UNITS).numpy()
    assert (np.triu(graph[:, :2]) == 0).all()
    assert (np.tril(graph[:, 2:]) == 0).all()
    assert graph[0, :2].any(axis=(1, 2, 3)).all()
    assert graph[0, 2:].any(axis=(1, 2, 3)).all()
    sums = graph.sum(-1)
    assert (np.isclose(sums, 1, atol=1e-5) | (sums == 0)).all()


@pytest.mark.parametrize("place", range(6))
def test_strict_causality_by_perturbation(place: int) -> None:
    """Another unit at one place: forward rows before it and backward rows after it stay."""
    predictor = make()
    other = UNITS[:1].copy()
    other[0, place] = 11
    one, two = predictor(UNITS[:1]).numpy(), predictor(other).numpy()
    np.testing.assert_array_equal(one[:, :2, :, :place], two[:, :2, :, :place])
    np.testing.assert_array_equal(one[:, 2:, :, place + 1 :], two[:, 2:, :, place + 1 :])
    assert (one != two).any()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("sparsity", ["query_relu", "softmax", "top_k", "relu_length"])
def test_report_8_padding_changes_no_bit(sparsity: str, training: bool) -> None:
    """Report 8: padded embeddings 0 or 1e3, also through the batch statistics of training."""
    predictor = make(sparsity=sparsity)
    start = predictor.get_weights()
    x = predictor.embed(UNITS).numpy()
    mask = UNITS != 0
    graphs = []
    for value in (0.0, 1e3):
        predictor.set_weights(start)
        filled = np.where(mask[..., None], x, value).astype("float32")
        graphs.append(predictor(filled, mask=mask, training=training).numpy())
    np.testing.assert_array_equal(*graphs)
    real = (mask[:, :, None] & mask[:, None, :])[:, None, None]
    assert (graphs[0][~np.broadcast_to(real, graphs[0].shape)] == 0).all()
    if not training:
        np.testing.assert_array_equal(predictor(UNITS), graphs[0])


def test_more_padding_gives_the_same_graph() -> None:
    predictor = make()
    longer = np.pad(UNITS, [(0, 0), (0, 5)])
    np.testing.assert_allclose(predictor(longer)[..., :6, :6], predictor(UNITS), atol=1e-6)


@pytest.mark.parametrize("normalization", ["batch", "layer", "none"])
def test_report_9_a_row_of_padding_only(normalization: str) -> None:
    predictor = make(normalization=normalization)
    units = np.array([[0, 0, 0], [3, 4, 5]])
    with tf.GradientTape() as tape:
        graph = predictor(units, training=True)
        loss = tf.reduce_sum(tf.sin(graph))
    assert (graph.numpy()[0] == 0).all()
    for gradient in tape.gradient(loss, predictor.trainable_variables):
        assert np.isfinite(tf.convert_to_tensor(gradient)).all()
    assert (predictor(np.zeros((2, 4), "int32")).numpy() == 0).all()
    assert (predictor(np.array([[5]])).numpy() == 0).all()


@pytest.mark.parametrize("sparsity", affinity.SPARSITIES)
def test_gradients_are_finite(sparsity: str) -> None:
    predictor = GraphPredictor(12, **SMALL, sparsity=sparsity)
    used = [v for v in predictor.trainable_variables if "threshold" not in v.path]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.sin(predictor(UNITS, training=True)))
    variables = predictor.trainable_variables
    for v, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
        assert gradient is not None, v.path
        assert np.isfinite(tf.convert_to_tensor(gradient)).all(), v.path
    assert len(used) <= len(variables)


def test_factors_are_those_of_the_graph() -> None:
    predictor = make()
    factors = predictor.factors(UNITS)
    assert factors["query"].shape == (3, 4, 2, 6, 4)
    assert factors["query_relu"].shape == (3, 4, 2, 6)
    np.testing.assert_array_equal(factors["direction"], [[1, 1, -1, -1]] * 3)
    np.testing.assert_array_equal(factors["mask"], UNITS != 0)
    np.testing.assert_array_equal(affinity.graph(factors), predictor(UNITS))


def test_report_22_symbolic_factors_and_masks_of_keras(tmp_path: Path) -> None:
    """Reports 6, 22: in a functional model, from units and from masked embeddings; reloaded."""
    predictor = make()
    inputs = keras.Input([None], dtype="int32")
    # Keras counts the outputs of a layer at its first call: the one with more has to come first.
    outputs = dict(predictor(inputs, return_factors=True))
    outputs["graph"] = predictor(inputs)
    assert outputs["graph"].shape == (None, 4, 2, None, None)
    model = keras.Model(inputs, outputs)
    for x in (UNITS, UNITS[:, :2]):
        np.testing.assert_allclose(model(x)["graph"], predictor(x), atol=1e-6)
    embedding = keras.layers.Embedding(12, 8, mask_zero=True)
    masked = keras.Model(inputs, predictor(embedding(inputs)))
    expected = predictor(embedding(UNITS).numpy(), mask=UNITS != 0)
    np.testing.assert_allclose(masked(UNITS), expected, atol=1e-6)
    np.testing.assert_array_equal(predictor(embedding(UNITS)), expected)
    check_layer.in_a_fresh_process(
        [
            check_layer.save(tmp_path / "factors", model, [UNITS]),
            check_layer.save(tmp_path / "masked", masked, [UNITS]),
            check_layer.save(tmp_path / "predictor", predictor, [UNITS]),
            check_layer.save(
                tmp_path / "narrow",
                make(embedding_width=5, embedding_dtype="float16", train_embeddings=False),
                [UNITS],
            ),
        ]
    )


def test_report_25_every_argument_is_in_the_config() -> None:
    check_layer.check_config(
        GraphPredictor,
        {
            "vocabulary_size": 30,
            "width": 12,
            "num_layers": 1,
            "num_heads": 3,
            "head_dim": 5,
            "cnn_depth": 1,
            "kernel_size": 2,
            "sparsity": "softmax",
            "direction": "backward",
            "normalization": "layer",
            "embedding_width": 6,
            "train_embeddings": False,
            "embedding_dtype": "float16",
            "dropout": 0.1,
            "top_k_rate": 2.0,
            "initial_threshold": -2.0,
        },
    )


def test_defaults_are_those_of_the_released_run() -> None:
    config = GraphPredictor(100).get_config()
    expected = {"width": 512, "num_heads": 8, "head_dim": 256, "num_layers": 3, "cnn_depth": 4}
    assert {name: config[name] for name in expected} == expected
    assert config["normalization"] == "batch"
    assert config["kernel_size"] == 3


def test_calls_of_every_kind_agree_at_every_length() -> None:
    predictor = make()
    check_layer.check_parity(predictor, [UNITS])
    rng = np.random.default_rng(0)
    check_layer.check_lengths(predictor, lambda n: [rng.integers(0, 12, (2, n))])


def test_dtype_policies() -> None:
    check_layer.check_policies(
        lambda policy: GraphPredictor(12, **SMALL, sparsity="softmax", dtype=policy),
        [UNITS],
        float32_output=True,
    )
    keras.config.set_dtype_policy("mixed_float16")
    predictor = GraphPredictor(12, **SMALL)
    graph = predictor(UNITS)
    assert graph.dtype == tf.float32
    sums = graph.numpy().sum(-1)
    assert (np.isclose(sums, 1, atol=1e-5) | (sums == 0)).all()
    assert predictor.factors(UNITS)["query"].dtype == tf.float16


def test_embeddings_of_their_own_width_and_dtype() -> None:
    predictor = GraphPredictor(
        12, **SMALL, embedding_width=5, embedding_dtype="float16", train_embeddings=False
    )
    vectors = np.arange(60).reshape(12, 5) / 64
    predictor.set_embeddings(vectors)
    assert predictor.embedding.embeddings.dtype == "float16"
    assert all("embedding/" not in v.path for v in predictor.trainable_variables)
    kernel, bias = predictor.projection.get_weights()
    expected = vectors[UNITS] @ kernel + bias
    np.testing.assert_allclose(predictor.embed(UNITS), expected, atol=1e-5)
    assert predictor(UNITS).shape == (3, 4, 2, 6, 6)
    with pytest.raises(ValueError, match=r"shape \(12, 5\). Received: \(12, 8\)"):
        predictor.set_embeddings(np.zeros((12, 8)))


def test_sampled_padding_row_is_not_special() -> None:
    """Whatever row 0 of the table holds, graphs stay."""
    predictor = make()
    before = predictor(UNITS).numpy()
    table = predictor.embedding.get_weights()[0].copy()
    table[0] = 1e3
    predictor.embedding.set_weights([table])
    np.testing.assert_array_equal(predictor(UNITS), before)


def test_dropout_only_in_training() -> None:
    predictor = make(dropout=0.5)
    np.testing.assert_array_equal(predictor(UNITS), predictor(UNITS))
    start = predictor.get_weights()
    one = predictor(UNITS, training=True).numpy()
    predictor.set_weights(start)
    assert (predictor(UNITS).numpy() != one).any()


def test_report_47_ragged_units_say_what_to_do() -> None:
    with pytest.raises(TypeError, match=r"RaggedTensor: call `.to_tensor\(\)`"):
        GraphPredictor(12, **SMALL)(tf.ragged.constant([[3, 4], [5]]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocabulary_size": 1}, "`vocabulary_size` to be at least 2"),
        ({"direction": "up"}, "`direction` to be one of both, forward, backward. Received: 'up'"),
        ({"sparsity": "some"}, "`sparsity` to be one of"),
        ({"normalization": "group"}, "`normalization` to be one of batch, layer, none"),
        ({"num_heads": 0}, "`num_heads` to be a number above 0"),
        ({"dropout": 1.5}, r"to be in \[0, 1\)"),
    ],
)
def test_errors_of_arguments(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GraphPredictor(**{"vocabulary_size": 12, **SMALL, **changes})


def test_units_of_another_rank() -> None:
    with pytest.raises(ValueError, match=r"Received the shape: \(6,\)"):
        make()(UNITS[0])


# --- presets ------------------------------------------------------------------------------------


def test_preset_round_trip(tmp_path: Path) -> None:
    predictor = make(sparsity="top_k", top_k_rate=1.5)
    assert predictor.save_to_preset(tmp_path / "mine") == tmp_path / "mine"
    again = GraphPredictor.from_preset(tmp_path / "mine")
    np.testing.assert_allclose(again(UNITS), predictor(UNITS), atol=1e-6)
    assert presets.describe(tmp_path / "mine")["vocabulary_size"] == 12
    other = make(2, sparsity="top_k", top_k_rate=1.5)
    other.save_to_preset(tmp_path / "mine")  # replaces what was there
    again = GraphPredictor.from_preset(tmp_path / "mine")
    np.testing.assert_allclose(again(UNITS), other(UNITS), atol=1e-6)
    assert sorted(p.name for p in (tmp_path / "mine").iterdir()) == [
        "predictor.keras",
        "preset.json",
    ]


def test_preset_errors_are_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Received: 'no-such-preset'") as error:
        GraphPredictor.from_preset("no-such-preset")
    assert "\n" not in str(error.value)
    make().save_to_preset(tmp_path)
    whole = (tmp_path / "predictor.keras").read_bytes()
    (tmp_path / "predictor.keras").write_bytes(whole[:500])
    with pytest.raises(UserError, match="a file that does not load") as error:
        GraphPredictor.from_preset(tmp_path)
    assert "\n" not in str(error.value)
    model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
    model.save(tmp_path / "predictor.keras")
    with pytest.raises(UserError, match="Received: Sequential"):
        GraphPredictor.from_preset(tmp_path)
    (tmp_path / "preset.json").write_text("[]")
    with pytest.raises(UserError, match="another JSON file"):
        presets.describe(tmp_path)
