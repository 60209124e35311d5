"""Keras networks only: how they are built, seeded, and given pre-trained weights. Nothing is federated."""
