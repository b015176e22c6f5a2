"""The commands of the `glomo` command line, one a file; TensorFlow is imported inside them only."""
