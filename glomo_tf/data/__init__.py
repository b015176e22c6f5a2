"""From texts and files to units and `tf.data` pipelines."""
