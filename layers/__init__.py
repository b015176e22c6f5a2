"""Keras layers of GLoMo; import them as `glomo_tf.layers`."""

from glomo_tf.layers.affinity_layer import AffinityLayer
from glomo_tf.layers.causal_convolution import CausalConvolution
from glomo_tf.layers.context_decoder import ContextDecoder
from glomo_tf.layers.context_head import ContextHead
from glomo_tf.layers.graph_mix_layer import GraphMixLayer
from glomo_tf.layers.gru_composition import GRUComposition
from glomo_tf.layers.locked_dropout import LockedDropout
from glomo_tf.layers.masked_pooling import MaskedPooling
from glomo_tf.layers.network_normalization import NetworkNormalization
from glomo_tf.layers.residual_composition import ResidualComposition

__all__ = [
    "AffinityLayer",
    "CausalConvolution",
    "ContextDecoder",
    "ContextHead",
    "GRUComposition",
    "GraphMixLayer",
    "LockedDropout",
    "MaskedPooling",
    "NetworkNormalization",
    "ResidualComposition",
]
