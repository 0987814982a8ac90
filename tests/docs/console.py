"""Runs the `console` blocks of a page: lines that start with `$ ` are typed, the others are what must appear.

A line `...` stands for any number of lines that the page leaves out. `make run` is carried out as the Makefile says,
without setting up: the tests run in what has been set up already.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from tests.docs.markdown import Block, blocks
from tests.meta.tree import ROOT

# The environment that runs this test: what `make` has set up, or another one.
ENVIRONMENT = Path(sys.executable).parent.parent
PATH = f"{ENVIRONMENT / 'bin'}{os.pathsep}{os.environ['PATH']}"
_MARK = "\x1eend of a command\x1e"


@dataclass(slots=True)
class Exchange:
    """One command and the lines that it must print."""

    command: str
    expected: list[str] = field(default_factory=list)


def exchanges(block: Block) -> list[Exchange]:
    found: list[Exchange] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(Exchange(line[2:]))
        elif found and found[-1].command.endswith("\\") and line.startswith("> "):
            found[-1].command += "\n" + line[2:]
        else:
            assert found, f"{block.position}: output before the first command"
            found[-1].expected.append(line)
    return found


def provide(block: Block, folder: Path) -> None:
    """Write the files of a block's page, and install the package that they make up, if they do."""
    for other in blocks(block.page):
        if other.file:
            (folder / other.file).write_text(other.text, encoding="utf-8")
    if (folder / "pyproject.toml").is_file():
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        information = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
        [(group, entries)] = project["entry-points"].items()
        lines = "".join(f"{name} = {target}\n" for name, target in entries.items())
        (information / "entry_points.txt").write_text(f"[{group}]\n{lines}")


def outputs(block: Block, folder: Path, extra: Mapping[str, str] = MappingProxyType({})) -> list[list[str]]:
    """What each command of a block prints, on both streams, in a folder that has the examples.

    `extra` is set in its environment.
    """
    script = "".join(
        f"{_carried_out(one.command)}\n(c=$?; printf '%s\\n' '{_MARK}'; exit $c)\n" for one in exchanges(block)
    )
    done = subprocess.run(
        ["sh", "-c", script],
        cwd=folder,
        env={**_environment(folder), **extra},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        check=False,
        text=True,
        encoding="utf-8",
    )
    return [part.removeprefix("\n").splitlines() for part in done.stdout.split(_MARK)[:-1]]


def as_shown(line: str, folder: Path) -> str:
    """Return a line of output with the paths that a page shows; those of a test may need quotes."""
    shown = line.replace(f"{_home(folder)}/", "~/").replace(f"{folder}/", "/home/me/train/")
    return re.sub(r"'((?:~|/home/me)/\S*)'", r"\1", shown)


def matches(expected: list[str], actual: list[str]) -> bool:
    pattern = "".join(r"(?:.*\n)*" if line == "..." else re.escape(line) + "\n" for line in expected)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in actual)) is not None


def make_recipe(target: str) -> Iterator[str]:
    """The commands of a target, as `make` echoes them."""
    makefile = (ROOT / "Makefile").read_text()
    match = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert match, f"the Makefile has no target {target}"
    for line in match[1].splitlines():
        if "$(setup)" not in line:
            yield line.strip()


def _carried_out(command: str) -> str:
    if not command.startswith("make "):
        return command
    shown = [f"echo '{line}'\n{line}" for line in make_recipe(command.removeprefix("make "))]
    return "\n".join(shown)


def _environment(folder: Path) -> Mapping[str, str]:
    # Unbuffered, so that both streams come in the order in which a terminal would show them.
    # A home directory of its own, which is not the working directory: a run keeps its logs there.
    home = _home(folder)
    home.mkdir(exist_ok=True)
    return {
        "PATH": PATH,
        "HOME": str(home),
        "PYTHONPATH": str(folder),
        "PYTHONUNBUFFERED": "1",
        "LC_ALL": "C.UTF-8",
        "COLUMNS": "80",
        "PYTHON_COLORS": "0",
    }


def _home(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}-home")
