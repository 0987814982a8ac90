"""Values as HTML for notebooks: headings, tables and texts, in which nothing of a job is markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from pumice.model.text import printable

_LONGEST: Final = 200
_CELL: Final = ' style="text-align:left"'


def heading(name: str, *about: str) -> str:
    """Return a paragraph with a name in bold, and what is known about it; empty parts are left out."""
    return f"<p><b>{_text(name)}</b> {_text(' · '.join(filter(None, about)))}</p>"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th{_CELL}>{_text(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(f"<td{_CELL}>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def paragraph(text: str) -> str:
    return f"<p>{_text(text)}</p>"


def block(text: str) -> str:
    """Return text as it is broken into lines; nothing for none."""
    return f"<pre>{chr(10).join(_text(line) for line in text.split(chr(10)))}</pre>" if text else ""


def division(*parts: str) -> str:
    """Return parts, which are HTML, as one."""
    return f"<div>{''.join(parts)}</div>"


def _text(text: str) -> str:
    """Return untrusted text on one line: no markup, no control characters, no bidirectional control characters."""
    return escape(printable(text, _LONGEST))
