"""Reads the HTML of a cell of a notebook, in which nothing of a job may be markup."""

from __future__ import annotations

from html.parser import HTMLParser

HOSTILE = "<script>alert(1)</script>&\x1b[31m\u202e\"'"
ESCAPED = "<script>alert(1)</script>&\\x1b[31m\\u202e\"'"
_ALLOWED = {"div", "p", "b", "pre", "table", "thead", "tbody", "tr", "th", "td"}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str | None]] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(attrs)

    def handle_data(self, data: str) -> None:
        self.text += f"{data}\n"


def shown(html: str) -> str:
    """Return the text of HTML, each cell on a line of its own, in which there is no markup but that of a table."""
    reader = _Reader()
    reader.feed(html)
    assert reader.tags <= _ALLOWED
    assert reader.attributes <= {("style", "text-align:left")}
    assert not {"\x1b", "\u202e"} & set(html)
    return reader.text
