"""Pictures of graphs: a PNG for a paper or a slide, a self-contained page to explore.

Both draw `graph[t, s]` = how much receiver t takes from source s as an arc from s to t, and as a
matrix with receivers down and sources across. Neither needs TensorFlow: a graph is a numpy array.
"""

from __future__ import annotations

from glomo_tf.viewer.html import draw_html
from glomo_tf.viewer.png import draw_png
from glomo_tf.viewer.sentence import Sentence

__all__ = ["Sentence", "draw_html", "draw_png"]
