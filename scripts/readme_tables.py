"""Writes the tables of README.md and docs/ from the CSV files in results/: no number there is typed in.

python scripts/readme_tables.py [--check]
"""

from __future__ import annotations

import functools
import pathlib
import re
import sys
from collections.abc import Iterable, Sequence

import pandas as pd

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
PLOT = ROOT / "results" / "claims.svg"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


def _markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def headlines() -> str:
    from scripts import claims_plot

    return _markdown(*claims_plot.rows(ROOT / "results"))


def classify() -> str:
    table = pd.read_csv(ROOT / "results" / "classify" / "comparison.csv")
    columns = ["method", "trained on", "accuracy", "macro F1", "worst client", "images"]
    rows = [
        [row.method, row.site, _mean(row, "accuracy"), _mean(row, "macro_f1"),
         f"{row.worst_client} {row.worst_client_macro_f1:.3f}", str(row.images)]
        for row in table.itertuples()
    ]  # fmt: skip
    return _markdown(columns, rows)


def methods_standin() -> str:
    from scripts import method_tables

    return _markdown(*method_tables.methods(ROOT / "results" / "methods" / "small" / "classify"))


def methods_colon() -> str:
    from scripts import method_tables

    return _markdown(*method_tables.methods(ROOT / "results" / "real" / "classify"))


def attacks() -> str:
    from scripts import method_tables

    return _markdown(*method_tables.attacks(ROOT / "results" / "attacks" / "small" / "classify"))


def first_run() -> str:
    return _first_run("first_run.csv")


def first_run_cuts() -> str:
    return _first_run("first_run_cuts.csv")


def _first_run(file: str) -> str:
    """One row a network, cut and data set."""
    table = pd.read_csv(ROOT / "results" / "real" / "classify" / file)
    columns = ["network, cut", "data", "logistic regression", "FedAvg", "difference", "centralised", "difference"]
    rows = []
    for (model, cut, data), part in table.groupby(["model", "cut", "data"], sort=False):
        cells = [f"{model}, {cut}", data, _mean(next(part.itertuples()), "regression_macro_f1")]
        for method in ("fedavg", "centralised"):
            row = next(part[part.method == method].itertuples())
            cells += [_mean(row, "macro_f1"), f"{row.difference:+.1f} ± {row.difference_std:.1f}"]
        predicted, classes = part.fewest_classes_predicted.min(), part.classes.max()
        rows.append([*cells, f"{predicted} of {classes}"])
    return _markdown([*columns, "classes predicted, at least"], rows)


def plfl() -> str:
    return _plfl(ROOT / "results" / "plfl")


def _plfl(folder: pathlib.Path) -> str:
    table = pd.read_csv(folder / "comparison.csv")
    names = {"gold": "gold only (initial server training)"}
    columns = ["framework", "accuracy", "macro F1", "AUROC", "quadratic κ", "images (subjects), seeds"]
    rows = [
        [names.get(row.framework, row.framework),
         *(_mean(row, metric) for metric in ("accuracy", "macro_f1", "auroc", "quadratic_kappa")),
         f"{row.images} ({row.subjects}), {row.seeds}"]
        for row in table.itertuples()
    ]  # fmt: skip
    return _markdown(columns, rows)


def plfl_real() -> str:
    return _of_knees("real")


def label_shares() -> str:
    return _of_knees("label_shares")


def plfl_search() -> str:
    return _of_knees("search")


def _of_knees(name: str) -> str:
    from scripts import knee_tables

    return _markdown(*getattr(knee_tables, name)(ROOT / "results" / "real" / "plfl", _mean))


def poisoning() -> str:
    table = pd.read_csv(ROOT / "results" / "plfl" / "poisoning.csv")
    shares = sorted(set(table.share))
    lines = [
        f"| framework | spoilt at client1 | {' | '.join(f'{share:.0%} of it' for share in shares)} |",
        f"| --- | --- |{' --- |' * len(shares)}",
    ]
    for (framework, what), rows in table.groupby(["framework", "what"], sort=False):
        cells = [f"{row.accuracy:.3f} / {row.macro_f1:.3f}" for row in rows.sort_values("share").itertuples()]
        lines.append(f"| {framework} | {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _of_stains(name: str) -> str:
    from scripts import stain_tables

    return _markdown(*stain_tables.TABLES[name](ROOT / "results"))


def fnst() -> str:
    return _fnst(ROOT / "results" / "fnst")


def _fnst(folder: pathlib.Path) -> str:
    names = ("table1_centralised", "table2_single_and_federated", "table3_fnst")
    table = pd.concat([pd.read_csv(folder / f"{name}.csv") for name in names]).fillna({"augmentation": ""})
    rows = []
    for row in table.itertuples():
        method = f"{row.method}: {row.site}" if row.method == "separate" else f"{row.method} {row.augmentation}".strip()
        rare = "" if pd.isna(row.rare) else f"{row.rare:.0f}"
        rows.append([method, rare, *(_mean(row, metric) for metric in ("accuracy", "macro_f1", "auroc"))])
    return _markdown(["method", "rare images", "accuracy", "macro F1", "AUC"], rows)


def _styles(name: str) -> str:
    from scripts import style_tables

    return _markdown(*getattr(style_tables, name)(ROOT / "results" / "real" / "fnst"))


def gram_attack() -> str:
    columns = ["data, VGG-19", "attacker has", "looks for", "right first", "chance", "in first five", "chance", "SSIM"]
    rows = []
    for folder in ("fnst",):
        for row in pd.read_csv(ROOT / "results" / folder / "gram_attack.csv").itertuples():
            shares = (row.first, row.chance_first, row.first_five, row.chance_first_five)
            similar = "" if pd.isna(row.ssim_own) else f"{row.ssim_own:.3f} (others {row.ssim_other:.3f})"
            what = [f"{row.data}, {row.vgg}", row.attack, row.how]
            rows.append([*what, *(f"{share:.1%}" for share in shares), similar])
    return _markdown(columns, rows)


def _peers(name: str, command: str = "peers") -> str:
    from scripts import peer_tables

    file = ROOT / "results" / "benchmarks" / f"{name}.csv"
    return (
        _markdown(*getattr(peer_tables, name)(file))
        if file.exists()
        else f"Not measured yet: `python benchmarks/{command}.py`"
    )


def _benchmark(name: str) -> str:
    from scripts import benchmark_tables

    return _markdown(*getattr(benchmark_tables, name)(ROOT / "results" / "benchmarks" / f"{name}.csv"))


def fedstyle() -> str:
    return _fedstyle(ROOT / "results" / "fedstyle")


def _fedstyle(folder: pathlib.Path) -> str:
    columns = ["method", "accuracy", "macro F1", "top 3", "MRR", "sent and received by a client"]
    rows = []
    for row in pd.read_csv(folder / "comparison.csv").itertuples():
        sent = "nothing" if not row.bytes_per_client else f"{row.bytes_per_client / 1e6:,.2f} MB"
        rows.append([row.method, *(_mean(row, name) for name in ("accuracy", "macro_f1", "top_3", "mrr")), sent])
    return _markdown(columns, rows)


def _of_paintings(name: str) -> str:
    from scripts import artist_tables

    return _markdown(*getattr(artist_tables, name)(ROOT / "results" / "real" / "fedstyle", _mean))


def fedstyle_studies() -> str:
    """Scalability, ablation, heterogeneity and cloaking, one line each run."""
    rows = []
    for name, what in (
        ("table1_scalability", "artists"),
        ("ablation", "variant"),
        ("heterogeneity", "dealt"),
        ("cloaking", "cloaked"),
    ):
        table = pd.read_csv(ROOT / "results" / "fedstyle" / f"{name}.csv")
        for variant, part in table.groupby(what, sort=False):
            shown = f"{variant:.0%}" if what == "cloaked" else str(variant)
            if what in ("variant", "cloaked"):
                scores = ", ".join(f"{row.accuracy:.3f}" for row in part.itertuples())
            else:
                scores = ", ".join(f"{row.method} {row.accuracy:.3f}" for row in part.itertuples())
            rows.append([name.replace("table1_", ""), shown, scores])
    return _markdown(["study", "setting", "accuracy"], rows)


def fedtransfer() -> str:
    return _fedtransfer(ROOT / "results" / "fedtransfer")


def _fedtransfer(folder: pathlib.Path) -> str:
    files = [folder / f"{name}.csv" for name in ("table2_separate_centralised", "table3_federated")]
    both = pd.concat([pd.read_csv(file) for file in files])
    return _map(both.drop_duplicates(["method", "site", "precision", "test"]).fillna({"site": ""}))


def _map(table: pd.DataFrame) -> str:
    """MAP on every test set, and the other metrics on all tiles."""
    tests = list(dict.fromkeys(table.test))
    columns = ["method", "trained on", *(f"MAP, {test}" for test in tests), "grown MAP, global", "MVI, global"]
    rows = []
    for (method, site), part in table.groupby(["method", "site"], sort=False):
        found = {row.test: row for row in part.itertuples()}
        whole = found["global"]
        maps = [_mean(found[test], "map") for test in tests]
        rows.append([method, site, *maps, _mean(whole, "grown_map"), _mean(whole, "mvi")])
    return _markdown(columns, rows)


def generator_precision() -> str:
    columns = ["data", "sent as", "bytes of a generator", "of float32", "grey levels off", "MAP, global", "change"]
    rows = []
    for folder in ("fedtransfer",):
        for row in pd.read_csv(ROOT / "results" / folder / "generator_precision.csv").itertuples():
            sizes = [f"{row.bytes:,}", _three(row.ratio), f"{row.pixel_difference:.2f}"]
            rows.append([row.data, row.precision, *sizes, _mean(row, "map"), f"{row.map_change:+.3f}"])
    return _markdown(columns, rows)


def _three(value: float) -> str:
    return "" if pd.isna(value) else f"{value:.3f}"


def _mean(row, metric: str) -> str:
    """A score and its interval, or a mean and its spread."""
    value = f"{getattr(row, metric):.3f}"
    low, high = (getattr(row, f"{metric}_{end}", float("nan")) for end in ("low", "high"))
    if not pd.isna(low):
        return f"{value} [{low:.3f}, {high:.3f}]"
    spread = getattr(row, f"{metric}_std", float("nan"))
    return value if pd.isna(spread) else f"{value} ± {spread:.3f}"


STAIN_TABLES = (
    "fedsda", "fedsda_pictures", "fedsda_published", "fedsda_real", "fedsda_restained", "fedsda_against",
    "fedsda_left_out", "stain_models", "stain_schedules", "stain_privacy",
)  # fmt: skip
TABLES = {
    "headlines": headlines,
    "classify": classify,
    "methods_standin": methods_standin,
    "methods_colon": methods_colon,
    "attacks": attacks,
    "first_run": first_run,
    "first_run_cuts": first_run_cuts,
    "rounds": functools.partial(_benchmark, "rounds"),
    "sites": functools.partial(_benchmark, "sites"),
    "clients": functools.partial(_peers, "clients"),
    "peers": functools.partial(_peers, "peers"),
    "peer_stains": functools.partial(_peers, "peer_stains"),
    "growth": functools.partial(_peers, "growth", "growth"),
    "cut": functools.partial(_benchmark, "cut"),
    "plfl": plfl,
    "plfl_real": plfl_real,
    "label_shares": label_shares,
    "plfl_search": plfl_search,
    "poisoning": poisoning,
    **{name: functools.partial(_of_stains, name) for name in STAIN_TABLES},
    "stains": functools.partial(_benchmark, "stains"),
    "fnst": fnst,
    "fnst_real": functools.partial(_styles, "comparison"),
    "fnst_rivals": functools.partial(_styles, "rivals"),
    "fnst_realism": functools.partial(_styles, "realism"),
    "style_ways": functools.partial(_styles, "ways"),
    "gram_lab": functools.partial(_styles, "lab"),
    "gram_attack": gram_attack,
    "style": functools.partial(_benchmark, "style"),
    "style_loss": functools.partial(_benchmark, "style_loss"),
    "fedstyle": fedstyle,
    "fedstyle_studies": fedstyle_studies,
    "fedstyle_real": functools.partial(_of_paintings, "real"),
    "fedstyle_holdout": functools.partial(_of_paintings, "holdout"),
    "fedstyle_holdout_claims": functools.partial(_of_paintings, "holdout_claims"),
    "fedtransfer": fedtransfer,
    "generator_precision": generator_precision,
}


def plot() -> str:
    from scripts import claims_plot

    return claims_plot.drawn(ROOT / "results")


def filled(text: str) -> str:
    """The text with its tables made anew; those of other pages are not made."""

    def table(found: re.Match[str]) -> str:
        name = found[1]
        return f"<!-- table: {name} -->\n{TABLES[name]()}\n<!-- end -->" if name in TABLES else found[0]

    return re.sub(r"<!-- table: (\w+) -->\n.*?<!-- end -->", table, text, flags=re.DOTALL)


def main() -> int:
    changed = False
    made = {page: filled(page.read_text()) for page in PAGES}
    for file, new in {**made, PLOT: plot()}.items():
        old = file.read_text() if file.exists() else ""
        changed |= old != new
        if old != new and "--check" not in sys.argv[1:]:
            file.write_text(new)
    return int(changed and "--check" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
