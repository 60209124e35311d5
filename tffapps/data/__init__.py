"""Images on disk: manifests, dataset layouts, partitions, tf.data pipelines, caches and stand-ins."""
