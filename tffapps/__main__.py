"""`tffapps`, or `python -m tffapps`: `tffapps plfl …` is `python -m tffapps.plfl …`, and so for every command."""

import importlib
import sys
from collections.abc import Sequence
from typing import NamedTuple

from preprocessing import guard
from tffapps import __version__, cli, systems
from tffapps.errors import UserError


class Tool(NamedTuple):
    module: str
    summary: str


TOOLS = {
    "predict": Tool("tffapps.use.predict_command", "images or slides, with what a run has trained"),
    "card": Tool("tffapps.use.card_command", "the model card of what a run has trained"),
    "export": Tool("tffapps.use.export_command", "the same for other programs: Keras, TensorFlow, TFLite, ONNX"),
    "data": Tool("tffapps.data.__main__", "is a folder fit for one of them"),
    "site": Tool("tffapps.site.__main__", "take part in a federation across machines"),
    "compare": Tool("tffapps.compare_command", "any finished runs beside each other: intervals, paired tests"),
    "audit": Tool("tffapps.audit.command", "what a finished run gives away of its training images, by attacks on it"),
    "report": Tool("tffapps.report.__main__", "the page of all results"),
    "segment": Tool("tffapps.use.segment", "grains of micrographs by a trained model, and their sizes"),
    "watch": Tool("tffapps.watch.__main__", "a live page of runs, while they run"),
    "weights": Tool("models.weights_command", "which networks have which weights here"),
    "cache": Tool("tffapps.cache_command", "what lies in the cache, and cleaning it"),
    "doctor": Tool("tffapps.doctor", "is this machine fit to run"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command that the first argument names; returns its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _dispatch(given)
    except UserError as error:
        return guard.say("tffapps", f"error: {error}", 2)


def _dispatch(given: list[str]) -> int:
    if not given or given[0] in ("-h", "--help"):
        print(_listing())
        return 0
    if given[0] == "--version":
        print(f"tffapps {__version__}")
        return 0
    name, *rest = given
    if name in systems.packages():
        return cli.main(systems.find(name), rest)
    if name in TOOLS:
        return importlib.import_module(TOOLS[name].module).main(rest)
    raise UserError(f"{name}: no such command; choose from {', '.join([*systems.packages(), *TOOLS])}")


def _listing() -> str:
    summaries = {app.name: app.summary for app in systems.every()}
    summaries |= {name: tool.summary for name, tool in TOOLS.items()}
    lines = [f"tffapps {name:<12} {summary}" for name, summary in summaries.items()]
    return "\n".join([*lines, "each with --help; `bash run_all.sh` runs the five systems"])


if __name__ == "__main__":
    sys.exit(main())
