"""Pieces of Markdown that the generated pages are put together from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(_cell(cell) for cell in line) + " |\n" for line in lines)


def code(text: str) -> str:
    """Text in back quotes; as many as it takes."""
    if not text:
        return ""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def fenced(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def plain(text: str) -> str:
    """Prose in which `<name>` stands for itself: outside back quotes Markdown would take it for a tag."""
    parts = text.split("`")
    return "`".join(part if position % 2 else part.replace("<", "&lt;") for position, part in enumerate(parts))


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
