"""Markdown helpers of the generated pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(_cell(cell) for cell in line) + " |\n" for line in lines)


def code(text: str) -> str:
    """Return the text in back quotes, as many as it needs."""
    if not text:
        return ""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def fenced(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"


def plain(text: str) -> str:
    """Escape `<name>` outside back quotes, which Markdown would read as a tag."""
    parts = text.split("`")
    return "`".join(part if position % 2 else part.replace("<", "&lt;") for position, part in enumerate(parts))


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
