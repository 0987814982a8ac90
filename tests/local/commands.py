"""Commands of a user on runs, each in a process of its own."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fork_server import fork_server
from tests.local.running import MODULES, Manifest, Result, Workspace, processes
from tests.patience import PATIENCE

WAITING = "echo up; while [ ! -e go ]; do sleep 0.2; done; echo done"


class Terminal:
    """Commands of a user, whose runs end with the test."""

    def __init__(self, directory: Path) -> None:
        self.workspace = Workspace(directory, {"XDG_RUNTIME_DIR": str(directory)})

    def __call__(self, *words: str, code: int | None = 0, stdin: int | None = None) -> Result:
        directory = self.workspace.directory
        done = fork_server(*MODULES).run(list(words), cwd=directory, env=self.workspace.env, stdin=stdin)
        assert code is None or done.returncode == code, (words, done)
        return Result(done.returncode, done.stdout, done.stderr)

    def submit(self, *documents: Manifest, flags: tuple[str, ...] = ()) -> str:
        return self("submit", self.workspace.write(*documents), *flags).out.strip()

    def items(self, *words: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self("ps", "-o", "json", *words).out)["items"]
        return found

    def phase(self, run: str) -> str:
        return str(next(each["phase"] for each in self.items("-a") if each["run"] == run))

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition. Most run a command, so look at most a third of the time."""
        deadline = time.monotonic() + PATIENCE
        while True:
            began = time.monotonic()
            if condition():
                return
            ended = time.monotonic()
            assert ended < deadline, self("ps", "-a", "-o", "wide").out
            time.sleep(max(0.05, 2 * (ended - began)))

    def owner(self, run: str) -> int:
        name, _, number = run.partition(":")
        directory = self.workspace.state / "runs" / "default" / name / number
        return int(json.loads((directory / "owner.lock").read_text())["pid"])


@contextmanager
def open_terminal(directory: Path) -> Iterator[Terminal]:
    """Yield a terminal; at the end stop its runs and its service, and wait until no process of them is left."""
    terminal = Terminal(directory)
    yield terminal
    terminal("stop", "--all", "--force", code=None)
    terminal("service", "stop")
    terminal.until(lambda: not processes(str(directory)))
