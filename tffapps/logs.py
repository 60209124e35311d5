"""Metrics of rounds for other programs to show, beside what a run writes down itself: TensorBoard, MLflow."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tffapps.evaluation.evaluator import Metrics
from tffapps.runs import Run

Log = Callable[[int, Metrics], None]  # (number of the round, its metrics)
_TAG = "tffapps_run"  # by it a run that goes on is found again


@contextlib.contextmanager
def logs(run: Run, *, tensorboard: bool, mlflow: str) -> Iterator[Log]:
    """What to call after every round.

    Args:
      run: whose rounds they are.
      tensorboard: whether to log for it, into the run's folder.
      mlflow: a folder or a tracking URI to log to; "": none.
    """
    with contextlib.ExitStack() as stack:
        every: list[Log] = []
        if tensorboard:
            every.append(stack.enter_context(_tensorboard(run)))
        if mlflow:
            every.append(stack.enter_context(_mlflow(run, mlflow)))

        def log(number: int, metrics: Metrics) -> None:
            for each in every:
                each(number, metrics)

        yield log


@contextlib.contextmanager
def _tensorboard(run: Run) -> Iterator[Log]:
    import tensorflow as tf

    with tf.summary.create_file_writer(str(run.folder / "tensorboard")).as_default():

        def log(number: int, metrics: Metrics) -> None:
            for name, value in metrics.items():
                tf.summary.scalar(name, value, step=number)

        yield log


@contextlib.contextmanager
def _mlflow(run: Run, target: str) -> Iterator[Log]:
    """One MLflow run for each run, in the experiment tffapps.<system>. A tracker that fails does not stop training."""
    client: Any = None
    known = ""
    with _told():
        import mlflow

        client = mlflow.MlflowClient(target if "://" in target else Path(target).resolve().as_uri())
        known = _run_of(client, run.folder.name, run.settings())
    working = bool(known)

    def log(number: int, metrics: Metrics) -> None:
        nonlocal working
        if working:
            working = False
            with _told():
                for name, value in metrics.items():
                    if math.isfinite(value):
                        client.log_metric(known, name, float(value), step=number)
                working = True

    status = "KILLED"
    try:
        yield log
        status = "FINISHED"
    finally:
        if working:
            with _told():
                client.set_terminated(known, status)


def _run_of(client: Any, name: str, settings: Mapping[str, Any]) -> str:
    """The identifier of the MLflow run that a run is logged to: the one it was logged to before, or a new one."""
    title = f"tffapps.{settings['app']}"
    experiment = client.get_experiment_by_name(title)
    number = experiment.experiment_id if experiment else client.create_experiment(title)
    earlier = client.search_runs([number], filter_string=f"tags.{_TAG} = '{name}'", max_results=1)
    if earlier:
        client.update_run(earlier[0].info.run_id, status="RUNNING")
        return earlier[0].info.run_id
    made = client.create_run(number, run_name=name, tags={_TAG: name}).info.run_id
    for label, value in settings["labels"].items():
        client.log_param(made, label, value)
    return made


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Whatever goes wrong with a tracker is one line."""
    try:
        yield
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0][:200]
        print(f"--mlflow: {type(error).__name__}: {reason}; this run is not logged any further", file=sys.stderr)
