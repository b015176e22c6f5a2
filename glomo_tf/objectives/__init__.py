"""What pre-training predicts from each unit's features: its context."""

from glomo_tf.objectives.context_objective import ContextObjective, UnitTable
from glomo_tf.objectives.contrastive_context import ContrastiveContext
from glomo_tf.objectives.generative_context import GenerativeContext

__all__ = ["ContextObjective", "ContrastiveContext", "GenerativeContext", "UnitTable"]
