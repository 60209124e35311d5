"""The model card of a bundle (after Mitchell et al., Model cards for model reporting, 2019): all of it from the bundle.

What is not known is said to be unknown; nothing is left out because it looks bad.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from models.stored import shown
from tffapps.use.bundle import NOT_A_DEVICE, Bundle
from tffapps.use.document import Bullets, Document, Section, Table
from tffapps.use.facts import About, Row
from tffapps.use.fields import Fields

_UNKNOWN = "not recorded"
_FEW_SUBJECTS = 40  # with fewer, intervals are too narrow (`evaluation.intervals`)
_STEPS = {
    "knee": "the knee is cut out and its contrast raised (preprocessing.knee)",
    "amplitude": "the mean amplitude of the training images is given to each (amp-norm)",
}


def card(bundle: Bundle) -> Document:
    """The whole card; a UserError where the bundle says of itself what cannot be."""
    about = About.of(bundle)
    sections = [
        Section("In short", _short(bundle, about)),
        Section("Intended use", _use(bundle)),
        Section("Model", _model(bundle, about)),
        Section("Training data and clients", _data(about)),
        Section("Scores on test images", list(_scores(about))),
        *([] if bundle.segments else [Section("When to believe it", list(_trust(bundle, about)))]),
        Section("Limits", [Bullets(list(_limits(bundle, about)))]),
        Section("Privacy, and clients that leave", list(_privacy(about))),
        Section("Licences", _licences(about)),
        Section("Provenance", list(_provenance(bundle, about))),
    ]
    title = f"Model card: {bundle.system}, {about.method}, trained on {about.data}"
    return Document(title, f"For research. {NOT_A_DEVICE.capitalize()}.", sections)


def _short(bundle: Bundle, about: About) -> list[str]:
    row = about.of_all(about.headline)
    if row is None:
        return ["No test images were stored with this run: nothing is known of how good it is."]
    said = f"{row.metric.replace('_', ' ')} {row.value} on {row.images} test images of {row.subjects} subjects"
    by_client = about.of_clients(about.headline)
    if len(by_client) > 1:
        said += f"; the lowest client is {by_client[0].client} with {by_client[0].value}"
    return [f"{said}." + (" The bracket is a 95 % interval over subjects." if row.low is not None else "")]


def _use(bundle: Bundle) -> list[str | Bullets]:
    classes = ", ".join(bundle.classes)
    what = "every pixel of an image" if bundle.segments else "an image as a whole"
    return [
        f"It gives {what} one of {len(bundle.classes)} classes: {classes}. It is meant for research on images like "
        "those it was trained on, and for people who can judge its answers.",
        Bullets([
            f"Not for diagnosis, treatment or any decision about a person: it is {NOT_A_DEVICE}.",
            "Not for images of another kind, another device or another preparation without testing it on them first.",
            "It knows no other classes than these: an image of something else is given one of them all the same.",
        ]),
    ]  # fmt: skip


def _model(bundle: Bundle, about: About) -> list[str | Table]:
    height, width = bundle.preprocess.size
    described = ", ".join(f"{name} {value}" for name, value in bundle.network.values.items())
    steps = [_STEPS.get(step.as_json()["step"], "") for step in bundle.preprocess.steps]
    tile = bundle.preprocess.tile
    if tile is not None:
        steps.append(f"squares of {tile} pixels are cut" if tile else "squares of the shorter side are cut")
    return [
        Table(["what", "value"], [
            ["network", f"{bundle.network.kind}: {described}"],
            ["images", f"{width} × {height} pixels, {'grey' if bundle.preprocess.channels == 1 else 'colour'}"],
            ["prepared", "; ".join(steps) or "decoded and resized, nothing else"],
            ["initial weights", about.weights],
            ["method", f"{about.method}, {about.rounds} rounds"],
            ["models", f"{', '.join(bundle.decisions)}; {bundle.default_model} is used unless another is asked for"],
        ])
    ]  # fmt: skip


def _data(about: About) -> list[str | Table]:
    prints = about.provenance.part("fingerprints")
    keys = ", ".join(f"{shown(name)} {shown(prints.any(name))}" for name in prints.names)
    content: list[str | Table] = [f"The data set is called {about.data}; its fingerprint is {keys or _UNKNOWN}."]
    if about.clients:
        rows = [
            [name, "not known" if examples is None else str(examples), str(rounds)]
            for name, rounds, examples in about.clients
        ]
        content.append(Table(["client", "examples in its last round", "rounds it took part in"], rows))
    return content


def _scores(about: About) -> Iterator[str | Table]:
    if not about.rows:
        yield "None are stored."
        return
    metrics = list(dict.fromkeys(row.metric for row in about.rows))
    by_client: dict[str, dict[str, Row]] = {}
    for row in about.rows:
        by_client.setdefault(row.client, {})[row.metric] = row
    rows = []
    for client, found in by_client.items():
        first = next(iter(found.values()))
        values = [found[metric].value if metric in found else "" for metric in metrics]
        rows.append([client, str(first.images), str(first.subjects), *values])
    yield Table(["client", "images", "subjects", *(metric.replace("_", " ") for metric in metrics)], rows)
    yield "Brackets are 95 % intervals: bootstrap over subjects, of this one trained model."


def _trust(bundle: Bundle, about: About) -> Iterator[str | Table]:
    yield f"{bundle.decisions[bundle.default_model].told.capitalize()}."
    if about.calibration is not None:
        rows = [
            ["expected calibration error", *_both(about.calibration, "error")],
            ["Brier score", *_both(about.calibration, "brier")],
        ]
        yield Table(["on test images", "as the network has them", "calibrated"], rows)
        sure, right = about.calibration.number("sure", 0, 1), about.calibration.number_or_none("right_of_sure", 0, 1)
        said = f"{sure:.0%} of the test images got a sure answer"
        yield f"{said}, of which {right:.0%} were right." if right is not None else f"{said}."
    if about.novelty is None:
        yield "Whether an image is unlike the training images was not measured, because those were not here or too few."
        return
    count, held_back = about.novelty.whole("training", 0, 2**40), about.novelty.whole("held_back", 0, 2**40)
    whose = "validation images" if about.novelty.flag("of_validation") else (
        "training images, which seem nearer than new ones would"
    )  # fmt: skip
    yield (
        f"An image is called unlike the training images where its features are farther from those of {count} of them "
        f"than nearly all of {held_back} {whose}."
    )


def _both(fields: Fields, name: str) -> list[str]:
    return [f"{fields.number(each, 0, 2):.3f}" for each in (name, f"{name}_calibrated")]


def _limits(bundle: Bundle, about: About) -> Iterator[str]:
    if about.data == "stand-in":
        yield "It was trained on drawn images, which show that the machinery works, and on nothing real."
    row = about.of_all(about.headline)
    if row is not None and row.subjects < _FEW_SUBJECTS:
        yield f"Its test images are of {row.subjects} subjects: with so few, intervals are too narrow."
    clients = about.of_clients(about.headline)
    if len(clients) > 1:
        low, high = clients[0], clients[-1]
        yield f"Clients differ: from {low.value} at {low.client} to {high.value} at {high.client}."
    if not bundle.segments and not bundle.decisions[bundle.default_model].images:
        yield "Its probabilities are not calibrated: there were no validation images to do it with."
    yield "Its test images are of the clients in the table of scores: elsewhere it may do worse."
    yield "Scores for groups of people (age, sex, device) are not known: the data do not name them."


def _privacy(about: About) -> Iterator[str]:
    if about.epsilon is not None:
        delta = "" if about.delta is None else f" at delta {about.delta:g}"
        yield f"Trained with client-level differential privacy: epsilon {about.epsilon:g}{delta}, for any one client."
    elif about.aggregator == "dp":
        yield "Trained with clipping but without enough noise for a finite epsilon: there is no guarantee of privacy."
    else:
        yield (
            f"Updates were combined by {about.aggregator or 'an aggregator that is not recorded'}, without "
            "differential privacy: nothing bounds what the weights tell of the images that they were trained on."
        )
    yield (
        "A client that leaves the federation takes its images with it, and not what they have changed: its "
        "contribution stays in these weights, and in every copy of this bundle. To be without it, a model has to be "
        "trained anew without that client, and the copies have to be replaced."
    )
    yield "The bundle holds no image and no row of a person. It names the clients and says how they scored."


def _licences(about: About) -> list[str | Bullets]:
    if "imagenet" in about.weights:
        weights = (
            "Training began with ImageNet weights as their publisher offers them: that publisher's licence holds for "
            "them, and ImageNet's own terms allow its images for non-commercial research and education."
        )
    elif about.weights.startswith("random"):
        weights = "Training began with random weights: no licence of others is in them."
    else:
        weights = f"Training began with weights from a file ({about.weights}): its licence is not recorded."
    return [
        Bullets([
            weights,
            f"The licence of the data ({about.data}) is not recorded: ask the clients before passing it on.",
        ])
    ]  # fmt: skip


def _provenance(bundle: Bundle, about: About) -> Iterator[str | Table]:
    for name in ("labels", "versions"):
        rows = [[shown(each), shown(value)] for each, value in _items(about.provenance, name)]
        yield Table([name, "value"], rows)
    settings = [
        [shown(owner), ", ".join(f"{shown(name)} {shown(value)}" for name, value in values.items())]
        for owner, values in _items(about.provenance, "settings")
        if isinstance(values, dict)
    ]
    yield Table(["settings of", "values"], settings)
    yield f"Files: {', '.join(bundle.folder.names)}. Their SHA-256 are in SHA256SUMS (sha256sum -c checks them)."


def _items(fields: Fields, name: str) -> list[tuple[str, Any]]:
    part = fields.part(name)
    return [(each, part.any(each)) for each in part.names]
