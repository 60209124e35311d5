"""L-BFGS for many images at once whose pixels stay in [0, 1] (Nocedal 1980; steps as Bertsekas's projection has them).

Every image is a problem of its own, with its own curvature and its own step length, but all are evaluated together, and
every evaluation is of use to each of them: it is the next point of one image and a shorter try of another, so that no
image waits for another's line search. `steps` counts evaluations, as it does for Adam.

    p = −H g on the pixels that are free to move;  x' = clip(x + t p);  taken if f(x') ≤ f(x) + 10⁻⁴ g·(x' − x),
    else t shrinks to the minimum of a parabola

Deviations from L-BFGS-B: no Cauchy point, and no curvature condition: a pair without positive curvature is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

Objective = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]  # images (k, …) to losses (k,) and gradients (k, …)

_PAIRS = 10  # of moves and changes of the gradient that tell the curvature
_FIRST = 0.01  # how far a pixel moves on average where no curvature is known
_ENOUGH = 1e-4  # of the decrease that the slope promises
_SHORTEST = 1e-4  # step lengths below it: the curvature is forgotten
_CURVED = 1e-6  # cosine between a move and the change of the gradient: with less there is no telling
_TINY = 1e-30


class _State(NamedTuple):
    number: tf.Tensor
    x: tf.Tensor  # (k, n)
    loss: tf.Tensor  # (k,)
    gradient: tf.Tensor  # (k, n)
    length: tf.Tensor  # of the next step (k,)
    moves: tf.Tensor  # (_PAIRS, k, n), the newest first
    changes: tf.Tensor  # of the gradient, the same
    curvatures: tf.Tensor  # their products (_PAIRS, k), 0 where there is no pair


def minimise(objective: Objective, start: tf.Tensor, steps: int) -> tf.Tensor:
    """The images after this many evaluations of `objective`, none of them worse than at the start."""
    shape = tf.shape(start)

    def flat(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        loss, gradient = objective(tf.reshape(x, shape))
        return loss, tf.reshape(gradient, tf.shape(x))

    x = tf.reshape(start, [shape[0], -1])
    loss, gradient = flat(x)
    empty = tf.zeros([_PAIRS, *tf.unstack(tf.shape(x))])
    first = _State(tf.constant(1), x, loss, gradient, tf.ones_like(loss), empty, empty, empty[:, :, 0])
    done = tf.while_loop(lambda state: state.number < steps, lambda state: (_step(flat, state),), (first,))[0]
    return tf.reshape(done.x, shape)


def _step(objective: Objective, now: _State) -> _State:
    """One evaluation: each image goes on, or tries a shorter step next time."""
    move = tf.clip_by_value(now.x + now.length[:, tf.newaxis] * _direction(now), 0.0, 1.0) - now.x
    promised = tf.reduce_sum(now.gradient * move, axis=1)
    loss, gradient = objective(now.x + move)
    better = loss <= now.loss + _ENOUGH * promised  # never, if it is not a number
    change = gradient - now.gradient
    curvature = tf.reduce_sum(move * change, axis=1)
    told = better & (curvature > _CURVED * tf.norm(move, axis=1) * tf.norm(change, axis=1))

    bend = loss - now.loss - promised
    shrink = tf.where(bend > 0, -promised / (2 * tf.maximum(bend, _TINY)), 0.5)
    length = tf.where(better, 1.0, now.length * tf.clip_by_value(shrink, 0.1, 0.5))
    lost = length < _SHORTEST

    def kept(old: tf.Tensor, new: tf.Tensor, which: tf.Tensor, none: tf.Tensor) -> tf.Tensor:
        """The table with one more pair, of those images for which it is told; none of those that are lost."""
        return tf.where(none, 0.0, tf.where(which, tf.concat([new[tf.newaxis], old[:-1]], axis=0), old))

    row, gone = told[:, tf.newaxis], lost[:, tf.newaxis]
    return _State(
        now.number + 1,
        tf.where(better[:, tf.newaxis], now.x + move, now.x),
        tf.where(better, loss, now.loss),
        tf.where(better[:, tf.newaxis], gradient, now.gradient),
        tf.where(lost, 1.0, length),
        kept(now.moves, move, row, gone),
        kept(now.changes, change, row, gone),
        kept(now.curvatures, curvature, told, lost),
    )


def _direction(now: _State) -> tf.Tensor:
    """−H g by the two loops over the pairs (k, n); pixels at a bound that the gradient pushes outwards stay."""
    stays = ((now.x <= 0) & (now.gradient > 0)) | ((now.x >= 1) & (now.gradient < 0))
    gradient = tf.where(stays, 0.0, now.gradient)
    inverse = tf.where(now.curvatures > 0, 1 / tf.maximum(now.curvatures, _TINY), 0.0)  # (_PAIRS, k)
    q, shares = gradient, []
    for pair in range(_PAIRS):
        share = inverse[pair] * tf.reduce_sum(now.moves[pair] * q, axis=1)
        q -= share[:, tf.newaxis] * now.changes[pair]
        shares.append(share)
    known = now.curvatures[0] > 0
    newest = now.curvatures[0] / tf.maximum(tf.reduce_sum(tf.square(now.changes[0]), axis=1), _TINY)
    unknown = _FIRST / tf.maximum(tf.reduce_mean(tf.abs(gradient), axis=1), _TINY)
    q *= tf.where(known, newest, unknown)[:, tf.newaxis]
    for pair in reversed(range(_PAIRS)):
        share = shares[pair] - inverse[pair] * tf.reduce_sum(now.changes[pair] * q, axis=1)
        q += share[:, tf.newaxis] * now.moves[pair]
    direction = tf.where(stays, 0.0, -q)
    downhill = tf.reduce_sum(direction * now.gradient, axis=1) < 0
    return tf.where(downhill[:, tf.newaxis], direction, -unknown[:, tf.newaxis] * gradient)
