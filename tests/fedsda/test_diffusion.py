"""The stain model on stains whose distributions are known: it learns whose they are, and goes on where it stopped."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from tests.conftest import largest_difference
from tests.fedsda.known import WHOLE, local, stain_models
from tffapps.data import tissue
from tffapps.engine import open_engine
from tffapps.errors import UserError
from tffapps.evaluation.distances import frechet_distance
from tffapps.fedsda import stain_model, stain_vectors
from tffapps.fedsda.data import Fold
from tffapps.fedsda.diffusion import StainEvaluator
from tffapps.fedsda.stain_source import distances_between
from tffapps.training import MEASURED_COLUMNS

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


def clients(sets):
    return list(zip(CENTRES, sets))


def learn(engine, results, flags, sets):
    return stain_models(engine, results, flags, federation=clients(sets)).learn(WHOLE, "mlp")


class Interrupted(Exception):
    pass


@contextlib.contextmanager
def interrupted_after(number, monkeypatch):
    """Stops a training when it measures its distances for the time after that many."""
    measure, count = StainEvaluator.distances, iter(range(1000))

    def measure_or_stop(self, *arguments):
        if next(count) >= number:
            raise Interrupted
        return measure(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(Interrupted):
        patch.setattr(StainEvaluator, "distances", measure_or_stop)
        yield


@pytest.fixture(scope="module")
def learned(engine, stains, tmp_path_factory):
    return learn(engine, tmp_path_factory.mktemp("learned"), LEARNING, stains)


def test_drawn_stains_come_near_the_real_ones(learned, stains):
    (between,) = distances_between(local(clients(stains)))
    last = learned.record.rounds.iloc[-1]
    assert last["round"] == 40 and learned.record["epochs"] == 5
    assert last.worst_fd < between / 10
    assert last.fd <= last.worst_fd and last.wd < 0.3
    assert learned.record.rounds.fd.notna().sum() == 2  # as often as asked for
    assert np.isfinite(learned.record.rounds.training_loss).all()


def test_it_knows_whose_stains_it_draws(learned, stains):
    """Measured on matrices as they are, apart from the units that training goes by."""
    numbers = np.arange(800) % 2
    drawn = learned.draw(numbers, seed=3)
    for number in (0, 1):
        own = stain_vectors.as_vectors(drawn[numbers == number])
        near, far = (frechet_distance(own, stain_vectors.as_vectors(stains[place])) for place in (number, 1 - number))
        assert near < far / 10
    assert not np.array_equal(drawn, learned.draw(numbers, seed=4))
    assert np.array_equal(drawn, learned.draw(numbers, seed=3))


def test_a_drawing_does_not_depend_on_what_else_was_trained(engine, stains, tmp_path):
    """Models of one kind share a network; each brings its own weights."""
    models = stain_models(engine, tmp_path, SHORT, federation=clients(stains), other=clients(stains[::-1]))
    numbers = np.array([0, 1, 1])
    first = models.learn(WHOLE, "mlp")
    before = first.draw(numbers, 0)
    second = models.learn(Fold("other", None, None), "mlp")
    assert second.denoiser is first.denoiser and not np.array_equal(second.draw(numbers, 0), before)
    assert np.array_equal(first.draw(numbers, 0), before)


@pytest.fixture(scope="module")
def whole(engine, stains, tmp_path_factory):
    """The results of a short training that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, learn(engine, folder, SHORT, stains)


def test_a_finished_training_is_not_played_again(engine, stains, whole, monkeypatch):
    folder, first = whole
    (file,) = folder.rglob("rounds.csv")
    before = file.stat().st_mtime_ns, file.read_text()
    monkeypatch.setattr(StainEvaluator, "distances", None)
    monkeypatch.setattr("tffapps.study.Study.round_of", None)  # nothing is built either
    again = learn(engine, folder, SHORT, stains)
    assert (file.stat().st_mtime_ns, file.read_text()) == before and len(again.record.rounds) == 4
    assert largest_difference(again.record.weights(), first.record.weights()) == 0
    assert len(list(folder.rglob("rounds.csv"))) == 1


def test_an_interrupted_training_ends_like_one_that_was_not(engine, stains, whole, tmp_path, monkeypatch):
    for rounds_more in (1, 2):
        with interrupted_after(rounds_more, monkeypatch):
            learn(engine, tmp_path, SHORT, stains)
    (file,) = tmp_path.rglob("rounds.csv")
    assert len(file.read_text().splitlines()) == 1 + 3
    found = learn(engine, tmp_path, SHORT, stains)
    expected = whole[1]
    assert largest_difference(found.record.weights(), expected.record.weights()) == 0
    measured = list(MEASURED_COLUMNS)
    assert found.record.rounds.drop(columns=measured).equals(expected.record.rounds.drop(columns=measured))


def test_other_stains_are_another_training(engine, stains, whole):
    folder, first = whole
    changed = [stains[0], stains[1].copy()]
    changed[1][0, 0, 0] += 0.01
    other = learn(engine, folder, SHORT, changed)
    assert largest_difference(other.record.weights(), first.record.weights()) > 0
    assert len(list(folder.rglob("rounds.csv"))) == 2


def plan(engine, folder, stains, flags, change=lambda settings: settings):
    """For each round that would be played (the share of the learning rate, epochs)."""
    models = stain_models(engine, folder, flags, federation=clients(stains))
    trial = models.trial(WHOLE, "mlp", change(models.settings))
    given = [trial.clients()[0].batches(number) for number in range(1, trial.rounds + 1)]
    played = [(float(data.rate), len(list(data.batches))) for data in given]
    assert {trial.labels["epochs"]} == {epochs for _, epochs in played}
    return played


@pytest.mark.parametrize(
    ("epochs", "most", "rounds"),
    [(1, 300, 8), (1, 5, 5), (3, 300, 3), (100, 300, 1)],
    ids=["as many in all", "at most so many rounds", "rounded up", "never none"],
)
def test_another_schedule_has_about_as_many_epochs_in_all(engine, stains, tmp_path, epochs, most, rounds):
    played = plan(engine, tmp_path, stains, SHORT, lambda settings: settings.with_epochs(epochs, most))  # of 4 × 2
    assert [count for _, count in played] == [epochs] * rounds


def test_the_usual_schedule_is_not_cut_short(engine, stains, tmp_path):
    played = plan(engine, tmp_path, stains, [*SHORT, "--sweep-rounds", "1"])
    assert [count for _, count in played] == [2] * 4


def test_a_command_has_each_block_once_and_the_first_in_other_schedules(engine, stains, tmp_path, monkeypatch):
    flags = [*SHORT, "--blocks", "mlp,transformer", "--sweep-epochs", "2,1,8", "--sweep-rounds", "5"]
    models = stain_models(engine, tmp_path, flags, federation=clients(stains))
    monkeypatch.setattr(models, "learn", lambda fold, block, settings=models.settings: (block, settings))
    planned = [(block, each.diffusion_rounds, each.diffusion_epochs) for block, each in models.all(WHOLE)]
    assert planned == [("mlp", 4, 2), ("transformer", 4, 2), ("mlp", 5, 1), ("mlp", 1, 8)]


def test_the_learning_rate_falls_by_a_cosine_over_the_rounds(engine, stains, tmp_path):
    falling = [rate for rate, _ in plan(engine, tmp_path, stains, SHORT)]
    assert falling == pytest.approx([1, 0.5 + 0.125**0.5, 0.5, 0.5 - 0.125**0.5])
    constant = [*SHORT, "--diffusion-schedule", "constant"]
    assert [rate for rate, _ in plan(engine, tmp_path, stains, constant)] == [1] * 4


def test_a_model_that_has_diverged_is_one_clear_line(engine, stains, tmp_path, monkeypatch):
    monkeypatch.setattr(stain_model, "sample_standardised", lambda *arguments: np.full((32, 6), np.nan, np.float32))
    with pytest.raises(UserError, match="not finite: lower --diffusion-learning-rate"):
        learn(engine, tmp_path, SHORT, stains)


def test_statistics_of_one_round_draw_whose_they_are(engine, stains, tmp_path):
    """A client whose stains are of two kinds, which are told to be two; and one whose are not."""
    kinds = [stains[0], np.concatenate([stains[1], stains[1] * [0.8, 1.1]])]
    models = stain_models(engine, tmp_path, [*SHORT, "--fd-samples", "500"], federation=clients(kinds))
    gaussian, mixture = (models._of(WHOLE, block) for block in ("gaussian", "mixture"))
    assert gaussian.scores["fd"] <= 0.05 and gaussian.parameters == 2 * 27
    assert mixture.scores["mmd"] <= gaussian.scores["mmd"] and mixture.scores["c2st"] < gaussian.scores["c2st"]
    assert [int((each.weights > 0).sum()) for each in mixture.mixtures] == [1, 2]
    assert gaussian.mixtures[0].means[0] == pytest.approx(mixture.mixtures[0].means[0], abs=1e-9)
    drawn = mixture.draw(np.array([0, 1, 1]), 0)
    assert np.linalg.norm(drawn, axis=1) == pytest.approx(np.ones((3, 2)), abs=1e-5)
    assert np.array_equal(mixture.draw(np.array([0, 1, 1]), 0), drawn)


def test_distances_between_clients_by_hand():
    """Two sets alike but for a shift of one number by s: of both, its variance is 1 + s²/4."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(400, 6))
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    shifted = values + np.array([3.0, 0, 0, 0, 0, 0])
    sets = local(clients([stain_vectors.as_matrices(values), stain_vectors.as_matrices(shifted)]))
    assert distances_between(sets) == pytest.approx([9 / (1 + 9 / 4)], rel=1e-4)
    assert distances_between([sets[0], sets[0]]) == pytest.approx([0], abs=1e-6)
    assert len(distances_between([*sets, *sets])) == 6
    assert distances_between(sets[:1]) == []
