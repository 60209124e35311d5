"""Writes the tables of README.md and docs/ from the CSV files in results/: no number there is typed in.

python scripts/readme_tables.py [--check]
"""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterable, Sequence

import pandas as pd

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


def _markdown(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def headlines() -> str:
    """What the report sums up, real images beside the stand-in."""
    from tffapps.report.collect import collect
    from tffapps.report.summary import comparisons, signed

    columns = [
        "system", "data", "metric", "method", "baseline", "gain", "paper: method", "paper: baseline",
        "as good without it",
    ]  # fmt: skip
    rows = []
    for place in collect(ROOT / "results").places:
        if place.system.name == "classify":
            continue
        for one in comparisons(place.system.name, place.sheets):
            found = [f"{score.name} {score}" for score in (one.method, one.baseline)]
            paper = [f"{value:.3f}" for value in one.paper] if one.paper else ["", ""]
            as_good = ", ".join(f"{other.name} {other.mean:.3f}" for other in one.as_good)
            gain = f"{signed(one.gain)}, {one.verdict}"
            rows.append([place.system.name, place.data, one.metric, *found, gain, *paper, as_good])
    return _markdown(columns, rows)


def classify() -> str:
    table = pd.read_csv(ROOT / "results" / "classify" / "comparison.csv")
    lines = ["| method | trained on | accuracy | macro F1 |", "| --- | --- | --- | --- |"]
    for row in table.itertuples():
        accuracy = f"{row.accuracy:.3f} ± {row.accuracy_std:.3f}"
        lines.append(f"| {row.method} | {row.site} | {accuracy} | {row.macro_f1:.3f} ± {row.macro_f1_std:.3f} |")
    return "\n".join(lines)


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


def rounds() -> str:
    table = pd.read_csv(ROOT / "results" / "benchmarks" / "rounds.csv")
    lines = [
        "| | clients | images/s | of `fit` | first round ends after | of `fit` | peak memory |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in table.itertuples():
        first = f"{row.seconds_to_end_of_first_round:.1f} s | {row.first_round_of_fit:.2f}"
        speed = f"{row.images_per_second:.0f} | {row.speed_of_fit:.2f}"
        lines.append(f"| {row.contender} | {row.clients} | {speed} | {first} | {row.peak_memory_mb / 1000:.2f} GB |")
    return "\n".join(lines)


def cut() -> str:
    table = pd.read_csv(ROOT / "results" / "benchmarks" / "cut.csv")
    columns = ["cut", "head", "seconds a round", "of the whole", "seconds to store"]
    rows = [
        [row.cut, row.head, f"{row.round_seconds:.2f}", f"{row.of_whole:.2f}", f"{row.storing_seconds:.1f}"]
        for row in table.itertuples()
    ]
    return _markdown(columns, rows)


def sites() -> str:
    table = pd.read_csv(ROOT / "results" / "benchmarks" / "sites.csv")
    columns = ["", "seconds a round", "of in-process", "down to a client", "of the weights", "up", "of the weights"]
    rows = []
    for row in table.itertuples():
        crossing = [f"{row.sent_a_client:,} bytes", f"{row.sent_of_weights:.3f}"]
        crossing += [f"{row.received_a_client:,} bytes", f"{row.received_of_weights:.3f}"]
        if not row.total_sent:
            crossing = [""] * 4
        rows.append([row.contender, f"{row.seconds_per_round:.1f}", f"{row.time_of_in_process:.2f}", *crossing])
    return _markdown(columns, rows)


def plfl() -> str:
    return _plfl(ROOT / "results" / "plfl")


def plfl_real() -> str:
    return _plfl(ROOT / "results" / "real" / "plfl")


def _plfl(folder: pathlib.Path) -> str:
    table = pd.read_csv(folder / "comparison.csv")
    last = table[table.site == "server"].groupby(["framework", "model"], sort=False).tail(1)
    names = {"gold": "gold only (initial server training)"}
    lines = [
        "| framework | accuracy | weighted F1 | macro F1 | AUROC | thesis: accuracy | F1 | macro F1 |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in last.itertuples():
        ours = [
            f"{getattr(row, m):.3f} ± {getattr(row, m + '_std'):.3f}" for m in ("accuracy", "f1", "macro_f1", "auroc")
        ]
        theirs = [_blank(getattr(row, f"paper_{metric}")) for metric in ("accuracy", "f1", "macro_f1")]
        lines.append(f"| {names.get(row.framework, row.framework)} | {' | '.join([*ours, *theirs])} |")
    return "\n".join(lines)


def poisoning() -> str:
    table = pd.read_csv(ROOT / "results" / "real" / "plfl" / "poisoning.csv")
    shares = sorted(set(table.share))
    lines = [
        f"| framework | spoilt at client1 | {' | '.join(f'{share:.0%} of it' for share in shares)} |",
        f"| --- | --- |{' --- |' * len(shares)}",
    ]
    for (framework, what), rows in table.groupby(["framework", "what"], sort=False):
        cells = [f"{row.accuracy:.3f} / {row.macro_f1:.3f}" for row in rows.sort_values("share").itertuples()]
        lines.append(f"| {framework} | {what} | {' | '.join(cells)} |")
    return "\n".join(lines)


def fedsda() -> str:
    return _pairs(ROOT / "results" / "fedsda", paper=True)


def fedsda_real() -> str:
    return _pairs(ROOT / "results" / "real" / "fedsda", paper=False)


def _pairs(folder: pathlib.Path, paper: bool) -> str:
    """Methods without and with FedSDA, then the other sides."""
    methods = pd.read_csv(folder / "table2_optimisers.csv")
    sides = pd.read_csv(folder / "table3_alignment.csv")
    theirs = ("paper_c17_auroc", "paper_a22_auroc", "paper_a22_auprc") if paper else ()
    columns = ["method", "images", "AUROC", "AUPRC"]
    columns += ["paper: AUROC C17", "AUROC A22", "AUPRC A22"] if paper else []
    rows = pd.concat([methods, sides[~sides.side.isin(("none", "fedsda"))]]).itertuples()
    return _markdown(
        columns,
        (
            [r.method, r.side, _mean(r, "auroc"), _mean(r, "auprc"), *(f"{getattr(r, n):.3f}" for n in theirs)]
            for r in rows
        ),
    )


def fedsda_pictures() -> str:
    table = pd.read_csv(ROOT / "results" / "fedsda" / "table3_alignment.csv")
    columns = ["images", "SSIM", "FID", "KID", "WD", "paper: SSIM", "FID", "KID", "WD"]
    rows = []
    for row in table.itertuples():
        ours = [f"{row.ssim:.3f}", f"{row.fid:.0f}", f"{row.kid:.4f}", f"{row.wd:.4f}"]
        theirs = [f"{row.paper_ssim:.4f}", f"{row.paper_fid:.1f}", f"{row.paper_kid:.4f}", f"{row.paper_wd:.4f}"]
        rows.append([row.side, *ours, *theirs])
    return _markdown(columns, rows)


def fedsda_left_out() -> str:
    table = pd.read_csv(ROOT / "results" / "real" / "fedsda" / "left_out.csv")
    names = list(dict.fromkeys(table.left_out))
    rows = []
    for side, part in table.groupby("side", sort=False):
        rows.append([side, *(_mean(next(part[part.left_out == name].itertuples()), "auroc") for name in names)])
    return _markdown(["images", *names], rows)


def stain_models() -> str:
    columns = ["data", "denoiser", "parameters", "rounds × epochs", "FD", "worst client", "between clients", "nearest"]
    rows = []
    for folder in ("fedsda", "real/fedsda"):
        for row in pd.read_csv(ROOT / "results" / folder / "table1_diffusion.csv").itertuples():
            numbers = (row.fd, row.worst_client_fd, row.fd_between_clients, row.fd_between_nearest, row.paper_fd)
            what = [row.data, row.block, f"{row.parameters:,}", f"{row.rounds} × {row.epochs}"]
            rows.append([*what, *(f"{value:.2f}" for value in numbers)])
    return _markdown([*columns, "paper FD"], rows)


def stains() -> str:
    table = pd.read_csv(ROOT / "results" / "benchmarks" / "stains.csv")
    columns = ["", "cores", "patches/s", "H off", "E off", "grey levels off"]
    rows = []
    for row in table.itertuples():
        off = [row.h_degrees_from_truth, row.e_degrees_from_truth, row.grey_levels_off]
        shown = ["" if pd.isna(value) else f"{value:.1f}{unit}" for value, unit in zip(off, ("°", "°", ""))]
        rows.append([row.contender, str(row.cores), f"{row.patches_per_second:,.3g}", *shown])
    return _markdown(columns, rows)


def fnst() -> str:
    return _fnst(ROOT / "results" / "fnst", paper=True)


def fnst_real() -> str:
    return _fnst(ROOT / "results" / "real" / "fnst", paper=False)


def _fnst(folder: pathlib.Path, paper: bool) -> str:
    """Best-AUC rows, and the macro F1 of the last round."""
    names = ("table1_centralised", "table2_single_and_federated", "table3_fnst")
    table = pd.concat([pd.read_csv(folder / f"{name}.csv") for name in names]).fillna({"augmentation": ""})
    columns = ["method", "rare images", "accuracy", "macro F1", "AUC", "macro F1, last round"]
    columns += ["paper: accuracy", "F1", "AUC"] if paper else []
    rows = []
    for keys, part in table.groupby(["method", "site", "rare", "augmentation"], sort=False, dropna=False):
        best, last = (next(part[part.chosen == chosen].itertuples()) for chosen in ("best AUC", "last"))
        method = f"{keys[0]}: {keys[1]}" if keys[0] == "separate" else f"{keys[0]} {keys[3]}".strip()
        ours = [*(_mean(best, metric) for metric in ("accuracy", "macro_f1", "auroc")), _mean(last, "macro_f1")]
        theirs = [getattr(best, f"paper_{metric}") for metric in ("accuracy", "macro_f1", "auroc")] if paper else []
        rare = "" if pd.isna(keys[2]) else f"{keys[2]:.0f}"
        rows.append([method, rare, *ours, *("" if pd.isna(value) else f"{value:.3f}" for value in theirs)])
    return _markdown(columns, rows)


def gram_attack() -> str:
    columns = ["data, VGG-19", "attacker has", "looks for", "right first", "chance", "in first five", "chance", "SSIM"]
    rows = []
    for folder in ("fnst", "real/fnst"):
        for row in pd.read_csv(ROOT / "results" / folder / "gram_attack.csv").itertuples():
            shares = (row.first, row.chance_first, row.first_five, row.chance_first_five)
            similar = "" if pd.isna(row.ssim_own) else f"{row.ssim_own:.3f} (others {row.ssim_other:.3f})"
            what = [f"{row.data}, {row.vgg}", row.attack, row.how]
            rows.append([*what, *(f"{share:.1%}" for share in shares), similar])
    return _markdown(columns, rows)


def style() -> str:
    table = pd.read_csv(ROOT / "results" / "benchmarks" / "style.csv")
    rows = [
        [r.contender, str(r.images), f"{r.image_steps_per_second:.2f}", f"{r.of_bare_pass:.2f}"]
        for r in table.itertuples()
    ]
    return _markdown(["", "images a batch", "image steps/s", "of the bare pass"], rows)


def fedstyle() -> str:
    return _fedstyle(ROOT / "results" / "fedstyle", paper=True)


def fedstyle_real() -> str:
    return _fedstyle(ROOT / "results" / "real" / "fedstyle", paper=False)


def _fedstyle(folder: pathlib.Path, paper: bool) -> str:
    columns = ["method", "accuracy", "macro F1", "sent and received by a client"] + ["paper: accuracy"] * paper
    rows = []
    for row in pd.read_csv(folder / "comparison.csv").itertuples():
        sent = "nothing" if not row.bytes_per_client else f"{row.bytes_per_client / 1e6:,.2f} MB"
        ours = [row.method, _mean(row, "accuracy"), _mean(row, "macro_f1"), sent]
        rows.append([*ours, f"{row.paper:.3f}"] if paper else ours)
    return _markdown(columns, rows)


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
    return _fedtransfer(ROOT / "results" / "fedtransfer", paper=True)


def fedtransfer_real() -> str:
    return _fedtransfer(ROOT / "results" / "real" / "fedtransfer", paper=False)


def fedtransfer_longer() -> str:
    return _map(pd.read_csv(ROOT / "results" / "fedtransfer" / "trained_longer.csv"), paper=False)


def _fedtransfer(folder: pathlib.Path, paper: bool) -> str:
    files = [folder / f"{name}.csv" for name in ("table2_separate_centralised", "table3_federated")]
    return _map(pd.concat([pd.read_csv(file) for file in files]), paper)


def _map(table: pd.DataFrame, paper: bool) -> str:
    """MAP on every test set, and the other metrics on all tiles."""
    tests = list(dict.fromkeys(table.test))
    columns = ["method", "trained on", *(f"MAP, {test}" for test in tests), "MVI, global", "ARI, global"]
    columns += [f"paper: MAP, {test}" for test in tests] if paper else []
    rows = []
    for (method, site), part in table.groupby(["method", "site"], sort=False):
        found = {row.test: row for row in part.itertuples()}
        whole = found["global"]
        ours = [*(_mean(found[test], "map") for test in tests), _mean(whole, "mvi"), _mean(whole, "ari")]
        theirs = [_three(found[test].paper_map) for test in tests] if paper else []
        rows.append([method, site, *ours, *theirs])
    return _markdown(columns, rows)


def generator_precision() -> str:
    columns = ["data", "sent as", "bytes of a generator", "of float32", "grey levels off", "MAP, global", "change"]
    rows = []
    for folder in ("fedtransfer", "real/fedtransfer"):
        for row in pd.read_csv(ROOT / "results" / folder / "generator_precision.csv").itertuples():
            sizes = [f"{row.bytes:,}", _three(row.ratio), f"{row.pixel_difference:.2f}"]
            rows.append([row.data, row.precision, *sizes, _mean(row, "map"), f"{row.map_change:+.3f}"])
    return _markdown(columns, rows)


def _three(value: float) -> str:
    return "" if pd.isna(value) else f"{value:.3f}"


def _mean(row, metric: str) -> str:
    spread = getattr(row, f"{metric}_std")
    return f"{getattr(row, metric):.3f}" + ("" if pd.isna(spread) else f" ± {spread:.3f}")


def _blank(value: float) -> str:
    return "" if pd.isna(value) else f"{value:.2f}"


TABLES = {
    "headlines": headlines,
    "classify": classify,
    "first_run": first_run,
    "first_run_cuts": first_run_cuts,
    "rounds": rounds,
    "sites": sites,
    "cut": cut,
    "plfl": plfl,
    "plfl_real": plfl_real,
    "poisoning": poisoning,
    "fedsda": fedsda,
    "fedsda_pictures": fedsda_pictures,
    "fedsda_real": fedsda_real,
    "fedsda_left_out": fedsda_left_out,
    "stain_models": stain_models,
    "stains": stains,
    "fnst": fnst,
    "fnst_real": fnst_real,
    "gram_attack": gram_attack,
    "style": style,
    "fedstyle": fedstyle,
    "fedstyle_real": fedstyle_real,
    "fedstyle_studies": fedstyle_studies,
    "fedtransfer": fedtransfer,
    "fedtransfer_longer": fedtransfer_longer,
    "fedtransfer_real": fedtransfer_real,
    "generator_precision": generator_precision,
}


def filled(text: str) -> str:
    for name, make in TABLES.items():
        pattern = rf"<!-- table: {name} -->\n.*?<!-- end -->"
        text = re.sub(pattern, f"<!-- table: {name} -->\n{make()}\n<!-- end -->", text, flags=re.DOTALL)
    return text


def main() -> int:
    changed = False
    for page in PAGES:
        old = page.read_text()
        new = filled(old)
        changed |= old != new
        if old != new and "--check" not in sys.argv[1:]:
            page.write_text(new)
    return int(changed and "--check" in sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
