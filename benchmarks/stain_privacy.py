"""What can be told of single patches from what clients send of their stains.

    python benchmarks/stain_privacy.py [--data FOLDER] [--sizes 10,50,0] [--repeats 50]

Each client's patches are divided at random: some are members, of whose stains the client sends something, and as many
are not. An attacker sees what was sent, and knows other patches of the same client, but of none whether it is a member.

    membership       AUROC of telling members from others, the better of two scores: how likely a patch is under what
                     was sent, and how far what was sent leans towards it from what is usual at this client
    reconstruction   degrees between the stains of a patch and what is left of the sums when all other patches are known

A denoiser is attacked by its error on a patch, the mean of many times and noises; it is trained with half of each
client's patches. 0 in --sizes is half of them. Writes results/benchmarks/stain_privacy.csv.
"""

from __future__ import annotations

import argparse
import math
import pathlib
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
EPSILONS, DELTA = (8.0, 4.0, 1.0), 1e-5
_LOOKS = 64  # times and noises by which a denoiser is asked of a patch
_JITTER = 1e-9
_FITTED = 4  # divisions of which mixtures are fitted, which takes seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="", help="as `fedsda --data` takes it (default: the stand-in)")
    parser.add_argument("--sizes", default="10,50,0", help="members of a client (default 10,50,0; 0: half of all)")
    parser.add_argument(
        "--repeats", type=int, default=50, help="divisions of each client, of which mixtures see four (default 50)"
    )
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "results" / "benchmarks" / "stain_privacy.csv")
    options = parser.parse_args()

    import pandas as pd

    sets = _stains(options.data)
    rows = []
    for size in (int(text) for text in options.sizes.split(",")):
        for name in ("gaussian", "mixture", *(f"gaussian-dp, epsilon {epsilon:g}" for epsilon in EPSILONS)):
            rows.append({"sent": name, "members": size or "half", **_attacked(name, sets, size, options.repeats)})
            print(rows[-1], flush=True)
    rows.append({"sent": "transformer, 90 × 5", "members": "half", **_denoiser(sets)})
    print(rows[-1], flush=True)
    table = pd.DataFrame(rows).assign(data=pathlib.Path(options.data).stem or "stand-in", clients=len(sets))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    table.round(4).to_csv(options.out, index=False)
    print(f"table: {options.out}")


def _stains(data: str) -> list[Any]:
    """Each client's stain matrices (n, 3, 2), as they are measured."""
    from preprocessing.stain import StainSettings
    from tffapps import cli
    from tffapps.data import manifest
    from tffapps.fedsda import APP
    from tffapps.fedsda import data as patches
    from tffapps.fedsda.placement import Here

    flags = cli.parse(APP, ["--profile", "small", *(["--data", data] if data else [])])
    here = Here(patches.load(flags), StainSettings(lambda_matrix=0.02), divided=True)
    clients = sorted(set(here.pool.table.client), key=manifest.natural_key)
    return here.measured.by_client(here.pool.table, clients)


def _attacked(name: str, sets: Sequence[Any], size: int, repeats: int) -> dict[str, float]:
    """Means over clients that have enough patches."""
    import numpy as np
    from sklearn.metrics import roc_auc_score

    likely, leaning, degrees = [], [], []
    for number, matrices in enumerate(sets):
        count = size or len(matrices) // 2
        if len(matrices) < 2 * count or (size and len(matrices) < 3 * count):
            continue
        for repeat in range(min(repeats, _FITTED) if name == "mixture" else repeats):
            generator = np.random.default_rng([number, repeat, count])
            order = generator.permutation(len(matrices))
            members, others = order[:count], order[count : 2 * count]
            sent = _Sent(name, matrices[members], generator)
            truth = np.repeat([1, 0], count)
            asked = matrices[np.concatenate([members, others])]
            usual = matrices[order[2 * count :]] if size else matrices
            likely.append(roc_auc_score(truth, sent.likelihood(asked)))
            leaning.append(roc_auc_score(truth, sent.leaning(asked, usual)))
            if name != "mixture":
                degrees.append(sent.left_over(matrices[members]))
    return {
        "membership_auroc": max(float(np.mean(likely)), float(np.mean(leaning))),
        "reconstruction_degrees": float(np.median(degrees)) if degrees else float("nan"),
    }


class _Sent:
    """What a client sends of its members, and what an attacker makes of it; all in the four places of a patch."""

    def __init__(self, name: str, matrices: Any, generator: Any) -> None:
        import numpy as np
        import tensorflow as tf

        from models import gaussian_mixture
        from tffapps.fedsda import stain_release

        self._release, self._places = stain_release, stain_release.places
        self._noised = "epsilon" in name
        places = self._places(matrices)
        if self._noised:
            noise = stain_release.multiplier(float(name.rpartition(" ")[2]), DELTA)
            self._sums = stain_release.released(matrices, noise, generator)
            self._mixture = stain_release.gaussian_of(self._sums, len(matrices))
            return
        self._sums = places.sum(axis=0)
        fitted = gaussian_mixture.fit(tf.constant(places), 3 if name == "mixture" else 1)
        self._mixture = gaussian_mixture.Mixture(*(np.asarray(part) for part in fitted))

    def likelihood(self, matrices: Any) -> Any:
        import numpy as np
        from scipy.stats import multivariate_normal

        places = self._places(matrices)
        total = np.zeros(len(places))
        for weight, mean, covariance in zip(*self._mixture):
            if weight > 0:
                total += weight * multivariate_normal(mean, covariance, allow_singular=True).pdf(places)
        return np.log(total + 1e-300)

    def leaning(self, matrices: Any, usual: Any) -> Any:
        """The score that is best for a mean: the patch's way from the usual mean, along the sent mean's."""
        import numpy as np

        places, known = self._places(matrices), self._places(usual)
        weights, means = self._mixture.weights, self._mixture.means
        sent = (weights[:, None] * means).sum(axis=0) / weights.sum()
        inverse = np.linalg.inv(np.cov(known.T) + _JITTER * np.eye(known.shape[1]))
        return (places - known.mean(axis=0)) @ inverse @ (sent - known.mean(axis=0))

    def left_over(self, matrices: Any) -> float:
        """Degrees between the last patch's stains and what the sums leave of it."""
        import numpy as np

        if self._noised:
            others = self._release.released(matrices[:-1], 0.0, np.random.default_rng(0))
            rest = (self._sums - others)[: self._release.PLACES] / math.sqrt(0.5) * self._release.RADIUS
        else:
            rest = self._sums - self._places(matrices[:-1]).sum(axis=0)
        found = self._release.directions(np.clip(rest, -10, 10)[None])[0]
        cosines = (found * matrices[-1]).sum(axis=0) / np.linalg.norm(matrices[-1], axis=0)
        return float(np.degrees(np.arccos(np.clip(cosines, -1, 1))).mean())


def _denoiser(sets: Sequence[Any]) -> dict[str, float]:
    """Trained by all clients together, each with half of its patches."""
    import numpy as np
    import tensorflow as tf
    from sklearn.metrics import roc_auc_score

    from models import ddpm
    from tffapps import cli
    from tffapps.engine import open_engine
    from tffapps.federated.denoising import noised
    from tffapps.fedsda import APP
    from tffapps.fedsda.data import FEDERATION, Fold
    from tffapps.fedsda.diffusion import StainModels
    from tffapps.fedsda.stain_source import LocalStains
    from tffapps.fedsda.stain_vectors import standardised
    from tffapps.study import Study

    order = [np.random.default_rng([number, 0xD1]).permutation(len(own)) for number, own in enumerate(sets)]
    halves = [(own[rows[: len(own) // 2]], own[rows[len(own) // 2 :]]) for own, rows in zip(sets, order)]

    class Members:
        def sources(self, fold: Any) -> list[Any]:
            return [LocalStains(f"client{number}", half) for number, (half, _) in enumerate(halves)]

    with tempfile.TemporaryDirectory() as folder, open_engine("in-process") as engine:
        flags = cli.parse(APP, ["--profile", "small", "--fd-points", "1", "--results", folder])
        models = StainModels(Study(APP, flags, engine), Members())  # type: ignore[arg-type]
        model = models.learn(Fold(FEDERATION, None, None), "transformer")  # type: ignore[arg-type]
        model.denoiser.set_weights(model.record.weights())
    schedule, found = ddpm.scaled(model.steps), []
    for number, (members, others) in enumerate(halves):
        asked = standardised(np.concatenate([members, others]), model.moments)
        errors = np.zeros(len(asked))
        for look in range(_LOOKS):
            noisy, times, noise = noised(schedule, tf.constant(asked), tf.constant([look, number]), tf.constant(0))
            clients = tf.fill(tf.shape(times), number)
            errors += tf.reduce_mean((noise - model.denoiser([noisy, times, clients])) ** 2, axis=1).numpy()
        found.append(roc_auc_score(np.repeat([1, 0], [len(members), len(others)]), -errors))
    return {"membership_auroc": float(np.mean(found)), "reconstruction_degrees": float("nan")}


if __name__ == "__main__":
    main()
