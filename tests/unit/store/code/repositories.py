"""Repositories that the program git makes, to compare what is read of them with what it says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_ENV = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}


def git(directory: Path, *args: str, data: bytes | None = None) -> str:
    """Run git; return what it prints."""
    protocol = ("-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main")
    done = subprocess.run(
        ["git", *protocol, *args], cwd=directory, env=_ENV, input=data, capture_output=True, check=True
    )
    return done.stdout.decode()


def write(directory: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def make_repository(directory: Path, files: dict[str, str]) -> Path:
    """Make a repository with one commit of these files."""
    directory.mkdir(parents=True, exist_ok=True)
    git(directory, "init")
    write(directory, files)
    git(directory, "add", ".")
    git(directory, "commit", "--allow-empty", "-m", "first")
    return directory


def contents(directory: Path) -> dict[str, str]:
    """Return the files of a directory without its `.git`; of a link, where it leads."""
    return {
        str(path.relative_to(directory)): f"-> {path.readlink()}" if path.is_symlink() else path.read_text()
        for path in sorted(directory.rglob("*"))
        if ".git" not in path.parts and (path.is_symlink() or path.is_file())
    }
