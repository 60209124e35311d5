"""The mathematics of stain separation, for a stack of patches at once: x ≈ w h with two stains.

    x  optical densities (patches, 3, pixels)     w  stain matrices, unit columns (patches, 3, 2)
                                                  h  stain densities (patches, 2, pixels)

Vahadane et al. 2016 (Eq. 3 of FedSDA): minimise ½‖x − w h‖² + λ‖h‖₁ over w, h ≥ 0. Both halves are closed forms here.
  - h for a known w. With b = wᵀx − λ and u = (wᵀw)⁻¹b, each pixel's h is max(0, min(u, b)). For, as w ≥ 0, wᵀw has
    no negative entry, so b₁ = u₁ + (w₁·w₂)u₂: where both u are positive, u is the smaller and the solution; where
    u₂ is not, h₂ is 0, b₁ is the smaller, and the solution with the first stain alone is max(0, b₁).
  - w for a known h, one column at a time: of all unit vectors ≥ 0 the best is the positive part of
    Bⱼ − wₖAₖⱼ, normalised, with the few numbers A = h hᵀ and B = x hᵀ.
Alternating them never makes Eq. 3 larger, but creeps where the columns are close, so momentum is added and dropped
whenever Eq. 3 grew. (Anderson's acceleration is faster still, but rests on saddle points in one patch of fifty.) The
start is Macenko's matrix; the first rounds take a few pixels, the last ones all.
"""

from __future__ import annotations

import numpy as np

from preprocessing.stain_settings import StainSettings

_SMALL = 1e-12
_FEW = 1024  # pixels that bring a patch near its matrix; the last rounds take all


def learn(x: np.ndarray, settings: StainSettings) -> tuple[np.ndarray, np.ndarray]:
    """(w, each stain's share of the density (patches, 2)), haematoxylin first.

    x is that of tissue pixels in a random order. Pixels of zeros, for patches with fewer of them, change nothing.
    """
    if settings.method == "macenko":
        w = macenko(x, settings.percentile)
        amounts = densities(with_ones(x), w, settings.lambda_matrix).sum(axis=2)
    else:
        extended = with_ones(x)
        few = np.ascontiguousarray(extended[:, :, :_FEW])
        near, _ = vahadane(few, macenko(few[:, :3], settings.percentile), settings)
        w, amounts = vahadane(extended, near, settings)
    share = amounts / np.maximum(amounts.sum(axis=1, keepdims=True), _SMALL)
    first = (w[:, 0, 0] < w[:, 0, 1]).astype(int)  # haematoxylin is the one that takes out more red
    order = np.stack([first, 1 - first], axis=1)
    return np.take_along_axis(w, order[:, None, :], axis=2), np.take_along_axis(share, order, axis=1)


def with_ones(x: np.ndarray) -> np.ndarray:
    """x with a fourth row of ones (patches, 4, pixels), so that one product also takes off the penalty."""
    extended = np.empty((len(x), 4, x.shape[2]), np.float32)
    extended[:, :3] = x
    extended[:, 3] = 1
    return extended


def densities(extended: np.ndarray, w: np.ndarray, penalty: float) -> np.ndarray:
    """h for known w: the exact minimiser of Eq. 3, pixel by pixel."""
    cosine = (w[..., 0] * w[..., 1]).sum(axis=1)
    determinant = np.maximum(1 - cosine**2, 1e-6)
    inverse = np.empty((len(w), 2, 2))
    inverse[:, 0, 0] = inverse[:, 1, 1] = 1 / determinant
    inverse[:, 0, 1] = inverse[:, 1, 0] = -cosine / determinant
    to_b = np.concatenate([w.transpose(0, 2, 1), np.full((len(w), 2, 1), -penalty)], axis=2)  # (patches, 2, 4)
    to_both = np.concatenate([to_b, inverse @ to_b], axis=1).astype(np.float32)  # (patches, 4, 4)
    both = np.matmul(to_both, extended)  # b and u
    h = np.minimum(both[:, :2], both[:, 2:])
    return np.maximum(h, 0, out=h)


def macenko(x: np.ndarray, percentile: float) -> np.ndarray:
    """Macenko et al. 2009: the plane the pixels lie in, and in it the directions almost all of them lie between."""
    axes = np.linalg.eigh(np.matmul(x, x.transpose(0, 2, 1)).astype(np.float64))[1][:, :, :0:-1]  # (patches, 3, 2)
    axes[:, :, 0] *= np.where(axes[:, :, 0].sum(axis=1, keepdims=True) < 0, -1, 1)  # the first points into the data
    along, across = np.moveaxis(np.matmul(axes.transpose(0, 2, 1).astype(np.float32), x), 1, 0)
    slopes = np.zeros((len(x), 2))
    for found, one, other in zip(slopes, along, across):
        there = one > 0
        if there.any():
            slope = other[there] / one[there]  # rises with the angle
            places = np.rint(np.array([percentile, 100 - percentile]) / 100 * (len(slope) - 1)).astype(int)
            found[:] = np.partition(slope, places)[places]
    return _unit(axes[:, :, :1] + slopes[:, None, :] * axes[:, :, 1:], axes[:, :, :1])


def vahadane(extended: np.ndarray, start: np.ndarray, settings: StainSettings) -> tuple[np.ndarray, np.ndarray]:
    """(w that minimises Eq. 3, sum of each stain's h (patches, 2)).

    A patch that has settled is left alone, so its company in the stack changes nothing.
    """
    result, amounts = start.copy(), np.zeros((len(start), 2))
    moving = np.arange(len(start))  # the patches still on their way; all of the following are theirs
    x, w, old, momentum = extended, start, start, np.ones(len(start))
    for _ in range(settings.iterations):
        new, amounts[moving] = _step(x, w, settings.lambda_matrix)
        result[moving] = new
        step = new - old
        go = np.abs(step).max(axis=(1, 2)) > settings.tolerance
        if not go.any():
            break
        more = (1 + np.sqrt(1 + 4 * momentum**2)) / 2  # Nesterov's sequence
        back = ((new - w) * step).sum(axis=(1, 2)) < 0  # the descent from w turns against the way w was carried
        factor = np.where(back, 0, (momentum - 1) / more)
        w = _unit(new + factor[:, None, None] * step, new)
        old, momentum = new, np.where(back, 1, more)
        if not go.all():
            moving, x, w, old, momentum = (item[go] for item in (moving, x, w, old, momentum))
    return result, amounts


def _step(x: np.ndarray, w: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray]:
    """(the next w, sum of each stain's h). Products are matmul's: einsum's rounding depends on the stack's length."""
    h = densities(x, w, penalty)
    b = np.matmul(h, x.transpose(0, 2, 1))  # (patches, 2, 4): Bᵀ and, from x's ones, the sums
    both = np.matmul(h[:, :1], h[:, 1:].transpose(0, 2, 1))[:, 0]  # (patches, 1): A₁₂, all that is needed of A
    new = w.copy()
    for this, other in ((0, 1), (1, 0)):
        new[:, :, this] = _unit(b[:, this, :3] - new[:, :, other] * both, new[:, :, this])
    return new, b[:, :, 3]


def _unit(columns: np.ndarray, otherwise: np.ndarray) -> np.ndarray:
    """Positive parts at unit length along axis 1; where nothing is positive (a stain no pixel has), `otherwise`."""
    positive = np.maximum(columns, 0)
    length = np.sqrt((positive**2).sum(axis=1, keepdims=True))
    return np.where(length > _SMALL, positive / np.maximum(length, _SMALL), otherwise)
