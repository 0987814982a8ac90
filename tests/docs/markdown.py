"""The code blocks of a Markdown page, and the comment before each of them.

A comment before a block says what tests need to know and readers do not: `<!-- file: job.yaml -->` names the file that
the commands of the page use; `bad` behind it marks a Job that has errors on purpose, `installed` one that needs a
plugin which only the page's own commands know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.meta.tree import ROOT

_FENCE = re.compile(
    r"(?:^<!-- (?P<note>[^>]*) -->\n\n?)?^(?P<fence>```+)(?P<language>[a-z]*)\n(?P<text>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Block:
    page: Path
    line: int
    language: str
    text: str
    note: str

    @property
    def position(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def file(self) -> str:
        """The name under which the page's commands know this block."""
        match = re.search(r"file: (\S+)", self.note)
        return match[1] if match else ""

    @property
    def needs_plugin(self) -> bool:
        return "installed" in self.note.split()

    @property
    def is_bad(self) -> bool:
        return "bad" in self.note.split()


def pages() -> list[Path]:
    """Every page that a person reads, generated or not."""
    top = ("README.md", "README.zh.md", "CHANGELOG.md", "CONTRIBUTING.md", "examples/README.md")
    return [*(ROOT / name for name in top), *sorted((ROOT / "docs").rglob("*.md"))]


def original(page: Path) -> Path:
    """The page that a translation translates."""
    return page.with_name("README.md") if page.parent == ROOT else page.parent.parent / page.name


TRANSLATIONS = [ROOT / "README.zh.md", *sorted((ROOT / "docs").rglob("zh/*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        line = text.count("\n", 0, match.start("fence")) + 1
        yield Block(page, line, match["language"], match["text"], match["note"] or "")


def all_blocks(*languages: str) -> list[Block]:
    """The blocks of all pages but translations, whose blocks are the same (a test compares them)."""
    originals = [page for page in pages() if page not in TRANSLATIONS]
    return [block for page in originals for block in blocks(page) if block.language in languages]
