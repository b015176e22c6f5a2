"""The graph predictor g: from units to a set of relational graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from glomo_tf import affinity, presets
from glomo_tf.data.text_units import TextUnits
from glomo_tf.layers import AffinityLayer, CausalConvolution, LockedDropout
from glomo_tf.layers._checks import check_positive
from glomo_tf.sparsity import check_sparsity

DIRECTIONS: dict[str, tuple[int, ...]] = {"both": (1, -1), "forward": (1,), "backward": (-1,)}
"""Sign of each direction: +1 draws from earlier units, −1 from later ones."""


@keras.saving.register_keras_serializable(package="glomo_tf")
class GraphPredictor(keras.Model):
    """Predicts which units depend on which, without seeing the features it will be used on.

    1. E = embeddings of the units, projected to `width` where `embedding_width` differs
    2. Kc = KeyCNN(E), Qc = QueryCNN(E): causal convolutions; a stack of its own for each
       direction, the backward one on the reversed sequence
    3. graph layer l: `AffinityLayer` on (Qc, Kc); backward graphs are flipped back

    With L layers and both directions G = 2·L: forward layers 1..L, then backward layers 1..L.

    Args:
        vocabulary_size: number of units, padding (0) included.
        width: d, of the convolutions.
        num_layers: L, graph layers in each direction.
        num_heads: K, heads of each graph layer.
        head_dim: h, width of queries and keys.
        cnn_depth: convolution blocks.
        kernel_size: units that one convolution sees.
        sparsity: how scores become a graph, see `AffinityLayer`.
        direction: `"both"`, `"forward"` (draws from earlier units) or `"backward"`.
        normalization: of the convolutions: `"batch"`, `"layer"` or `"none"`.
        embedding_width: of the unit embeddings; by default `width`, without a projection.
        train_embeddings: whether the embeddings are trained.
        embedding_dtype: dtype in which embeddings are stored, such as `"float16"` for frozen
            ones; by default that of the dtype policy.
        dropout: rate of locked dropout on the embeddings and of dropout in the convolutions.
        top_k_rate: see `AffinityLayer`.
        initial_threshold: see `AffinityLayer`.
        **kwargs: of `keras.Model`.

    Call arguments:
        inputs: units, int `[B, T]`, 0 is padding; or embeddings, float `[B, T, width]`.
        mask: bool `[B, T]`, true for real units; by default `units != 0`.
        training: whether batch statistics and dropout are used.
        return_factors: whether to return graph factors (see `glomo_tf.affinity`) instead.

    Returns:
        float32 graph `[B, G, K, T, T]`: `graph[b, g, k, t, s]` is how much receiver t takes from
        source s. Rows sum to 1, or to 0 where a receiver takes nothing. Or its factors.

    Raises:
        ValueError: an argument outside its range.
        TypeError: ragged input.

    Example:

    >>> import numpy as np
    >>> import glomo_tf
    >>> predictor = glomo_tf.GraphPredictor(50, width=16, num_layers=2, num_heads=2, head_dim=8)
    >>> predictor(np.array([[4, 8, 15, 16, 23]])).shape
    TensorShape([1, 4, 2, 5, 5])

    References:
        Yang et al., "GLoMo: Unsupervised Learning of Transferable Relational Graphs", 2018.
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        width: int = 512,
        num_layers: int = 3,
        num_heads: int = 8,
        head_dim: int = 256,
        cnn_depth: int = 4,
        kernel_size: int = 3,
        sparsity: str = "query_relu",
        direction: str = "both",
        normalization: str = "batch",
        embedding_width: int | None = None,
        train_embeddings: bool = True,
        embedding_dtype: str | None = None,
        dropout: float = 0.0,
        top_k_rate: float = 1.0,
        initial_threshold: float = -1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(vocabulary_size, int) or vocabulary_size < 2:
            raise ValueError(
                "Expected `vocabulary_size` to be at least 2 (padding and one unit). "
                f"Received: {vocabulary_size!r}."
            )
        check_positive(
            width=width,
            num_layers=num_layers,
            num_heads=num_heads,
            head_dim=head_dim,
            cnn_depth=cnn_depth,
            kernel_size=kernel_size,
        )
        if direction not in DIRECTIONS:
            raise ValueError(
                f"Expected `direction` to be one of {', '.join(DIRECTIONS)}. "
                f"Received: {direction!r}."
            )
        self.vocabulary_size = vocabulary_size
        self.width = width
        self.num_layers = num_layers
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.cnn_depth = cnn_depth
        self.kernel_size = kernel_size
        self.sparsity = check_sparsity(sparsity)
        self.direction = direction
        self.normalization = normalization
        self.embedding_width = embedding_width
        self.train_embeddings = train_embeddings
        self.embedding_dtype = embedding_dtype
        self.dropout = dropout
        self.top_k_rate = top_k_rate
        self.initial_threshold = initial_threshold
        self.supports_masking = True
        self._make_children()

    def _make_children(self) -> None:
        policy = self.dtype_policy
        embedding_width = self.embedding_width or self.width
        # Predictions are inner products with these rows in tied objectives. Their spread at the
        # start grows with stddev² · √width; this makes it the same for every width. It is wide:
        # a tied loss starts above log V and first falls to it.
        spread = (32 / embedding_width) ** 0.25
        self.embedding = keras.layers.Embedding(
            self.vocabulary_size,
            embedding_width,
            embeddings_initializer=keras.initializers.RandomNormal(stddev=spread),
            trainable=self.train_embeddings,
            name="embedding",
            dtype=self.embedding_dtype or policy,
        )
        self.projection = None
        if self.embedding_width not in (None, self.width):
            self.projection = keras.layers.Dense(self.width, name="projection", dtype=policy)
        self.embedding_dropout = LockedDropout(self.dropout, name="embedding_dropout", dtype=policy)
        self.convolutions = CausalConvolution(
            self.width,
            self.cnn_depth,
            kernel_size=self.kernel_size,
            num_networks=2 * self.num_directions,  # a query and a key network for each direction
            normalization=self.normalization,
            dropout=self.dropout,
            name="convolutions",
            dtype=policy,
        )
        self.affinities = [
            AffinityLayer(
                self.num_heads,
                self.head_dim,
                sparsity=self.sparsity,
                top_k_rate=self.top_k_rate,
                initial_threshold=self.initial_threshold,
                name=f"affinity_{index}",
                dtype=policy,
            )
            for index in range(self.num_graph_layers)
        ]

    @property
    def num_directions(self) -> int:
        """R: 2 with `direction="both"`, else 1."""
        return len(DIRECTIONS[self.direction])

    @property
    def directions(self) -> tuple[int, ...]:
        """Sign of each direction: +1 draws from earlier units, −1 from later ones."""
        return DIRECTIONS[self.direction]

    @property
    def num_graph_layers(self) -> int:
        """G = R·L, the graph layers over all directions."""
        return self.num_directions * self.num_layers

    def build(self, input_shape: Any) -> None:
        units = (None, None)
        self.embedding.build(units)
        features = (None, None, self.width)
        if self.projection is not None:
            self.projection.build((None, None, self.embedding_width))
        self.embedding_dropout.build(features)
        self.convolutions.build((2 * self.num_directions, *features))
        for layer in self.affinities:
            layer.build(features, features)
        self.built = True

    def embed(self, units: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Unit embeddings E `[B, T, width]`, projected where they have a width of their own."""
        x = tf.cast(self.embedding(units), self.compute_dtype)
        if self.projection is not None:
            x = self.projection(x)
        return self.embedding_dropout(x, training=training)

    def call(
        self,
        inputs: tf.Tensor,
        mask: tf.Tensor | None = None,
        training: bool = False,
        return_factors: bool = False,
    ) -> tf.Tensor | dict[str, tf.Tensor]:
        if isinstance(inputs, tf.RaggedTensor):
            raise TypeError(
                "Expected units as a dense tensor [batch, length] with 0 as padding. Received a "
                "RaggedTensor: call `.to_tensor()` on it."
            )
        if inputs.shape.rank == 2:
            units = tf.cast(inputs, tf.int32)
            mask = units != 0 if mask is None else mask
            x = self.embed(units, training=training)
        elif inputs.shape.rank == 3:
            x = inputs
            mask = tf.ones(tf.shape(x)[:2], tf.bool) if mask is None else mask
        else:
            raise ValueError(
                "Expected units [batch, length] or embeddings [batch, length, width]. "
                f"Received the shape: {tuple(inputs.shape)}."
            )
        factors = self._factors(x, tf.cast(mask, tf.bool), training)
        return factors if return_factors else affinity.graph(factors)

    def factors(
        self, units: tf.Tensor, mask: tf.Tensor | None = None, training: bool = False
    ) -> dict[str, tf.Tensor]:
        """Graph factors (see `glomo_tf.affinity`) instead of the graph; the same arguments."""
        return self(units, mask=mask, training=training, return_factors=True)

    def _factors(self, x: tf.Tensor, mask: tf.Tensor, training: bool) -> dict[str, tf.Tensor]:
        signs = self.directions
        ordered = [_in_order(x, sign) for sign in signs]
        masks = [_in_order(mask, sign) for sign in signs]
        networks = self.convolutions(
            tf.stack([x for x in ordered for _ in range(2)]),
            mask=tf.stack([m for m in masks for _ in range(2)]),
            training=training,
        )
        networks = tf.unstack(networks, num=2 * len(signs), axis=0)
        layers = []
        for index, layer in enumerate(self.affinities):
            which = index // self.num_layers
            sign = signs[which]
            # Affinities look at one unit at a time, so the order is restored before them.
            queries, keys = (_in_order(networks[2 * which + role], sign) for role in range(2))
            factors = layer.factors(queries, keys, mask=mask)
            layers.append({**factors, "direction": sign * factors["direction"]})
        together = {name: tf.stack([f[name] for f in layers], axis=1) for name in layers[0]}
        return {**together, "mask": mask}

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return mask

    def set_embeddings(self, vectors: np.ndarray) -> None:
        """Sets the unit embeddings, for example to GloVe vectors.

        Args:
            vectors: float `[vocabulary_size, embedding_width]`; row 0 is padding.

        Raises:
            ValueError: another shape.
        """
        expected = (self.vocabulary_size, self.embedding_width or self.width)
        if tuple(np.shape(vectors)) != expected:
            raise ValueError(
                f"Expected embeddings of the shape {expected}. Received: {np.shape(vectors)}."
            )
        if not self.built:
            self.build((None, None))
        self.embedding.set_weights([vectors])

    def save_to_preset(self, folder: str | Path, text_units: TextUnits | None = None) -> Path:
        """Writes `predictor.keras` and `preset.json` to a folder, which may hold more.

        Args:
            folder: made where it is missing.
            text_units: the `TextUnits` it was trained on, to be saved beside it.

        Returns:
            Path of the folder.

        Raises:
            UserError: the vocabulary has another size, or the folder cannot be written.
        """
        return presets.save_predictor(self, folder, text_units)

    @classmethod
    def from_preset(cls, name_or_folder: str | Path) -> GraphPredictor:
        """Loads a predictor by the name of a shipped preset, or from any preset folder.

        Names are looked up in the installed package's `saved_models` folder.

        Raises:
            UserError: unknown name (near matches are named), or files missing or damaged.
        """
        return presets.load_predictor(name_or_folder)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "width": self.width,
            "num_layers": self.num_layers,
            "num_heads": self.num_heads,
            "head_dim": self.head_dim,
            "cnn_depth": self.cnn_depth,
            "kernel_size": self.kernel_size,
            "sparsity": self.sparsity,
            "direction": self.direction,
            "normalization": self.normalization,
            "embedding_width": self.embedding_width,
            "train_embeddings": self.train_embeddings,
            "embedding_dtype": self.embedding_dtype,
            "dropout": self.dropout,
            "top_k_rate": self.top_k_rate,
            "initial_threshold": self.initial_threshold,
        }


def _in_order(x: tf.Tensor, sign: int) -> tf.Tensor:
    """The sequence as a direction reads it: unchanged, or reversed along axis 1."""
    return x if sign > 0 else tf.reverse(x, axis=[1])
