"""Where the images come from: the OAI folder, a manifest or the stand-in, prepared by `preprocessing.knee`.

Across sites they are the server's own; the clients' are at the sites, which have prepared theirs.
"""

import dataclasses
import hashlib
import os
import pathlib
from typing import Any

import pandas as pd

from preprocessing.knee import KneeRejected, KneeSettings, preprocess_bytes
from tffapps import STANDIN, Common, Flags, Pool, UserError, cache_folder, data_folder, short
from tffapps.data import knees, layouts, manifest, oai, standin
from tffapps.data.cache import Rejected, cached_images
from tffapps.plfl import SPLITS, PlflImages, PlflNetwork, division


def load(flags: Flags) -> Pool:
    """What --data has, or the stand-in: the images of all, or where the clients are sites, those of the server.

    The table has the column `source` beside `path`: the image before it was prepared.
    """
    from tffapps.data.images import formats_of  # imports TensorFlow

    common, notes = flags[Common], list[str]()
    name, table = _read(flags, notes)
    if common.across_sites:
        table = _of_server(table, common.data)
    given = common.across_sites or division.is_given(table)
    if given:
        manifest.check(table)
    classes = oai.classes(table)
    usable, rejected = _prepared(table, flags)
    _check_classes(classes, usable, rejected)
    if given:
        division.check(usable, classes, common.methods, f"--data {common.data}")
    if given and not common.across_sites:
        names = ", ".join(division.named_clients(usable))
        notes.append(f"as the manifest says, the clients are {names}; without its column client they are drawn")
    content = manifest.fingerprint(usable) + "\0" + "\0".join(usable.subject)
    key = hashlib.sha256((content + "\0given" * given).encode()).hexdigest()[:16]
    return Pool(name, usable, classes, key, formats_of(usable.path), given=given, notes=tuple(notes), rejected=rejected)


def look(flags: Flags) -> Pool:
    """What a run would find in --data, but for the knees; the divisions that its seeds draw are tried."""
    pool = load(flags.replaced(preprocess="none"))
    for kind in dict.fromkeys(SPLITS[method] for method in flags[Common].methods):
        for seed in flags[Common].seeds:
            division.split(pool, kind, seed)
    notes = [*pool.notes]
    if not pool.given:
        notes.append("clients: the server and two others, drawn by every seed")
    if flags[PlflImages].preprocess == "knee":
        notes.append("not looked at: whether there is a knee in every image; python -m preprocessing.knee does")
    return dataclasses.replace(pool, notes=tuple(notes))


def _read(flags: Flags, notes: list[str]) -> tuple[str, pd.DataFrame]:
    """The name of the data for the tables, and what there is."""
    source = pathlib.Path(flags[Common].data) if flags[Common].data else _standin(flags)
    layout = layouts.recognise(source, ("manifest", "oai"))
    table = layouts.read(source, (layout,), notes, **({"grades": flags[PlflImages].grades} if layout == "oai" else {}))
    if layout == "oai":
        return STANDIN if standin.is_standin(source) else source.resolve().name, table
    if not division.is_given(table):
        manifest.check(table.assign(client=manifest.ONLY_CLIENT, split="train"))  # both are decided anew
    if "subject" not in table.columns:
        notes.append(f"{source}: no column subject, so every image is taken for a subject of its own")
        table["subject"] = ""
    nameless = table.subject == ""
    table.loc[nameless, "subject"] = manifest.named(table)[nameless]
    return source.stem, table


def _standin(flags: Flags) -> pathlib.Path:
    size, images = flags[PlflNetwork].size, flags[PlflImages].standin_images
    return knees.write_knees(data_folder() / f"knees-{size}-{images}", images=images, size=size)


def _of_server(table: pd.DataFrame, source: str) -> pd.DataFrame:
    """The rows that are the server's: those of its name, or all if there is one client."""
    if oai.SERVER in set(table.client):
        table = table[table.client == oai.SERVER]
    elif table.client.nunique() > 1:
        names = ", ".join(sorted(set(table.client), key=manifest.natural_key))
        raise UserError(
            f"--data {source}: has the clients {names}; across sites it is the server's images, of the client"
            f" {oai.SERVER} or of none"
        )
    return table.assign(client=oai.SERVER).reset_index(drop=True)


def _prepared(table: pd.DataFrame, flags: Flags) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The usable images, their paths those of the prepared ones; path and reason of the others."""
    table = table.assign(source=table.path)
    if flags[PlflImages].preprocess == "none":
        from tffapps.data.unreadable import find_unreadable  # imports TensorFlow; the cache's processes can spare it

        reasons = find_unreadable(list(table.path), flags[PlflNetwork].channels)
        usable = table[~table.path.isin(list(reasons))]
    else:
        parameters = dataclasses.asdict(KneeSettings(contrast=flags[PlflImages].contrast))
        paths, reasons = cached_images(list(table.path), knee_image, parameters, cache_folder() / "knees")
        usable = table[[path is not None for path in paths]]
        usable = usable.assign(path=[os.path.abspath(path) for path in paths if path is not None])
    names = dict(zip(table.path, manifest.named(table)))
    listed = sorted((short(names[path]), reason) for path, reason in reasons.items())
    return usable.reset_index(drop=True), pd.DataFrame(listed, columns=["path", "reason"])


def _check_classes(classes: list[str], usable: pd.DataFrame, rejected: pd.DataFrame) -> None:
    missing = [label for label in classes if label not in set(usable.label)]
    if missing:
        example = f"{rejected.path[0]}: {rejected.reason[0]}" if len(rejected) else "there were none"
        raise UserError(f"--data: no usable image of {', '.join(missing)} is left ({example})")
    if len(classes) < 2:
        raise UserError(f"--data: only one class ({classes[0]}); a classifier needs two or more")


def knee_image(contents: bytes, **parameters: Any) -> bytes:
    """`preprocess_bytes` as the cache wants it."""
    try:
        return preprocess_bytes(contents, **parameters)
    except KneeRejected as rejected:
        raise Rejected(str(rejected)) from None


knee_image.version = 1  # type: ignore[attr-defined]  # bright images and noise are rejected, too
