"""A page as a browser would take it, strictly: tags nest, names are there once, nothing is fetched."""

from __future__ import annotations

from html.parser import HTMLParser

_EMPTY = {"meta", "img", "br", "link", "input", "hr", "base"}


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.sources: list[str] = []
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self.rows: list[list[str]] = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"
        assert len(self.ids) == len(set(self.ids)), "a name is there twice"

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.add(tag)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if "href" in found else []
        self.sources += [found["src"]] if "src" in found else []
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")
        if tag not in _EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> inside {self.open}"
        self.open.pop()

    def handle_data(self, data):
        if "style" in self.open:
            return
        self.texts.append(data)
        if "td" in self.open or ("th" in self.open and self.rows):
            self.rows[-1][-1] += data

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def check_alone(self) -> None:
        """That it refers to nothing but itself."""
        assert all(source.startswith("data:image/") for source in self.sources)
        assert {link.removeprefix("#") for link in self.links} <= set(self.ids)
        assert all(link.startswith("#") for link in self.links)
        assert not self.tags & {"script", "link", "iframe", "object", "base"}
