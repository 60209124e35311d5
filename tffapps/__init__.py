"""Federated learning for images: five published systems on TensorFlow Federated and Keras."""

__version__ = "0.2.0"
