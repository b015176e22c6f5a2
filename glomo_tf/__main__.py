"""`python -m glomo_tf` is `glomo`."""

from glomo_tf.cli import main

main()
