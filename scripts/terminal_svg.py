"""Draws the lines of a terminal as SVG, with the text as text; and reads that text back.

One picture serves light and dark pages: a browser chooses the colours by what the reader prefers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from scripts.terminal import Line

_SIZE, _ADVANCE, _HEIGHT, _MARGIN = 14, 8.43, 20, 18
# By the codes of colours on terminals: on light and on dark ground.
_COLOURS = {
    "31": ("#cf222e", "#ff7b72"),
    "32": ("#116329", "#3fb950"),
    "33": ("#7d4e00", "#d29922"),
    "34": ("#0550ae", "#58a6ff"),
    "35": ("#6639ba", "#bc8cff"),
    "36": ("#1b7c83", "#39c5cf"),
    "92": ("#1a7f37", "#7ee787"),
    "93": ("#9a6700", "#e3b341"),
    "94": ("#0969da", "#79c0ff"),
    "95": ("#8250df", "#d2a8ff"),
    "96": ("#3192aa", "#76e3ea"),
}
_SVG = "{http://www.w3.org/2000/svg}"


def svg(title: str, lines: Sequence[Line], columns: int) -> str:
    """Return the picture: a box as wide as the terminal, and one text element per line."""
    width = round(columns * _ADVANCE) + 2 * _MARGIN
    height = len(lines) * _HEIGHT + 2 * _MARGIN
    rows = [_text(line, _MARGIN + number * _HEIGHT + _SIZE) for number, line in enumerate(lines)]
    size = f'width="{width}" height="{height}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {size}>',
            f"<title>{escape(title)}</title>",
            f"<style>\n{_style()}</style>",
            f'<rect class="ground" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
            *rows,
            "</svg>\n",
        ]
    )


def text(picture: str) -> list[str]:
    """Return the lines of a picture as they were written: what a terminal broke is one line again."""
    lines: list[str] = []
    for element in ET.fromstring(picture).iter(f"{_SVG}text"):  # noqa: S314 - a file of this repository
        line = "".join(element.itertext())
        if element.get("class") == "rest":
            lines[-1] += line
        else:
            lines.append(line)
    return lines


def _text(line: Line, y: int) -> str:
    end = len(line.text)
    runs = []
    for codes, cells in groupby(line.cells[:end], key=lambda cell: cell[1]):
        words = escape("".join(character for character, _ in cells))
        names = " ".join(f"c{code}" for code in codes.split(";") if code)
        runs.append(f'<tspan class="{names}">{words}</tspan>' if names else words)
    rest = ' class="rest"' if line.continues else ""
    return f'<text{rest} x="{_MARGIN}" y="{y}" xml:space="preserve">{"".join(runs)}</text>'


def _style() -> str:
    light = [".ground { fill: #f6f8fa; stroke: #d0d7de }", "text { fill: #1f2328 }"]
    dark = [".ground { fill: #0d1117; stroke: #30363d }", "text { fill: #e6edf3 }"]
    for code, (on_light, on_dark) in _COLOURS.items():
        light.append(f".c{code} {{ fill: {on_light} }}")
        dark.append(f".c{code} {{ fill: {on_dark} }}")
    families = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace'
    return "\n".join(
        [
            f"text {{ font: {_SIZE}px {families}; white-space: pre }}",
            ".c1 { font-weight: bold }",
            ".c2 { fill-opacity: 0.65 }",
            *light,
            "@media (prefers-color-scheme: dark) {",
            *dark,
            "}\n",
        ]
    )
