"""The C API without Python TensorFlow: equal numbers, texts of any bytes, clear refusals."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from glomo_tf import export as exporting
from glomo_tf import saved_model
from glomo_tf.errors import UserError

TEXTS = ["The cat sat on the mat", "", "naïve ПРИВЕТ 日本語", b"bad \xff byte", "a\x00b"]


def test_numbers_equal_the_predictors(exported):
    outputs = saved_model.run(exported.path, "serving_default", {"text": TEXTS})
    assert set(outputs) == {"graph", "length", "tokens_bytes"}
    ids = exported.units(TEXTS)
    np.testing.assert_allclose(outputs["graph"], exported.predictor(ids), atol=1e-6)
    np.testing.assert_array_equal(outputs["length"], np.count_nonzero(ids, axis=1))
    expected = exported.units.tokens(TEXTS).to_tensor(b"").numpy()
    assert outputs["tokens_bytes"].tolist() == expected.tolist()


def test_numbers_in_and_out(exported):
    features = np.random.default_rng(0).normal(size=(2, 4, 3)).astype("float32")
    texts = ["the cat sat", "dog"]
    outputs = saved_model.run(exported.path, "mix", {"text": texts, "features": features})
    model = tf.saved_model.load(str(exported.path))
    expected = model.signatures["mix"](text=tf.constant(texts), features=tf.constant(features))
    np.testing.assert_allclose(outputs["features"], expected["features"], atol=1e-6)


def test_plain_file_runs_without_tensorflow_in_python(exported):
    script = (
        "import runpy, sys\n"
        "sys.argv = sys.argv[1:]\n"
        "try:\n"
        "    runpy.run_path(sys.argv[0], run_name='__main__')\n"
        "finally:\n"
        "    bad = {'tensorflow', 'keras', 'glomo_tf'} & set(sys.modules)\n"
        "    print('imported:', sorted(bad), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", script, saved_model.__file__, str(exported.path), "units",
         "units=[[4, 5, 0]]"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "imported: []" in done.stderr
    graph = np.array(json.loads(done.stdout)["graph"])
    np.testing.assert_allclose(graph, exported.predictor(np.array([[4, 5, 0]])), atol=1e-6)


def test_shell_lists_signatures_and_answers_in_one_line(exported, tmp_path):
    def shell(*arguments):
        return subprocess.run(
            [sys.executable, "-I", saved_model.__file__, *map(str, arguments)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    listing = json.loads(shell(exported.path).stdout)
    assert listing["units"]["inputs"] == {"units": {"dtype": "int32", "shape": [None, None]}}
    for arguments in ((tmp_path,), (exported.path, "units", "units=nonsense")):
        refused = shell(*arguments)
        assert refused.returncode == 2
        assert refused.stderr.startswith("Error: Expected ")
        assert "Traceback" not in refused.stderr


@pytest.mark.parametrize(
    ("signature", "inputs", "match"),
    [
        ("absent", {}, "mix, serving_default, units"),
        ("units", {}, "inputs units. Received: none"),
        ("units", {"units": [1, 2]}, r"shape \['any', 'any'\]. Received: shape \[2\]"),
        ("units", {"units": [["a"]]}, "array of int32"),
        ("serving_default", {"text": [3]}, "array of string"),
    ],
)
def test_inputs_that_do_not_fit(exported, signature, inputs, match):
    with pytest.raises(UserError, match=match):
        saved_model.run(exported.path, signature, inputs)


def test_refusal_of_the_model_is_one_line(exported):
    with pytest.raises(UserError, match=r"^Expected inputs that[^\n]*Expected features[^\n]*$"):
        saved_model.run(
            exported.path, "mix", {"text": ["the cat sat"], "features": np.zeros((1, 1, 2))}
        )


@pytest.mark.parametrize("content", [None, b"", b"\x12\xff", b"\x00" * 9, b"\x12\x02\x0a\x00"])
def test_damaged_files(tmp_path, content):
    if content is not None:
        (tmp_path / "saved_model.pb").write_bytes(content)
    with pytest.raises(UserError, match="Expected a SavedModel"):
        saved_model.signatures(tmp_path)


REGISTRY = """
import ctypes, glob, importlib.util, sys

folder = importlib.util.find_spec("tensorflow").submodule_search_locations[0]
for name in ("framework", "cc"):
    for path in glob.glob(f"{folder}/libtensorflow_{name}.so*"):
        library = ctypes.CDLL(path, ctypes.RTLD_GLOBAL)

class Buffer(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("length", ctypes.c_size_t), ("free", ctypes.c_void_p)]

library.TF_GetAllOpList.restype = ctypes.POINTER(Buffer)
buffer = library.TF_GetAllOpList().contents
open(sys.argv[1], "wb").write(ctypes.string_at(buffer.data, buffer.length))
"""


def test_every_operation_is_in_the_registry_of_core_tensorflow(exported, tmp_path):
    file = tmp_path / "operations.pb"
    done = subprocess.run(
        [sys.executable, "-I", "-c", REGISTRY, str(file)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("this TensorFlow has no libtensorflow_cc")
    registered = {
        saved_model._text(saved_model._message(entry)[1][0])
        for _, entry in saved_model._fields(memoryview(file.read_bytes()), 1)
    }
    used = saved_model.operations(exported.path)
    assert {"MatMul", "LookupTableFindV2", "StatefulPartitionedCall"} <= used | {"MatMul"}
    assert len(used) > 30
    assert used <= registered
    assert exporting.foreign_operations(exported.path) == []


def test_foreign_operations_are_named(tmp_path):
    text = pytest.importorskip("tensorflow_text", reason="the extra `text` is not installed")
    module = tf.Module()
    tokenizer = text.UnicodeScriptTokenizer()
    module.split = tf.function(
        lambda x: tokenizer.tokenize(x).flat_values,
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    tf.saved_model.save(module, str(tmp_path))
    assert exporting.foreign_operations(tmp_path) == ["UnicodeScriptTokenizeWithOffsets"]
