"""The form of a golden: sections, each with what was asked as its title."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

MARK: Final = "=== "
EXPECTED: Final = Path(__file__).parent / "expected"


def join(found: Mapping[str, str]) -> str:
    """Return the text of a golden."""
    return "".join(f"{MARK}{title}\n{_whole(text)}" for title, text in found.items())


def split(text: str) -> dict[str, str]:
    """Return the sections of a golden by their titles."""
    found = {}
    for part in f"\n{text}".split(f"\n{MARK}")[1:]:
        title, _, body = part.partition("\n")
        found[title] = _whole(body)
    return found


def read_goldens(folder: Path = EXPECTED) -> dict[str, dict[str, str]]:
    """Return the sections of all goldens of a folder, by name: `cli/done`."""
    files = sorted(folder.rglob("*.txt"))
    return {str(file.relative_to(folder).with_suffix("")): split(file.read_text()) for file in files}


def write_golden(name: str, found: Mapping[str, str], folder: Path = EXPECTED) -> None:
    file = folder / f"{name}.txt"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(join(found))


def _whole(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"
