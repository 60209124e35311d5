import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tffapps.data import pipeline
from tffapps.data.images import MaskReader, Reader

OPTIONS = {"size": (4, 6), "channels": 1, "batch": 4}


def noisy(image, seed):
    return image + tf.random.stateless_uniform(tf.shape(image), seed)


def labels_of(dataset):
    return [labels.tolist() for _, labels in dataset.as_numpy_iterator()]


def test_images_and_labels_belong_together(numbered):
    dataset = pipeline.batches(numbered, range(11), **OPTIONS, epochs=2, seed=3)
    assert dataset.element_spec == pipeline.element_spec((4, 6), 1)
    seen = 0
    for images, labels in dataset.as_numpy_iterator():
        assert images.dtype == np.float32 and labels.dtype == np.int32
        expected = np.broadcast_to(labels[:, None, None, None] / 255, images.shape)
        np.testing.assert_allclose(images, expected, atol=1e-6)
        seen += len(labels)
    assert seen == 22


def test_no_batch_spans_two_epochs_and_each_epoch_has_its_order(numbered):
    found = labels_of(pipeline.batches(numbered, range(11), **OPTIONS, epochs=3, seed=3))
    assert [len(batch) for batch in found] == [4, 4, 3] * 3
    epochs = [list(itertools.chain(*found[start : start + 3])) for start in (0, 3, 6)]
    assert all(sorted(epoch) == list(range(11)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_the_seed_decides_the_order(numbered):
    first, again, other = (labels_of(pipeline.batches(numbered, range(11), **OPTIONS, seed=seed)) for seed in (0, 0, 1))
    assert first == again
    assert first != other


def test_large_seeds_and_pathlib(numbered):
    assert len(labels_of(pipeline.batches([Path(p) for p in numbered], range(11), **OPTIONS, seed=2**40))) == 3


def test_orders_are_equally_likely():
    """Each of three rows comes first a third of the time: 600 epochs, so 200 +- 12 (one sigma)."""
    firsts = [batch[0] for batch in labels_of(pipeline.from_arrays(np.zeros((3, 1)), range(3), batch=3, epochs=600))]
    assert np.abs(np.bincount(firsts, minlength=3) - 200).max() < 50


def test_without_shuffling_the_order_is_the_given_one(numbered):
    found = labels_of(pipeline.batches(numbered, range(11), **OPTIONS, epochs=2, shuffle=False))
    assert list(itertools.chain(*found)) == [*range(11), *range(11)]


def test_a_file_that_vanished_or_broke_is_left_out(numbered):
    dataset = pipeline.batches(numbered, range(11), **OPTIONS, shuffle=False)
    os.remove(numbered[2])
    Path(numbered[5]).write_bytes(b"junk")
    assert labels_of(dataset) == [[0, 1, 3, 4], [6, 7, 8, 9], [10]]


def test_nothing_readable_and_nothing_at_all():
    assert labels_of(pipeline.batches(["/nowhere/x.png"], [0], **OPTIONS)) == []
    assert labels_of(pipeline.batches([], [], **OPTIONS)) == []


def test_lengths_must_agree(numbered):
    with pytest.raises(ValueError, match="3 labels for 11 images"):
        pipeline.batches(numbered, [0, 1, 2], **OPTIONS)
    with pytest.raises(ValueError, match="2 labels for 3 images"):
        pipeline.from_arrays(np.zeros((3, 2)), [0, 1], batch=2)


def test_augmentation_has_a_seed_for_each_image_and_epoch(numbered):
    def added(**options):
        """The noise of each (epoch, image)."""
        dataset = pipeline.batches(numbered, range(11), **{**OPTIONS, "batch": 11}, augment=noisy, epochs=2, **options)
        return {
            (epoch, int(label)): (image - label / 255).round(4).tobytes()
            for epoch, (images, labels) in enumerate(dataset.as_numpy_iterator())
            for image, label in zip(images, labels)
        }

    first = added(seed=1)
    assert len(set(first.values())) == 22
    assert added(seed=1) == first
    assert added(seed=1, shuffle=False) == first  # it goes with the image, not with its place
    assert not set(added(seed=2).values()) & set(first.values())


def test_arrays_come_in_the_same_order_as_files(numbered):
    features = np.arange(11, dtype=np.float32)[:, None] * [1, 10]
    for shuffle in (True, False):
        dataset = pipeline.from_arrays(features, range(11), batch=4, epochs=2, seed=9, shuffle=shuffle)
        files = pipeline.batches(numbered, range(11), **OPTIONS, epochs=2, seed=9, shuffle=shuffle)
        assert labels_of(dataset) == labels_of(files)
        for values, labels in dataset.as_numpy_iterator():
            assert np.array_equal(values, labels[:, None] * [1, 10])


def test_a_pipeline_holds_no_state_no_python_and_no_pixels(numbered):
    dataset = pipeline.batches(numbered * 50, list(range(11)) * 50, **OPTIONS, augment=noisy)
    fail_on_state = 2
    graph = tf.raw_ops.DatasetToGraphV2(
        input_dataset=tf.data.experimental.to_variant(dataset), external_state_policy=fail_on_state
    ).numpy()
    assert b"PyFunc" not in graph
    assert len(graph) < 100_000 + sum(len(path) + 10 for path in numbered) * 50


def test_a_pipeline_is_traced_once(numbered):
    calls = []

    def counted(image, seed):
        calls.append(seed)
        return image

    for seed in range(3):
        labels_of(pipeline.batches(numbered[: 5 + seed], range(5 + seed), **OPTIONS, seed=seed, augment=counted))
    assert len(calls) == 1


_ELSEWHERE = """
import hashlib, json, sys
from tests_augment import noisy
from tffapps.data import pipeline
from tffapps.data.images import MaskReader, Reader
paths = json.loads(sys.argv[1])
options = dict(size=(4, 6), channels=1, batch=4, epochs=2, seed=5, augment=noisy)
dataset = pipeline.batches(paths, range(11), **options)
digest = hashlib.sha256()
for images, labels in dataset.as_numpy_iterator():
    digest.update(images.tobytes() + labels.tobytes())
print(digest.hexdigest())
"""


def test_another_process_gives_the_same_bytes(numbered, tmp_path):
    import hashlib

    digest = hashlib.sha256()
    dataset = pipeline.batches(numbered, range(11), **OPTIONS, epochs=2, seed=5, augment=noisy)
    for images, labels in dataset.as_numpy_iterator():
        digest.update(images.tobytes() + labels.tobytes())
    (tmp_path / "tests_augment.py").write_text(
        "import tensorflow as tf\n"
        "def noisy(image, seed):\n"
        "    return image + tf.random.stateless_uniform(tf.shape(image), seed)\n"
    )
    root = Path(pipeline.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root}:{tmp_path}"}
    command = [sys.executable, "-c", _ELSEWHERE, json.dumps(numbered)]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == digest.hexdigest()


@pytest.mark.parametrize("engine", ["in-process", "worker"])
def test_both_engines_read_it(numbered, engine):
    import tensorflow_federated as tff

    from tffapps.engine import open_engine

    datasets = [pipeline.batches(numbered, range(11), **OPTIONS, epochs=2, seed=seed) for seed in (0, 1)]
    sequence = tff.SequenceType(tff.types.tensorflow_to_type(datasets[0].element_spec))

    @tff.tensorflow.computation(sequence)
    def count(dataset):
        """Images, the sum of their pixels, and a number that depends on the order of the labels."""

        def add(state, batch):
            images, labels = batch
            order = state[2] * 31 % 1_000_003 + tf.cast(labels[0], tf.int64)
            return state[0] + tf.shape(images, tf.int64)[0], state[1] + tf.reduce_sum(images), order

        return dataset.reduce((np.int64(0), np.float32(0), np.int64(0)), add)

    @tff.federated_computation(tff.FederatedType(sequence, tff.CLIENTS))
    def count_all(datasets):
        return tff.federated_map(count, datasets)

    with open_engine(engine):
        found = count_all(datasets)
    for dataset, (images, pixels, order) in zip(datasets, found):
        assert images == 22
        assert pixels == pytest.approx(2 * 24 * sum(range(11)) / 255, rel=1e-4)
        expected = 0
        for batch in labels_of(dataset):
            expected = expected * 31 % 1_000_003 + batch[0]
        assert order == expected


def test_labels_may_be_masks(numbered, tmp_path):
    """Masks go with their images, are classes, and are not augmented."""
    masks = []
    for number in range(11):
        mask = np.zeros((4, 6), np.uint8)
        mask[number % 4, number % 6] = 255
        masks.append(str(tmp_path / f"mask{number}.png"))
        tf.io.write_file(masks[-1], tf.io.encode_png(mask[..., None]))
    read, read_label = Reader((4, 6), 1), MaskReader((4, 6))
    dataset = pipeline.of_files(numbered, masks, read, batch=4, seed=1, augment=noisy, read_label=read_label)
    assert dataset.element_spec[1] == tf.TensorSpec((None, 4, 6), tf.int32)
    seen = []
    for pictures, labels in dataset.as_numpy_iterator():
        assert all(np.unique(picture).size == picture.size for picture in pictures)
        seen += [tuple(place) for label in labels for place in np.argwhere(label)]
    assert sorted(seen) == sorted((number % 4, number % 6) for number in range(11))
    plain = pipeline.of_files(numbered, masks, read, batch=11, seed=1, read_label=read_label)
    ((pictures, labels),) = plain.as_numpy_iterator()
    numbers = np.rint(255 * pictures[:, 0, 0, 0]).astype(int)
    assert [tuple(np.argwhere(label)[0]) for label in labels] == [(n % 4, n % 6) for n in numbers]
    with pytest.raises(ValueError, match="3 labels for 11 images"):
        pipeline.of_files(numbered, masks[:3], read, batch=4, read_label=read_label)
