"""One call that puts graphs into a user's model, of all three kinds."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

import glomo_tf
from glomo_tf import transfer

UNITS = np.array([[3, 4, 5, 6], [7, 8, 0, 0]], "int32")


@pytest.fixture
def predictor() -> glomo_tf.GraphPredictor:
    return glomo_tf.GraphPredictor(9, width=8, num_layers=1, num_heads=2, head_dim=4, cnn_depth=1)


def functional(dtype: str = "int32") -> keras.Model:
    units = keras.Input((None,), dtype=dtype, name="tokens")
    hidden = keras.layers.Embedding(9, 5, mask_zero=True, name="embedding")(units)
    hidden = keras.layers.GRU(6, return_sequences=True, use_cudnn=False, name="rnn")(hidden)
    hidden = keras.layers.GlobalAveragePooling1D(name="pool")(hidden)
    return keras.Model(units, keras.layers.Dense(2, name="head")(hidden))


def sequential() -> keras.Sequential:
    return keras.Sequential(
        [
            keras.Input((None,), dtype="int32"),
            keras.layers.Embedding(9, 5, mask_zero=True, name="embedding"),
            keras.layers.GlobalAveragePooling1D(name="pool"),
            keras.layers.Dense(2, name="head"),
        ]
    )


SUBCLASSED = """
import keras

@keras.saving.register_keras_serializable(package="user")
class Tagger(keras.Model):
    def __init__(self, width=5, from_dict=False, **kwargs):
        super().__init__(**kwargs)
        self.width, self.from_dict = width, from_dict
        if from_dict:
            self.features = keras.layers.Dense(width, name="embedding")
        else:
            self.features = keras.layers.Embedding(9, width, mask_zero=True, name="embedding")
        self.head = keras.layers.Dense(2)

    def call(self, inputs, training=None):
        return self.head(self.features(inputs["vectors"] if self.from_dict else inputs))

    def get_config(self):
        return {**super().get_config(), "width": self.width, "from_dict": self.from_dict}
"""
exec(SUBCLASSED)
Tagger = globals()["Tagger"]


def expected_features(model: keras.Model, layer, units: np.ndarray) -> np.ndarray:
    """What the graphs of `model` make of the output of a layer."""
    graphs = model.get_layer("embedding_graphs")
    return np.asarray(graphs.mix(layer(units), graphs.predictor(units)))


def test_functional_model(predictor) -> None:
    base = functional()
    model = transfer.attach(base, predictor, fusion="concat")
    assert [layer.name for layer in model.layers] == [
        "tokens",
        "embedding",
        "embedding_graphs",
        "rnn",
        "pool",
        "head",
    ]
    features = expected_features(model, base.get_layer("embedding"), UNITS)
    assert features.shape == (2, 4, 25)
    hidden = model.get_layer("rnn")(features, mask=UNITS != 0)
    hidden = np.stack([hidden[0].numpy().mean(0), hidden[1, :2].numpy().mean(0)])
    assert np.allclose(model.get_layer("head")(hidden), model(UNITS), atol=1e-5)
    # Weights are kept where shapes are: not in the network behind the wider features.
    for name in ("embedding", "head"):
        for a, b in zip(base.get_layer(name).weights, model.get_layer(name).weights, strict=True):
            assert np.array_equal(a, b)
            assert a is not b
    assert model.get_layer("rnn").weights[0].shape == (25, 18)
    # The given model is as it was.
    assert len(base.layers) == 5
    assert base.trainable_weights


def test_gru_fusion_keeps_all_weights(predictor) -> None:
    base = functional()
    model = transfer.attach(base, predictor, fusion="gru")
    for a, b in zip(base.get_layer("rnn").weights, model.get_layer("rnn").weights, strict=True):
        assert np.array_equal(a, b)


def test_hidden_states_with_a_named_input(predictor) -> None:
    model = transfer.attach(functional(), predictor, after="rnn", units="tokens", fusion="none")
    assert model.get_layer("rnn_graphs").output.shape == (None, None, 24)
    assert model.input_names == ["tokens"] if hasattr(model, "input_names") else True


def test_floats_that_hold_units(predictor) -> None:
    # A keras.Input without a dtype is float32, and Embedding takes it.
    base = functional(dtype="float32")
    model = transfer.attach(base, predictor, fusion="gru")
    assert np.allclose(model(UNITS.astype("float32")), model(UNITS), atol=1e-6)


@pytest.mark.parametrize("structure", ["single", "list", "dict"])
def test_new_input_for_units(predictor, structure: str) -> None:
    vectors = keras.Input((None, 5), name="vectors")
    inputs = {"single": vectors, "list": [vectors], "dict": {"vectors": vectors}}[structure]
    hidden = keras.layers.Dense(3, name="embedding")(vectors)
    base = keras.Model(inputs, keras.layers.Dense(2)(hidden))
    units = keras.Input((None,), dtype="int32", name="units")
    model = transfer.attach(base, predictor, units=units, fusion="concat")
    values = np.random.default_rng(0).normal(size=(2, 4, 5)).astype("float32")
    given = {"vectors": values, "units": UNITS} if structure == "dict" else [values, UNITS]
    result = model(given)
    assert result.shape == (2, 4, 2)
    graphs = model.get_layer("embedding_graphs")
    features = graphs.mix(model.get_layer("embedding")(values), graphs.predictor(UNITS))
    assert np.allclose(model.layers[-1](features), result, atol=1e-5)


def test_sequential_model(predictor) -> None:
    base = sequential()
    model = transfer.attach(base, predictor, fusion="concat", num_mixtures=1)
    assert isinstance(model, keras.Sequential)
    wrapped = model.layers[0]
    graphs = wrapped.graph_features
    assert np.array_equal(wrapped.layer.embeddings, base.layers[0].embeddings)
    features = graphs.mix(base.layers[0](UNITS), graphs.predictor(UNITS)).numpy()
    pooled = np.stack([features[0].mean(0), features[1, :2].mean(0)])  # the mask arrived
    assert np.allclose(model.layers[-1](pooled), model(UNITS), atol=1e-5)


def test_sequential_model_with_another_input(predictor) -> None:
    base = keras.Sequential(
        [keras.Input((None, 5)), keras.layers.Dense(3, name="embedding"), keras.layers.Dense(2)]
    )
    units = keras.Input((None,), dtype="int32", name="units")
    model = transfer.attach(base, predictor, units=units)
    assert model([np.ones((2, 4, 5), "float32"), UNITS]).shape == (2, 4, 2)


@pytest.mark.parametrize("after", ["embedding", "features"])
def test_subclassed_model(predictor, after: str) -> None:
    base = Tagger()
    table = base.features
    model = transfer.attach(base, predictor, after=after, fusion="concat", num_mixtures=1)
    result = model(UNITS)
    graphs = model.graph_features
    features = graphs.mix(table(UNITS), graphs.predictor(UNITS))
    assert np.allclose(base.head(features), result, atol=1e-5)
    assert len(model.trainable_weights) == 1 + 3 + 2  # table, mixture, head


def test_subclassed_model_with_units_beside_the_features(predictor) -> None:
    model = transfer.attach(Tagger(from_dict=True), predictor, units="units", fusion="concat")
    values = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")
    model.compile("sgd", "mse")
    inputs = {"vectors": values, "units": UNITS}
    model.fit(inputs, np.ones((2, 4, 2), "float32"), verbose=0)
    result = model.predict(inputs, verbose=0)
    other = model.predict({"vectors": values, "units": UNITS[::-1].copy()}, verbose=0)
    assert not np.allclose(result, other)
    with pytest.raises(ValueError, match=r"an entry 'units'.*Received.*vectors"):
        model({"vectors": values})


def test_saved_models_load_in_a_fresh_process(predictor, tmp_path: pathlib.Path) -> None:
    values = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")
    beside = {"vectors": values, "units": UNITS}
    kinds = {"functional": functional(), "sequential": sequential(), "subclassed": Tagger()}
    for name, base in {**kinds, "beside": Tagger(from_dict=True)}.items():
        inputs, units = (beside, "units") if name == "beside" else (UNITS, None)
        model = transfer.attach(base, predictor, fusion="concat", units=units)
        model.compile("adam", "mse")
        model.fit(inputs, np.zeros(model(inputs).shape, "float32"), verbose=0)
        model.save(tmp_path / f"{name}.keras")
        trained = len(model.trainable_weights)
        np.savez(tmp_path / f"{name}.npz", result=model(inputs), trained=trained, **beside)
    code = f"""
import pathlib, sys
{SUBCLASSED}
import numpy as np, glomo_tf
paths = list(pathlib.Path(sys.argv[1]).glob("*.keras"))
assert len(paths) == 4
for path in paths:
    model = keras.models.load_model(path)
    kept = dict(np.load(path.with_suffix(".npz")))
    both = dict(vectors=kept["vectors"], units=kept["units"])
    result = model(both if path.stem == "beside" else kept["units"])
    np.testing.assert_allclose(result, kept["result"], atol=1e-6)
    assert len(model.trainable_weights) == kept["trained"]
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (functional, {"after": "embeding"}, "Received: 'embeding'. Did you mean embedding"),
        (sequential, {"after": "embeding"}, "Did you mean embedding"),
        (Tagger, {"after": "feature"}, "Did you mean features"),
        (functional, {"after": "rnn"}, "'rnn' to take integer units.*Say where the units come"),
        (functional, {"units": "token"}, "Received: 'token'. Did you mean tokens"),
        (functional, {"control": "lokal"}, "Expected `control`"),
        (Tagger, {"units": 3}, "Expected `units` to name an entry"),
    ],
)
def test_errors(make, arguments, message, predictor) -> None:
    with pytest.raises(ValueError, match=message):
        transfer.attach(make(), predictor, **arguments)


def test_features_of_another_length(predictor) -> None:
    units = keras.Input((8,), dtype="int32", name="units")
    hidden = keras.layers.Embedding(9, 5)(units)
    hidden = keras.layers.Conv1D(4, 2, strides=2, name="conv")(hidden)
    base = keras.Model(units, hidden)
    with pytest.raises(ValueError, match="features of length 4 and units of length 8"):
        transfer.attach(base, predictor, after="conv", units="units")


def test_built_subclassed_model(predictor) -> None:
    base = Tagger()
    base(UNITS)
    with pytest.raises(ValueError, match=r"not built yet.*Attach graphs before the first call"):
        transfer.attach(base, predictor)


def test_not_a_model(predictor) -> None:
    with pytest.raises(TypeError, match="Received: Dense"):
        transfer.attach(keras.layers.Dense(2), predictor)


@pytest.mark.parametrize("kind", ["bidirectional", "time distributed"])
def test_wrappers_behind_the_graphs_are_built_for_wider_features(kind, predictor):
    units = keras.Input((None,), dtype="int32")
    embedded = keras.layers.Embedding(9, 6, name="emb")(units)
    layer = {
        "bidirectional": keras.layers.Bidirectional(keras.layers.LSTM(3, return_sequences=True)),
        "time distributed": keras.layers.TimeDistributed(keras.layers.Dense(3)),
    }[kind]
    model = keras.Model(units, layer(embedded))
    attached = transfer.attach(model, predictor, after="emb")
    expected = model.predict(UNITS, verbose=0).shape
    assert attached.predict(UNITS, verbose=0).shape == expected
