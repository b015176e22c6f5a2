"""The mathematics of GLoMo in plain numpy, with loops: what the package is compared with.

Written from the formulas, in float64 and for clarity alone. Shapes and the orientation are those of
`glomo_tf.affinity`: `graph[b, g, k, t, s]` is how much receiver t takes from source s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


# --- from scores to a row of a graph ------------------------------------------------------------


def simplex_projection(z: ArrayLike) -> Array:
    """The closest point of the probability simplex, by bisection on τ of max(z − τ, 0)."""
    z = np.asarray(z, np.float64)
    low, high = z.max() - 1.0, z.max()
    for _ in range(200):
        level = (low + high) / 2
        if np.maximum(z - level, 0).sum() > 1:
            low = level
        else:
            high = level
    return np.maximum(z - (low + high) / 2, 0)


def row(scores: ArrayLike, allowed: ArrayLike, mode: str, parameter: float = 0.0) -> Array:
    """One receiver's row from its scores; sources that are not allowed get 0."""
    scores = np.asarray(scores, np.float64)
    places = [s for s in range(len(scores)) if np.asarray(allowed, bool)[s]]
    out = np.zeros(len(scores))
    if not places:
        return out
    z = scores[places]
    if mode == "sparsemax":
        out[places] = simplex_projection(z)
        return out
    if mode == "relu_length":
        out[places] = np.maximum(z, 0) / parameter if parameter else 0.0
        return out
    if mode == "square":
        r = z**2
    elif mode == "relu":
        r = np.maximum(z, 0) ** 2
    elif mode in ("layer_relu", "query_relu"):
        r = np.maximum(z - parameter, 0) ** 2
    elif mode == "top_k":
        r = z**2
        kept = sorted(r, reverse=True)[: max(int(parameter), 1)]
        r = np.where(r >= kept[-1], r, 0.0)
    elif mode == "softmax":
        r = np.exp(z - z.max())
    else:
        raise AssertionError(mode)
    if r.sum() > 0:
        out[places] = r / r.sum()
    return out


def normalize(
    scores: ArrayLike, allowed: ArrayLike, mode: str, parameter: ArrayLike = 0.0
) -> Array:
    """Every row of `[..., T, S]`, with a parameter for each receiver `[..., T]`."""
    scores = np.asarray(scores, np.float64)
    allowed = np.broadcast_to(np.asarray(allowed, bool), scores.shape)
    parameter = np.broadcast_to(np.asarray(parameter, np.float64), scores.shape[:-1])
    out = np.zeros_like(scores)
    for place in np.ndindex(*scores.shape[:-1]):
        out[place] = row(scores[place], allowed[place], mode, float(parameter[place]))
    return out


def allowed(mask: ArrayLike, direction: int) -> NDArray[np.bool_]:
    """`[B, T, T]`: whether receiver t may take from source s."""
    mask = np.asarray(mask, bool)
    batch, length = mask.shape
    out = np.zeros((batch, length, length), bool)
    for b in range(batch):
        for t in range(length):
            for s in range(length):
                causal = {1: s < t, -1: s > t, 0: True}[direction]
                out[b, t, s] = causal and mask[b, t] and mask[b, s]
    return out


def top_k(rate: float, real_units: int) -> int:
    """Sources kept: ⌊rate·√n⌋, at least 1 and at most n."""
    return int(min(max(int(rate * np.sqrt(real_units)), 1), max(real_units, 1)))


def graph(factors: Mapping[str, ArrayLike], mode: str) -> Array:
    """`[B, G, K, T, T]` from factors with the G axis."""
    query, key = (np.asarray(factors[name], np.float64) for name in ("query", "key"))
    batch, layers, heads, length, _ = query.shape
    out = np.zeros((batch, layers, heads, length, length))
    for g in range(layers):
        pairs = allowed(factors["mask"], int(np.asarray(factors["direction"])[0, g]))
        for k in range(heads):
            scores = np.einsum("bth,bsh->bts", query[:, g, k], key[:, g, k])
            out[:, g, k] = normalize(scores, pairs, mode, np.asarray(factors[mode])[:, g, k])
    return out


# --- products and mixtures ----------------------------------------------------------------------


def products(graphs: ArrayLike) -> Array:
    """Λ^2..Λ^L, `[B, L − 1, K, T, T]`, with Λ^l = A^l A^(l−1) … A^1."""
    graphs = np.asarray(graphs, np.float64)
    out = []
    for l in range(1, graphs.shape[1]):  # noqa: E741 - the letter of the formula
        product = graphs[:, 0]
        for m in range(1, l + 1):
            product = np.einsum("bktu,bkus->bkts", graphs[:, m], product)
        out.append(product)
    batch, _, heads, length, _ = graphs.shape
    return np.stack(out, axis=1) if out else np.zeros((batch, 0, heads, length, length))


def mix(graphs: ArrayLike, features: ArrayLike, weights: ArrayLike, with_products: bool) -> Array:
    """`[B, N, T, d]` for weights `[N, M]` or `[B, N, T, M]`; graphs are those of one direction."""
    graphs = np.asarray(graphs, np.float64)
    features, weights = np.asarray(features, np.float64), np.asarray(weights, np.float64)
    stack = np.concatenate([graphs, products(graphs)], axis=1) if with_products else graphs
    batch, layers, heads, length, _ = stack.shape
    mixtures = weights.shape[-2] if weights.ndim == 2 else weights.shape[1]
    out = np.zeros((batch, mixtures, length, features.shape[-1]))
    for b in range(batch):
        for n in range(mixtures):
            for t in range(length):
                w = weights[n] if weights.ndim == 2 else weights[b, n, t]
                for layer in range(layers):
                    for k in range(heads):
                        out[b, n, t] += w[layer * heads + k] * (stack[b, layer, k, t] @ features[b])
    return out


def multiplications(
    length: int, width: int, layers: int, heads: int, mixtures: int, with_products: bool, path: str
) -> int:
    """Scalar multiplications of one example and direction, counted product by product."""
    t, total = length, 0
    for layer in range(1, layers + 1):
        for _ in range(heads):
            if path == "dense":
                if with_products and layer > 1:
                    total += t * t * t  # A^l times the product below it
                total += mixtures * t * t * (2 if with_products and layer > 1 else 1)  # w Γ
            else:
                total += t * t * width  # A^l H
                if with_products and layer > 1:
                    total += t * t * width  # A^l Λ^(l−1) H
    if path == "dense":
        total += mixtures * t * t * width  # the mixed graphs times H
    return total


# --- networks -----------------------------------------------------------------------------------


def sigmoid(x: ArrayLike) -> Array:
    return 1 / (1 + np.exp(-np.asarray(x, np.float64)))


def softmax(x: ArrayLike) -> Array:
    x = np.asarray(x, np.float64)
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def gru(
    state: ArrayLike,
    received: ArrayLike,
    kernel: ArrayLike,
    recurrent: ArrayLike,
    bias: ArrayLike,
    recurrent_bias: ArrayLike,
) -> Array:
    """One GRU step; gates in the order update, reset, candidate; reset after the product."""
    h, x = np.asarray(state, np.float64), np.asarray(received, np.float64)
    d = h.shape[-1]
    a = x @ np.asarray(kernel, np.float64) + np.asarray(bias, np.float64)
    u = h @ np.asarray(recurrent, np.float64)
    z = sigmoid(a[..., :d] + u[..., :d])
    r = sigmoid(a[..., d : 2 * d] + u[..., d : 2 * d])
    c = np.tanh(a[..., 2 * d :] + r * (u[..., 2 * d :] + np.asarray(recurrent_bias, np.float64)))
    return z * h + (1 - z) * c


def causal_convolution(
    x: ArrayLike, mask: ArrayLike, kernels: Sequence[ArrayLike], offsets: Sequence[ArrayLike]
) -> Array:
    """Blocks of ReLU(Σ_j W_j x_(t−j) + offset) on `[B, T, d]`, 0 at padding, not normalised.

    A kernel is `[j, d, w]`.
    """
    real = np.asarray(mask, bool)[..., None]
    x = np.where(real, np.asarray(x, np.float64), 0)
    for kernel, offset in zip(kernels, offsets, strict=True):
        kernel = np.asarray(kernel, np.float64)
        out = np.zeros((*x.shape[:2], kernel.shape[-1]))
        for t in range(x.shape[1]):
            for j in range(kernel.shape[0]):
                if t - j >= 0:
                    out[:, t] += x[:, t - j] @ kernel[j]
        x = np.where(real, np.maximum(out + offset, 0), 0)
    return x


def mix_by_head(graph: ArrayLike, features: ArrayLike) -> Array:
    """s_t = Σ_s A[t, s] F_s, head k on feature slice k: `[B, K, T, T]` on `[B, T, d]`."""
    graph, features = np.asarray(graph, np.float64), np.asarray(features, np.float64)
    out = np.zeros_like(features)
    heads = graph.shape[1]
    part = features.shape[-1] // heads
    for b in range(features.shape[0]):
        for k in range(heads):
            where = slice(k * part, (k + 1) * part)
            out[b, :, where] = graph[b, k] @ features[b, :, where]
    return out


# --- objectives ---------------------------------------------------------------------------------


def contexts(units: ArrayLike, sign: int, length: int) -> list[tuple[int, int, int, int]]:
    """All predictions of one direction: (row, position, offset, unit at that offset)."""
    units = np.asarray(units)
    out = []
    for b in range(units.shape[0]):
        for t in range(units.shape[1]):
            for offset in range(1, length + 1):
                place = t + sign * offset
                inside = 0 <= place < units.shape[1]
                if units[b, t] > 0 and inside and units[b, place] > 0:
                    out.append((b, t, offset, int(units[b, place])))
    return out


def cross_entropy(logits: Mapping[int, float], target: int) -> float:
    """−log softmax of the target among candidates given as {unit: logit}."""
    values = np.array(list(logits.values()), np.float64)
    highest = values.max()
    return float(np.log(np.exp(values - highest).sum()) + highest - logits[target])


# --- optimizer ----------------------------------------------------------------------------------


class Adam:
    """Plain Adam with decoupled weight decay, on one float64 array."""

    def __init__(
        self,
        rate: float,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-7,
        weight_decay: float = 0.0,
    ) -> None:
        self.rate, self.beta_1, self.beta_2 = rate, beta_1, beta_2
        self.epsilon, self.weight_decay = epsilon, weight_decay
        self.step = 0
        self.m: Array | float = 0.0
        self.v: Array | float = 0.0

    def apply(
        self, weights: ArrayLike, gradient: ArrayLike, rows: Sequence[int] | None = None
    ) -> Array:
        """Weights after one step; with `rows` moments and weights of all other rows stay."""
        w = np.array(weights, np.float64)
        g = np.asarray(gradient, np.float64)
        touched = np.ones(len(w), bool) if rows is None else np.isin(np.arange(len(w)), rows)
        touched = touched.reshape(-1, *[1] * (w.ndim - 1))
        self.step += 1
        self.m = np.where(touched, self.beta_1 * self.m + (1 - self.beta_1) * g, self.m)
        self.v = np.where(touched, self.beta_2 * self.v + (1 - self.beta_2) * g**2, self.v)
        w -= self.rate * self.weight_decay * w
        # Keras folds the bias corrections into the rate, so ε is added before them.
        rate = self.rate * np.sqrt(1 - self.beta_2**self.step) / (1 - self.beta_1**self.step)
        return w - np.where(touched, rate * self.m / (np.sqrt(self.v) + self.epsilon), 0.0)
