"""A stand-in for CAMELYON17: drawn H&E patches of several centres in the layout that `wilds.read_wilds` reads.

    <folder>/metadata.csv
    <folder>/patches/patient_007_node_2/patch_patient_007_node_2_x_3328_y_21792.png
    <folder>/stains.csv        path and the six numbers of the stain matrix, empty for a blank patch

Every patch has a stain matrix of its own, drawn from its centre's distribution. Centres differ in nothing else:
labels are shared out alike, and the tissue is drawn without regard to the centre. Within a centre the stain says
nothing about the label. One patch in a hundred shows no tissue or next to none; its label is normal.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd

from tffapps.data import tissue_drawing
from tffapps.data.standin import Item, write
from tffapps.errors import UserError
from tffapps.files import replacing

SIZE = tissue_drawing.SIZE
METADATA, STAINS = "metadata.csv", "stains.csv"
NUMBERS = ("h_red", "h_green", "h_blue", "e_red", "e_green", "e_blue")  # columns of stains.csv beside the path
_PATIENTS = 10  # of a centre, of the 20 that the real set has
_FEWEST = 2 * _PATIENTS  # patches: one of each label for every patient
_BLANK = 0.01  # share of the patches

# By centre: the optical density of haematoxylin and of eosin in red, green and blue (its length does not matter),
# each with the spread of the patches' around it: degrees, in two directions at right angles.
_CENTRES = (
    ((0.65, 0.70, 0.29), (1.9, 1.5), (0.09, 0.94, 0.29), (1.6, 2.0)),  # violet and pink
    ((0.52, 0.74, 0.43), (1.6, 2.2), (0.17, 0.84, 0.52), (1.8, 1.5)),  # brownish violet and salmon
    ((0.78, 0.59, 0.21), (2.0, 1.6), (0.09, 0.97, 0.16), (1.5, 1.7)),  # blue and magenta
    ((0.57, 0.80, 0.17), (1.5, 1.8), (0.20, 0.95, 0.24), (2.1, 1.6)),  # purple and mauve
    ((0.70, 0.60, 0.38), (2.2, 1.6), (0.08, 0.88, 0.46), (1.6, 1.9)),  # grey-blue and orange-pink
)


def write_tissue(
    folder: Path, *, patches: int = 300, centres: int = 4, size: int = SIZE, seed: int = 0, progress: bool = True
) -> Path:
    """Draws that many patches for each centre, half of them tumour; returns the folder."""
    for name, value, least in (("patches", patches, _FEWEST), ("centres", centres, 1), ("size", size, 32)):
        if value < least:
            raise UserError(f"tissue: {name} {value} is too small; give at least {least}")
    if centres > len(_CENTRES):
        raise UserError(f"tissue: centres {centres} is too large; there are the stains of {len(_CENTRES)}")
    metadata = _metadata(patches, centres, seed)
    matrices = np.concatenate([centre_stains(centre, patches, seed) for centre in range(centres)])
    blank = _blank(metadata, seed)
    paths = [_path(*row) for row in metadata[["patient", "node", "x_coord", "y_coord"]].itertuples(index=False)]
    numbers = matrices.transpose(0, 2, 1).reshape(-1, 6)  # haematoxylin, then eosin
    items = [
        Item(path, {"tumour": tumour == 1, "blank": empty, "size": size, "stain": tuple(stain)})
        for path, tumour, empty, stain in zip(paths, metadata.tumor.tolist(), blank.tolist(), numbers.tolist())
    ]
    parameters = {"patches": patches, "centres": centres, "size": size}
    folder = write(folder, items, _draw, seed, "tissue", parameters=parameters, progress=progress)
    stains = pd.DataFrame(np.where(blank[:, None], np.nan, numbers), columns=list(NUMBERS))
    stains.insert(0, "path", paths)
    _write_table(folder / METADATA, metadata.to_csv())  # the real one too has a first column without a name
    _write_table(folder / STAINS, stains.to_csv(index=False))
    return folder


def true_stains(root: Path) -> pd.DataFrame:
    """The stain matrices of a stand-in, six columns by absolute path; NaN for a blank patch. See `as_matrices`."""
    root = Path(os.path.abspath(root))
    if not (root / STAINS).is_file():
        raise UserError(f"{root / STAINS}: no such file; only drawn tissue has known stains, see write_tissue")
    table = pd.read_csv(root / STAINS)
    missing = [name for name in ("path", *NUMBERS) if name not in table.columns]
    if missing:
        raise UserError(f"{root / STAINS}: no column {' or '.join(missing)}; remove the folder and draw it again")
    table["path"] = [str(root / path) for path in table["path"]]
    return table.set_index("path")[list(NUMBERS)]


def as_matrices(stains: pd.DataFrame) -> np.ndarray:
    """Rows of `true_stains` as matrices w, (rows, 3, 2): red, green and blue by haematoxylin and eosin."""
    return stains[list(NUMBERS)].to_numpy(float).reshape(-1, 2, 3).transpose(0, 2, 1)


def centre_stains(centre: int, count: int, seed: int) -> np.ndarray:
    """Stain matrices from a centre's distribution, (count, 3, 2), columns of unit length, nothing negative."""
    rng = np.random.default_rng([seed, centre, 2])  # three numbers: never the same as an item's two
    haematoxylin, spread_h, eosin, spread_e = _CENTRES[centre]
    columns = [_around(mean, spread, count, rng) for mean, spread in ((haematoxylin, spread_h), (eosin, spread_e))]
    return np.stack(columns, axis=-1).round(6)


def _around(
    mean: tuple[float, float, float], degrees: tuple[float, float], count: int, rng: np.random.Generator
) -> np.ndarray:
    """Directions about a mean, (count, 3)."""
    middle = _unit(np.array(mean))
    first = _unit(np.cross(middle, (0.0, 0.0, 1.0)))  # at right angles to the mean, and so is the second
    second = np.cross(middle, first)
    away = np.tan(np.radians(rng.normal(0, degrees, (count, 2))))
    return _unit(np.maximum(middle + away @ np.stack([first, second]), 0))


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


def _metadata(patches: int, centres: int, seed: int) -> pd.DataFrame:
    """The columns of the real metadata.csv; every patient has as many patches of either label, give or take one."""
    number = np.arange(patches)
    side = max(250, int(np.ceil(np.sqrt(patches))))  # places in a slide, each way
    tables = []
    for centre in range(centres):
        rng = np.random.default_rng([seed, centre, 0])
        patients = 20 * centre + np.sort(rng.choice(20, _PATIENTS, replace=False))
        nodes = np.stack([rng.choice(5, 2, replace=False) for _ in patients])
        who = number // 2 % _PATIENTS
        second = number // _FEWEST % 2 * (rng.random(_PATIENTS) < 0.4)[who]  # some patients have a second node
        place = rng.choice(side**2, patches, replace=False)
        tables.append(
            pd.DataFrame(
                {
                    "patient": [f"{patient:03d}" for patient in patients[who]],
                    "node": nodes[who, second],
                    "x_coord": 96 * (place % side),
                    "y_coord": 96 * (place // side),
                    "tumor": number % 2,
                    "slide": 0,
                    "center": centre,
                    "split": 0,  # in the real set 1 for validation; not read
                }
            )
        )
    table = pd.concat(tables, ignore_index=True)
    table["slide"] = table.groupby(["patient", "node"]).ngroup()
    return table


def _blank(metadata: pd.DataFrame, seed: int) -> np.ndarray:
    """Which patches show no tissue: some of the normal ones, as many in every centre."""
    blank = np.zeros(len(metadata), bool)
    for centre in metadata.center.unique().tolist():
        own = (metadata.center == centre).to_numpy()
        normal = np.flatnonzero(own & (metadata.tumor == 0).to_numpy())
        count = max(1, round(_BLANK * int(own.sum())))
        blank[np.random.default_rng([seed, centre, 1]).choice(normal, count, replace=False)] = True
    return blank


def _path(patient: str, node: int, x: int, y: int) -> str:
    slide = f"patient_{patient}_node_{node}"
    return f"patches/{slide}/patch_{slide}_x_{x}_y_{y}.png"


def _draw(rng: np.random.Generator, item: Item) -> np.ndarray:
    fields = item.fields
    if fields["blank"]:
        amounts = tissue_drawing.blank(rng, fields["size"])
    else:
        amounts = tissue_drawing.densities(rng, fields["tumour"], fields["size"])
    return tissue_drawing.expose(np.reshape(fields["stain"], (2, 3)).T, amounts, rng)


def _write_table(file: Path, text: str) -> None:
    if not file.is_file() or file.read_text() != text:
        with replacing(file) as stream:
            stream.write(text)
