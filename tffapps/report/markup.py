"""HTML, a little of it. Text is escaped by `element`; what is already HTML is a `Markup`."""

import html
import re


class Markup(str):
    """Text that is HTML."""


Content = str | Markup


def element(_name: str, *content: Content, **attributes: str | int | bool) -> Markup:
    """`element("p", "a < b", class_="note")`: a trailing underscore keeps Python happy, others become hyphens."""
    return Markup(f"<{_name}{_attributes(attributes)}>{joined(*content)}</{_name}>")


def single(_name: str, **attributes: str | int | bool) -> Markup:
    """An element that has no content and no end."""
    return Markup(f"<{_name}{_attributes(attributes)}>")


def joined(*content: Content, between: str = "") -> Markup:
    return Markup(between.join(_escaped(part) for part in content))


def with_code(text: str) -> Markup:
    """Text in which `this` is code."""
    parts = text.split("`")
    return joined(*(element("code", part) if place % 2 else part for place, part in enumerate(parts)))


def anchor(*names: str) -> str:
    """A name for `id`, of letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(names).lower()).strip("-")


def _escaped(part: Content) -> str:
    return part if isinstance(part, Markup) else html.escape(part, quote=False)


def _attributes(attributes: dict[str, str | int | bool]) -> str:
    shown = []
    for name, value in attributes.items():
        name = name.rstrip("_").replace("_", "-")
        if value is True:
            shown.append(f" {name}")
        elif value is not False and value != "":
            shown.append(f' {name}="{html.escape(str(value))}"')
    return "".join(shown)
