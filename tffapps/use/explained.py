"""Contact sheets of a command's answers, as they come: however many images there are, one sheet's are in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tffapps.use import sheet
from tffapps.use.explain import explain

if TYPE_CHECKING:
    from tffapps.use.predict import Answer, Predictor

_TITLES = {"gradcam": "Grad-CAM", "occlusion": "Occlusion"}


class Sheets:
    """`add` batches of images with their answers, then `finish`. `paths` are the files that are there by then."""

    def __init__(self, predictor: Predictor, method: str, path: Path, *, calibrated: bool = True) -> None:
        """`method` is one of EXPLANATIONS; `path` is the first sheet's, the others get a number."""
        self._predictor, self._method, self._path, self._calibrated = predictor, method, path, calibrated
        self._images: list[np.ndarray] = []
        self._answers: list[sheet.Answer] = []
        self._classes: list[int] = []
        self.paths: list[Path] = []

    def add(self, images: np.ndarray, answers: Sequence[Answer], names: Sequence[str]) -> None:
        """Images (n, height, width, channels) as the network sees them; answers and files' names, one an image."""
        for image, answer, name in zip(images, answers, names):
            shown = answer.calibrated if self._calibrated else answer.probabilities
            if shown is None:
                continue
            index = int(shown.argmax())
            label = self._predictor.bundle.classes[index]
            self._images.append(image)
            self._classes.append(index)
            self._answers.append(
                sheet.Answer(Path(name).name, label if answer.sure else f"unsure: {label}", float(shown[index]))
            )
            if len(self._images) == sheet.MOST:
                self.finish()

    def finish(self) -> None:
        """Writes what has not been written yet."""
        if not self._images:
            return
        number = len(self.paths) + 1
        path = self._path if number == 1 else self._path.with_name(f"{self._path.stem}-{number}{self._path.suffix}")
        images = np.stack(self._images)
        heats = explain(self._predictor.model, images, self._classes, self._method)
        bundle = self._predictor.bundle
        sheet.write_sheet(
            path, images, heats, self._answers,
            title=f"{_TITLES[self._method]}: what speaks for the answer{f' (sheet {number})' if number > 1 else ''}",
            note=f"{bundle.network.values['model']}, trained by {bundle.system}",
        )  # fmt: skip
        self.paths.append(path)
        self._images, self._answers, self._classes = [], [], []
