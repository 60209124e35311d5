"""The rounds of one run, from wherever it stands to its end: played, judged, written down."""

import dataclasses
import functools
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import tree

from tffapps.engine import Engine
from tffapps.errors import UserError
from tffapps.evaluation.evaluator import Metrics, Trained
from tffapps.federated.ccvr import Collection, Retrained, retrain
from tffapps.federated.cohort import Client, Outcome, play
from tffapps.federated.releases import of_round
from tffapps.federated.round import AnyState, Round
from tffapps.federated.sampling import Sampling
from tffapps.federated.scaling import COLUMN
from tffapps.federated.statistics import Reestimated, Reestimation, reestimate
from tffapps.logs import logs
from tffapps.privacy.accounting import for_unit, spent_by_rdp
from tffapps.privacy.release import CLIENT, RECORD
from tffapps.progress import Progress
from tffapps.runs import BEST, Run

# Columns of rounds.csv that two runs of the same settings may differ in.
MEASURED_COLUMNS = ("seconds", "training_seconds", "peak_memory_mb")


def train(
    run: Run,
    round_: Round,
    weights: Sequence[np.ndarray],
    clients: Sequence[Client],
    *,
    rounds: int,
    evaluate: Callable[[Trained], Metrics],
    engine: Engine,
    min_clients: int = 1,
    headline: str = "accuracy",
    chosen_by: str = "",
    tensorboard: bool = False,
    mlflow: str = "",
    server_data: Callable[[int], Any] | None = None,
    enough: Callable[[pd.DataFrame], bool] | None = None,
    seed: int = 0,
    reestimation: Reestimation | None = None,
    clients_per_round: int = 0,
    retraining: Collection | None = None,
) -> Trained:
    """Plays rounds 1 … `rounds` of a run, going on after the last one it has; returns the federation at its end.

    Args:
      run: where the record and the checkpoints are.
      round_: what is played.
      weights: the global model before the first round.
      clients: of the federation, with their data.
      rounds: how many.
      evaluate: metrics of the federation after a round; what clients keep is in the run's folder by then.
      engine: that the rounds are played on.
      min_clients: a round with fewer good updates is played once more, then the run stops.
      headline: the metric that is shown while it trains.
      chosen_by: the metric whose lowest value chooses the weights that the run keeps beside the last; "": none.
      tensorboard: whether to log for it as well.
      mlflow: a folder or a tracking URI to log to as well; "": none.
      server_data: the server's own data for a round, where the round has a server step.
      enough: whether the rounds so far, a row each, are enough to stop at.
      seed: for methods that draw random numbers.
      reestimation: of BatchNorm's statistics after every round, before it is judged; the next one begins with them.
      clients_per_round: so many of the clients are drawn for each round; 0: all take part.
      retraining: of the classifying layer, after the last round and before it is judged.
    """
    state = round_.start(weights, seed)
    done, state = _resume(run, state)
    first_kept = round_.first_kept(weights, seed)
    sampling = Sampling(len(clients), clients_per_round, seed)

    def trained_to(state: AnyState, number: int, last: bool) -> Trained:
        own = functools.partial(_own_model, round_, run, state)
        return Trained(round_.result(state), state, number, last=last, kept=own)

    model = trained_to(state, done, last=True)
    if enough and done and enough(run.rounds()):
        return model
    if 0 < done < rounds:
        print(f"{run.name}: going on after round {done}", file=sys.stderr)

    def spend(number: int, present: Sequence[int]) -> None:
        # Before anything is computed: what a crash makes happen twice is released twice.
        released = of_round(round_.method, round_.aggregation, [clients[position] for position in present], number)
        if released:
            run.ledger.append(released)

    with Progress(run.name, rounds, done) as progress, logs(run, tensorboard=tensorboard, mlflow=mlflow) as log:
        for number in range(done + 1, rounds + 1):
            begin = time.perf_counter()
            asked = sampling.positions(number)
            newcomers = sum(not run.has_kept(position) for position in asked)
            outcome = play(
                round_, state, clients, number, min_clients, server_data,
                lambda position: run.kept(position) or first_kept, asked,
                functools.partial(spend, number),
            )  # fmt: skip
            reestimated = None
            if reestimation is not None:
                reestimated = reestimate(reestimation, outcome.state, clients, number, outcome.reports.keys())
                outcome = _with_statistics(outcome, reestimated)
            retrained = None
            if retraining is not None and number == rounds:
                retrained = retrain(retraining, outcome.state, clients, number, outcome.reports.keys(), seed)
                outcome = _with_new_head(outcome, retrained)
            state = outcome.state
            for position, kept in outcome.kept.items():
                run.keep(number, position, kept())
            trained = time.perf_counter()
            engine.tell(outcome.reports, f"took part in round {number} of {rounds} of {run.folder.name}")
            model = trained_to(state, number, last=number == rounds)
            metrics = evaluate(model)
            if chosen_by and _is_lowest(metrics[chosen_by], run, chosen_by):
                run.keep(number, BEST, model.weights)
            row = _row(number, metrics, outcome, round_, sampling, reestimated, retrained) | _epsilons(run, round_)
            if round_.specs.kept:
                row["bytes_state"] = round_.bytes_state(newcomers)
            row["seconds"] = round(time.perf_counter() - begin, 3)
            row["training_seconds"] = round(trained - begin, 3)
            row["peak_memory_mb"] = round(engine.peak_memory() / 2**20)
            run.add_round(row, [{**report, "client": name} for name, report in outcome.reports.items()])
            run.save(number, [np.asarray(leaf) for leaf in tree.flatten(state)])
            log(number, {**metrics, "training_loss": outcome.loss})
            progress.step(_note(row, headline, outcome))
            if enough and enough(run.rounds()):
                break
    return model


def _own_model(round_: Round, run: Run, state: AnyState, position: int) -> list[np.ndarray] | None:
    return round_.own_model(state, run.kept(position))


def _is_lowest(value: float, run: Run, metric: str) -> bool:
    """Whether no earlier round has as low a value; NaN never is, and never counts."""
    earlier = run.rounds()
    lowest = earlier[metric].min() if len(earlier) else np.nan
    return value < (np.inf if np.isnan(lowest) else lowest)


def _resume(run: Run, start: AnyState) -> tuple[int, AnyState]:
    checkpoint = run.latest()
    if checkpoint is None:
        return 0, start
    number, arrays = checkpoint
    if run.rounds()["round"].tolist() != list(range(1, number + 1)):
        raise UserError(f"{run.folder}: its rounds.csv lacks rounds before {number}; remove the folder, or use --fresh")
    leaves = tree.flatten(start)
    if [np.shape(array) for array in arrays] != [np.shape(leaf) for leaf in leaves]:
        raise UserError(f"the checkpoint in {run.folder} does not belong to this model; use --fresh")
    # Scalars go back to what they were: TFF's states hold plain numbers beside arrays.
    restored = [array if array.shape else array[()] for array in arrays]
    return number, tree.unflatten_as(start, restored)


def _with_statistics(outcome: Outcome, reestimated: Reestimated) -> Outcome:
    left_out = {name: f"of the statistics: {why}" for name, why in reestimated.left_out.items()}
    return dataclasses.replace(outcome, state=reestimated.state, left_out={**outcome.left_out, **left_out})


def _with_new_head(outcome: Outcome, retrained: Retrained) -> Outcome:
    left_out = {name: f"of the features: {why}" for name, why in retrained.left_out.items()}
    return dataclasses.replace(outcome, state=retrained.state, left_out={**outcome.left_out, **left_out})


def _row(
    number: int, metrics: Metrics, outcome: Outcome, round_: Round, sampling: Sampling, reestimated: Reestimated | None,
    retrained: Retrained | None = None,
) -> dict[str, Any]:  # fmt: skip
    row: dict[str, Any] = {"round": number, **metrics}
    row["training_loss"] = outcome.loss
    row["examples"] = outcome.examples
    row["clients"] = outcome.took_part
    row["left_out"] = "; ".join(f"{name} ({why})" for name, why in outcome.left_out.items())
    row["bytes_down"] = round_.bytes_down(sampling.cohort)
    row["bytes_up"] = round_.bytes_up(outcome.took_part)
    if reestimated is not None:
        row["bytes_down"] += reestimated.bytes_down
        row["bytes_up"] += reestimated.bytes_up
        row["statistics_clients"] = reestimated.clients
    if retrained is not None:
        row["bytes_down"] += retrained.bytes_down
        row["bytes_up"] += retrained.bytes_up
    if COLUMN in round_.columns:
        row[f"{COLUMN}_steps"] = int(sum(report[COLUMN] for report in outcome.reports.values()))
    return row


def _epsilons(run: Run, round_: Round) -> dict[str, float]:
    """By RDP, of all that the ledger of the run has: also of rounds that were played again."""
    units = {"epsilon": CLIENT} if round_.aggregation.aggregator == "dp" else {}
    units |= {"epsilon_record": RECORD} if round_.method.record_dp else {}
    releases, delta = run.ledger.releases() if units else [], round_.aggregation.dp_delta
    return {name: round(spent_by_rdp(for_unit(releases, unit), delta, unit), 4) for name, unit in units.items()}


def _note(row: dict[str, Any], headline: str, outcome: Outcome) -> str:
    parts = [f"{headline} {row[headline]:.4f}"] if headline in row else []
    parts.append(f"loss {outcome.loss:.4f}")
    if row.get(f"{COLUMN}_steps"):
        parts.append(f"{row[f'{COLUMN}_steps']} steps overflowed and were not taken")
    if outcome.left_out:
        parts.append(f"left out: {row['left_out']}")
    return "  ".join(parts)
