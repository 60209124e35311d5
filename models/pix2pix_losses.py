"""Losses of label → image (FedTransfer, Eqs 5 to 7, and pix2pixHD's), each one number for a batch.

`unet`, Eq. 7 with a weight λ = 100 (Isola et al. 2017):

    discriminator   −(log D(x, y) + log(1 − D(x, G(x)))) / 2          Eq. 5
    generator       −log D(x, G(x)) + λ · mean |y − G(x)|             Eqs 6 and 7

`hd` (Wang et al. 2018): least squares in place of logarithms (LSGAN), summed over two scales, and feature matching,
mean |activation for y − activation for G(x)| summed over the layers, mean over the scales, in place of the L1 loss.

Deviations from the equations: the generator maximises log D(x, G(x)) and does not minimise log(1 − D(x, G(x))), whose
gradient vanishes where D is right, and D's loss is halved; both papers' code does so. Eq. 7 has no weight: its L1 norm
is a sum, the mean here needs one. pix2pixHD's optional loss by a pre-trained VGG is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

Scales = Sequence[Sequence[tf.Tensor]]  # of a discriminator: activations, the logits last, for each scale


def cross_entropy(logits: tf.Tensor, real: bool) -> tf.Tensor:
    """−log D, or −log(1 − D) for what is made; D is the logits' sigmoid."""
    return tf.reduce_mean(tf.nn.softplus(-logits if real else logits))


def least_squares(logits: tf.Tensor, real: bool) -> tf.Tensor:
    return tf.reduce_mean(tf.square(logits - (1.0 if real else 0.0)))


Adversarial = Callable[[tf.Tensor, bool], tf.Tensor]
ADVERSARIAL: dict[str, Adversarial] = {"unet": cross_entropy, "hd": least_squares}


def discriminator_loss(adversarial: Adversarial, real: Scales, made: Scales) -> tf.Tensor:
    return tf.add_n([(adversarial(r[-1], True) + adversarial(m[-1], False)) / 2 for r, m in zip(real, made)])


def deception_loss(adversarial: Adversarial, made: Scales) -> tf.Tensor:
    """The generator's part in the game: what is made shall be taken for real."""
    return tf.add_n([adversarial(activations[-1], True) for activations in made])


def l1_loss(images: tf.Tensor, made: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.abs(images - made))


def feature_matching_loss(real: Scales, made: Scales) -> tf.Tensor:
    """`real` is a goal and has no gradient. Logits are not among the features."""
    pairs = [pair for r, m in zip(real, made) for pair in zip(r[:-1], m[:-1])]
    return tf.add_n([l1_loss(tf.stop_gradient(goal), found) for goal, found in pairs]) / len(real)
