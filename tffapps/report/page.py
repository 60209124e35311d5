"""The whole page, from what a results folder holds."""

from tffapps.report import costs
from tffapps.report.blocks import figure_block, folded, grid_table, table_block
from tffapps.report.cells import grid
from tffapps.report.collect import REAL, Found, Place
from tffapps.report.markup import Markup, anchor, element, joined, single, with_code
from tffapps.report.section import CLAIMS, Section, Table
from tffapps.report.sentences import sentences
from tffapps.report.style import CSS
from tffapps.report.summary_block import summary_block

TITLE = "tffapps: results"
_STANDIN_SAYS = "Images were drawn for this run. It shows that the machinery works, not which method is best."
_SENTENCES = 6  # of the claims; the others are folded
_REAL_SAYS = "The images are not part of the project."


def page(found: Found) -> str:
    head = element(
        "head",
        single("meta", charset="utf-8"),
        single("meta", name="viewport", content="width=device-width, initial-scale=1"),
        single("meta", name="color-scheme", content="light dark"),
        element("title", TITLE),
        element("style", Markup(CSS)),
    )
    main = [_opening(found), summary_block(found)]
    main += [_system(found, system) for system in found.systems]
    if not found.benchmarks.empty:
        main.append(_benchmarks(found.benchmarks))
    body = element("body", _contents(found), element("main", *main))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _opening(found: Found) -> Markup:
    parts = [
        element("h1", "Federated learning for images: results"),
        element(
            "p",
            "Five published systems as one TensorFlow Federated application, and what they gave here. Every number is "
            "from a table in this folder, whose file stands beside its title. The paper's values stand beside runs on "
            "the paper's own data alone.",
        ),
        element(
            "p",
            _badge("stand-in"), " marks runs on images drawn for the purpose, ", _badge("real images", True),
            " runs on photographs or scans. In brackets: 95 % intervals, by subject.",
        ),
    ]  # fmt: skip
    if found.problems:
        lines = [element("li", line) for line in found.problems]
        parts.append(element("div", "Files that cannot be shown:", element("ul", *lines), class_="problem"))
    return element("header", *parts)


def _contents(found: Found) -> Markup:
    links = [("summary", "Summary"), *((system.name, system.title) for system in found.systems)]
    if not found.benchmarks.empty:
        links.append((found.benchmarks.system.name, found.benchmarks.system.title))
    items = [element("li", element("a", text, href=f"#{name}")) for name, text in links]
    return element("nav", element("p", "tffapps"), element("ul", *items), aria_label="Contents")


def _badge(text: str, real: bool = False) -> Markup:
    return element("span", text, class_="badge real" if real else "badge")


def _system(found: Found, system: Section) -> Markup:
    parts = [element("h2", system.title, id=system.name), element("p", system.about)]
    parts.append(element("p", element("code", system.command), class_="command"))
    places = found.of(system)
    if not any(place.folder == system.name for place in places):
        parts.append(_missing(f"No tables in {system.name}/ yet: `{system.command}` makes them."))
    real = [place for place in places if place.is_real]
    parts += [_place(place) for place in real]
    parts += [_place(place, below=bool(real)) for place in places if not place.is_real]
    if not any(place.is_real or place.folder.startswith(f"{REAL}/") for place in places):
        command = f"{system.command} --data FOLDER --results results/{REAL}"
        parts.append(_missing(f"No run on real images here: `{command}` makes one."))
    return element("article", *parts)


def _missing(text: str) -> Markup:
    return element("p", with_code(text), class_="missing")


def _place(place: Place, below: bool = False) -> Markup:
    """What the claims say, one table and one figure; the rest is folded, and all of it `below` a run on real images."""
    real = place.is_real
    heading = [_badge("real images" if real else "stand-in", real), " "] if place.data else []
    heading.append(f"Run on “{place.data}”" if real else "Run on drawn images" if place.data else "What is there")
    title = element("h3", *heading, id=anchor(place.folder, "run"))
    parts = []
    if place.data:
        parts.append(element("p", _REAL_SAYS if real else _STANDIN_SAYS, class_="note"))
    tables, figures = _tables(place), _figures(place)
    claims = [table for spec, table in tables if spec.file == CLAIMS.file]
    others = [table for spec, table in tables if spec.file != CLAIMS.file]
    parts += _says(sentences(place), claims)
    parts += [*others[:1], *_side_by_side(figures[:1])]
    more = [*_side_by_side(figures[1:]), *others[1:], *_costs(place)]
    if more:
        counts = [f"{count} more {what}{'s' * (count != 1)}" for count, what in _counted(figures[1:], others[1:])]
        parts.append(element("details", element("summary", ", ".join(counts) or "What the runs took"), *more))
    parts += _not_there(place)
    if below:
        return element("details", element("summary", title), *parts, class_="place")
    return element("section", title, *parts, class_="place real" if real else "place")


def _counted(figures: list[Markup], tables: list[Markup]) -> list[tuple[int, str]]:
    return [(len(found), what) for found, what in ((figures, "figure"), (tables, "table")) if found]


def _says(said: list[Markup], claims: list[Markup]) -> list[Markup]:
    """The first sentences; the others and their table are folded."""
    shown = [element("ul", *(element("li", line) for line in said[:_SENTENCES]), class_="says")] if said else []
    rest = [element("ul", *(element("li", line) for line in said[_SENTENCES:]), class_="says")] if shown else []
    if not claims and len(said) <= _SENTENCES:
        return shown
    more = (
        f"{len(said) - _SENTENCES} more claims, and their table"
        if len(said) > _SENTENCES
        else "These claims as a table"
    )
    return [*shown, element("details", element("summary", more), *rest[: len(said) > _SENTENCES], *claims)]


def _tables(place: Place) -> list[tuple[Table, Markup]]:
    known = {table.file for table in place.system.tables}
    others = [Table(file, file.removesuffix(".csv").replace("_", " "), folded=True) for file in place.sheets]
    specs = [*place.system.tables, *(table for table in others if table.file not in known)]
    open_first = sorted((spec for spec in specs if spec.file in place.sheets), key=lambda spec: spec.folded)
    own, paper = place.system.own, place.system.paper
    return [
        (spec, table_block(spec, place.sheets[spec.file], place.folder, own, paper, anchor(place.folder, spec.file)))
        for spec in open_first
    ]


def _figures(place: Place) -> list[Markup]:
    captions = dict(place.system.figures)
    names = [name for name in captions if name in place.pictures]
    names += [name for name in place.pictures if name not in captions]
    return [figure_block(captions.get(name, name), place.pictures[name], f"{place.folder}/{name}") for name in names]


def _side_by_side(figures: list[Markup]) -> list[Markup]:
    return [element("div", *figures, class_="figures")] if figures else []


def _costs(place: Place) -> list[Markup]:
    if not place.runs:
        return []
    sheet = costs.as_sheet(place.runs)
    title = joined("Seconds and bytes of each run ", element("span", f"{place.folder}/runs/", class_="file"))
    return [folded(title, grid_table(grid(sheet), "seconds and bytes"), len(sheet.rows), anchor(place.folder, "costs"))]


def _not_there(place: Place) -> list[Markup]:
    """Broken files one by one, missing ones in one line."""
    lines = [
        element("p", element("code", f"{place.folder}/{name}"), f" {why}.", class_="problem")
        for name, why in place.broken.items()
    ]
    absent = [table for table in place.system.tables if table.file not in {*place.sheets, *place.broken}]
    if not absent or place.system.name == "benchmarks":
        return lines
    names = ", ".join(f"`{table.file}`" + (f" (`{table.flag}`)" if table.flag else "") for table in absent)
    data = f" --data {place.data} --results results/{REAL}" if place.folder.startswith(f"{REAL}/") else ""
    needed = "; a flag in brackets is needed for its table" if any(table.flag for table in absent) else ""
    return [*lines, _missing(f"Not there: {names}. `{place.system.command}{data}` makes such tables{needed}.")]


def _benchmarks(place: Place) -> Markup:
    parts = [element("h2", place.system.title, id=place.system.name), element("p", place.system.about)]
    tables = [table for _, table in _tables(place)]
    return element("article", *parts, element("section", *tables, *_not_there(place), class_="place"))
