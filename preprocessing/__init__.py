"""Image preparation that runs eagerly, before any training, and is usable without TensorFlow Federated."""
