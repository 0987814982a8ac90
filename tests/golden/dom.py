"""Writes the DOM of a page as lines: an element per line, its attributes in order, its text without extra spaces."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Final

_VOID: Final = frozenset({"br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"})
_KEPT: Final = frozenset({"pre", "textarea", "code"})  # spaces count there
_LONGEST: Final = 160


@dataclass(slots=True)
class Element:
    name: str
    attributes: tuple[tuple[str, str | None], ...] = ()
    children: list[Element | str] = field(default_factory=list)

    def tag(self) -> str:
        found = (name if value is None else f'{name}="{_escaped(value)}"' for name, value in self.attributes)
        return f"<{' '.join((self.name, *found))}>"

    def find(self, name: str) -> list[Element]:
        found = [self] if self.name == name else []
        return [*found, *(one for each in self.children if isinstance(each, Element) for one in each.find(name))]

    def lines(self, depth: int = 0) -> list[str]:
        space = " " * depth
        if self.name in _VOID:
            return [f"{space}{self.tag()}"]
        inner = [line for each in self.children for line in _lines(each, depth + 1)]
        if len(inner) <= 1 and len(text := f"{space}{self.tag()}{''.join(inner).strip()}</{self.name}>") <= _LONGEST:
            return [text]
        return [f"{space}{self.tag()}", *inner]


def _escaped(text: str) -> str:
    return html.escape(text).replace("\n", "&#10;")


def _lines(node: Element | str, depth: int) -> list[str]:
    return node.lines(depth) if isinstance(node, Element) else [" " * depth + node]


class _Tree(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.top = Element("document")
        self._open = [self.top]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        made = Element(tag, tuple(sorted(attrs, key=lambda each: each[0])))
        self._open[-1].children.append(made)
        if tag not in _VOID:
            self._open.append(made)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        names = [each.name for each in self._open]
        assert tag in names, f"</{tag}> closes nothing"
        # The end of <p>, <li> and <td> may be left out.
        del self._open[len(names) - 1 - names[::-1].index(tag) :]

    def handle_data(self, data: str) -> None:
        kept = any(each.name in _KEPT for each in self._open)
        text = data if kept else re.sub(r"\s+", " ", data).strip()
        if text:
            self._open[-1].children.append(html.escape(text, quote=False).replace("\n", "&#10;"))


def normalised(text: str, *, whole: bool = True) -> str:
    """Return the DOM of a page as text: all of it, or its title and its main part."""
    top = _parsed(text)
    shown = top.children if whole else [*top.find("title"), *top.find("main")]
    return "".join(f"{line}\n" for each in shown for line in _lines(each, 0))


def form_token(text: str) -> str:
    """Return what a page sends with its forms."""
    found = [dict(each.attributes) for each in _parsed(text).find("meta")]
    return next(str(each["content"]) for each in found if each.get("name") == "pumice-token")


def _parsed(text: str) -> Element:
    tree = _Tree()
    tree.feed(text)
    tree.close()
    return tree.top
