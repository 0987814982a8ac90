"""Prints the shape of the source: `python -m scripts.tree_report [FOLDER]`, a row for each package.

Lines, functions and how long they are, value types, and the lines that are imports: what a redesign should make less.
"""

from __future__ import annotations

import ast
import statistics
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "pumice"
# The large packages are listed by their own.
OPENED = ("engines",)
VALUE_BASES = {"Struct", "NamedTuple", "Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"}
TITLES = ("package", "modules", "lines", "functions", "median", "p90", "types", "per 1000", "imports", "share")
_MEDIAN, _HIGH = 4, 8  # of the nine cuts between ten parts


@dataclass(frozen=True, slots=True)
class Shape:
    """Of one module or of several. `lengths` are those of the functions, in lines."""

    modules: int
    lines: int
    lengths: tuple[int, ...]
    types: int
    imports: int

    def __add__(self, other: Shape) -> Shape:
        return Shape(
            self.modules + other.modules,
            self.lines + other.lines,
            self.lengths + other.lengths,
            self.types + other.types,
            self.imports + other.imports,
        )

    def row(self, name: str) -> tuple[str, ...]:
        cuts = statistics.quantiles(self.lengths, n=10) if len(self.lengths) > 1 else [*self.lengths, 0] * 9
        lines = max(self.lines, 1)
        return (
            name,
            str(self.modules),
            str(self.lines),
            str(len(self.lengths)),
            f"{cuts[_MEDIAN]:.0f}",
            f"{cuts[_HIGH]:.0f}",
            str(self.types),
            f"{self.types / lines * 1000:.1f}",
            str(self.imports),
            f"{self.imports / lines:.1%}",
        )


def shape(text: str, values: set[str]) -> Shape:
    """Return the shape of a module; `values` are the names of value types, from which others are derived."""
    lengths, types, imports = [], 0, 0
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lengths.append(_lines(node))
        elif isinstance(node, ast.ClassDef):
            types += _is_value(node, values)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            imports += _lines(node)
    return Shape(1, len(text.splitlines()), tuple(lengths), types, imports)


def value_types(texts: Iterable[str]) -> set[str]:
    """Return the names of msgspec Structs, dataclasses, named tuples and enums, and of classes derived from them."""
    classes = [node for text in texts for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]
    found = set[str]()
    while more := {node.name for node in classes if _is_value(node, found)} - found:
        found |= more
    return found


def _is_value(node: ast.ClassDef, known: set[str]) -> bool:
    decorated = any(_name(each) == "dataclass" for each in node.decorator_list)
    return decorated or any(_name(base) in VALUE_BASES | known for base in node.bases)


def report(source: Path) -> list[str]:
    """Return the table, with a row for each package and their sum."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(source.rglob("*.py"))}
    values = value_types(texts.values())
    packages: dict[str, Shape] = {}
    for path, text in texts.items():
        name, found = _package(path.relative_to(source)), shape(text, values)
        packages[name] = packages[name] + found if name in packages else found
    total = Shape(0, 0, (), 0, 0)
    for found in packages.values():
        total += found
    rows = [TITLES, *(found.row(name) for name, found in packages.items()), total.row("all")]
    return list(_table(rows))


def _package(path: Path) -> str:
    parts = path.parts[:-1]
    return "/".join(parts[: 2 if parts[:1] and parts[0] in OPENED else 1]) or "."


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _name(node: ast.expr) -> str:
    """Return the last word of `msgspec.Struct`, `dataclass(frozen=True)` or `Base[int]`."""
    match node:
        case ast.Call(func=inner) | ast.Subscript(value=inner):
            return _name(inner)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *numbers in rows:
        yield "  ".join(
            (name.ljust(widths[0]), *(text.rjust(width) for text, width in zip(numbers, widths[1:], strict=True)))
        )


if __name__ == "__main__":
    print("\n".join(report(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE)))
