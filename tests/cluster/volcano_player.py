"""Plays Volcano's controller for one Job: what it does with Commands in each phase, and what it writes of it.

It removes a Command before it acts, obeys none in phase Restarting, and counts each restart and resumption as a retry.
It tells of each Command and action in an event, and counts no pods of a Job that has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.cluster.api import Object
from tests.cluster.staged_jobs import StagedJob

_POLL = 0.02
_RESTARTED = ("Restarting", "Pending", "Running")
# By phase and action: the phases that follow, the last of which is the new one.
_MOVES: dict[tuple[str, str], Sequence[str]] = {
    ("Running", "RestartJob"): _RESTARTED,
    ("Running", "AbortJob"): ("Aborting", "Aborted"),
    ("Running", "TerminateJob"): ("Terminating", "Terminated"),
    ("Aborted", "ResumeJob"): _RESTARTED,
}


class VolcanoPlayer:
    """`lost` is the number of Commands that are removed without an effect: the controller dies in between."""

    def __init__(self, job: StagedJob, lost: int = 0) -> None:
        self.job, self.lost = job, lost
        self.obeyed: list[str] = []
        self.commands: list[Object] = []
        self._retries = 0
        self._phases = ["Pending", "Running"]
        self._over = threading.Event()
        self._write()

    @contextmanager
    def at_work(self) -> Iterator[VolcanoPlayer]:
        thread = threading.Thread(target=self._work)
        thread.start()
        try:
            yield self
        finally:
            self._over.set()
            thread.join()

    def _work(self) -> None:
        while not self._over.wait(_POLL):
            for command in self.job.api.list("Command", self.job.namespace):
                if command["metadata"].get("deletionTimestamp") is None:
                    self._take(command)

    def _take(self, command: Object) -> None:
        self.job.api.delete("Command", self.job.namespace, command["metadata"]["name"])
        self.commands.append(command)
        done = "and clean it up to make sure executed not more than once"
        text = f"Start to execute command {command['action']}, {done}."
        self.job.event("CommandIssued", text, "Normal")
        if self.lost:
            self.lost -= 1
            return
        self.job.event("ExecuteAction", f"Start to execute action {command['action']} ", "Normal")
        moves = _MOVES.get((self._phases[-1], command["action"]), ())
        if not moves:
            return
        self.obeyed.append(command["action"])
        self._retries += moves is _RESTARTED
        for phase in moves:
            self._phases.append(phase)
            self._write()

    def _write(self) -> None:
        running = self.job.replicas if self._phases[-1] == "Running" else 0
        self.job.phases(*self._phases, running=running, retryCount=self._retries, version=self._retries)
