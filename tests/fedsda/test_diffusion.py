"""The stain model on stains whose distributions are known: it learns whose they are, and goes on where it stopped."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from tests.conftest import largest_difference
from tffapps import cli
from tffapps.data import tissue
from tffapps.engine import open_engine
from tffapps.errors import UserError
from tffapps.evaluation.distances import frechet_distance
from tffapps.federated.training import MEASURED_COLUMNS
from tffapps.fedsda import APP, stain_model, stain_vectors
from tffapps.fedsda.diffusion import Diffusion
from tffapps.fedsda.stain_source import Held, distances_between

CENTRES = ("centre0", "centre1")
LEARNING = [
    "--diffusion-rounds", "40", "--diffusion-epochs", "5", "--diffusion-learning-rate", "4e-3",
    "--diffusion-schedule", "cosine", "--diffusion-steps", "50", "--fd-samples", "500", "--fd-points", "2",
]  # fmt: skip
SHORT = [
    "--diffusion-rounds", "4", "--diffusion-epochs", "2", "--diffusion-learning-rate", "4e-3",
    "--diffusion-schedule", "cosine", "--diffusion-steps", "20", "--fd-samples", "16", "--fd-points", "4",
]  # fmt: skip


@pytest.fixture(scope="module")
def engine():
    with open_engine("in-process") as opened:
        yield opened


@pytest.fixture(scope="module")
def stains():
    """The true stains of two centres, one of them twice as large."""
    return [tissue.centre_stains(0, 300, 0), tissue.centre_stains(1, 150, 0)]


def held(sets):
    return [Held(matrices) for matrices in sets]


_BUILT: dict = {}


def diffusion(engine, results, flags):
    """A command's trainings; equal rounds, which take seconds to build, are shared between the tests."""
    trainer = Diffusion(cli.parse(APP, [*flags, "--results", str(results)]), engine)
    trainer._built = _BUILT
    return trainer


class Interrupted(Exception):
    pass


@contextlib.contextmanager
def interrupted_after(number, monkeypatch):
    """Stops a training when it measures its distances for the time after that many."""
    measure, count = Diffusion._distances, iter(range(1000))

    def measure_or_stop(self, *arguments):
        if next(count) >= number:
            raise Interrupted
        return measure(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(Diffusion, "_distances", measure_or_stop)
        yield


@pytest.fixture(scope="module")
def learned(engine, stains, tmp_path_factory):
    trainer = diffusion(engine, tmp_path_factory.mktemp("learned"), LEARNING)
    return trainer.learn(CENTRES, held(stains), "mlp", "")


def test_drawn_stains_come_near_the_real_ones(learned, stains):
    (between,) = distances_between(held(stains))
    last = learned.rounds.iloc[-1]
    assert last["round"] == 40 and learned.epochs == 5
    assert last.worst_fd < between / 10
    assert last.fd <= last.worst_fd and last.wd < 0.3
    assert learned.rounds.fd.notna().sum() == 2  # as often as asked for
    assert np.isfinite(learned.rounds.training_loss).all()


def test_it_knows_whose_stains_it_draws(learned, stains):
    """Measured on matrices as they are, apart from the units that training goes by."""
    numbers = np.arange(800) % 2
    drawn = learned.model.draw(numbers, seed=3)
    for number in (0, 1):
        own = stain_vectors.as_vectors(drawn[numbers == number])
        near, far = (frechet_distance(own, stain_vectors.as_vectors(stains[place])) for place in (number, 1 - number))
        assert near < far / 10
    assert not np.array_equal(drawn, learned.model.draw(numbers, seed=4))
    assert np.array_equal(drawn, learned.model.draw(numbers, seed=3))


def test_a_drawing_does_not_depend_on_what_else_was_trained(engine, stains, tmp_path):
    """Models of one kind share a network; each brings its own weights."""
    trainer = diffusion(engine, tmp_path, SHORT)
    numbers = np.array([0, 1, 1])
    first = trainer.learn(CENTRES, held(stains), "mlp", "").model
    before = first.draw(numbers, 0)
    second = trainer.learn(CENTRES, held(stains[::-1]), "mlp", "other").model
    assert second.denoiser is first.denoiser and not np.array_equal(second.draw(numbers, 0), before)
    assert np.array_equal(first.draw(numbers, 0), before)


@pytest.fixture(scope="module")
def whole(engine, stains, tmp_path_factory):
    """The results of a short training that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, diffusion(engine, folder, SHORT).learn(CENTRES, held(stains), "mlp", "")


def test_a_finished_training_is_not_played_again(engine, stains, whole, monkeypatch):
    folder, first = whole
    (file,) = folder.rglob("rounds.csv")
    before = file.stat().st_mtime_ns, file.read_text()
    monkeypatch.setattr(Diffusion, "_distances", None)
    again = diffusion(engine, folder, SHORT).learn(CENTRES, held(stains), "mlp", "")
    assert (file.stat().st_mtime_ns, file.read_text()) == before and len(again.rounds) == 4
    assert largest_difference(again.model.weights, first.model.weights) == 0
    assert len(list(folder.rglob("rounds.csv"))) == 1


def test_an_interrupted_training_ends_like_one_that_was_not(engine, stains, whole, tmp_path, monkeypatch):
    for rounds_more in (1, 2):
        with interrupted_after(rounds_more, monkeypatch):
            diffusion(engine, tmp_path, SHORT).learn(CENTRES, held(stains), "mlp", "")
    (file,) = tmp_path.rglob("rounds.csv")
    assert len(file.read_text().splitlines()) == 1 + 3
    found = diffusion(engine, tmp_path, SHORT).learn(CENTRES, held(stains), "mlp", "")
    expected = whole[1]
    assert largest_difference(found.model.weights, expected.model.weights) == 0
    measured = list(MEASURED_COLUMNS)
    assert found.rounds.drop(columns=measured).equals(expected.rounds.drop(columns=measured))


def test_other_stains_are_another_training(engine, stains, whole):
    folder, first = whole
    changed = [stains[0], stains[1].copy()]
    changed[1][0, 0, 0] += 0.01
    other = diffusion(engine, folder, SHORT).learn(CENTRES, held(changed), "mlp", "")
    assert largest_difference(other.model.weights, first.model.weights) > 0
    assert len(list(folder.rglob("rounds.csv"))) == 2


def plan(engine, folder, monkeypatch, stains, flags, epochs=0):
    """For each round that would be played (the share of the learning rate, epochs)."""
    rounds_ = []

    def noted(run, round_, weights, clients, *, rounds, **options):
        for number in range(1, rounds + 1):
            given = clients[0].batches(number)
            rounds_.append((float(given.rate), len(list(given.batches))))
        return weights

    with monkeypatch.context() as patch:
        patch.setattr("tffapps.fedsda.diffusion.train", noted)
        patch.setattr("tffapps.runs.Run.finished", True)
        found = diffusion(engine, folder, flags).learn(CENTRES, held(stains), "mlp", "", epochs)
    assert {found.epochs} == {epochs for _, epochs in rounds_}
    return rounds_


@pytest.mark.parametrize(
    ("epochs", "most", "rounds"),
    [(1, 300, 8), (1, 5, 5), (3, 300, 3), (100, 300, 1)],
    ids=["as many in all", "at most so many rounds", "rounded up", "never none"],
)
def test_another_schedule_has_about_as_many_epochs_in_all(engine, stains, tmp_path, monkeypatch, epochs, most, rounds):
    flags = [*SHORT, "--sweep-rounds", str(most)]  # 4 rounds of 2 epochs
    played = plan(engine, tmp_path, monkeypatch, stains, flags, epochs)
    assert [count for _, count in played] == [epochs] * rounds


def test_the_usual_schedule_is_not_cut_short(engine, stains, tmp_path, monkeypatch):
    played = plan(engine, tmp_path, monkeypatch, stains, [*SHORT, "--sweep-rounds", "1"])
    assert [count for _, count in played] == [2] * 4


def test_the_learning_rate_falls_by_a_cosine_over_the_rounds(engine, stains, tmp_path, monkeypatch):
    falling = [rate for rate, _ in plan(engine, tmp_path, monkeypatch, stains, SHORT)]
    assert falling == pytest.approx([1, 0.5 + 0.125**0.5, 0.5, 0.5 - 0.125**0.5])
    constant = [*SHORT, "--diffusion-schedule", "constant"]
    assert [rate for rate, _ in plan(engine, tmp_path, monkeypatch, stains, constant)] == [1] * 4


def test_a_model_that_has_diverged_is_one_clear_line(engine, stains, tmp_path, monkeypatch):
    monkeypatch.setattr(stain_model, "sample_standardised", lambda *arguments: np.full((32, 6), np.nan, np.float32))
    with pytest.raises(UserError, match="not finite: lower --diffusion-learning-rate"):
        diffusion(engine, tmp_path, SHORT).learn(CENTRES, held(stains), "mlp", "")


def test_distances_between_clients_by_hand():
    """Two sets alike but for a shift of one number by s: of both, its variance is 1 + s²/4."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(400, 6))
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    shifted = values + np.array([3.0, 0, 0, 0, 0, 0])
    sets = held([stain_vectors.as_matrices(values), stain_vectors.as_matrices(shifted)])
    assert distances_between(sets) == pytest.approx([9 / (1 + 9 / 4)], rel=1e-4)
    assert distances_between([sets[0], sets[0]]) == pytest.approx([0], abs=1e-6)
    assert len(distances_between([*sets, *sets])) == 6
    assert distances_between(sets[:1]) == []
