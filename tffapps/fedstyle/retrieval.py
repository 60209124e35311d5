"""`tffapps fedstyle retrieval BUNDLE --gallery FOLDER --queries FOLDER`: how well an encoder finds artists.

Both folders have pictures by artist, `<artist>/*.jpg`. Prototypes are means over the gallery; every query is asked of
a catalogue with its artist, and of one without, for open-set AUROC; by the catalogue's metric, and by plain centred
cosines. With --catalogue FILE the temperature and the similarity of "none of these" are fitted on the queries, which
must then be no test pictures, and written into it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from preprocessing.parser import Parser
from tffapps import UserError, cli
from tffapps.fedstyle.catalogue import EMBEDDINGS, Catalogue, folded

NAME = "fedstyle retrieval"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(prog=cli.called_as(NAME), description="Judges the embeddings of a bundle as retrieval of artists.")
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, help="of a finished run")
    parser.add_argument("--gallery", type=Path, metavar="FOLDER", help="pictures that prototypes are made of")
    parser.add_argument("--queries", type=Path, required=True, metavar="FOLDER", help="pictures that are asked about")
    parser.add_argument("--embedding", default=",".join(EMBEDDINGS), metavar="A,B", help="default: %(default)s")
    parser.add_argument("--catalogue", type=Path, metavar="FILE", help="fit its scores on the queries instead")
    parser.add_argument("-o", dest="out", type=Path, metavar="OUT", help="the table as CSV")
    options = parser.parse_args(arguments)
    return cli.guarded(NAME, lambda: _run(options), module="tffapps.fedstyle retrieval")


def _run(options: argparse.Namespace) -> None:
    if bool(options.gallery) == bool(options.catalogue):
        raise UserError("--gallery: give it to judge an encoder, or --catalogue to fit a catalogue, and not both")
    held = Catalogue(options.catalogue) if options.catalogue else None
    kinds = [held.about["kind"]] if held else [kind.strip() for kind in options.embedding.split(",")]
    cli.quiet()
    import pandas as pd

    from tffapps.fedstyle import scoring
    from tffapps.fedstyle.encoder import Encoder
    from tffapps.fedstyle.metric import spread_of
    from tffapps.results import write_table
    from tffapps.use import bundle

    loaded = bundle.load(options.bundle)
    rows = []
    for kind in kinds:
        encoder = Encoder(loaded, kind)
        if held:
            held.check_encoder(encoder.fingerprint)
            _fit(held, encoder, options.queries)
            return
        names, gallery, of_gallery = embedded(encoder, options.gallery)
        of_names, vectors, labels = embedded(encoder, options.queries)
        if set(of_names) - set(names):
            raise UserError(f"{options.queries}: {sorted(set(of_names) - set(names))[0]} is not in {options.gallery}")
        labels = pd.Index(names).get_indexer(pd.Index(of_names))[labels]
        prototypes = scoring.means(gallery, of_gallery, len(names))
        spreads = [spread_of(gallery[of_gallery == artist]) for artist in range(len(names))]
        for measure, given in (("whitened", spreads), ("centred", [])):
            compared = scoring.Compared(prototypes, given)
            rows.append({
                "embedding": kind, "measure": measure, "artists": len(names), "gallery": len(gallery),
                "queries": len(vectors), **scoring.judged(vectors, labels, compared),
                **scoring.judged_by_pictures(compared.seen(vectors), labels, compared.seen(gallery), of_gallery),
            })  # fmt: skip
    table = pd.DataFrame(rows)
    if options.out:
        write_table(options.out, table)
    print(table.to_string(index=False, float_format="{:.3f}".format))


def _fit(held: Catalogue, encoder: Any, folder: Path) -> None:
    import numpy as np

    from tffapps.evaluation import calibration
    from tffapps.fedstyle import scoring

    ids, prototypes, spreads = held.enrolled()
    compared = scoring.Compared(prototypes, spreads)
    known = {name: ids.index(artist) for artist, name in held.rows("SELECT id, folded FROM artists")}
    names, vectors, labels = embedded(encoder, folder)
    for name in names:
        if folded(name) not in known:
            raise UserError(f"{folder / name}: nobody in {held.path} is called so; leave it out, or rename the folder")
    labels = np.array([known[folded(name)] for name in names])[labels]
    fitted = scoring.Scoring.fit(vectors, labels, compared)
    held.remember(temperature=fitted.temperature, none=fitted.none, fitted=fitted.pictures)
    shares = fitted.probabilities(compared.similarities(vectors))
    error = calibration.expected_calibration_error(labels, shares)
    print(
        f"{held.path}: temperature {fitted.temperature:.3g}, none of these at {fitted.none:.3g}, fitted on"
        f" {fitted.pictures} pictures; calibration error on these {error:.3f}"
    )


def embedded(encoder: Any, folder: Path) -> tuple[list[str], Any, Any]:
    """Artists, the embeddings of all their pictures, and whose each is."""
    import numpy as np

    from tffapps.use import images

    artists = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    if len(artists) < 2:
        raise UserError(f"{folder}: expected folders of two artists or more, <artist>/*.jpg")
    vectors, labels = [], []
    for place, artist in enumerate(artists):
        found, problems = encoder.of_files(images.listed([artist]))
        for path, why in problems.items():
            raise UserError(f"{path}: {why}; mend it or leave it out")
        vectors.append(found)
        labels += [place] * len(found)
    return [artist.name for artist in artists], np.concatenate(vectors), np.array(labels)
