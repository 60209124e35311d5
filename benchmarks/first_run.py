"""Whether a first run on one's own images works: `tffapps.classify` as it is, beside a logistic regression.

    python benchmarks/first_run.py --data colon=FOLDER stains=FOLDER knee=FOLDER --model mobilenetv2 --weights FILE
        [--clients-by-folder stains] [--subjects 'knee=(.+)[LR]'] [--splits 5] [--validate] [--work FOLDER]

An image's class is the folder it lies in. Every split is 60 % for training, 20 % for validation and 20 % for testing,
with the same mix of classes, subjects never divided; three clients are drawn at random. The command gets --data,
--model and --weights, every other setting is its default, and FedAvg and `centralised` are run on seed 0. It uses the
training and the test part. With --validate the validation part takes the test part's place and no test image is looked
at: that is for choosing defaults, and flags to try may follow `--`. The logistic regression is trained on what the same
network, frozen, makes of all training images: its last layer's outputs, averaged over the image and standardised, C
chosen by five-fold cross-validation in the training part.

One row a data set and method goes into the table; rows of other networks stay. What is finished is found in --work and
not done again, so a study that was stopped goes on; another folder starts over.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import json
import pathlib
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from preprocessing.parser import Parser  # noqa: E402
from tffapps import cli  # noqa: E402
from tffapps.app import Common  # noqa: E402
from tffapps.classify import APP, ClassifySettings  # noqa: E402
from tffapps.data import partition  # noqa: E402
from tffapps.errors import UserError  # noqa: E402
from tffapps.files import replacing  # noqa: E402
from tffapps.network import CutSettings, Network  # noqa: E402
from tffapps.results import write_table  # noqa: E402
from tffapps.runs import key_of  # noqa: E402
from tffapps.settings import Flags  # noqa: E402

METHODS = ("fedavg", "centralised")
REGRESSION = "logistic regression"
CLIENTS = 3
PARTS, SHARES = ("train", "val", "test"), (0.6, 0.2, 0.2)
PENALTIES = tuple(10.0**power for power in range(-4, 3))  # C of the logistic regression
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp"}


@dataclasses.dataclass(frozen=True)
class Source:
    """A data set: its name in the table, and how its images are divided."""

    name: str
    folder: pathlib.Path
    subject: str = ""  # a pattern of a file's whole name without its suffix, whose first group is the subject
    by_folder: bool = False  # whether the topmost folders are the clients

    @property
    def division(self) -> str:
        """In words."""
        clients = "clients are the topmost folders" if self.by_folder else f"{CLIENTS} random clients"
        return f"split by {'subject' if self.subject else 'image'}, {clients}"


def images_of(source: Source) -> pd.DataFrame:
    """path, label, client ("" where it is yet to be drawn), subject ("" where file names tell none)."""
    rows = []
    for file in sorted(source.folder.rglob("*")):
        if file.suffix.lower() not in SUFFIXES:
            continue
        folders = file.relative_to(source.folder).parts[:-1]
        if len(folders) < (2 if source.by_folder else 1):
            raise UserError(f"--data {source.name}: {file} lies in no folder of its class and client; move it")
        found = re.fullmatch(source.subject, file.stem) if source.subject else None
        if source.subject and not found:
            raise UserError(f"--subjects {source.name}={source.subject}: does not fit {file.name}; correct the pattern")
        client = folders[0] if source.by_folder else ""
        rows.append((str(file.resolve()), folders[-1], client, found.group(1) if found else ""))
    if not rows:
        raise UserError(f"--data {source.name}={source.folder}: no images there; give a folder with one for each class")
    return pd.DataFrame(rows, columns=["path", "label", "client", "subject"])


def manifest(images: pd.DataFrame, number: int) -> pd.DataFrame:
    """The manifest of a split: `images` with a client and a part each."""
    units = list(images.subject.where(images.subject != "", images.path))
    groups = units if (images.subject != "").any() else None
    part = partition.stratified(list(images.client + "/" + images.label), SHARES, number, groups)
    clients = images.client
    if (clients == "").all():
        every = sorted(set(units))
        drawn = dict(zip(every, partition.even([""] * len(every), CLIENTS, number)))
        clients = pd.Series([f"client{drawn[unit] + 1}" for unit in units], images.index)
    return images.assign(client=clients, split=[PARTS[index] for index in part])


def scored_on(table: pd.DataFrame, part: str) -> pd.DataFrame:
    """The manifest that a run gets, its test rows being those of `part`: of "val", the real ones are left out."""
    return (
        table
        if part == "test"
        else table[table.split != "test"].assign(split=lambda rows: rows.split.replace(part, "test"))
    )


def summary(scores: pd.DataFrame) -> pd.DataFrame:
    """One row a data set and method: mean and spread over splits, and the difference to the regression in points.

    Args:
      scores: data, split, method (REGRESSION among them), macro_f1, accuracy, predicted (how many classes were),
        classes, training_images, test_images.
    """
    rows = []
    reference = scores[scores.method == REGRESSION].set_index(["data", "split"])
    for (data, method), group in scores[scores.method != REGRESSION].groupby(["data", "method"], sort=False):
        base = reference.loc[list(zip(group["data"], group["split"]))]
        difference = 100 * (group.macro_f1.to_numpy() - base.macro_f1.to_numpy())
        row: dict[str, Any] = {"data": data, "method": method, "splits": len(group)}
        for name, values in (("", group), ("regression_", base)):
            for metric in ("macro_f1", "accuracy"):
                row |= {f"{name}{metric}": values[metric].mean(), f"{name}{metric}_std": values[metric].std(ddof=1)}
        row |= {"difference": difference.mean(), "difference_std": pd.Series(difference).std(ddof=1)}
        row |= {"classes": group.classes.max(), "fewest_classes_predicted": group.predicted.min()}
        row |= {f"{part}_images": round(group[f"{part}_images"].mean()) for part in ("training", "test")}
        rows.append(row)
    return pd.DataFrame(rows)


def with_others(file: pathlib.Path, table: pd.DataFrame) -> pd.DataFrame:
    """The table below what else the file has: other networks, other data sets, on validation images also other cuts."""
    if not file.exists():
        return table
    rows = pd.concat([pd.read_csv(file), table], ignore_index=True)
    same = ["model", "data", "method", "scored_on"]
    return rows[~rows.assign(cut=rows.cut.where(rows.scored_on == "val", "")).duplicated([*same, "cut"], keep="last")]


def network_of(flags: Flags) -> Network:
    settings = flags[ClassifySettings]
    return Network(
        settings.model, settings.size, settings.channels, settings.head, flags[Common].weights, flags[CutSettings]
    )


def in_words(flags: Flags) -> str:
    """What the defaults came to."""
    values = flags.as_dict()
    return (
        f"profile {flags.profile}: {values['rounds']} rounds, {values['epochs']} local epochs, "
        f"batch {values['batch']}, {values['optimizer']}, learning rate {values['learning_rate']:g}, "
        f"augmentation {values['augment']}, seed 0"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    part = "val" if options.validate else "test"
    rows, described = [], {}
    for source in options.sources:
        images = images_of(source)
        for number in range(options.splits):
            table = scored_on(manifest(images, number), part)
            found = _split(source, number, table, part, options)
            described[source.name] = found["what_ran"]
            rows += [{"data": source.name, "split": number, **score} for score in found["scores"]]
            shown = ", ".join(f"{score['method']} {score['macro_f1']:.3f}" for score in found["scores"])
            print(f"{source.name}, split {number}, macro F1 ({part}): {shown}", file=sys.stderr, flush=True)
    result = summary(pd.DataFrame(rows))
    what = pd.DataFrame([described[name] for name in result["data"]])
    result = pd.concat([result, what], axis=1).assign(scored_on=part)
    write_table(options.out, with_others(options.out, result))
    columns = ["data", "method", "macro_f1", "regression_macro_f1", "difference", "fewest_classes_predicted", "cut"]
    print(result[columns].to_string(index=False, float_format="{:.3f}".format))
    print(f"table: {options.out}")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--data", nargs="+", required=True, type=_named, metavar="NAME=FOLDER")
    parser.add_argument("--model", required=True)
    parser.add_argument("--weights", required=True, metavar="FILE")
    parser.add_argument(
        "--subjects", nargs="+", default=[], type=_named, metavar="NAME=REGEX",
        help="the subject is the first group of the pattern of a file's name without its suffix",
    )  # fmt: skip
    parser.add_argument("--clients-by-folder", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--splits", type=int, default=5, help="(default %(default)s)")
    parser.add_argument("--validate", action="store_true", help="score validation images; no test image is looked at")
    parser.add_argument(
        "--work", type=pathlib.Path, default=pathlib.Path("data") / "first_run", help="(default %(default)s)"
    )
    parser.add_argument(
        "--out", type=pathlib.Path, help="(default results/real/classify/first_run.csv; with --validate in --work)"
    )
    parser.add_argument("flags", nargs="*", help="after --: flags of tffapps.classify to try, with --validate")
    options = parser.parse_args(arguments)
    subjects = dict(options.subjects)
    options.sources = [
        Source(name, pathlib.Path(folder), subjects.get(name, ""), name in options.clients_by_folder)
        for name, folder in options.data
    ]
    unknown = {*subjects, *options.clients_by_folder} - {source.name for source in options.sources}
    if unknown:
        raise UserError(f"{min(unknown)}: no data set of that name; --data names them")
    if options.flags and not options.validate:
        raise UserError(f"{' '.join(options.flags)}: the table is of the defaults; try flags with --validate")
    if options.out is None:
        table = ROOT / "results" / "real" / "classify" / "first_run.csv"
        options.out = options.work / f"validation-{key_of({'flags': options.flags})}.csv" if options.validate else table
    return options


def _named(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"{text}: write NAME=VALUE")
    return name, value


def _split(source: Source, number: int, table: pd.DataFrame, part: str, options: argparse.Namespace) -> dict[str, Any]:
    """The scores of one split, and what ran: from --work where they are there already."""
    given = ["--model", options.model, "--weights", options.weights, *options.flags]
    given += ["--methods", ",".join(METHODS), "--seeds", "0"]
    flags = cli.parse(APP, given)
    network = network_of(flags)
    described = {"model": network.name, "cut": network.cut, "head": network.chosen_head, "size": network.side}
    weights = hashlib.sha256(pathlib.Path(options.weights).read_bytes()).hexdigest()
    same = {"model": network.name, "size": network.side, "weights": weights, "images": table.to_csv()}
    own = {**same, **described, "settings": in_words(flags), "flags": options.flags}
    name = f"{network.name}-{source.name}-{part}-{number}"
    folder = options.work / f"{name}-{key_of(own)}"
    file = folder / f"{source.name}.csv"
    folder.mkdir(parents=True, exist_ok=True)
    columns = ["path", "label", "client", "split", *(["subject"] if source.subject else [])]
    table[columns].to_csv(file, index=False)
    command = [*given, "--data", str(file), "--results", str(folder / "results")]
    ran = _kept(folder / "scores.json", lambda: _run(command))
    regression = _kept(options.work / f"{name}-regression-{key_of(same)}.json", lambda: _regression(command))
    what_ran = {"weights": ran["weights"], **described, "settings": f"{in_words(flags)}; {source.division}"}
    counts = {"training_images": int((table.split == "train").sum()), "test_images": int((table.split == "test").sum())}
    counts["classes"] = table.label.nunique()
    return {"what_ran": what_ran, "scores": [{**score, **counts} for score in (*ran["scores"], regression)]}


def _kept(file: pathlib.Path, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What the work gives, done once."""
    if not file.exists():
        found = work()
        with replacing(file) as output:
            json.dump(found, output)
    return json.loads(file.read_text())


def _run(command: list[str]) -> dict[str, Any]:
    """Runs the command; returns what its table calls the weights, and the scores of its methods."""
    with contextlib.redirect_stdout(sys.stderr):
        status = cli.main(APP, command)
    if status:
        raise SystemExit(status)
    import tensorflow as tf

    from tffapps import Study, Trained, open_engine
    from tffapps.classify import data
    from tffapps.classify.trials import Trials

    flags = cli.parse(APP, command)
    comparison = pd.read_csv(APP.folder(flags) / "comparison.csv").set_index("method")
    scores = []
    with open_engine(flags[Common].engine) as engine:
        study = Study(APP, flags, engine)
        for trial in Trials(study, data.load(flags)).all():
            record = study.run(trial)  # is finished: it is read
            trained = Trained(record.weights(), None, trial.rounds, False, lambda _: None)
            predicted = np.unique(trial.evaluator.predict(trained)[""].probabilities.argmax(axis=1))
            row = comparison.loc[record["method"]]
            metrics = {"macro_f1": float(row.macro_f1), "accuracy": float(row.accuracy)}
            scores.append({"method": record["method"], **metrics, "predicted": len(predicted)})
    tf.keras.backend.clear_session()
    return {"weights": str(comparison.weights.iloc[0]), "scores": scores}


def _regression(command: list[str]) -> dict[str, Any]:
    """Scores of the logistic regression on the images of a command, as its network sees them when it is frozen."""
    import warnings

    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedGroupKFold, StratifiedKFold
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    from tffapps.classify import data
    from tffapps.evaluation import classification
    from tffapps.home import cache_folder
    from tffapps.inputs import Inputs

    flags = cli.parse(APP, command)
    pool = data.load(flags)
    frozen = dataclasses.replace(network_of(flags), head="gap", cut_settings=CutSettings("head"))
    inputs = Inputs(
        frozen, classes=len(pool.classes), formats=pool.formats, cache=cache_folder() / "features", augmentations={}
    )
    inputs.initial(0)

    def pooled(rows: pd.DataFrame) -> np.ndarray:
        batches = inputs.batches(list(rows.path), pool.codes(rows), batch=64, shuffle=False)
        return np.concatenate([values.mean(axis=(1, 2)) for values, _ in batches.as_numpy_iterator()])

    training, tested = pool.part("train"), pool.part("test")
    groups = training.subject if "subject" in training else None
    folds = StratifiedKFold if groups is None else StratifiedGroupKFold
    search = GridSearchCV(
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)), {"logisticregression__C": PENALTIES},
        scoring="f1_macro", cv=folds(5, shuffle=True, random_state=0),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes with fewer images than folds
        search.fit(pooled(training), pool.codes(training), groups=groups)
    probabilities = search.predict_proba(pooled(tested))
    scores = classification.scores(pool.codes(tested), probabilities)
    predicted = len(np.unique(probabilities.argmax(axis=1)))
    penalty = search.best_params_["logisticregression__C"]
    metrics = {"macro_f1": scores["macro_f1"], "accuracy": scores["accuracy"]}
    return {"method": REGRESSION, **metrics, "predicted": predicted, "C": penalty}


if __name__ == "__main__":
    sys.exit(cli.guarded("first_run", main, module="benchmarks/first_run.py"))
