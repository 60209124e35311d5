"""A classifier's answers for images: calibrated probabilities, a class or "unsure", and whether an image is unlike."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

import numpy as np
import tensorflow as tf

from tffapps.errors import UserError
from tffapps.evaluation.classification import check_finite
from tffapps.evaluation.stored import PREFIX
from tffapps.results import as_text
from tffapps.use.bundle import NOT_A_DEVICE, Bundle
from tffapps.use.decision import Decision
from tffapps.use.images import BATCH, Reader

UNSURE = "unsure"
UNLIKE = "unlike the training images"


@dataclasses.dataclass(frozen=True)
class Answer:
    """For one image. Without probabilities where it could not be used."""

    place: int  # in the list of images
    probabilities: np.ndarray | None = None  # (classes,), as the network has them
    calibrated: np.ndarray | None = None  # (classes,)
    sure: bool = False
    distance: float | None = None  # from the training images; above 1: unlike them
    problem: str = ""  # why it could not be used

    @property
    def warning(self) -> str:
        return self.problem or (UNLIKE if self.distance is not None and self.distance > 1 else "")


class Predictor:
    """One model of a classifier's bundle."""

    def __init__(self, bundle: Bundle, which: str = "", unsure_below: float | None = None) -> None:
        """`unsure_below` takes the place of the threshold that validation chose."""
        if bundle.segments:
            raise UserError(f"{bundle.path}: gives classes to pixels, not to images; use `tffapps segment`")
        self.bundle, which = bundle, bundle.named(which)
        decision = bundle.decisions[which]
        self.decision: Decision = (
            decision if unsure_below is None else dataclasses.replace(decision, unsure_below=unsure_below)
        )
        parts, self._novelty = bundle.parts(which), bundle.novelty(which)
        located = parts.located()
        if self._novelty is not None and len(self._novelty.mean) != located.output_shape[0][-1]:
            raise UserError(f"{bundle.path}: novelty-{which}.npz is another network's; fetch the bundle again")
        self.model = parts.whole
        shape = (None, *bundle.preprocess.size, bundle.preprocess.channels)
        self._run: Any = tf.function(lambda x: located(x, training=False), input_signature=[tf.TensorSpec(shape)])

    def of_files(
        self, paths: Sequence[str], batch: int = BATCH, watch: Callable[[np.ndarray, list[Answer]], None] | None = None
    ) -> Iterator[Answer]:
        """One for each path, in order. `watch` is given the images of every batch, and the answers to them."""
        for each in Reader(self.bundle.preprocess).batches(paths, batch):
            answers = {place: Answer(place, problem=reason) for place, reason in each.problems.items()}
            of_images = self.of_pixels(each.pixels, each.places)
            if watch is not None:
                watch(each.pixels.numpy(), of_images)
            answers |= {answer.place: answer for answer in of_images}
            yield from (answers[place] for place in sorted(answers))

    def of_pixels(self, pixels: tf.Tensor | np.ndarray, places: Sequence[int] | np.ndarray) -> list[Answer]:
        """Of images as the network sees them: float32 (n, height, width, channels) in [0, 1]."""
        if not len(places):
            return []
        vectors, probabilities = (values.numpy() for values in self._run(pixels))
        check_finite(probabilities)
        calibrated = self.decision.calibrated(probabilities)
        sure = self.decision.sure(calibrated)
        distances = self._novelty.distances(vectors).tolist() if self._novelty else [None] * len(places)
        return [
            Answer(int(place), *values)
            for place, *values in zip(places, probabilities, calibrated, sure.tolist(), distances)
        ]


class Table:
    """Answers as rows of a CSV file, written as they come."""

    def __init__(self, file: IO[str], classes: Sequence[str], first: Sequence[str], *, calibrated: bool = True) -> None:
        """`first` are the names of the columns that tell the images apart."""
        self._classes, self._calibrated = classes, calibrated
        self._writer = csv.writer(file, lineterminator="\n")
        probabilities = [PREFIX + name for name in classes]
        self._writer.writerow([*first, "answer", "class", *probabilities, "distance", "warning", "notice"])

    def add(self, first: Sequence[Any], answer: Answer) -> None:
        shown = answer.calibrated if self._calibrated else answer.probabilities
        if shown is None:
            cells: list[Any] = ["", "", *[""] * len(self._classes), ""]
        else:
            name = self._classes[int(shown.argmax())]
            distance = "" if answer.distance is None else f"{answer.distance:.4g}"
            cells = [name if answer.sure else UNSURE, name, *(f"{value:.9g}" for value in shown), distance]
        self._writer.writerow([as_text(cell) for cell in (*first, *cells, answer.warning, NOT_A_DEVICE)])


@dataclasses.dataclass
class Tally:
    """What a command says when it is done."""

    images: int = 0
    problems: int = 0
    unsure: int = 0
    unlike: int = 0

    def add(self, answer: Answer) -> None:
        self.images += 1
        self.problems += bool(answer.problem)
        self.unsure += not answer.problem and not answer.sure
        self.unlike += not answer.problem and answer.warning == UNLIKE

    @property
    def told(self) -> str:
        parts = [f"{self.images} images"]
        for count, what in (
            (self.problems, "could not be used"), (self.unsure, "unsure"), (self.unlike, UNLIKE),
        ):  # fmt: skip
            if count:
                parts.append(f"{count} {what}")
        return f"{', '.join(parts)}; {NOT_A_DEVICE}"
