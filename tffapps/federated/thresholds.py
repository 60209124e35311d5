"""Which pseudo-labels are sure enough: class-wise and adaptive thresholds, and distribution alignment.

All of them are of predictions for weak views, probabilities (images, classes); nothing here has a gradient to give.

  aligned          distribution alignment (Berthelot et al. 2020, ReMixMatch): p · prior / mean, normalised
  flexible         FlexMatch (Zhang et al. 2021): tau · M(beta_c), M(x) = x / (2 − x); beta_c is sigma_c divided by
                   the largest sigma, or by the number of images nobody is sure of, if that is more; sigma_c counts the
                   images whose last sure prediction, of probability tau, was c
  self_adaptive    FreeMatch (Wang et al. 2023): tau_t · p_t(c) / max p_t, of two averages
  moved            such an average: it keeps a share of what it was
"""

from __future__ import annotations

from tffapps.federated.lazy import tf


def aligned(probabilities: tf.Tensor, prior: tf.Tensor, mean: tf.Tensor, power: float = 1.0) -> tf.Tensor:
    """Scaled so that predictions whose mean is `mean` come to have the mean `prior`, nearly."""
    scaled = probabilities * tf.math.divide_no_nan(prior, mean) ** power
    return tf.math.divide_no_nan(scaled, tf.reduce_sum(scaled, axis=-1, keepdims=True))


def moved(average: tf.Tensor, value: tf.Tensor, share: float) -> tf.Tensor:
    return share * average + (1.0 - share) * value


def flexible(told: tf.Tensor, classes: int, tau: float) -> tf.Tensor:
    """(classes): of the last sure prediction for each image, −1 where there has been none."""
    unknown = tf.reduce_sum(tf.cast(told < 0, tf.float32))
    counts = tf.reduce_sum(tf.one_hot(told, classes), axis=0)
    status = tf.math.divide_no_nan(counts, tf.maximum(tf.reduce_max(counts), unknown))
    return tau * status / (2.0 - status)


def self_adaptive(confidence: tf.Tensor, mean: tf.Tensor) -> tf.Tensor:
    """(classes): of the mean highest probability and the mean prediction (classes)."""
    return confidence * tf.math.divide_no_nan(mean, tf.reduce_max(mean))


def confidence_of(probabilities: tf.Tensor) -> tf.Tensor:
    """The mean highest probability, of images that could be read: a row of zeros is none."""
    highest = tf.reduce_max(probabilities, axis=-1)
    return tf.math.divide_no_nan(tf.reduce_sum(highest), tf.reduce_sum(tf.cast(highest > 0, tf.float32)))


def mean_of(probabilities: tf.Tensor) -> tf.Tensor:
    """(classes): the mean prediction, of images that could be read."""
    total = tf.reduce_sum(probabilities, axis=0)
    return tf.math.divide_no_nan(total, tf.reduce_sum(total))


def sure(probabilities: tf.Tensor, thresholds: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The likeliest class of each image, and whether its probability reaches the threshold of that class."""
    labels = tf.argmax(probabilities, axis=-1, output_type=tf.int32)
    highest = tf.reduce_max(probabilities, axis=-1)
    return labels, (highest >= tf.gather(thresholds, labels)) & (highest > 0)


def fairness(mean: tf.Tensor, shares: tf.Tensor, outputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """FreeMatch's term, of the mean prediction and the label shares so far and the predictions for strong views.

    Σ a_c · log b_c, where a = SumNorm(mean / shares) and b the same of the strong views with mask 1; it is least where
    the strong views' predictions are spread over the classes. 0 where the mask is.
    """
    there = mask[:, tf.newaxis]
    labels = tf.one_hot(tf.argmax(outputs, axis=-1), outputs.shape[-1])
    found, counts = tf.reduce_sum(there * outputs, axis=0), tf.reduce_sum(there * labels, axis=0)
    target, ours = (_sum_norm(tf.math.divide_no_nan(*pair)) for pair in ((mean, shares), (found, counts)))
    # A class that nobody predicts has neither share nor probability here, as in the authors' code.
    value = tf.reduce_sum(tf.where(ours > 0, target * tf.math.log(tf.maximum(ours, 1e-12)), 0.0))
    return tf.where(tf.reduce_any(mask > 0), value, 0.0)


def _sum_norm(values: tf.Tensor) -> tf.Tensor:
    return tf.math.divide_no_nan(values, tf.reduce_sum(values))
