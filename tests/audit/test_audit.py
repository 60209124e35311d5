"""A run that has learned its images by heart is found out; one that has not learned is not."""

import dataclasses
import pathlib

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

from tests.test_study import ToySettings, study
from tffapps import cli, systems
from tffapps.__main__ import main
from tffapps.audit import inversion, of_run, table
from tffapps.engine import open_engine
from tffapps.errors import UserError
from tffapps.evaluation import classification, predictions
from tffapps.evaluation.evaluator import PredictionEvaluator
from tffapps.federated.aggregation import Aggregation
from tffapps.federated.cohort import Client
from tffapps.federated.fedavg import FedAvg
from tffapps.federated.task import Task, cross_entropy
from tffapps.study import Initial, Trial

layers = tf.keras.layers
SPEC = (tf.TensorSpec([None, 8, 8, 3], tf.float32), tf.TensorSpec([None], tf.int32))
RANDOM = np.random.default_rng(1)
# Labels are drawn: there is nothing to learn but the images themselves.
IMAGES, LABELS = (
    RANDOM.random((120, 8, 8, 3), np.float32),
    RANDOM.integers(0, 3, 120).astype(np.int32),
)


def images_of(places, batch=20, epochs=1):
    return tf.data.Dataset.from_tensor_slices((IMAGES[places], LABELS[places])).batch(batch).repeat(epochs)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(study, trial, folder of its finished run), of two clients with 30 images each; the others are for testing."""
    model = tf.keras.Sequential(
        [layers.Input((8, 8, 3)), layers.Flatten(), layers.Dense(24, activation="relu"), layers.Dense(3, "softmax")]
    )
    tf.keras.utils.set_random_seed(0)
    model.set_weights([RANDOM.normal(0, 0.1, weight.shape) for weight in model.get_weights()])
    epochs = 25
    clients = [
        Client(f"c{index}", lambda number, index=index: images_of(slice(30 * index, 30 * index + 30), epochs=epochs),
               examples=30 * epochs, passes=epochs)
        for index in (0, 1)
    ]  # fmt: skip
    rows = pd.DataFrame({"path": [f"{n}.png" for n in range(60)], "client": "c0", "label": LABELS[60:].astype(str)})
    with open_engine("in-process") as engine:
        tested = predictions.TestImages(engine, model, SPEC, rows, lambda rows: images_of(slice(60, 120)))
        trial = Trial(
            labels={"method": "fedavg", "seed": 0}, name="fedavg",
            method=FedAvg(optimizer="adam", learning_rate=0.01), task=Task.of_batches(model, SPEC, cross_entropy),
            clients=lambda: clients, initial=Initial(model.get_weights(), {"weights": "random"}), rounds=4,
            evaluator=PredictionEvaluator(
                {"": tested}, lambda found: classification.scores(found.labels, found.probabilities), (), "012"
            ),
            settings=[ToySettings()], data={"images": "abc"}, size=2,
        )  # fmt: skip
        played = study(tmp_path_factory.mktemp("audit"), engine)
        yield played, trial, _finished(played, trial)


def _finished(played, trial) -> pathlib.Path:
    """Without stored predictions, which need files."""
    plain = dataclasses.replace(trial.evaluator)
    object.__setattr__(plain, "predicted", lambda trained: pd.DataFrame())
    return played.run(dataclasses.replace(trial, evaluator=plain)).folder


def test_a_run_that_knows_its_images_by_heart(made, tmp_path):
    played, trial, folder = made
    found = of_run.audit(played, trial, folder, images=1, steps=30)
    assert all(each.auc.low > 0.6 and each.members == 60 for each in found.members)
    assert all(each.auc.low < 0.5 < each.auc.high for each in found.before)  # of an untrained model
    assert found.client == "c0" and found.inverts == "images"
    said = table.verdict(found).splitlines()
    assert said[0].startswith("membership: training images CAN be told") and "chance 0.50" in said[0]
    assert "the real round of c0: images were not recovered" in said[1]
    rows = table.write(tmp_path / "audit.csv", found)
    assert len(rows) == 8 and pd.read_csv(tmp_path / "audit.csv").recovered.dropna().tolist().count("no") >= 2
    with pytest.raises(UserError, match="--client nobody"):
        of_run.audit(played, trial, folder, images=0, steps=1, client="nobody")


def test_one_image_in_one_step_of_sgd_is_given_away_and_noise_hides_it(made):
    _, trial, _ = made
    plain = dataclasses.replace(trial, method=FedAvg(learning_rate=0.1))
    noised = dataclasses.replace(trial, method=FedAvg(learning_rate=0.1, record_dp=1.0))
    clipped = dataclasses.replace(plain, aggregation=Aggregation("dp", dp_clip=0.01))
    others, name = of_run.Examples(IMAGES[60:], LABELS[60:]), "a round of 1 images, one step"
    found, protected = {}, {}
    for case, each in (("plain", plain), ("noised", noised), ("clipped", clipped)):
        inverted, protected[case] = of_run._inverted(each, list(each.clients()), 0, others, 1, 30)
        found[case] = {attack.attack: attack for attack in inverted[name]}
    assert found["plain"]["analytic"].psnr > 50 and found["plain"]["analytic"].ssim > 0.99
    assert found["plain"]["analytic"].recovered and protected["plain"] == ""
    assert not found["noised"]["analytic"].recovered and "DP-SGD" in protected["noised"]
    assert found["clipped"]["analytic"].recovered and "comes after the sum" in protected["clipped"]  # a clip hides none


def test_gradient_matching_finds_a_smooth_image():
    tf.keras.utils.set_random_seed(0)
    model = tf.keras.Sequential([
        layers.Input((8, 8, 3)), layers.Conv2D(12, 3, padding="same", activation="relu"), layers.Flatten(),
        layers.Dense(3, activation="softmax"),
    ])  # fmt: skip
    smooth = tf.image.resize(IMAGES[:100, ::4, ::4], (8, 8), method="bilinear").numpy()
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(cross_entropy(LABELS[:1], model(smooth[:1])))
    update = [-0.1 * gradient.numpy() for gradient in tape.gradient(loss, model.trainable_variables)]
    made = inversion.matching(model, cross_entropy, update, LABELS[:1], (0.0, 1.0), steps=120)
    judged = inversion.judged("matching", made, smooth[:1], smooth[1:])
    assert judged.recovered and judged.psnr > 20
    assert inversion.analytic(model, update) is None  # its first layer is no dense one
    wrong = inversion.judged("matching", smooth[1:2], smooth[:1], smooth[1:])
    assert not wrong.recovered and wrong.psnr <= wrong.psnr_of_nearest


@pytest.mark.parametrize(("arguments", "said"), [
    (["no-such-folder"], "no such folder"), (["."], "not the folder of a run"), ([".", "--steps", "0"], "--steps 0"),
    ([".", "--images", "99"], "--images 99"),
])  # fmt: skip
def test_what_cannot_be_audited(arguments, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["audit", *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_of_a_command_and_its_bundle(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    flags = "--profile smoke --methods fedavg --record-dp 0.5 --norm group --learning-rate 0.05"
    assert main(["classify", *flags.split()]) == 0
    (run,) = (tmp_path / "results/classify/runs").iterdir()
    assert main(["audit", str(run), "--steps", "5"]) == 0
    said = capsys.readouterr().out
    assert "the update was protected: DP-SGD, noise 0.5" in said and (run / "audit.csv").exists()
    assert (tmp_path / "results/classify/privacy.csv").exists()
    assert not list((run / "bundle").glob("novelty-*"))  # where training images lie is not told
    flags = cli.parse(systems.find("classify"), ["--settings", str(run / "settings.json")])
    table_of = systems.find("classify").part("data").load(flags).table
    table_of.to_csv(tmp_path / "manifest.csv", index=False)
    assert main(["audit", str(run / "bundle"), "--data", "manifest.csv"]) == 0
    assert "membership: training images" in capsys.readouterr().out
    (run / "finished.json").unlink()
    assert main(["audit", str(run)]) == 2
