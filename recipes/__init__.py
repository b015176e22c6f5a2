"""Experiments, one a file; import them as `glomo_tf.recipes`. They never import each other.

Each has `Settings` (a frozen dataclass of plain values), `SMOKE` (settings that end in under two
minutes on two cores) and `run(settings, folder, *, progress)`, which returns its result.
"""
