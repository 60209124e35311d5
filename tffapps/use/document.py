"""A short document of headings, paragraphs, lists and tables, as Markdown and as one HTML file that needs no other.

Texts may come from a stranger's file: in both forms they are shown as they are, and never act.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from tffapps.report import markup
from tffapps.report.markup import Markup, element
from tffapps.report.style import CSS

_ACTIVE = re.compile(r"([\\`*_\[\]<>|~&#])")


@dataclasses.dataclass(frozen=True)
class Table:
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclasses.dataclass(frozen=True)
class Bullets:
    items: Sequence[str]


@dataclasses.dataclass(frozen=True)
class Section:
    title: str
    content: Sequence[str | Bullets | Table]


@dataclasses.dataclass(frozen=True)
class Document:
    title: str
    notice: str  # stands below the title
    sections: Sequence[Section]

    def markdown(self) -> str:
        lines = [f"# {_plain(self.title)}", "", f"**{_plain(self.notice)}**", ""]
        for section in self.sections:
            lines += [f"## {_plain(section.title)}", ""]
            for part in section.content:
                lines += [*_markdown(part), ""]
        return "\n".join(lines).rstrip() + "\n"

    def html(self) -> str:
        body = [element("h1", self.title), element("p", element("strong", self.notice))]
        for section in self.sections:
            body.append(element("h2", section.title))
            body += [_html(part) for part in section.content]
        head = markup.joined(
            markup.single("meta", charset="utf-8"),
            markup.single("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("title", self.title),
            element("style", Markup(f"{CSS}\nbody {{ display: block; }} h2 {{ margin-top: 2rem; }}")),
        )
        page = element("html", element("head", head), element("body", element("main", *body)), lang="en")
        return f"<!doctype html>\n{page}\n"


def _markdown(part: str | Bullets | Table) -> list[str]:
    if isinstance(part, str):
        return [_plain(part)]
    if isinstance(part, Bullets):
        return [f"- {_plain(item)}" for item in part.items]
    rows = [[_plain(cell) for cell in row] for row in (part.columns, *part.rows)]
    rows.insert(1, ["---"] * len(part.columns))
    return ["| " + " | ".join(row) + " |" for row in rows]


def _plain(text: str) -> str:
    return _ACTIVE.sub(r"\\\1", text.replace("\n", " "))


def _html(part: str | Bullets | Table) -> Markup:
    if isinstance(part, str):
        return element("p", part)
    if isinstance(part, Bullets):
        return element("ul", *(element("li", item) for item in part.items))
    head = element("tr", *(element("th", name) for name in part.columns))
    rows = [element("tr", *(element("td", cell) for cell in row)) for row in part.rows]
    table = element("table", element("thead", head), element("tbody", *rows))
    return element("div", table, class_="scroll")
