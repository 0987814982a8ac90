"""Runs commands in this process, and returns what they print, exit codes included."""

from __future__ import annotations

import io
import shlex
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pumice.cli.main import main
from tests.golden.commands import (
    ENDED_RUN,
    EVERY_POD,
    EVERY_RUN,
    LISTS,
    LOGS,
    MISTAKES,
    MOST_PODS,
    NOT_ENDED,
    OPTIONS,
    REFUSED,
)
from tests.golden.store_archive import Recorded

Goldens = dict[str, dict[str, str]]


@dataclass(frozen=True)
class Console:
    """`root` is the directory that stands for `/` of the recorded machine."""

    root: Path

    def clean(self, text: str) -> str:
        """Return a text without the path of this test."""
        return text.replace(str(self.root), "")

    def show(self, line: str) -> dict[str, str]:
        """Return the section of one command."""
        words = shlex.split(line)
        streams = (sys.stdout, sys.stderr)
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
        sys.stdout, sys.stderr = out, err
        try:
            code = main(words)
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            sys.stdout, sys.stderr = streams
        printed, said = (_written(stream) for stream in (out, err))
        text = printed + (f"[stderr]\n{said}" if said else "") + (f"[exit {code}]\n" if code else "")
        return {f"$ pumice {line}": self.clean(text)}


def _written(stream: io.TextIOWrapper) -> str:
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    text = buffer.getvalue().decode()
    return text if not text or text.endswith("\n") else f"{text}\n"


def command_goldens(console: Console, stories: Mapping[str, Sequence[Recorded]]) -> Goldens:
    """Return what the commands show of each story, and of all runs together."""
    found: Goldens = {}
    for story, runs in stories.items():
        lines = found[f"cli/{story}"] = dict[str, str]()
        for run in runs:
            ended = run.name not in NOT_ENDED
            for form in (*EVERY_RUN, *(ENDED_RUN if ended else ())):
                lines |= console.show(form.format(run=run.ref))
            for form in EVERY_POD:
                for pod in run.pods[:MOST_PODS]:
                    lines |= console.show(form.format(run=run.ref, pod=pod))
    for name, asked in {"lists": LISTS, "logs": LOGS, "options": OPTIONS, "mistakes": MISTAKES}.items():
        found[f"cli/all-{name}"] = lines = {}
        for line in asked:
            lines |= console.show(line)
    for archive in sorted(Path().glob("*.tar.gz")):
        found["cli/all-options"][f"$ tar tf {archive}"] = "".join(f"{name}\n" for name in _names(archive))
    # Last, because some of them tidy up.
    found["cli/all-refused"] = lines = {}
    for line in REFUSED:
        lines |= console.show(line)
    return found


def _names(archive: Path) -> list[str]:
    with tarfile.open(archive) as found:
        return found.getnames()
