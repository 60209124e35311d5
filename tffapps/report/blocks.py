"""Tables and figures as HTML."""

from collections.abc import Mapping, Sequence

from tffapps.report.cells import Cell, Column, Grid, grid
from tffapps.report.markup import Markup, element, joined, single
from tffapps.report.pictures import Picture
from tffapps.report.section import Table
from tffapps.report.sheet import Sheet

MOST_ROWS = 400  # of one table


def table_block(
    spec: Table, sheet: Sheet, folder: str, own: Sequence[tuple[str, str]], paper: str, name: str
) -> Markup:
    """A table with its title, its note, its file and what ran; `name` is its anchor."""
    sheet = _renamed(sheet, spec.renamed)
    first = sheet.only(spec.only) if spec.only else sheet
    file = element("span", f"{folder}/{spec.file}", class_="file")
    title = element("h4", spec.title, " ", file, id=name)
    if not sheet.rows:
        return element("p", f"{spec.title}: {spec.empty}. ", file, class_="note", id=name)
    if spec.folded:
        return folded(joined(spec.title, " ", file), _table(spec, sheet, own, paper), len(sheet.rows), name)
    parts = [title]
    if spec.note:
        parts.append(element("p", spec.note, class_="note"))
    parts.append(_table(spec, first if first.rows else sheet, own, paper))
    if first.rows and len(first.rows) < len(sheet.rows):
        parts.append(folded(Markup("All rows"), _table(spec, sheet, own, paper), len(sheet.rows)))
    return element("section", *parts)


def folded(title: Markup, content: Markup, rows: int, name: str = "") -> Markup:
    count = element("span", f" {rows} row{'s' * (rows != 1)}", class_="count")
    return element("details", element("summary", title, count), content, id=name)


def _table(spec: Table, sheet: Sheet, own: Sequence[tuple[str, str]], paper: str) -> Markup:
    cut = Sheet(sheet.columns, sheet.rows[:MOST_ROWS])
    marked = [any(row.get(column) == value for column, value in own) for row in cut.rows]
    shown = grid(cut, spec.in_bytes)
    foot = [f"{name}: {value}" for name, value in shown.what_ran]
    if any(column.paper for column in shown.columns) and paper:
        foot.append(paper)
    if shown.no_paper:
        foot.append("the paper has no values for these rows")
    if len(cut.rows) < len(sheet.rows):
        foot.append(f"the first {len(cut.rows)} of {len(sheet.rows)} rows; the rest is in the file")
    return joined(
        grid_table(shown, spec.title, marked), element("p", " · ".join(foot), class_="ran") if foot else ""
    )  # fmt: skip


def grid_table(shown: Grid, label: str, marked: Sequence[bool] = ()) -> Markup:
    """The table itself, in a box of its own that scrolls where it is too wide."""
    head = _head(shown.columns)
    lines = []
    for place in range(shown.height):
        cells = [_cell(column, column.cells[place], first=at == 0) for at, column in enumerate(shown.columns)]
        lines.append(element("tr", *cells, class_="own" if place < len(marked) and marked[place] else ""))
    body = element("table", element("thead", *head), element("tbody", *lines))
    return element("div", body, class_="box", tabindex=0, role="region", aria_label=label)


def _head(columns: Sequence[Column]) -> list[Markup]:
    names = [element("th", column.name, scope="col", class_=_class(column)) for column in columns]
    theirs = sum(column.paper for column in columns)
    if not theirs:
        return [element("tr", *names)]
    ours = single("th", colspan=len(columns) - theirs, class_="over") + "</th>"
    over = element("th", "paper", colspan=theirs, scope="colgroup", class_="over paper")
    return [element("tr", Markup(ours), over), element("tr", *names)]


def _cell(column: Column, cell: Cell, first: bool) -> Markup:
    spread = element("span", f" {cell.spread}", class_="spread") if cell.spread else ""
    if first:
        return element("th", cell.text, spread, scope="row", class_=_class(column))
    return element("td", cell.text, spread, class_=_class(column))


def _class(column: Column) -> str:
    return " ".join(name for name, there in (("number", column.numeric), ("paper", column.paper)) if there)


def figure_block(caption: str, image: Picture, file: str) -> Markup:
    picture = single("img", src=image.uri, alt=caption, width=image.width, height=image.height)
    text = element("figcaption", caption, " ", element("span", file, class_="file"))
    return element("figure", element("div", picture, class_="paper-white"), text, class_="wide" if image.wide else "")


def _renamed(sheet: Sheet, names: Mapping[str, str]) -> Sheet:
    if not names:
        return sheet
    rows = tuple({names.get(column, column): value for column, value in row.items()} for row in sheet.rows)
    return Sheet(tuple(names.get(column, column) for column in sheet.columns), rows)
