"""A benchmark of real tissue whose stains are known: one source's patches, divided among clients that differ in colour.

Every client gets images of the same source, so that nothing but colour tells clients apart; its patches are taken
apart into stains and put together again:

    own         in stains of other patches of the source itself: what being put together does, and no shift
    <lender>    each in the stain matrix of a real patch of that source, densities as many times as strong as is usual
                there; a lender of few patches is trained with and never tested
    scanner     as own, then a scanner's brightness and density on top: 255 b (I / 255)^d

    <folder>/patches/<client>/<class>/<image>-<number>.png
    <folder>/manifest.csv       path, label, client, split, subject: a group of images that are alike is one subject
    <folder>/truth.csv          what each patch was given: six numbers of the matrix, both gains, brightness, density
    <folder>/restained.json     what it was made of, by which a second call finds that nothing is to be done

`python -m tffapps.data.restain` is the command. The same images and settings give the same files.
"""

import dataclasses
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import pandas as pd

from preprocessing import image_bytes, stain, stain_augment
from preprocessing.formats import is_image
from preprocessing.stain import StainSettings
from tffapps.data import groups, layouts, manifest, partition
from tffapps.data.cache import Rejected
from tffapps.errors import UserError
from tffapps.progress import track

OWN, SCANNER = "own", "scanner"
TUMOUR, NORMAL = "tumour", "normal"
MANIFEST, TRUTH, ABOUT = "manifest.csv", "truth.csv", "restained.json"
FEWEST = 50  # patches of a lender that may be a test centre
_VERSION = 1
_STACK = 256
_NUMBERS = ("h_red", "h_green", "h_blue", "e_red", "e_green", "e_blue", "h_gain", "e_gain")
_LIGHT = ("red", "green", "blue", "density")


@dataclasses.dataclass(frozen=True)
class Restaining:
    """How the benchmark is made.

    Args:
      tumour: classes of the source that are tumour; all others are normal.
      size: pixels on a side of a patch.
      per_image: patches cut from an image, none over another.
      test_share: of each client's images.
      brightness, density: of the scanner.
      seed: of who gets which image, which patch and which stains.
    """

    tumour: tuple[str, ...]
    size: int = 96
    per_image: int = 2
    test_share: float = 0.4
    brightness: tuple[float, ...] = (0.86, 0.93, 0.98)
    density: float = 1.3
    seed: int = 0
    stain_lambda: float = 0.02

    @property
    def separation(self) -> StainSettings:
        return StainSettings(lambda_matrix=self.stain_lambda)


def write(source: Path, stains: Path, folder: Path, how: Restaining, cache: Path | None = None) -> pd.DataFrame:
    """Makes the benchmark of a source (any folder with classes) and a folder of lenders; returns its manifest."""
    folder = Path(os.path.abspath(folder))
    images = _images(source, how, cache)
    lenders = _lenders(stains)
    about = _about(images, lenders, how)
    if _is_there(folder, about):
        return manifest.read_manifest(folder / MANIFEST)
    images = _divided(images, lenders, how)
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".tmp", dir=folder.parent))
    try:
        table, truth = _make(images, lenders, how, unfinished)
        table.to_csv(unfinished / MANIFEST, index=False)
        truth.to_csv(unfinished / TRUTH, index=False)
        (unfinished / ABOUT).write_text(json.dumps(about, indent=1) + "\n")
        unfinished.chmod(0o755)  # mkdtemp keeps other users out
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return manifest.read_manifest(folder / MANIFEST)


def _images(source: Path, how: Restaining, cache: Path | None) -> pd.DataFrame:
    """The source's images: path, label (tumour or normal) and subject; whatever splits they had are forgotten."""
    table = layouts.read(Path(source), ("manifest", "folders"), [])
    unknown = sorted(set(how.tumour) - set(table.label))
    if unknown:
        raise UserError(f"--tumour {unknown[0]}: {source} has the classes {', '.join(manifest.classes(table))}")
    if not set(table.label) - set(how.tumour):
        raise UserError(f"--tumour {','.join(how.tumour)}: names every class of {source}; leave those that are not")
    label = np.where(table.label.isin(how.tumour), TUMOUR, NORMAL)
    root = os.path.commonpath([os.path.dirname(path) for path in table.path])
    alike = groups.of(table, groups.kind_of(table, groups.AUTO), cache)
    subject = [os.path.relpath(name, root) if os.path.isabs(name) else name for name in alike]
    name = [os.path.relpath(path, root) for path in table.path]
    return pd.DataFrame({"path": table.path, "name": name, "label": label, "subject": subject})


def _lenders(stains: Path) -> dict[str, list[str]]:
    """The images of each folder in `stains`."""
    if not Path(stains).is_dir():
        raise UserError(f"--stains {stains}: no such folder; give one with a folder of images for each source")
    found = {}
    for folder in sorted(Path(os.path.abspath(stains)).iterdir(), key=lambda path: manifest.natural_key(path.name)):
        files = sorted(str(file) for file in folder.rglob("*") if file.is_file() and is_image(file))
        if files:
            found[folder.name] = files
    taken = {OWN, SCANNER} & set(found)
    if taken:
        raise UserError(
            f"--stains {stains}: a source cannot be called {taken.pop()}, which is another client; rename it"
        )
    if not found:
        raise UserError(f"--stains {stains}: no folder with images in it; give a folder for each source")
    return found


def _about(images: pd.DataFrame, lenders: dict[str, list[str]], how: Restaining) -> dict[str, object]:
    digest = hashlib.sha256()
    for path in (*images.path, *(file for files in lenders.values() for file in files)):
        digest.update(hashlib.sha256(Path(path).read_bytes()).digest())
    digest.update("\0".join([*images.label, *images.subject]).encode())
    settings = json.loads(json.dumps(dataclasses.asdict(how)))
    return {"version": _VERSION, "images": digest.hexdigest()[:16], "lenders": list(lenders), "settings": settings}


def _is_there(folder: Path, about: dict[str, object]) -> bool:
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    try:
        found = json.loads((folder / ABOUT).read_text())
    except (OSError, ValueError):
        raise UserError(f"{folder}: holds other files, which are not written over; choose another folder") from None
    if found != about:
        raise UserError(f"{folder}: made of other images or with other settings; choose another folder, or remove it")
    return True


def _divided(images: pd.DataFrame, lenders: dict[str, list[str]], how: Restaining) -> pd.DataFrame:
    """With the columns client and split: groups of images whole, both classes everywhere."""
    clients = [OWN, *lenders, SCANNER]
    owner = partition.stratified(images.label.tolist(), [1] * len(clients), how.seed, groups=images.subject.tolist())
    images = images.assign(client=[clients[number] for number in owner], split="train")
    for number, client in enumerate(clients):
        if len(lenders.get(client, ())) in range(1, FEWEST):
            continue
        rows = np.flatnonzero((images.client == client).to_numpy())
        own = images.iloc[rows]
        shares = [1 - how.test_share, how.test_share]
        part = partition.stratified(own.label.tolist(), shares, how.seed + number + 1, groups=own.subject.tolist())
        images.loc[images.index[rows[part == 1]], "split"] = "test"
    for (client, split), own in images.groupby(["client", "split"]):
        if own.label.nunique() < 2:
            raise UserError(f"--tumour: {client} would have one class only to {split} with; give more images")
    return images


def _make(
    images: pd.DataFrame, lenders: dict[str, list[str]], how: Restaining, folder: Path
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Writes the patches: (manifest, truth)."""
    generator = np.random.default_rng([how.seed, 0x2E57])
    rows: list[tuple[str, ...]] = []
    pixels: list[np.ndarray] = []
    columns = [images[name].tolist() for name in ("path", "name", "label", "client", "split", "subject")]
    each = track(zip(*columns), len(images), "cutting patches", len(images) > _STACK)
    for source, name, label, client, split, subject in each:
        stem = Path(name).with_suffix("").as_posix().replace("/", "_")
        for number, patch in enumerate(_cut(_read(source), how, generator)):
            rows.append((f"patches/{client}/{label}/{stem}-{number}.png", label, client, split, subject, name))
            pixels.append(patch)
    if not pixels:
        raise UserError(f"--size {how.size}: no image of the source is as large; ask for smaller patches")
    table = pd.DataFrame(rows, columns=[*manifest.COLUMNS, "subject", "origin"])
    patches = np.stack(pixels)
    looks, ok = _looks(patches, how)
    if not ok.any():
        raise UserError("the stains of no patch of the source can be told apart; are these H&E images?")
    usual = np.median(looks[ok, 6:], axis=0)
    given = np.zeros((len(table), len(_NUMBERS) + len(_LIGHT)), np.float32)
    given[:, 6:] = 1
    for client, rows_ in table.groupby("client", sort=False).indices.items():
        lent = looks[ok] if client in (OWN, SCANNER) else _of_lender(str(client), lenders[str(client)], how)
        given[rows_, :6] = lent[generator.integers(len(lent), size=len(rows_)), :6]
        given[rows_, 6:8] = np.median(lent[:, 6:], axis=0) / usual
        if client == SCANNER:
            given[rows_, 8:] = (*how.brightness, how.density)
    for start in track(range(0, len(table), _STACK), -(-len(table) // _STACK), "restaining", len(table) > _STACK):
        part = slice(start, start + _STACK)
        pictures = restain(patches[part], given[part], how.separation)
        for path, picture, good in zip(table.path[part], pictures, ok[part]):
            if good:
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_bytes(cv2.imencode(".png", picture[..., ::-1])[1].tobytes())
    truth = pd.DataFrame(given.round(5), columns=[*_NUMBERS, *_LIGHT])
    truth = pd.concat([table[["path", "client", "origin"]], truth], axis=1)
    return table[ok].drop(columns="origin"), truth[ok]


def restain(patches: np.ndarray, given: np.ndarray, settings: StainSettings) -> np.ndarray:
    """Patches (n, height, width, 3) in the stains given: rows of matrix (6), gains (2), brightness (3), density (1)."""
    separated = stain.separate(patches, settings)
    matrices = given[:, :6].reshape(-1, 2, 3).transpose(0, 2, 1)
    pictures = stain.compose(matrices, separated.densities * given[:, 6:8, None, None]).astype(np.float32) / 255
    light = given[:, None, None, 8:11] * pictures ** given[:, None, None, 11:]
    return np.clip(np.rint(255 * light), 0, 255).astype(np.uint8)


def _cut(image: np.ndarray, how: Restaining, generator: np.random.Generator) -> list[np.ndarray]:
    """Patches of one image, as many as asked for or as there is room for, in no order."""
    places = [
        (top, left)
        for top in _offsets(image.shape[0], how.size)
        for left in _offsets(image.shape[1], how.size)
    ]  # fmt: skip
    chosen = generator.permutation(len(places))[: how.per_image]
    return [image[top : top + how.size, left : left + how.size] for top, left in (places[one] for one in chosen)]


def _offsets(length: int, size: int) -> list[int]:
    """Where patches begin along a side: as many as do not lie over each other, evenly spread."""
    count = length // size
    return [round(number * (length - size) / max(1, count - 1)) for number in range(count)]


def _of_lender(name: str, files: Sequence[str], how: Restaining) -> np.ndarray:
    """Its patches' looks, those that can be told: one patch from each image."""
    generator = np.random.default_rng([how.seed, 0x1E4D])
    one = dataclasses.replace(how, per_image=1)
    patches = [patch for file in files for patch in _cut(_read(file), one, generator)]
    looks, ok = _looks(np.stack(patches), how) if patches else (np.zeros((0, 8)), np.zeros(0, bool))
    if not ok.any():
        raise UserError(f"--stains: {name} lends nothing: none of its images shows stains on {how.size} pixels")
    return looks[ok]


def _looks(patches: np.ndarray, how: Restaining) -> tuple[np.ndarray, np.ndarray]:
    parts = [
        stain_augment.looks(patches[start : start + _STACK], how.separation)
        for start in range(0, len(patches), _STACK)
    ]  # fmt: skip
    return np.concatenate([looks for looks, _ in parts]), np.concatenate([ok for _, ok in parts])


def _read(path: str) -> np.ndarray:
    try:
        return image_bytes.decode(Path(path).read_bytes(), cv2.IMREAD_COLOR)[..., ::-1].copy()
    except (OSError, Rejected) as error:
        raise UserError(f"{path}: {error}; remove it, or bring another copy") from None
