"""Transfer: learned graphs, frozen, in the models of other tasks, and the controls they must beat.

`attach` puts graphs into a model in one call; `GraphFeatures` is the layer it uses.
"""

from glomo_tf.transfer.attach import attach
from glomo_tf.transfer.controls import CONTROLS, control_graph, untrained
from glomo_tf.transfer.graph_features import GraphFeatures
from glomo_tf.transfer.layer_with_graphs import LayerWithGraphs
from glomo_tf.transfer.messages import MessageMixLayer, graph_messages
from glomo_tf.transfer.model_with_graphs import ModelWithGraphs

__all__ = [
    "CONTROLS",
    "GraphFeatures",
    "LayerWithGraphs",
    "MessageMixLayer",
    "ModelWithGraphs",
    "attach",
    "control_graph",
    "graph_messages",
    "untrained",
]
