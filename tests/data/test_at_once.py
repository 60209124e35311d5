"""A small client's examples read at once: the rows, the batches and the values of the pipeline, bit by bit."""

import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tffapps.data import at_once, pipeline
from tffapps.data.images import MaskReader, Reader
from tffapps.engine.values import AtClients, Struct

OPTIONS = {"size": (4, 6), "channels": 1, "batch": 4}


def noisy(image, seed):
    return image + tf.random.stateless_uniform(tf.shape(image), seed)


def content(dataset):
    return [(images, labels) for images, labels in dataset.as_numpy_iterator()]


def same(first, second):
    """Whether they have the same batches; there must be some."""
    one, other = content(first), content(second)
    arrays = [pair for batch, twin in zip(one, other) for pair in zip(batch, twin, strict=True)]
    return bool(arrays) and len(one) == len(other) and all(np.array_equal(*pair) for pair in arrays)


@pytest.mark.parametrize(
    "options",
    [{}, {"epochs": 3, "seed": 5}, {"shuffle": False, "epochs": 2}, {"augment": noisy, "epochs": 2, "seed": 2**33}],
    ids=["plain", "epochs", "in order", "augmented"],
)
def test_files_read_at_once_are_the_pipeline(numbered, options):
    dataset = pipeline.batches(numbered, range(11), **OPTIONS, **options)
    read = at_once.of(dataset)
    assert read is not dataset and read.element_spec == dataset.element_spec
    assert same(read, dataset)
    assert not same(read, at_once.of(pipeline.batches(numbered, range(11), **OPTIONS, seed=77)))


def test_labels_that_are_files_are_read_too(numbered):
    dataset = pipeline.of_files(numbered, numbered, Reader((4, 6), 1), batch=4, read_label=MaskReader((4, 6)))
    assert at_once.of(dataset) is not dataset and same(at_once.of(dataset), dataset)


def test_a_file_that_cannot_be_read_is_left_to_the_pipeline(numbered):
    dataset = pipeline.batches(numbered, range(11), **OPTIONS, shuffle=False)
    os.remove(numbered[2])
    Path(numbered[5]).write_bytes(b"junk")
    labels = [labels.tolist() for _, labels in content(at_once.of(dataset))]
    assert labels == [[0, 1, 3, 4], [6, 7, 8, 9], [10]]


def test_only_few_examples_are_read_at_once(numbered, monkeypatch):
    row = 4 * 4 * 6 + 4  # an image and its label
    monkeypatch.setattr(at_once, "MOST_BYTES", 22 * row)
    assert hasattr(pipeline.batches(numbered, range(11), **OPTIONS, epochs=2), "at_once")
    assert not hasattr(pipeline.batches(numbered, range(11), **OPTIONS, epochs=3), "at_once")
    assert not hasattr(pipeline.batches([], [], **OPTIONS), "at_once")


@pytest.mark.parametrize("epochs", [1, 3])
def test_few_and_many_arrays_come_alike(epochs, monkeypatch):
    features = np.random.default_rng(0).normal(size=(11, 3)).astype(np.float32)
    few = pipeline.from_arrays(features, range(11), batch=4, epochs=epochs, seed=9)
    monkeypatch.setattr(at_once, "MOST_BYTES", 0)
    many = pipeline.from_arrays(features, range(11), batch=4, epochs=epochs, seed=9)
    assert few.element_spec == many.element_spec and same(few, many)


def test_the_engine_reads_at_once_in_a_clients_turn(numbered):
    dataset = pipeline.batches(numbered, range(11), **OPTIONS)
    value = AtClients([Struct([("training", dataset), ("steps", tf.constant(3))])]).of(0)
    assert value.training is not dataset and same(value.training, dataset) and int(value.steps) == 3
