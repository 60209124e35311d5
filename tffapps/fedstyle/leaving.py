"""Federations without a pair of artists, and what their encoders make of everybody's pictures."""

from __future__ import annotations

import dataclasses
import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from models.embedding import embedding_of
from models.names import stands_on_cut
from tffapps import Common, Flags, Pool, Record, Split, Study, UserError, open_engine
from tffapps.data.pool import subjects_in
from tffapps.fedstyle import APP, COMPARISON, FedStyleSettings, FedStyleStartSettings, cases, data
from tffapps.fedstyle.encoder import Encoder, unit
from tffapps.fedstyle.holdout import LEAST
from tffapps.fedstyle.placement import Here
from tffapps.fedstyle.rivals import VOTING
from tffapps.fedstyle.roles import ROLES
from tffapps.fedstyle.strangers import Compared, Judged, Measure, Pictures, pairs
from tffapps.fedstyle.trials import Trials, with_weights
from tffapps.use import bundle

FROZEN, STYLE = "frozen", "style"  # embeddings that no round trains
SHRINKING = (0.03, 0.01, 0.003)  # that are tried
MEASURES = (Measure(), *(Measure(shrinking) for shrinking in SHRINKING))
_BATCH = 64


@dataclasses.dataclass(frozen=True)
class Played:
    """One pair."""

    pair: tuple[str, str]
    split: str
    rows: pd.DataFrame  # everybody's pictures
    pictures: Pictures
    trained: int  # subjects
    judged: Mapping[tuple[str, Measure], Judged]  # by embedding and measure
    what_ran: Mapping[str, str]


def played(flags: Flags, count: int, enrolled: int) -> Iterator[Played]:
    """The first `count` pairs, one split after the other."""
    flags = with_weights(flags)
    whole = data.federation(data.load(flags), flags[FedStyleSettings].artists).pool
    if len(whole.classes) < LEAST:
        raise UserError(f"--data: {len(whole.classes)} artists; leaving two out takes {LEAST} or more")
    flags, divided = flags.replaced(artists=0), data.divided(whole, flags[Common])
    styles: dict[str, np.ndarray] = {}
    with open_engine(flags[Common].engine, flags[Common].certificates(), flags[Common].devices) as engine:
        here = Here(whole, flags)
        whole.announce(APP.folder(flags))
        study = Study(APP, flags, engine)
        for number, pair in enumerate(pairs(whole.classes, count)):
            split = divided[number % len(divided)]
            on = here.on(Split(f"{split.name} without {' and '.join(pair)}".strip(), without(split.pool, pair)))
            trials, rows = Trials(study, on), split.pool.table.reset_index(drop=True)
            rows["path"] = rows.path.map(str)
            records = {method: study.run(trials.of(_case(on, flags, method))) for method in flags[Common].methods}
            vectors = _vectors(trials, records, list(rows.path), styles)
            pictures = pictures_of(rows, [*on.federation.pool.classes, *pair], enrolled)
            judged = {
                (name, measure): judged
                for name, found in vectors.items()
                for compared in [Compared(found, pictures)]
                for measure in (*MEASURES, *((Measure(voting=k) for k in VOTING) if name == FROZEN else ()))
                for judged in [compared.judged(measure)]
            }
            what_ran = {
                "data": whole.name, "profile": flags.profile, "weights": trials.inputs(on.federation.artists).weights,
                "model": flags[FedStyleSettings].model,
            }  # fmt: skip
            trained = subjects_in(on.pool.table[on.pool.table.split.isin(("train", "public"))])
            yield Played(pair, split.name, rows, pictures, trained, judged, what_ran)


def without(pool: Pool, pair: Sequence[str]) -> Pool:
    """The others' pictures."""
    key = hashlib.sha256(f"{pool.key}\0without {pair}".encode()).hexdigest()[:16]
    return dataclasses.replace(data.with_table(pool, pool.table[~pool.table.label.isin(pair)]), key=key)


def pictures_of(rows: pd.DataFrame, artists: Sequence[str], enrolled: int) -> Pictures:
    """`artists`: the members, then the two newcomers. The server's public pictures are in no catalogue."""
    labels = pd.Index(artists).get_indexer(pd.Index(rows.label))
    gallery = np.zeros(len(rows), bool)
    for code, artist in enumerate(artists):
        own = np.flatnonzero((labels == code) & (rows.split == "train").to_numpy())
        if len(own) < enrolled:
            raise UserError(f"--enrolled {enrolled}: {artist} has only {len(own)} training pictures; give fewer")
        drawn = np.random.default_rng(zlib.crc32(artist.encode())).permutation(own)
        gallery[drawn[:enrolled]] = True
    return Pictures(labels, rows.split.to_numpy(str), gallery, len(artists) - 2)


def _case(on: Here, flags: Flags, method: str) -> cases.Case:
    if method not in ROLES or not ROLES[method].method.sends_weights:
        raise UserError(f"--methods {method}: has no encoder of its own to serve; leave it out")
    start = flags[FedStyleStartSettings].start_from[0]
    return cases.Case(COMPARISON, "", method, on.federation, flags[Common].seeds[0], start=start)


def _vectors(
    trials: Trials, records: Mapping[str, Record], paths: Sequence[str], styles: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Rows of length 1 by embedding. `styles` keeps those that no training changes."""
    federation = trials.placement.federation
    inputs = trials.inputs(federation.artists)
    found: dict[str, np.ndarray] = {}
    for method, record in records.items():
        weights = record.weights()
        inputs.initial(record["seed"])  # of the frozen base
        found.setdefault(FROZEN, unit(inputs.located(weights, paths)))
        inputs.model.set_weights(weights)
        encoder: Any = embedding_of(inputs.model)
        batches = inputs.batches(paths, np.zeros(len(paths), np.int32), batch=_BATCH, shuffle=False)
        penultimate = unit(np.concatenate([encoder(maps, training=False).numpy() for maps, _ in batches]))
        style = _style(record.folder / "bundle", paths, styles)
        frozen = stands_on_cut(inputs.described["head"], inputs.described["cut"])
        found[STYLE if frozen else f"{method}, style"] = style
        found |= {f"{method}, penultimate": penultimate, f"{method}, both": unit(np.hstack([penultimate, style]))}
    return found


def _style(folder: Path, paths: Sequence[str], styles: dict[str, np.ndarray]) -> np.ndarray:
    loaded = bundle.load(folder)
    values = loaded.network.values
    known = loaded.bases[loaded.default_model] if stands_on_cut(values["head"], values["cut"]) else str(folder)
    key = hashlib.sha256("\0".join([known, *paths]).encode()).hexdigest()
    if key not in styles:
        styles[key], problems = Encoder(loaded, STYLE).of_files(paths)
        for path, why in problems.items():
            raise UserError(f"{path}: {why}; mend it or leave it out")
    return styles[key]
