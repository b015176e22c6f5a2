"""Requests that TF Serving runs while it loads a model, so that the first user need not wait."""

from __future__ import annotations

from pathlib import Path

import tensorflow as tf

REQUESTS = "assets.extra/tf_serving_warmup_requests"


def write_requests(model: Path, name: str, max_length: int) -> Path:
    """Adds warm-up requests to a SavedModel: every signature with an empty, a short, a long text.

    Needs tensorflow-serving-api (extra `serving`).

    Args:
        model: Folder of the SavedModel.
        name: Name that the model is served under.
        max_length: Units of the long text.

    Returns:
        The path of the file, a TFRecord of `PredictionLog`.

    Example:

    >>> import pathlib, tempfile
    >>> from glomo_tf.warm_up import write_requests
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_requests(pathlib.Path(folder), "docs", 8).name
    'tf_serving_warmup_requests'
    """
    from tensorflow_serving.apis import predict_pb2, prediction_log_pb2

    path = model / REQUESTS
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for length in (0, 1, max_length):
            text = tf.constant([" ".join(["the"] * length)])
            width = max(length, 1)
            for signature, inputs in (
                ("serving_default", {"text": text}),
                ("units", {"units": tf.ones([1, width], tf.int32) * min(length, 1)}),
                ("mix", {"text": text, "features": tf.zeros([1, width, 16])}),
            ):
                request = predict_pb2.PredictRequest()
                request.model_spec.name = name
                request.model_spec.signature_name = signature
                for key, value in inputs.items():
                    request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
                log = prediction_log_pb2.PredictionLog(
                    predict_log=prediction_log_pb2.PredictLog(request=request)
                )
                writer.write(log.SerializeToString())
    return path
