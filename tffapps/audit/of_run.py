"""Both attacks on one finished run, with the images that it was really trained on."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tffapps.audit import inversion, membership
from tffapps.audit.inversion import Inverted
from tffapps.audit.membership import Found, Seen
from tffapps.errors import UserError
from tffapps.evaluation.evaluator import PredictionEvaluator
from tffapps.federated.cohort import Client
from tffapps.federated.local import ClientContext
from tffapps.federated.record_noise import Seeded, seed_of
from tffapps.federated.task import Task, WeightsLayout, path_to_images
from tffapps.runs import Run
from tffapps.study import Study, Trial, weights_of

_MOST = 5000  # images on either side
_COMPARED = 500  # images that reconstructions are compared with


class Examples(NamedTuple):
    inputs: np.ndarray
    labels: np.ndarray


@dataclasses.dataclass(frozen=True)
class Audit:
    """What was found of a run."""

    members: list[Found]
    before: list[Found]  # the same attacks on the model that the run began with
    inverted: dict[str, list[Inverted]]  # by what was inverted
    client: str  # whose update it was
    inverts: str  # pictures, or what crosses the cut
    protected: str  # by what the update was, "" by nothing


def audit(study: Study, trial: Trial, folder: pathlib.Path, *, images: int, steps: int, client: str = "") -> Audit:
    """Args:
    study: that the trial is of.
    trial: of the run.
    folder: of the run.
    images: what is inverted beside a real round: one of so many images and one step; 0: nothing is.
    steps: of gradient matching.
    client: whose update is inverted; "": the first one's.
    """
    if not isinstance(trial.evaluator, PredictionEvaluator):
        raise UserError(f"{folder}: an audit is of a classifier that all clients share; this run has none")
    clients, others = list(trial.clients()), _examples([trial.evaluator.parts[""].data()])
    members = _examples(_training(trial.task, each) for each in clients)
    weights = weights_of(Run.finished_in(folder), trial)()
    model, found = trial.task.model, []
    for values in (weights, trial.initial.weights):
        model.set_weights(values)
        found.append(membership.attacks(_seen(model, members), _seen(model, others)))
    position = _position(clients, client)
    inverted, protected = _inverted(trial, clients, position, others, images, steps)
    whole = tuple(model.input_shape[1:]) == tuple(trial.bundle.network.shape) if trial.bundle is not None else True
    inverts = "images" if whole else "what crosses the cut, not images (the part below it is public)"
    return Audit(found[0], found[1], inverted, clients[position].name, inverts, protected)


def _position(clients: list[Client], name: str) -> int:
    names = [each.name for each in clients]
    if name and name not in names:
        raise UserError(f"--client {name}: no such client; choose from {', '.join(names)}")
    return names.index(name) if name else 0


def _inverted(
    trial: Trial, clients: list[Client], position: int, others: Examples, images: int, steps: int
) -> tuple[dict[str, list[Inverted]], str]:
    """What left a client in the first round, and what would have in a round of a few images and one step."""
    client, task = clients[position], trial.task
    own = _examples([_training(task, client)])
    bounds = float(own.inputs.min()), float(own.inputs.max())
    cases: dict[str, tuple[Any, Examples]] = {"the real round": (client.batches(1), own)}
    if images and isinstance(task.client_spec, tf.data.DatasetSpec):
        few = Examples(own.inputs[:images], own.labels[:images])
        cases[f"a round of {len(few.labels)} images, one step"] = tf.data.Dataset.from_tensors(tuple(few)), few
    found: dict[str, list[Inverted]] = {}
    protected = ""
    for name, (data, attacked) in cases.items():
        update, protected = _update(trial, data, position)
        task.model.set_weights(trial.initial.weights)
        labels = attacked.labels[: max(images, 1)]
        made = inversion.matching(task.model, task.loss, update, labels, bounds, steps=steps)
        found[name] = [inversion.judged(inversion.MATCHING, made, attacked.inputs, others.inputs[:_COMPARED])]
        exact = inversion.analytic(task.model, update)
        if exact is not None:
            found[name].append(inversion.judged(inversion.ANALYTIC, exact, attacked.inputs, others.inputs[:_COMPARED]))
    return found, protected


def _update(trial: Trial, data: Any, position: int) -> tuple[list[np.ndarray], str]:
    """What the server is sent by a client in the first round, and what protects it."""
    task, method, aggregation = trial.task, trial.method, trial.aggregation
    layout, start = WeightsLayout.of(task.model), trial.initial.weights
    seed = int(trial.labels["seed"])
    if method.record_dp:
        task = dataclasses.replace(task, noise_seed=tf.constant(seed_of(seed, 1, position)))
    task.model.set_weights(start)
    memory = [tf.constant(value) for value in method.first_memory(task, start, seed)]
    kept = [tf.constant(value) for value in method.first_kept(task, start, seed)]
    if task.loss_by_counts is not None:
        task, data = dataclasses.replace(task, loss=task.loss_by_counts(data.counts)), data.training
    method.work(task, data, ClientContext(tf.constant(position), memory, kept))
    moved = [after - before for after, before in zip(task.model.get_weights(), start)]
    update, protected = layout.trained(moved), []
    if method.record_dp:
        protected.append(f"DP-SGD, noise {method.record_dp:g}")
    if aggregation.aggregator == "dp":
        norm = float(np.sqrt(sum((value.astype(np.float64) ** 2).sum() for value in moved)))
        update = [value * min(1.0, aggregation.dp_clip / max(norm, 1e-12)) for value in update]
        protected.append("clipped; the noise of --aggregator dp comes after the sum")
    return update, "; ".join(protected)


def _training(task: Task, client: Client) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    """The batches of a client's first round, of its first pass where it has several."""
    data = client.batches(1)
    data = data.training if isinstance(data, Seeded) else data
    for index in path_to_images(task):
        data = data[index]
    count, once = 0, client.examples // client.passes if client.examples and client.passes else None
    for batch in data:
        if once is not None and count >= once:
            return
        count += len(batch[1])
        yield batch


def _examples(parts: Any) -> Examples:
    """Each different one once."""
    inputs: dict[bytes, np.ndarray] = {}
    labels: list[int] = []
    for values, codes in itertools.chain.from_iterable(parts):
        for value, code in zip(values.numpy(), codes.numpy()):
            key = value.tobytes()
            if key not in inputs and len(inputs) < _MOST:
                inputs[key] = value
                labels.append(int(code))
    return Examples(np.stack(list(inputs.values())), np.array(labels, np.int32))


def _seen(model: tf.keras.Model, examples: Examples) -> Seen:
    return Seen(examples.labels, model.predict(examples.inputs, batch_size=64, verbose=0))
