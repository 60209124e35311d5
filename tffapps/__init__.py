"""Federated learning for images: five published systems on TensorFlow Federated and Keras."""
