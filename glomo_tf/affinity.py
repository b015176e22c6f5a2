"""Relational graphs as pure functions: graph factors, prefix products and mixing.

Orientation, used everywhere: `graph[b, g, k, t, s]` is how much receiver t takes from source s, as
Keras lays out attention scores (the GLoMo paper writes the transpose). With R directions and L
layers in each, the G = R·L graphs are ordered by direction, then by layer.

**Graph factors** are the compact form of a graph: a dict of tensors, O(T) where a graph is O(T²):

| entry       | shape           | meaning                                                   |
|-------------|-----------------|-----------------------------------------------------------|
| `query`     | [B, G, K, T, h] | receivers                                                 |
| `key`       | [B, G, K, T, h] | sources                                                   |
| `mask`      | [B, T] bool     | real units, not padding                                   |
| `direction` | [B, G] int32    | +1 draws from earlier units, −1 from later, 0 from all    |
| the mode    | [B, G, K, T]    | named after the sparsity mode: its parameter of receivers |

The mode is told by the name of an entry, so it survives every place a dict of tensors survives:
symbolic calls, `predict`, SavedModel signatures. The G axis is absent in the factors of a single
`AffinityLayer`. Source of the formulas: Yang et al., "GLoMo", NeurIPS 2018.
"""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from glomo_tf.sparsity import SPARSITIES, normalize

Factors = Mapping[str, tf.Tensor]

PATHS: tuple[str, ...] = ("auto", "dense", "chain")
"""Ways to apply graphs to features, see `mix`."""


def sparsity_of(factors: Factors) -> str:
    """Name of the sparsity mode that the factors belong to.

    Raises:
        ValueError: the dict does not hold graph factors.
    """
    modes = [name for name in factors if name in SPARSITIES]
    missing = {"query", "key", "mask", "direction"} - set(factors)
    if missing or len(modes) != 1:
        raise ValueError(
            "Expected graph factors: a dict with query, key, mask, direction and one entry named "
            f"after a sparsity mode. Received the entries: {sorted(factors)}. "
            "Make them with `GraphPredictor.factors` or `AffinityLayer.factors`."
        )
    return modes[0]


def allowed_pairs(mask: tf.Tensor, direction: tf.Tensor) -> tf.Tensor:
    """Which sources each receiver may use.

    Args:
        mask: bool `[B, T]`, true for real units.
        direction: int `[B]` or `[B, G]`: +1 sources strictly before the receiver, −1 strictly
            after, 0 all sources.

    Returns:
        bool `[B, T, T]` or `[B, G, T, T]`; false for padding on either side.
    """
    positions = tf.range(tf.shape(mask)[1])
    distance = positions[:, tf.newaxis] - positions[tf.newaxis, :]
    sign = tf.cast(direction, distance.dtype)[..., tf.newaxis, tf.newaxis]
    causal = (distance * sign > 0) | (sign == 0)
    real = mask[:, :, tf.newaxis] & mask[:, tf.newaxis, :]
    return causal & (real if direction.shape.rank == 1 else real[:, tf.newaxis])


def graph(factors: Factors) -> tf.Tensor:
    """The dense graph of some graph factors.

    1. score[t, s] = ⟨query_t, key_s⟩ in the factors' dtype, then cast to float32
    2. normalised over the allowed sources (`glomo_tf.sparsity.normalize`)

    Args:
        factors: graph factors, with or without the G axis.

    Returns:
        float32 `[B, G, K, T, T]`, or `[B, K, T, T]` for factors without the G axis.

    Raises:
        ValueError: the dict does not hold graph factors.

    Example:

    >>> import numpy as np
    >>> from glomo_tf import affinity
    >>> from glomo_tf.layers import AffinityLayer
    >>> factors = AffinityLayer(2, 4).factors(np.ones((1, 3, 8), "float32"))
    >>> affinity.graph(factors).shape
    TensorShape([1, 2, 3, 3])
    """
    sparsity = sparsity_of(factors)
    scores = tf.matmul(factors["query"], factors["key"], transpose_b=True)
    allowed = allowed_pairs(factors["mask"], factors["direction"])
    allowed = tf.expand_dims(allowed, axis=-3)  # the same for every head
    return normalize(scores, allowed, sparsity, factors[sparsity])


def select(graphs: tf.Tensor | Factors, start: int, stop: int) -> tf.Tensor | Factors:
    """Graphs or factors of the layers `start:stop` along the G axis."""
    if not isinstance(graphs, Mapping):
        return graphs[:, start:stop]
    return {name: x if name == "mask" else x[:, start:stop] for name, x in graphs.items()}


def dense(graphs: tf.Tensor | Factors) -> tf.Tensor:
    """A dense graph from either form."""
    return graph(graphs) if isinstance(graphs, Mapping) else graphs


def with_layer_axis(graphs: tf.Tensor | Factors) -> tf.Tensor | Factors:
    """Adds the G axis (of size 1) to the output of a single `AffinityLayer`."""
    if not isinstance(graphs, Mapping):
        return graphs[:, tf.newaxis] if graphs.shape.rank == 4 else graphs
    if graphs["direction"].shape.rank == 2:
        return graphs
    return {name: x if name == "mask" else x[:, tf.newaxis] for name, x in graphs.items()}


def num_graph_layers(graphs: tf.Tensor | Factors) -> int:
    """G, the number of graph layers over all directions."""
    return (graphs["direction"] if isinstance(graphs, Mapping) else graphs).shape[1]


def num_heads(graphs: tf.Tensor | Factors) -> int:
    """K, the number of heads of each graph layer."""
    return (graphs["query"] if isinstance(graphs, Mapping) else graphs).shape[2]


def prefix_products(graphs: tf.Tensor) -> tf.Tensor:
    """Λ^l = A^l A^{l−1} … A^1 for l = 2..L, head by head.

    Args:
        graphs: `[B, L, K, T, T]`, the layers A^1..A^L of one direction.

    Returns:
        `[B, L − 1, K, T, T]`. Rows sum to at most 1.
    """
    layers = tf.unstack(graphs, axis=1)
    products = [layers[0]]
    for layer in layers[1:]:
        products.append(tf.matmul(layer, products[-1]))
    return tf.stack(products[1:], axis=1) if len(layers) > 1 else graphs[:, :0]


def mixture_size(num_layers: int, num_heads: int, products: bool) -> int:
    """Number of graphs in the mixture of one direction: (2L − 1)·K, or L·K without products."""
    return ((2 * num_layers - 1) if products else num_layers) * num_heads


def mix(
    graphs: tf.Tensor | Factors,
    features: tf.Tensor,
    weights: tf.Tensor,
    *,
    products: bool = True,
    path: str = "auto",
) -> tf.Tensor:
    """Applies N mixtures of the graphs of one direction to any features.

    out[b, n, t, ·] = Σ_m w[b, n, t, m] (Γ_m H)[b, t, ·] with Γ = A^1..A^L, then Λ^2..Λ^L, each
    over its K heads.

    Args:
        graphs: `[B, L, K, T, T]` or graph factors, the layers of one direction.
        features: H, `[B, T, d]`.
        weights: `[N, M]`, or `[B, N, T, M]` where they depend on the receiver.
        products: whether Λ^2..Λ^L are part of the mixture.
        path: `"dense"` builds the mixed graph, then applies it once; `"chain"` applies each layer
            in turn, Y_l = A^l Y_{l−1}, without a T×T product; `"auto"` takes the one with fewer
            multiplications (`dense_is_cheaper`).

    Returns:
        `[B, N, T, d]` in the dtype of `features`.

    Raises:
        ValueError: unknown path, or weights of another size than the mixture.
    """
    check_path(path)
    layers, heads = num_graph_layers(graphs), num_heads(graphs)
    size = mixture_size(layers, heads, products)
    if weights.shape[-1] != size:
        raise ValueError(
            f"Expected weights for {size} graphs ({layers} layers, {heads} heads, "
            f"products={products}). Received weights of shape {tuple(weights.shape)}."
        )
    weights = tf.cast(weights, features.dtype)
    if path == "dense":
        return _mix_dense(graphs, features, weights, products)
    if path == "chain":
        return _mix_chain(graphs, features, weights, products)
    mixtures = weights.shape[-2] if weights.shape.rank == 2 else weights.shape[1]
    cheaper = dense_is_cheaper(
        features.shape[1] if features.shape[1] is not None else tf.shape(features)[1],
        features.shape[2],
        num_layers=layers,
        num_heads=heads,
        num_mixtures=mixtures,
        products=products,
    )
    if isinstance(cheaper, bool):
        return (_mix_dense if cheaper else _mix_chain)(graphs, features, weights, products)
    return tf.cond(
        cheaper,
        lambda: _mix_dense(graphs, features, weights, products),
        lambda: _mix_chain(graphs, features, weights, products),
    )


def check_path(path: str) -> str:
    """Returns the path, or raises a `ValueError` that lists the known ones."""
    if path not in PATHS:
        raise ValueError(f"Expected `path` to be one of {', '.join(PATHS)}. Received: {path!r}.")
    return path


def dense_is_cheaper(
    length: int | tf.Tensor,
    width: int,
    *,
    num_layers: int,
    num_heads: int,
    num_mixtures: int,
    products: bool,
) -> bool | tf.Tensor:
    """Whether `path="dense"` needs fewer multiplications than `path="chain"`.

    For one example and direction, both divided by T², with M graphs in the mixture:
    dense K·(L−1)·T + M·N + N·d, chain M·d.

    Args:
        length: T, an int where it is known, else a scalar tensor.
        width: d, the width of the features.
        num_layers: L of the direction.
        num_heads: K.
        num_mixtures: N.
        products: whether the mixture holds prefix products.

    Returns:
        bool, or a scalar bool tensor where `length` is a tensor.
    """
    size = mixture_size(num_layers, num_heads, products)
    cubic = num_heads * (num_layers - 1) if products else 0
    return cubic * length + size * num_mixtures + num_mixtures * width <= size * width


def _mix_dense(
    graphs: tf.Tensor | Factors, features: tf.Tensor, weights: tf.Tensor, products: bool
) -> tf.Tensor:
    stack = tf.cast(dense(graphs), features.dtype)
    if products:
        stack = tf.concat([stack, prefix_products(stack)], axis=1)
    shape = tf.shape(stack)
    flat = tf.reshape(stack, [shape[0], weights.shape[-1], shape[3], shape[4]])
    equation = "nm,bmts->bnts" if weights.shape.rank == 2 else "bntm,bmts->bnts"
    mixed = tf.einsum(equation, weights, flat)
    return tf.matmul(mixed, features[:, tf.newaxis])


def _mix_chain(
    graphs: tf.Tensor | Factors, features: tf.Tensor, weights: tf.Tensor, products: bool
) -> tf.Tensor:
    layers, heads, width = num_graph_layers(graphs), num_heads(graphs), features.shape[-1]
    by_graph = tf.split(weights, weights.shape[-1] // heads, axis=-1)
    equation = "nk,bktd->bntd" if weights.shape.rank == 2 else "bntk,bktd->bntd"
    everywhere = features[:, tf.newaxis]  # broadcast over the heads
    product = everywhere
    out = None
    for layer in range(layers):
        matrix = tf.cast(dense(select(graphs, layer, layer + 1))[:, 0], features.dtype)
        if layer == 0 or not products:
            applied = tf.matmul(matrix, everywhere)
            product = applied
        else:  # one pass gives the terms of A^l and of Λ^l
            inputs = tf.concat([tf.broadcast_to(everywhere, tf.shape(product)), product], -1)
            both = tf.matmul(matrix, inputs)
            applied, product = both[..., :width], both[..., width:]
        term = tf.einsum(equation, by_graph[layer], applied)
        out = term if out is None else out + term
        if layer and products:
            out += tf.einsum(equation, by_graph[layers + layer - 1], product)
    return out


def count_zeros(
    graph: tf.Tensor, mask: tf.Tensor, directions: tuple[int, ...]
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Counts behind the sparsity of a graph set.

    Args:
        graph: `[B, G, K, T, T]`, ordered by direction.
        mask: bool `[B, T]`.
        directions: sign of each of the R directions.

    Returns:
        float32 scalars: zeros among the allowed pairs, allowed pairs, empty rows among the rows
        with an allowed source, and those rows; each summed over batch, layers and heads.
    """
    repeats = graph.shape[1] // len(directions)
    signs = tf.repeat(tf.constant(directions), repeats)
    direction = tf.tile(signs[tf.newaxis], [tf.shape(graph)[0], 1])
    allowed = allowed_pairs(mask, direction)[:, :, tf.newaxis]  # [B, G, 1, T, T]
    heads = tf.cast(graph.shape[2], tf.float32)
    pairs = heads * tf.reduce_sum(tf.cast(allowed, tf.float32))
    zeros = tf.reduce_sum(tf.cast(allowed & (graph == 0), tf.float32))
    with_source = tf.reduce_any(allowed, axis=-1)
    rows = heads * tf.reduce_sum(tf.cast(with_source, tf.float32))
    empty = with_source & (tf.reduce_sum(graph, axis=-1) == 0)
    return zeros, pairs, tf.reduce_sum(tf.cast(empty, tf.float32)), rows
