"""Puts a frozen predictor's graphs into a user's model in one call."""

from __future__ import annotations

import difflib
from typing import Any

import keras

from glomo_tf.transfer.graph_features import GraphFeatures
from glomo_tf.transfer.layer_with_graphs import LayerWithGraphs
from glomo_tf.transfer.model_with_graphs import ModelWithGraphs, unknown_layer


def attach(
    model: Any,
    predictor: Any,
    *,
    after: str = "embedding",
    units: Any = None,
    **mix_arguments: Any,
) -> Any:
    """Puts a frozen predictor and a graph mixture behind one layer of a Keras model.

    Functional and Sequential models are cloned: the result has weights of its own, equal to the
    given model's wherever their shapes are (layers behind wider features start anew; with
    `fusion="gru"` the width stays and so do all weights). A subclassed model is changed in place
    and returned inside a `ModelWithGraphs`. Compile the result; it is saved and loaded as any
    Keras model.

    Args:
        model: A functional, Sequential or (not yet built) subclassed Keras model.
        predictor: A `GraphPredictor`; it is frozen.
        after: Name of the layer whose output `[B, T, d]` gets the graphs. In a subclassed model
            also the name of the attribute that holds it.
        units: Where the units `[B, T]` come from. None: the input of the layer, as for an
            `Embedding`. A string: the name of an input of the model (for a subclassed model, of
            an entry of its input dict). A `keras.Input`: a new input of the model, added behind
            the ones it has.
        **mix_arguments: Further arguments of `GraphFeatures`: `control`, `fusion`,
            `num_mixtures`, …

    Returns:
        A Keras model; of the class of `model` unless that is subclassed or a new input is added
        to it.

    Raises:
        ValueError: Unknown layer or input (near matches are named), units of another length than
            the features or none at all, or a subclassed model that is built.
        TypeError: `model` is not a Keras model.

    Example:

    >>> import glomo_tf, keras
    >>> from glomo_tf import transfer
    >>> model = keras.Sequential(
    ...     [
    ...         keras.Input((None,), dtype="int32"),
    ...         keras.layers.Embedding(9, 5, name="embedding"),
    ...         keras.layers.GlobalMaxPooling1D(),
    ...         keras.layers.Dense(2),
    ...     ]
    ... )
    >>> predictor = glomo_tf.GraphPredictor(9, width=8, num_layers=1, num_heads=2, head_dim=4)
    >>> tuple(transfer.attach(model, predictor, fusion="concat").layers[-1].kernel.shape)
    (25, 2)
    """
    if not isinstance(model, keras.Model):
        raise TypeError(f"Expected `model` to be a keras.Model. Received: {type(model).__name__}.")
    graph_features = GraphFeatures(predictor, name=f"{after}_graphs", **mix_arguments)
    if isinstance(model, keras.Sequential):
        if units is None:
            return _attach_to_sequential(model, graph_features, after)
        if not model.built:
            raise ValueError(
                "Expected a Sequential model with a known input, because `units` is another "
                "input. Received: one that is not built. Begin it with a keras.Input."
            )
        functional = keras.Model(model.inputs, model.outputs, name=model.name)
        return _attach_to_functional(functional, graph_features, after, units)
    if getattr(model, "inputs", None):
        return _attach_to_functional(model, graph_features, after, units)
    if units is not None and not isinstance(units, str):
        raise ValueError(
            "Expected `units` to name an entry of the subclassed model's input dict. Received: "
            f"{type(units).__name__}. Give its name."
        )
    return ModelWithGraphs(model, graph_features, after=after, units=units)


def _attach_to_sequential(model: Any, graph_features: GraphFeatures, after: str) -> Any:
    _check_name(model, after)

    def clone(layer: Any) -> Any:
        copy = _copy(layer)
        if layer.name != after:
            return copy
        return LayerWithGraphs(copy, graph_features, name=f"{after}_with_graphs")

    result = keras.models.clone_model(model, clone_function=clone)
    if model.built:
        for old, new in zip(model.layers, result.layers, strict=True):
            _keep_weights(old, new.layer if isinstance(new, LayerWithGraphs) else new)
    return result


def _attach_to_functional(model: Any, graph_features: GraphFeatures, after: str, units: Any) -> Any:
    _check_name(model, after)
    whole = model
    if isinstance(units, keras.KerasTensor):
        whole = keras.Model(_with_input(model.input, units), model.output, name=model.name)
        units = units.name
    inputs = keras.tree.map_structure(
        lambda x: keras.Input(batch_shape=x.shape, dtype=x.dtype, name=x.name), whole.input
    )
    named = {x.name: x for x in keras.tree.flatten(inputs)}
    if units is not None and units not in named:
        near = difflib.get_close_matches(str(units), named, n=3)
        hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(named)}."
        raise ValueError(
            "Expected `units` to name an input of the model, or to be a new keras.Input. "
            f"Received: {units!r}. {hint}"
        )

    def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
        output = layer(*args, **kwargs)
        if layer.name != after:
            return output
        source = named[units] if units is not None else _own_units(layer, args)
        return graph_features(output, source)

    result = keras.models.clone_model(
        whole, input_tensors=inputs, clone_function=_copy, call_function=call
    )
    for layer in model.layers:
        if layer.weights:
            _keep_weights(layer, result.get_layer(layer.name))
    return result


def _own_units(layer: Any, args: tuple[Any, ...]) -> Any:
    source: Any = args[0] if args else None
    is_units = isinstance(source, keras.KerasTensor) and len(source.shape) == 2
    if is_units and isinstance(layer, keras.layers.Embedding):
        return keras.ops.cast(source, "int32")  # Embedding takes whole numbers as floats too.
    if is_units and "int" in keras.backend.standardize_dtype(source.dtype):
        return source
    raise ValueError(
        f"Expected layer {layer.name!r} to take integer units [batch, length]. Received: an input "
        f"of shape {tuple(getattr(source, 'shape', ()))}. Say where the units come from: "
        "units='name of an input', or units=keras.Input(…) for a new one."
    )


def _with_input(structure: Any, units: Any) -> Any:
    """The inputs of a model and one more, named where they are a dict, else at the end."""
    if isinstance(structure, dict):
        return {**structure, units.name: units}
    return [*structure, units] if isinstance(structure, (list, tuple)) else [structure, units]


def _check_name(model: Any, after: str) -> None:
    names = [layer.name for layer in model.layers]
    if after not in names:
        raise unknown_layer(after, names)


def _copy(layer: Any) -> Any:
    """A new layer that is not built: behind the graphs its input may be wider than before."""
    return layer.__class__.from_config(_unbuilt(layer.get_config()))


def _unbuilt(config: Any) -> Any:
    """A config without the shapes that the layers within it (of a wrapper, say) were built for."""
    if isinstance(config, dict):
        return {key: _unbuilt(value) for key, value in config.items() if key != "build_config"}
    return [_unbuilt(value) for value in config] if isinstance(config, list) else config


def _keep_weights(old: Any, new: Any) -> None:
    weights = old.get_weights()
    if new.built and [w.shape for w in weights] == [tuple(w.shape) for w in new.weights]:
        new.set_weights(weights)
