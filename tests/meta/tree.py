"""The files of the repository, for tests that look at all of them."""

from __future__ import annotations

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "pumice"


@cache
def repository_files() -> tuple[Path, ...]:
    """Every file that is tracked or would be; in an unpacked archive without git, every file that is not hidden."""
    listing = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode == 0:
        found = [ROOT / name for name in listing.stdout.decode().split("\0") if name]
    else:
        found = [file for file in ROOT.rglob("*") if not any(part[0] == "." for part in file.relative_to(ROOT).parts)]
    return tuple(sorted(file for file in found if file.is_file()))


@cache
def source_modules() -> tuple[Path, ...]:
    return tuple(sorted(SOURCE.rglob("*.py")))


@cache
def syntax_tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text())


def shown(file: Path) -> str:
    return str(file.relative_to(ROOT))
