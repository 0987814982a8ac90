"""The port to the runs of this machine: reads the store, and controls the processes of runs through their sockets.

Commands that list runs load no more than `run_reader.py`; each method loads what only it needs.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pumice.client.backend import (
    Change,
    Exec,
    Feature,
    Listing,
    RemoveRun,
    RunRef,
    Selection,
    Update,
    no_prefix,
    silent,
)
from pumice.client.local.run_reader import RunReader, beside_loop, check_followable, ref_of
from pumice.client.pod_access import PodPath, Skipped
from pumice.client.values import Status
from pumice.model.problem import Position, Problem
from pumice.store.run_errors import InvalidOption

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from pumice.client.lease import CheckedRun
    from pumice.client.local.lease import LocalLease
    from pumice.client.local.leftovers import Leftovers, Retention
    from pumice.client.local.pods.entering import EnteredCommand
    from pumice.diagnosis.why import Why
    from pumice.store.files.run_store import StoredRun
    from pumice.store.journal import Entry
    from pumice.store.logs.log_reader import LogSelection
    from pumice.store.logs.log_source import Execution, LogBatch
    from pumice.store.run_request import RunRequest

_PAUSE: Final = 1.0  # seconds between two listings
_POLL: Final = 0.1


@dataclass(frozen=True, slots=True)
class LocalBackend(RunReader):
    name = "this machine"
    waits = False
    default_namespace = "default"

    @property
    def address(self) -> tuple[Any, ...]:
        return "", self.namespace, self.environ.get("XDG_STATE_HOME")

    async def close(self) -> None:
        """There are no connections that stay open."""

    def supports(self, feature: Feature) -> Problem | None:  # noqa: ARG002 - it can do everything
        return None

    # --- show -----------------------------------------------------------------------------------------------------

    async def find(self, text: str) -> RunRef:
        return ref_of(self.find_stored(text))

    def listen(self, tell: Callable[[str], None]) -> None:
        """There is no connection to lose."""

    async def runs(self, selection: Selection) -> Listing:
        if selection.labels:
            raise InvalidOption("labels select Jobs on a cluster", "name the runs", Position(option="selector"))
        return await beside_loop(self.listing, selection)

    async def listings(self, selection: Selection) -> AsyncGenerator[Listing, None]:
        import asyncio

        while True:
            yield await self.runs(selection)
            await asyncio.sleep(_PAUSE)

    async def run_names(self) -> list[str]:
        found = [(each.parent.name, f"{each.parent.name}:{each.name}") for each in self.store.directories()]
        return [*dict(found), *(run for _, run in found), *(run.ref for run in self.store.opened_runs())]

    async def status(self, run: RunRef) -> Status:
        return self.summary(self.stored(run))

    async def statuses(self, runs: Sequence[RunRef]) -> AsyncGenerator[Sequence[Status], None]:
        import asyncio

        stored = [self.stored(run) for run in runs]
        await self.revive(stored)
        while True:
            yield [self.summary(run) for run in stored]
            await asyncio.sleep(_POLL)

    def journal(self, run: RunRef, *, follow: bool = False) -> AsyncGenerator[Sequence[Entry], None]:
        from pumice.client.local.watching import journal

        return journal(self.stored(run), follow=follow)

    def watch(self, run: RunRef) -> AsyncGenerator[Update, None]:
        from pumice.client.local.watching import watch

        return watch(self, self.stored(run))

    def logs(
        self,
        run: RunRef,
        selection: LogSelection,
        *,
        follow: bool = False,
        prefix: Callable[[Execution], bytes] = no_prefix,
    ) -> AsyncGenerator[Sequence[LogBatch], None]:
        from pumice.client.local.run_logs import RunLogs, check_selection

        stored = self.stored(run)
        check_selection(stored, selection, follow=follow)
        logs = RunLogs(stored, selection, prefix)

        async def batches() -> AsyncGenerator[Sequence[LogBatch], None]:
            if not follow:
                parts = logs.read()
                while (part := await beside_loop(next, parts, None)) is not None:
                    yield part
                return
            await self.revive([stored])
            async for each in logs.follow():
                yield each

        return batches()

    async def why(self, run: RunRef, pod: str = "") -> Why:
        from pumice.client.local.reasons import why

        return await beside_loop(why, self, self.stored(run), pod)

    # --- change ---------------------------------------------------------------------------------------------------

    async def check(self, request: RunRequest) -> CheckedRun:
        from pumice.engines.local.supervisor.submit import check_run

        # It reads files and the machine.
        return await beside_loop(check_run, request, self.now())

    async def submit(self, run: CheckedRun) -> RunRef:
        from pumice.engines.local.supervisor.submit import CheckedRun as OurRun
        from pumice.engines.local.supervisor.submit import store_run

        assert isinstance(run, OurRun)  # noqa: S101 - `check` of this backend made it
        name = await store_run(run, self.environ)
        return ref_of(self.store.find(name, run.record.namespace))

    async def repeat(self, run: RunRef) -> RunRef:
        from pumice.client.local.changes import request_again

        return await self.submit(await self.check(request_again(self.stored(run))))

    def start(self, request: RunRequest) -> LocalLease:
        from pumice.client.local.lease import LocalLease

        return LocalLease(self, request)

    @contextmanager
    def prepared_start(self) -> Iterator[Callable[[RunRequest], LocalLease]]:
        """Fork the process of the run: it loads the engine while this one reads the Job."""
        from pumice.engines.local.supervisor.supervisor_process import forked_supervisor

        prepared = [forked_supervisor()]

        def start(request: RunRequest) -> LocalLease:
            from pumice.client.local.lease import LocalLease

            return LocalLease(self, request, prepared.pop() if prepared else forked_supervisor())

        try:
            yield start
        finally:
            for process in prepared:
                process.discard()

    async def check_change(self, run: RunRef, change: Change) -> None:
        from pumice.client.local.changes import check_change

        stored = self.stored(run)
        if not (stored.is_opened and isinstance(change, RemoveRun)):
            check_change(self, stored, change)

    async def change(self, run: RunRef, change: Change, tell: Callable[[str], None] = silent) -> Sequence[str]:
        del tell
        from pumice.client.local.changes import make_change

        stored = self.stored(run)
        if stored.is_opened and isinstance(change, RemoveRun):
            self.store.remove(stored)
            return ()
        return await make_change(self, stored, change)

    def location(self, run: RunRef) -> str:
        del run
        return ""

    async def strangers(self, runs: Sequence[RunRef]) -> Mapping[str, str]:
        del runs
        return {}

    async def wake(self) -> None:
        await self.revive([run for run in self.store.active_runs() if run.is_of_this_host and run.has_our_format])

    async def revive(self, runs: Sequence[StoredRun]) -> None:
        """Make the service start or recover the runs that no process owns. Raises ConnectionFailed."""
        lost = [run for run in runs if not run.is_owned and not self.summary(run).is_over]
        for run in lost:
            check_followable(run)
        if lost:
            await self.wake_service()

    async def wake_service(self) -> None:
        """Make the service check the queue; start it if it is not running. Raises ConnectionFailed."""
        from pumice.engines.local.service.on_demand import ask_service

        await ask_service(self.store.state, self.environ, "wake")

    async def leftovers(self, retention: Retention, *, claims: bool, images: bool) -> Leftovers:
        from pumice.client.local.leftovers import find_leftovers

        return await beside_loop(lambda: find_leftovers(self, retention, claims=claims, images=images))

    # --- pods -----------------------------------------------------------------------------------------------------

    async def exec(self, run: RunRef, command: Exec) -> subprocess.CompletedProcess[bytes]:
        from pumice.client.local.pods.entering import run_command

        return await run_command(self.stored(run), command)

    async def enter(self, run: RunRef, command: Exec) -> EnteredCommand:
        from pumice.client.local.pods.entering import enter

        return await beside_loop(enter, self.stored(run), command)

    async def copy_from(self, run: RunRef, source: PodPath, local: Path) -> list[Skipped]:
        from pumice.client.local.pods.copying import copy_from

        return await beside_loop(copy_from, self.stored(run), source, local)

    async def copy_to(self, run: RunRef, local: Path, target: PodPath) -> list[Skipped]:
        from pumice.client.local.pods.copying import copy_to

        return await beside_loop(copy_to, self.stored(run), local, target)

    # --- only this machine ----------------------------------------------------------------------------------------

    async def service_status(self) -> Mapping[str, Any] | None:
        """Return what the service says about itself; None if it is not running."""
        from pumice.client.local.service import ask_running

        status: Mapping[str, Any] | None = await ask_running(self, "status")
        return status

    async def stop_service(self) -> bool:
        """End the service; runs continue. False if it is not running."""
        from pumice.client.local.service import stop_service

        return await stop_service(self)

    def service_command(self) -> str:
        """Return the command line that starts the service in the foreground."""
        from pumice.engines.local.service.on_demand import service_words

        return shlex.join(service_words(self.store.state))

    async def shut_down(self) -> None:
        """Stop all runs of this state directory at once, and its service."""
        from pumice.client.local.service import shut_down

        await shut_down(self)


def local_backend(namespace: str = "", state: str | None = None) -> LocalBackend:
    """`state` replaces $XDG_STATE_HOME."""
    environ: Mapping[str, str] = os.environ if state is None else {**os.environ, "XDG_STATE_HOME": state}
    return LocalBackend(environ, namespace)
