"""A run, declared (`Trial`), and the one place that opens, resumes, trains and finishes it (`Study.run`)."""

from __future__ import annotations

import copy
import dataclasses
import pathlib
import platform
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from models.names import FLOAT32
from models.precision import precision_of
from tffapps import __version__, privacy_table
from tffapps.app import LAST, VALIDATION, App, Common
from tffapps.engine import Engine
from tffapps.engine.values import HERE
from tffapps.errors import UserError
from tffapps.evaluation import stored
from tffapps.evaluation.evaluator import Evaluator, Trained
from tffapps.evaluation.evidence import Entry, classifier_entry
from tffapps.federated import record_noise
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.ccvr import Collection, build_collection
from tffapps.federated.cohort import Client
from tffapps.federated.embeddings import check_gradient
from tffapps.federated.method import Method
from tffapps.federated.retraining import NONE, Retraining
from tffapps.federated.round import Round, build_round
from tffapps.federated.sampling import Sampling
from tffapps.federated.statistics import Reestimation, build_reestimation, check_aggregation
from tffapps.federated.task import Task
from tffapps.runs import BEST, Run, key_of
from tffapps.settings import Flags, key_values
from tffapps.training import train
from tffapps.use import of_run
from tffapps.use.recipe import Recipe

TRAINED = "trained_subjects"  # in a run's summary


@dataclasses.dataclass(frozen=True)
class Initial:
    """The weights that a run begins with, and what identifies them in its key."""

    weights: list[np.ndarray]
    identity: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Trial:
    """What one run is. All that could change one of its numbers is in its key."""

    labels: Mapping[str, Any]  # method, seed and what else tells it from the others: in the key, and columns of tables
    name: str  # the readable part of its folder's name
    method: Method
    task: Task
    clients: Callable[[], Sequence[Client]]  # made when the run is played: preparing their data may take long
    initial: Initial
    rounds: int
    evaluator: Evaluator
    settings: Sequence[Any]  # whole settings objects that it depends on, beside method and aggregation
    data: Mapping[str, str]  # fingerprints of the images, also of those made for it
    size: int  # number of clients
    aggregation: Aggregation = dataclasses.field(default_factory=Aggregation)
    min_clients: int = 1
    server_data: Callable[[int], Any] | None = None  # of a round, where the method has a server step
    enough: Callable[[pd.DataFrame], bool] | None = None  # whether the rounds so far, a row each, are enough to stop at
    # Whether BatchNorm's statistics are re-estimated after every round (`federated.statistics`). Changes nothing where
    # the model has none that move, or where there is no global model because the method sends no weights.
    reestimate: bool = False
    tuned: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # flags that --tune chose: they are in settings
    bundle: Recipe | None = None  # how its bundle is made; None where it trains no model for use
    trained: int = 0  # subjects that it is trained with: tests over splits that overlap need it
    retraining: Retraining = NONE  # of the classifying layer, after the last round
    clients_per_round: int = 0  # so many are drawn for each round; 0: all. `Study.run` sets it as the flag says

    @property
    def precision(self) -> str:
        """What its network computes in, of which its weights tell nothing."""
        return precision_of(self.task.model)

    def __post_init__(self) -> None:
        check_gradient(self.method, self.task.model)
        if self.reestimate:
            check_aggregation(self.aggregation)
        self.retraining.check(self.method, self.aggregation, VALIDATION if self.evaluator.chosen_by else LAST)

    def key(self) -> dict[str, Any]:
        """Changes with any setting that is in a key, the images, the initial weights, the labels."""
        settings = {
            type(each).__name__: key_values(each)
            for each in (*self.settings, *self.retraining.where_used, self.method, self.aggregation)
        }
        return {
            "labels": dict(self.labels), "rounds": self.rounds, "settings": settings, "data": dict(self.data),
            "initial": dict(self.initial.identity), **({"reestimate": True} if self.reestimate else {}),
            **({"clients_per_round": self.cohort} if self.cohort < self.size else {}),
            **({"precision": self.precision} if self.precision != FLOAT32 else {}),
        }  # fmt: skip

    @property
    def private(self) -> bool:
        """Whether anything is promised in differential privacy: then it has a ledger."""
        return self.aggregation.aggregator == "dp" or self.method.record_dp > 0

    @property
    def cohort(self) -> int:
        """How many clients are asked in a round."""
        return Sampling(self.size, self.clients_per_round).cohort


@dataclasses.dataclass(frozen=True)
class Record:
    """What a finished run wrote down. `record["method"]` is one of its labels."""

    labels: Mapping[str, Any]
    rounds: pd.DataFrame
    clients: pd.DataFrame
    summary: dict[str, Any]
    folder: pathlib.Path
    weights: Callable[[], list[np.ndarray]]  # of the round that stands for the run: the chosen one, or the last
    tuned: str = ""  # the settings that --tune chose for it

    def __getitem__(self, label: str) -> Any:
        return self.labels[label]

    def entry(self, **labels: Any) -> Entry:
        """What a classifier's run predicted of its test images; `labels` are added to its own."""
        model = stored.CHOSEN if self.labels.get("chosen") else stored.LAST
        trained = int(self.summary.get(TRAINED, 0))
        return classifier_entry({**self.labels, **labels}, self.folder, trained=trained, model=model)


class Study:
    """All runs of one command: they share every round that has been built."""

    # Is shown every trial, and the name of its folder, before it is played: `tffapps.audit` looks for one.
    instead: ClassVar[Callable[[Study, Trial, str], None] | None] = None

    def __init__(self, app: App, flags: Flags, engine: Engine) -> None:
        self.app, self.flags, self.engine = app, flags, engine
        self.common = flags[Common]
        self.folder = app.folder(flags)
        self._rounds: dict[Any, tuple[Task, Round]] = {}  # a task is kept alive beside its round: its id is in the key
        self._reestimations: dict[Any, tuple[Task, Reestimation | None]] = {}
        self._collections: dict[Any, tuple[Task, Collection]] = {}
        self._seeded_tasks: dict[int, tuple[Task, Task]] = {}  # by the id of the task that it was, kept alive
        self._records: dict[str, Record] = {}

    def under(self, flags: Flags) -> Study:
        """The same, with all rounds that have been built, for runs beside which these flags are written down."""
        other = copy.copy(self)
        other.flags = flags
        return other

    def run(self, trial: Trial) -> Record:
        """The record of a trial: its run is opened, resumed, trained and finished as far as it is not yet."""
        declared = trial
        trial = dataclasses.replace(trial, clients_per_round=trial.clients_per_round or self.common.clients_per_round)
        self._check_alone(trial)
        trial = self._seeded(trial) if trial.method.record_dp else trial
        key = trial.key()
        folder_name = f"{trial.name}-{key_of(key)}"
        if Study.instead is not None:
            Study.instead(self, declared, folder_name)
        if folder_name not in self._records:  # else this command has played it already
            with Run(self.folder, trial.name, key, self._about(trial), self.flags.fresh) as run:
                if not run.finished:
                    self._store(run, trial, self._train(run, trial))
                    run.finish(self._summary(run, trial))
                    if self.engine.sites:
                        self.engine.forget(run.all_kept())
                if trial.bundle is not None and not of_run.has_bundle(run):
                    chosen = run.kept(BEST) if trial.evaluator.chosen_by else None
                    recipe = trial.bundle.without_training_images() if trial.private else trial.bundle
                    of_run.leave_bundle(run, recipe, last_weights_of(run, trial), chosen)
                if trial.private:
                    privacy_table.write(self.folder, trial.aggregation.dp_delta)
                self._records[folder_name] = _record(run, trial)
        return self._records[folder_name]

    def _check_alone(self, trial: Trial) -> None:
        """A model that one site trains by itself is no sum, and has no noise."""
        wanted = self.flags.as_dict().get("aggregator")
        if not self.engine.sites or trial.size > 1 or wanted not in ("secure", "dp"):
            return
        if any(client.site != HERE for client in trial.clients()):
            raise UserError(
                f"--aggregator {wanted}: {trial.labels['method']} trains at one site by itself, whose whole model would"
                " reach the coordinator; leave it out of --methods"
            )

    def _seeded(self, trial: Trial) -> Trial:
        """With noise that can be repeated, where nobody's images are at stake but one's own: in a simulation."""
        if self.engine.sites:
            return trial
        if id(trial.task) not in self._seeded_tasks:
            task = dataclasses.replace(trial.task, client_spec=record_noise.Seeded.spec(trial.task.client_spec))
            self._seeded_tasks[id(trial.task)] = trial.task, task
        seed, clients = int(trial.labels["seed"]), trial.clients
        return dataclasses.replace(
            trial, task=self._seeded_tasks[id(trial.task)][1], clients=lambda: record_noise.seeded(clients(), seed)
        )

    def _train(self, run: Run, trial: Trial) -> Trained:
        self.engine.about(self.app.name, str(trial.labels.get("method", trial.method.name)), run.folder.name)
        trained = self._play(run, trial)
        run.note_logs(self.engine.log_heads())
        return trained

    def _play(self, run: Run, trial: Trial) -> Trained:
        return train(
            run, self.round_of(trial), trial.initial.weights, trial.clients(),
            rounds=trial.rounds, evaluate=trial.evaluator.evaluate, engine=self.engine, min_clients=trial.min_clients,
            headline=trial.evaluator.headline, chosen_by=trial.evaluator.chosen_by,
            tensorboard=self.common.tensorboard, mlflow=self.common.mlflow, server_data=trial.server_data,
            enough=trial.enough, seed=int(trial.labels["seed"]), reestimation=self.reestimation_of(trial),
            clients_per_round=trial.clients_per_round, retraining=self.retraining_of(trial),
        )  # fmt: skip

    def _store(self, run: Run, trial: Trial, trained: Trained) -> None:
        """Predictions of the model that the run ends with, and of the one that validation chose."""
        predicted = {stored.LAST: trial.evaluator.predicted(trained)}
        best = run.kept(BEST) if trial.evaluator.chosen_by else None
        if best is not None:
            predicted[stored.CHOSEN] = trial.evaluator.predicted(dataclasses.replace(trained, weights=best))
        stored.write(run.folder, predicted)

    def round_of(self, trial: Trial) -> Round:
        """Built once for all trials that differ in nothing it depends on."""
        counted = trial.method.counts_clients or not trial.aggregation.weighted
        key = (id(trial.task), trial.method, trial.aggregation, trial.cohort if counted else None)
        if key not in self._rounds:
            self._rounds[key] = (
                trial.task,
                build_round(trial.task, trial.method, trial.aggregation, trial.cohort, bool(self.engine.sites)),
            )
        return self._rounds[key][1]

    def reestimation_of(self, trial: Trial) -> Reestimation | None:
        """Built once for all trials of a task and an aggregator; None where there is nothing to re-estimate."""
        if not trial.reestimate or not trial.method.sends_weights or trial.method.personal:
            return None
        key = (id(trial.task), trial.aggregation.aggregator)
        if key not in self._reestimations:
            self._reestimations[key] = (
                trial.task,
                build_reestimation(trial.task, trial.aggregation, bool(self.engine.sites)),
            )
        return self._reestimations[key][1]

    def retraining_of(self, trial: Trial) -> Collection | None:
        """Built once for all trials of a task; None where nothing is re-trained."""
        if not trial.retraining.used:
            return None
        key = (id(trial.task), trial.retraining)
        if key not in self._collections:
            self._collections[key] = trial.task, build_collection(trial.task, trial.retraining)
        return self._collections[key][1]

    def _summary(self, run: Run, trial: Trial) -> dict[str, Any]:
        rounds, chosen_by = run.rounds(), trial.evaluator.chosen_by
        chosen = rounds[chosen_by].idxmin() if chosen_by and rounds[chosen_by].notna().any() else rounds.index[-1]
        row = {str(name): value for name, value in rounds.loc[chosen].items()}
        return {**trial.evaluator.summary(row, weights_of(run, trial)), TRAINED: trial.trained}

    def _about(self, trial: Trial) -> dict[str, Any]:
        """What `settings.json` holds beside the key: labels, versions, and the flags as they were resolved."""
        # Run again, it is not tuned again.
        values = {**self.flags.as_dict(), **trial.tuned, **({"tune": ""} if trial.tuned else {})}
        packages = ("tensorflow", "tensorflow-federated", "keras", "numpy")
        versions = {name: metadata.version(name) for name in packages}
        return {
            "app": self.app.name, "labels": dict(trial.labels), "flags": {**values, **paths_of(values)},
            "versions": {"tffapps": __version__, "python": platform.python_version(), **versions},
            **({"tuned": dict(trial.tuned)} if trial.tuned else {}),
        }  # fmt: skip


def _record(run: Run, trial: Trial) -> Record:
    tuned = "; ".join(f"{name}={value}" for name, value in trial.tuned.items())
    return Record(trial.labels, run.rounds(), run.clients(), run.summary(), run.folder, weights_of(run, trial), tuned)


def weights_of(run: Run, trial: Trial) -> Callable[[], list[np.ndarray]]:
    """Reads the weights of the round that stands for a run, when they are asked for."""
    # Not of the trial itself: a record would keep its initial weights and test images in memory.
    chosen, last = bool(trial.evaluator.chosen_by), last_weights_of(run, trial)

    def read() -> list[np.ndarray]:
        best = run.kept(BEST) if chosen else None
        return last() if best is None else best

    return read


def last_weights_of(run: Run, trial: Trial) -> Callable[[], list[np.ndarray]]:
    """Reads the weights that a run ended with, when they are asked for."""
    count, averaged = len(trial.initial.weights), trial.method.average_from > 0

    def read() -> list[np.ndarray]:
        checkpoint = run.latest()
        if checkpoint is None:
            raise UserError(f"{run.folder}: its checkpoint cannot be read; remove the folder, or use --fresh for all")
        # A mean over rounds is the last part of a state, the weights of its last round are the first.
        return checkpoint[1][-count:] if averaged else checkpoint[1][:count]

    return read


def paths_of(values: Mapping[str, Any]) -> dict[str, str]:
    """Those of the flags that name a file or folder, absolute: the settings can be run again from anywhere."""
    names = ("data", "weights", "cert", "key", "ca", "revoked")
    given = {name: pathlib.Path(values[name]) for name in names if values[name]}
    return {name: str(path.resolve()) for name, path in given.items() if path.exists()}
