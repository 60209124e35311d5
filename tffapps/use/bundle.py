"""A bundle: what a finished run leaves for use. Plain files, no pickle, no code.

    SHA256SUMS             of every other file; `sha256sum -c SHA256SUMS` checks it too
    bundle.json            system, task, classes, network, images, models, scores, provenance
    base-<key>.npz         weights of what was frozen, where something was; many bundles may share one file
    last.npz               weights of what was trained, after the last round
    chosen.npz             the same after the round that validation chose, where one was chosen
    novelty-<model>.npz    where training images lie, for a classifier whose images were here
    amplitude.npz          where images are prepared with it

    bundle = load(Path("bundle"))
    probabilities = bundle.model()(images)        # images float32 (n, *bundle.preprocess.size, channels) in [0, 1]

A bundle may come from anybody. All of it is checked before any of it is used, and what is wrong is a `UserError`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.stored import DAMAGE, shown
from tffapps.errors import UserError
from tffapps.evaluation.stored import CHOSEN, LAST
from tffapps.use import arrays, steps
from tffapps.use.decision import Decision
from tffapps.use.fields import Fields
from tffapps.use.folder import Folder
from tffapps.use.network import CLASSIFIER, MOST_PIXELS, Description, Parts, names_of
from tffapps.use.novelty import Novelty

if TYPE_CHECKING:
    import tensorflow as tf

FORMAT = 1
FILE = "bundle.json"
NOT_A_DEVICE = "not a medical device"
_MAX_JSON = 2**22


@dataclasses.dataclass(frozen=True)
class Preprocess:
    """How a file becomes what the network sees: the steps in their order, then decoded and resized."""

    size: tuple[int, int]  # height, width
    channels: int  # 1 or 3
    steps: tuple[steps.Step, ...] = ()
    tile: int | None = None  # pixels of the squares that a larger picture is cut into; 0: its shorter side; None: whole

    def __call__(self, contents: bytes) -> bytes:
        """The bytes of an image file after all steps. Raises `Rejected`."""
        for step in self.steps:
            contents = step(contents)
        return contents

    def as_json(self) -> dict[str, Any]:
        return {
            "height": self.size[0], "width": self.size[1], "channels": self.channels, "tile": self.tile,
            "steps": [step.as_json() for step in self.steps],
        }  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Bundle:
    """One that has been checked. Weights are read when a model is asked for."""

    folder: Folder
    system: str  # which one trained it
    network: Description
    classes: tuple[str, ...]
    preprocess: Preprocess
    decisions: Mapping[str, Decision]  # model ("last", "chosen") → when its answers count
    bases: Mapping[str, str]  # model → the file of what was frozen; "" where nothing was
    about: Mapping[str, Any]  # scores, provenance: to be shown, never to be acted on

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def segments(self) -> bool:
        """Whether it gives classes to pixels, and not to images."""
        return self.network.kind != CLASSIFIER

    @property
    def default_model(self) -> str:
        """The model that stands for the run: the chosen one, where validation chose one."""
        return CHOSEN if CHOSEN in self.decisions else LAST

    def model(self, which: str = "") -> tf.keras.Model:
        """The whole network with its weights: float32 images in [0, 1] to probabilities. `which`: "last", "chosen"."""
        return self.parts(which).whole

    def parts(self, which: str = "") -> Parts:
        """The same, taken apart where it was cut."""
        which = self.named(which)
        parts = self._built()
        for half, model in parts.halves():
            name = f"{which}.npz" if half == "trained" else self.bases[which]
            names = names_of(len(model.weights))
            shapes = {each: tuple(variable.shape) for each, variable in zip(names, model.weights)}
            found = arrays.read(self.folder, name, shapes)
            model.set_weights([found[each] for each in names])
        return parts

    def novelty(self, which: str = "") -> Novelty | None:
        """What tells unlike images from those of its training; None where it was not measured."""
        name = f"novelty-{self.named(which)}.npz"
        return Novelty.read(self.folder, name) if name in self.folder.names else None

    def named(self, which: str) -> str:
        """A model's name, "" for the default."""
        which = which or self.default_model
        if which not in self.decisions:
            raise UserError(f"{self.path}: no model {shown(which)}; it has {', '.join(self.decisions)}")
        return which

    def _built(self) -> Parts:
        try:
            return self.network.build()
        except DAMAGE as error:
            why = shown(error)
            raise UserError(f"{self.path / FILE}: no network is like that ({why}); fetch the bundle again") from None


def load(path: Path | str) -> Bundle:
    """The bundle in a folder; a UserError says what is wrong with it."""
    folder = Folder(Path(path))
    where = folder.path / FILE
    contents = folder.read(FILE)
    if len(contents) > _MAX_JSON:
        raise UserError(f"{where}: {len(contents)} bytes, at most {_MAX_JSON} are read; fetch the bundle again")
    fields = Fields.parse(contents, str(where))
    if fields.any("format") != FORMAT:
        fields.refuse("format", f"{FORMAT}, which this version of tffapps reads")
    classes = tuple(fields.texts("classes", least=2))
    images = fields.part("images")
    network = Description.read(fields.part("network"), images, len(classes))
    models = fields.part("models")
    if not {LAST} <= set(models.names) <= {LAST, CHOSEN}:
        fields.refuse("models", f"{LAST} and perhaps {CHOSEN}")
    bundle = Bundle(
        folder=folder,
        system=fields.text("system"),
        network=network,
        classes=classes,
        preprocess=Preprocess(
            network.shape[:2],
            network.shape[2],
            tuple(steps.read(each, folder) for each in images.parts("steps")),
            images.whole("tile", 0, MOST_PIXELS) if images.has("tile") else None,
        ),
        decisions={name: Decision.read(models.part(name)) for name in models.names},
        bases={name: models.part(name).text("base") for name in models.names},
        about={name: fields.any(name) for name in ("scores", "provenance", "novelty")},
    )
    _check_size(bundle)
    return bundle


def _check_size(bundle: Bundle) -> None:
    """That the files could hold the network described, before memory is set aside for it."""
    for which, base in bundle.bases.items():
        files = [f"{which}.npz", *([base] if base else [])]
        for name in files:
            if name not in bundle.folder.names:
                raise UserError(f"{bundle.path}: no {shown(name)}; fetch the bundle again")
        if sum((bundle.path / name).stat().st_size for name in files) < 4 * bundle.network.least_parameters:
            raise UserError(f"{bundle.path}: too small for the network that {FILE} describes; fetch the bundle again")
