"""The exported model: names, numbers, versions, and what happens when it cannot be written."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import glomo_tf
from glomo_tf import export as exporting
from glomo_tf import saved_model
from glomo_tf.errors import UserError

TEXTS = ["The cat sat on the mat", "", "  \n ", "!!!", "dog", "naïve ПРИВЕТ 日本語 42 unseen"]


@pytest.fixture(scope="module")
def loaded(exported):
    return tf.saved_model.load(str(exported.path))


def test_names_are_the_golden_list(exported):
    names = {
        name: (
            {key: (info.dtype, info.shape) for key, info in entry.inputs.items()},
            {key: (info.dtype, info.shape) for key, info in entry.outputs.items()},
        )
        for name, entry in saved_model.signatures(exported.path).items()
    }
    graph = ("float32", (None, 4, 2, None, None))
    assert names == {
        "serving_default": (
            {"text": ("string", (None,))},
            {
                "graph": graph,
                "length": ("int32", (None,)),
                "tokens_bytes": ("string", (None, None)),
            },
        ),
        "units": ({"units": ("int32", (None, None))}, {"graph": graph}),
        "mix": (
            {"text": ("string", (None,)), "features": ("float32", (None, None, None))},
            {"features": ("float32", (None, None, None))},
        ),
    }


def test_texts_of_different_length_give_what_the_predictor_gives(exported, loaded):
    outputs = loaded.signatures["serving_default"](text=tf.constant(TEXTS))
    ids = exported.units(TEXTS)
    np.testing.assert_allclose(outputs["graph"], exported.predictor(ids), atol=1e-6)
    lengths = [6, 0, 0, 3, 1, 7]  # a Chinese character is a unit
    assert outputs["length"].numpy().tolist() == lengths
    tokens = outputs["tokens_bytes"].numpy()
    assert tokens.shape == (6, 7)
    assert tokens[0].tolist() == [b"The", b"cat", b"sat", b"on", b"the", b"mat", b""]
    assert tokens[5, 5:].tolist() == [b"42", b"unseen"]
    for row, length in enumerate(lengths):
        assert not outputs["graph"][row, :, :, length:].numpy().any()
        assert not outputs["graph"][row, ..., length:].numpy().any()
        # Forward layers draw from earlier units, backward ones from later ones.
        assert not np.triu(outputs["graph"][row, :2]).any()
        assert not np.tril(outputs["graph"][row, 2:]).any()
    assert (outputs["graph"].numpy() > 0).any()


def test_only_empty_texts(loaded):
    outputs = loaded.signatures["serving_default"](text=tf.constant(["", " "]))
    assert outputs["graph"].shape == (2, 4, 2, 1, 1)
    assert not outputs["graph"].numpy().any()
    assert outputs["length"].numpy().tolist() == [0, 0]
    assert outputs["tokens_bytes"].numpy().tolist() == [[b""], [b""]]


def test_longer_texts_are_cut_to_their_first_units(exported, loaded):
    words = ["cat", "dog", "sat", "the"] * 5
    outputs = loaded.signatures["serving_default"](text=tf.constant([" ".join(words)]))
    assert outputs["length"].numpy().tolist() == [9]
    short = exported.predictor(exported.units([" ".join(words[:9])]))
    np.testing.assert_allclose(outputs["graph"], short, atol=1e-6)
    ids = exported.units([" ".join(words)])
    np.testing.assert_allclose(loaded.signatures["units"](units=ids)["graph"], short, atol=1e-6)
    assert exported.description()["max_length"] == 9


def mixed(graph: np.ndarray, features: np.ndarray) -> np.ndarray:
    """[H; M_1 H; M_2 H] for two layers a direction, written out."""
    results = [features]
    for first, second in ((graph[:, 0], graph[:, 1]), (graph[:, 2], graph[:, 3])):
        matrices = [first, second, second @ first]  # A^1, A^2, Λ^2 = A^2 A^1
        mean = sum(matrices).mean(axis=1) / 3  # over three matrices and the heads
        padded = np.zeros((len(mean), features.shape[1], features.shape[1]))
        padded[:, : mean.shape[1], : mean.shape[1]] = mean
        results.append(padded @ features)
    return np.concatenate(results, axis=-1)


@pytest.mark.parametrize(("length", "width"), [(6, 5), (6, 1), (11, 3)])
def test_mix_applies_the_mean_of_graphs_and_products(exported, loaded, length, width):
    texts = ["The cat sat on the mat", "dog", ""]
    features = np.random.default_rng(1).normal(size=(3, length, width)).astype("float32")
    outputs = loaded.signatures["mix"](text=tf.constant(texts), features=tf.constant(features))
    graph = np.asarray(exported.predictor(exported.units(texts)))
    assert outputs["features"].shape == (3, length, 3 * width)
    np.testing.assert_allclose(outputs["features"], mixed(graph, features), atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 2, 3), (2, 6, 3)])
def test_mix_refuses_features_of_other_texts(loaded, shape):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Expected features \[B, S, d\]"):
        loaded.signatures["mix"](text=tf.constant(["The cat sat"]), features=tf.zeros(shape))


@pytest.fixture
def small(units):
    return glomo_tf.GraphPredictor(
        units.vocabulary_size, width=16, num_layers=1, num_heads=1, head_dim=4, cnn_depth=1,
        direction="backward",
    )  # fmt: skip


def test_one_direction_and_one_layer(tmp_path, units, small):
    path = exporting.export(small, units, tmp_path, 7, max_length=None, warm_up=False)
    assert path == tmp_path / "7"
    model = tf.saved_model.load(str(path))
    features = tf.ones([1, 3, 2])
    graph = np.asarray(small(units(["the cat sat"])))[0, 0, 0]
    outputs = model.signatures["mix"](text=tf.constant(["the cat sat"]), features=features)
    np.testing.assert_allclose(outputs["features"][0, :, :2], np.ones((3, 2)))
    np.testing.assert_allclose(outputs["features"][0, :, 2:], graph @ np.ones((3, 2)), atol=1e-6)
    assert not (path / "assets.extra" / "tf_serving_warmup_requests").exists()


BLOCKED = """
import sys

class Blocker:
    def find_spec(self, name, *args):
        if name.partition(".")[0] in ("glomo_tf", "tensorflow_text"):
            raise ImportError(name + " is blocked")

sys.meta_path.insert(0, Blocker())
import json
import tensorflow as tf

model = tf.saved_model.load(sys.argv[1])
outputs = model.signatures["serving_default"](text=tf.constant(json.loads(sys.argv[2])))
assert not [name for name in sys.modules if name.startswith("glomo_tf")]
print(json.dumps({"graph": outputs["graph"].numpy().tolist(),
                  "length": outputs["length"].numpy().tolist()}))
"""


def test_loads_where_this_package_cannot_be_imported(exported):
    done = subprocess.run(
        [sys.executable, "-I", "-c", BLOCKED, str(exported.path), json.dumps(TEXTS)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    outputs = json.loads(done.stdout.splitlines()[-1])
    graph = np.asarray(exported.predictor(exported.units(TEXTS)))
    np.testing.assert_allclose(outputs["graph"], graph, atol=1e-6)
    assert outputs["length"] == [6, 0, 0, 3, 1, 7]


def test_description_names_the_vocabulary(exported):
    description = exported.description()
    assert description["vocabulary"] == {
        "size": exported.units.vocabulary_size,
        "sha256": exported.units.fingerprint,
    }
    assert (description["directions"], description["layers"]) == ([1, -1], 2)


def test_warm_up_requests_are_what_the_server_reads(exported):
    if importlib.util.find_spec("tensorflow_serving") is None:
        pytest.skip("the extra `serving` is not installed")
    from tensorflow_serving.apis import prediction_log_pb2

    file = exported.path / "assets.extra" / "tf_serving_warmup_requests"
    requests = [
        prediction_log_pb2.PredictionLog.FromString(record.numpy()).predict_log.request
        for record in tf.data.TFRecordDataset(str(file))
    ]
    assert 0 < len(requests) <= 1000
    model = tf.saved_model.load(str(exported.path))
    texts = set()
    for request in requests:
        assert request.model_spec.name == "docs"
        inputs = {k: tf.constant(tf.make_ndarray(v)) for k, v in request.inputs.items()}
        model.signatures[request.model_spec.signature_name](**inputs)
        if "text" in inputs:
            texts.add(inputs["text"].numpy()[0])
    assert texts == {b"", b"the", b" ".join([b"the"] * 9)}


@pytest.fixture
def quick(monkeypatch):
    """Replaces the slow part: a version is a folder with one file."""

    def write(predictor, units, path, max_length):
        path.mkdir()
        (path / "saved_model.pb").write_bytes(b"new")

    monkeypatch.setattr(exporting, "_write", write)


def test_versions_count_up_and_nothing_is_overwritten(tmp_path, predictor, units, quick):
    base = tmp_path / "docs"
    for name in ("tmp-1", "x3", "²"):
        (base / name).mkdir(parents=True)

    def export(*version):
        return exporting.export(predictor, units, base, *version, warm_up=False).name

    assert [export(), export(), export(41), export()] == ["1", "2", "41", "42"]
    (base / "2" / "saved_model.pb").write_bytes(b"old")
    with pytest.raises(UserError, match="version 2, which exists"):
        export(2)
    assert (base / "2" / "saved_model.pb").read_bytes() == b"old"
    assert sorted(p.name for p in base.iterdir()) == ["1", "2", "41", "42", "tmp-1", "x3", "²"]


def test_a_number_taken_meanwhile_is_left_alone(tmp_path, predictor, units, monkeypatch):
    def write(predictor, units, path, max_length):
        path.mkdir()
        (path / "saved_model.pb").write_bytes(b"new")
        other = tmp_path / "1"
        other.mkdir(exist_ok=True)
        (other / "saved_model.pb").write_bytes(b"other")

    monkeypatch.setattr(exporting, "_write", write)
    with pytest.raises(UserError, match="version 1, which exists"):
        exporting.export(predictor, units, tmp_path, 1, warm_up=False)
    assert exporting.export(predictor, units, tmp_path, warm_up=False).name == "2"
    assert (tmp_path / "1" / "saved_model.pb").read_bytes() == b"other"


@pytest.mark.parametrize("version", [0, -1, 1.5, "1", True])
def test_versions_are_whole_numbers(tmp_path, predictor, units, version):
    with pytest.raises(UserError, match="`version` to be a whole number from 1"):
        exporting.export(predictor, units, tmp_path / "docs", version)
    assert not (tmp_path / "docs").exists()


def test_vocabulary_of_another_predictor_is_refused(tmp_path, predictor):
    others = glomo_tf.TextUnits.from_corpus(["another corpus with other words"], 100)
    with pytest.raises(UserError, match=r"Expected the vocabulary .* Received: \d+ units"):
        exporting.export(predictor, others, tmp_path / "docs")
    assert not (tmp_path / "docs").exists()


def test_full_disk_leaves_earlier_versions_whole(tmp_path, small, units):
    resource = pytest.importorskip("resource", reason="file size limits need POSIX")
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "saved_model.pb").write_bytes(b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        with pytest.raises(UserError, match="Earlier versions are unchanged"):
            exporting.export(small, units, tmp_path, warm_up=False)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [p.name for p in tmp_path.iterdir()] == ["1"]
    assert (tmp_path / "1" / "saved_model.pb").read_bytes() == b"old"


def test_folder_that_cannot_be_made(tmp_path, predictor, units, quick):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="choose another folder"):
        exporting.export(predictor, units, tmp_path / "file" / "docs", warm_up=False)


def test_every_variable_is_stored_once(exported):
    stored = [
        tf.train.load_variable(str(exported.path / "variables" / "variables"), name)
        for name, _ in tf.train.list_variables(str(exported.path / "variables" / "variables"))
        if name.endswith("VARIABLE_VALUE")
    ]
    contents = [array.tobytes() for array in stored if np.size(array) > 64]
    assert contents
    assert len(set(contents)) == len(contents)
