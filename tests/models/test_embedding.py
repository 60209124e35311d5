"""Embeddings beside probabilities, for every classifier."""

import numpy as np
import pytest
import tensorflow as tf

from models.classifiers import build
from models.cut import split
from models.embedding import embedding_of, embedding_size, with_embedding
from models.names import HEADS, NAMES

IMAGES = np.random.default_rng(0).random((2, 32, 32, 3), dtype=np.float32)


LARGER = ("densenet169", "densenet201")  # built as densenet121 is, in many more seconds


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", [name for name in NAMES if name not in LARGER])
def test_every_classifier(name, head):
    model = build(name, input_shape=(32, 32, 3), classes=3, head=head)
    both = with_embedding(model)
    assert embedding_size(model) == both.output_shape[0][1] == model.get_layer("classifier").kernel.shape[0]
    assert [id(variable) for variable in both.weights] == [id(variable) for variable in model.weights]
    if name in ("tiny", "resnet18"):
        embedding, probabilities = both(IMAGES, training=False)
        np.testing.assert_array_equal(embedding, embedding_of(model)(IMAGES))
        np.testing.assert_array_equal(probabilities, model(IMAGES))


@pytest.mark.parametrize("head", HEADS)
def test_a_head_alone_with_dropout(head):
    model = build("tiny", input_shape=(32, 32, 3), classes=3, head=head, dropout=0.5)
    base, top = split(model, "head")
    embedding, probabilities = with_embedding(top)(base(IMAGES))
    np.testing.assert_array_equal(embedding, embedding_of(model)(IMAGES))
    np.testing.assert_array_equal(probabilities, model(IMAGES))
    for layer in top.layers:
        if isinstance(layer, tf.keras.layers.BatchNormalization):
            layer.trainable = False  # in inference mode: dropout is then all that training changes
    in_training, _ = with_embedding(top)(base(IMAGES), training=True)
    np.testing.assert_array_equal(in_training, embedding)  # dropout comes after it


def test_a_model_without_a_last_dense_layer_is_refused():
    model = tf.keras.Sequential([tf.keras.layers.Input((2, 2)), tf.keras.layers.Flatten()], name="flat")
    with pytest.raises(ValueError, match="model flat: it does not end in a dense layer"):
        with_embedding(model)


def test_the_input_may_be_the_embedding():
    model = tf.keras.Sequential([tf.keras.layers.Input((3,)), tf.keras.layers.Dense(2, "softmax")])
    vectors = np.ones((1, 3), np.float32)
    assert embedding_size(model) == 3 and np.array_equal(with_embedding(model)(vectors)[0], vectors)
