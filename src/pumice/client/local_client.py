"""The client of this machine: reads the store, and controls the processes of runs through their control sockets."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from pumice.client.liveness import (
    check_host,
    not_responding,
    not_running,
    service_is_running,
    wake_owner,
)
from pumice.client.reasons import why_pod, why_run
from pumice.client.run_reader import RunReader
from pumice.client.values import FINISHED, Status
from pumice.engines.local.daemon.line_protocol import PATIENCE, RETIRE, Connection, SilentPeerError, connection_to
from pumice.engines.local.daemon.runtime_files import control_socket, remove_runtime_files
from pumice.engines.local.run_errors import ConnectionFailed, NoSuchRun, WaitTimeout, WrongState
from pumice.engines.local.runs.lost_runs import STOPPED, close_lost_run, settle_lost_runs
from pumice.engines.local.runs.owner_lock import OwnerLock, read_owner
from pumice.engines.local.runs.run_names import parse_pod
from pumice.engines.local.runs.run_request import RunRequest
from pumice.engines.local.runs.run_store import OwnedRun, StoredRun
from pumice.engines.local.scheduling.run_queue import is_waiting
from pumice.engines.local.service import queued_runs
from pumice.engines.local.service.on_demand import ask_service, running_service, service_words
from pumice.engines.local.service.recovery import wait_for_sandbox
from pumice.engines.local.service.service_paths import ServicePaths
from pumice.engines.local.supervisor.owner_changes import change, lock_of_suspended
from pumice.engines.local.supervisor.secret_values import add_secrets
from pumice.engines.local.supervisor.submit import scale_waiting, submit, suspend_waiting
from pumice.engines.local.why import Why
from pumice.model.job import Manifest

_POLL: Final = 0.1
_SHORT_PATIENCE: Final = 2.0  # seconds, where a process that does not respond is killed


@dataclass(frozen=True, slots=True)
class LocalClient(RunReader):
    """The runs of this machine: reads, starts and changes them."""

    # --- change ---------------------------------------------------------------------------------------------------

    def submit(self, request: RunRequest) -> str:
        """Start a run that outlives this process; return its name. Raises RunError."""
        return asyncio.run(self.submit_async(request))

    async def submit_async(self, request: RunRequest) -> str:
        return await submit(request, self.now(), self.environ)

    @asynccontextmanager
    async def connected(self, run: StoredRun, patience: float = PATIENCE) -> AsyncIterator[Connection]:
        """Connect to the process of a run. Raises WrongState if it has ended, ConnectionFailed."""
        deadline = time.monotonic() + patience
        while True:
            check_host(run)
            if not run.is_owned:
                raise not_running(run)
            try:
                async with connection_to(control_socket(run.record.uid), patience=patience) as connection:
                    connection.check_protocol()
                    yield connection
                    return
            except (FileNotFoundError, ConnectionRefusedError) as error:
                # The socket is created a moment after the run begins, and again after a logout has removed it.
                wake_owner(run)
                if time.monotonic() > deadline:
                    raise not_responding(run) from error
            except SilentPeerError as error:
                raise not_responding(run) from error
            await asyncio.sleep(_POLL)

    def call(self, run: StoredRun, request: str, **fields: Any) -> Any:
        """Send a request to the process of a run, and return the result. Raises RunError."""
        return asyncio.run(self.call_async(run, request, **fields))

    async def call_async(self, run: StoredRun, request: str, **fields: Any) -> Any:
        async with self.connected(run) as connection:
            return await connection.call(request, **fields)

    def stop(self, run: StoredRun, *, force: bool = False, grace: float | None = None) -> None:
        """Stop a run; `force` ends a process that does not respond, `grace` (seconds) replaces that of the pods."""
        asyncio.run(self.stop_async(run, force=force, grace=grace))

    async def stop_async(self, run: StoredRun, *, force: bool = False, grace: float | None = None) -> None:
        check_host(run)

        async def ask() -> None:
            async with self.connected(run, _SHORT_PATIENCE if force else PATIENCE) as connection:
                await connection.call("stop", force=force, grace=grace)

        try:
            await change(lambda: self._close_lost(run), ask, lambda: True)
        except ConnectionFailed:
            owner = read_owner(run.directory)
            if not force or not owner.is_alive:
                raise
            os.kill(owner.pid, signal.SIGKILL)
            while read_owner(run.directory) == owner and run.is_owned:  # noqa: ASYNC110 - another process
                await asyncio.sleep(_POLL)
            # The service may recover the run before it is closed.
            await self.stop_async(run, force=True)

    def _close_lost(self, run: StoredRun) -> bool:
        """Close a run that no process owns; False if one owns it."""
        lock = OwnerLock.take(run.directory) if run.status().finished is None else None
        if lock is not None:
            close_lost_run(self.store, OwnedRun(run, lock), STOPPED, self.now())
            lock.release()
        return run.status().finished is not None

    async def suspend_async(self, run: StoredRun) -> None:
        """End the pods of a run, or take it out of the queue, until it is resumed. Raises RunError."""
        check_host(run)
        ask = partial(self.call_async, run, "suspend")
        await change(lambda: suspend_waiting(run), ask, lambda: is_waiting(run.status()))

    def close_killed(self, directory: str) -> None:
        """Close the record of a foreground run whose process was killed, once its sandbox has ended."""
        run = self.store.load(Path(directory))
        if run is not None:
            wait_for_sandbox(self.store, run)
        self.settle()

    def remove(self, run: StoredRun, *, force: bool = False) -> None:
        """Remove the record of a run. Raises WrongState if it has not finished, unless `force` stops it first."""
        asyncio.run(self.remove_async(run, force=force))

    def check_removable(self, run: StoredRun) -> None:
        """Raises WrongState if the run has not finished, RunError if it belongs to another machine."""
        check_host(run)
        if not self.summary(run).is_finished:
            what = "is running" if run.is_owned else "has not finished"
            raise _not_over(run, what)

    async def remove_async(self, run: StoredRun, *, force: bool = False) -> None:
        if not force:
            self.check_removable(run)
        check_host(run)
        if not self.summary(run).is_finished:
            await self.stop_async(run, force=True)
            await self.wait_async([run], timeout=60)
        deadline = time.monotonic() + PATIENCE
        # The process of a run that has just finished still closes its record.
        while (lock := OwnerLock.take(run.directory)) is None:
            if time.monotonic() > deadline:
                raise _not_over(run, "is running")
            await asyncio.sleep(_POLL)
        try:
            self.store.remove(run)
            remove_runtime_files(run.record.uid)
        finally:
            lock.release()

    def settle(self) -> None:
        """Close runs whose process was killed."""
        settle_lost_runs(self.store, self.now())

    def resume(self, run: StoredRun, env: Mapping[str, str] = {}, documents: Sequence[Manifest] = ()) -> None:
        """Queue a suspended run again, or one whose secrets are missing, with the missing variables and Secrets.

        Raises WrongState for one that is not suspended.
        """
        asyncio.run(self.resume_async(run, env, documents))

    async def resume_async(
        self, run: StoredRun, env: Mapping[str, str] = {}, documents: Sequence[Manifest] = ()
    ) -> None:
        check_host(run)
        lock = await lock_of_suspended(run)
        if lock is None:
            await self.revive_async([run])
            raise WrongState(f"{run.ref} is not suspended: {run.status().phase}")
        try:
            if env or documents:
                add_secrets(run.record.uid, env, documents)
            queued_runs.resume(self.store, run)
        finally:
            lock.release()
        await self.wake_async()

    async def scale_async(self, run: StoredRun, replicas: Mapping[str, int]) -> None:
        """Change the number of pods of tasks; a run that waits starts with them. Raises RunError."""
        check_host(run)
        ask = partial(self.call_async, run, "scale", replicas=dict(replicas))
        if await change(lambda: scale_waiting(run, replicas), ask, lambda: is_waiting(run.status())):
            await self.wake_async()

    def wake(self) -> None:
        """Make the service check the queue; start it if it is not running. Raises ConnectionFailed."""
        asyncio.run(self.wake_async())

    async def wake_async(self) -> None:
        await ask_service(self.store.state, self.environ, "wake")

    def revive(self, runs: Sequence[StoredRun]) -> None:
        """Make the service start or recover the runs that no process owns.

        Raises ConnectionFailed.
        """
        asyncio.run(self.revive_async(runs))

    async def revive_async(self, runs: Sequence[StoredRun]) -> None:
        if any(not run.is_owned and not self.summary(run).is_over for run in runs):
            await self.wake_async()

    def service_status(self) -> dict[str, Any] | None:
        """Return what the service says about itself; None if it is not running."""
        found: dict[str, Any] | None = self._ask_service("status")
        return found

    def stop_service(self) -> bool:
        """End the service; runs continue. False if it is not running."""
        if self._ask_service(RETIRE) is None:
            return False
        deadline = time.monotonic() + PATIENCE
        while service_is_running(self.store.state) and time.monotonic() < deadline:
            time.sleep(_POLL)
        return True

    def _ask_service(self, request: str) -> Any:
        async def ask() -> Any:
            async with running_service(self.store.state, self.environ) as service:
                return None if service is None else await service.call(request)

        return asyncio.run(ask())

    async def shut_down_async(self) -> None:
        """Stop all runs of this state directory at once, and its service."""
        runs = self.store.active_runs()
        for run in runs:
            with suppress(WrongState):
                await self.stop_async(run, force=True)
        if runs:
            await self.wait_async(runs)
        async with running_service(self.store.state, self.environ) as service:
            if service is not None:
                await service.call(RETIRE)
        await asyncio.to_thread(ServicePaths(self.store.state).wait_until_free)

    def service_command(self) -> str:
        """Return the command line that starts the service in the foreground."""
        return shlex.join(service_words(self.store.state))

    def why(self, run: StoredRun, pod: str = "") -> Why:
        """Return why a run, or one of its pods, waits, runs or has ended. Raises NoSuchPod."""
        return why_pod(run, pod) if pod else why_run(self.store, run, self.now())

    def find_run_or_pod(self, text: str) -> tuple[StoredRun, str]:
        """Return run and pod of `RUN` or `[RUN/]TASK-INDEX`; a run is tried before a pod. Raises NoSuchRun."""
        pod = parse_pod(text)
        try:
            if "/" not in text:
                return self.find(text), ""
        except NoSuchRun:
            if pod is None:
                raise
        if pod is None:
            raise NoSuchRun(f"{text}: must be RUN, TASK-INDEX or RUN/TASK-INDEX")
        return self.find(pod[0]), pod[1]

    # --- wait -----------------------------------------------------------------------------------------------------

    def wait(
        self, runs: Sequence[StoredRun], goal: str = FINISHED, *, some: bool = False, timeout: float | None = None
    ) -> list[Status]:
        """Wait until all runs, or with `some` one of them, have reached the goal or have ended.

        Raises WaitTimeout.
        """
        return asyncio.run(self.wait_async(runs, goal, some=some, timeout=timeout))

    async def wait_async(
        self,
        runs: Sequence[StoredRun],
        goal: str = FINISHED,
        *,
        some: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - the message says what was waited for
    ) -> list[Status]:
        deadline = None if timeout is None else time.monotonic() + timeout
        await self.revive_async(runs)
        while True:
            found = [self.summary(run) for run in runs]
            done = [_reached(each, goal) for each in found]
            if any(done) if some else all(done):
                return [self.summary(run) for run in runs]
            if deadline is not None and time.monotonic() >= deadline:
                waiting = ", ".join(each.run for each, is_done in zip(found, done, strict=True) if not is_done)
                raise WaitTimeout(f"{waiting}: not {goal} within {timeout:g}s")
            await asyncio.sleep(_POLL)


def _not_over(run: StoredRun, what: str) -> WrongState:
    hint = f"pumice stop {run.ref}, or --force"
    return WrongState(f"{run.ref} {what}", hint, python_hint="run.stop(), or run.remove(force=True)")


def _reached(run: Status, goal: str) -> bool:
    if run.is_finished or run.stopped or goal == FINISHED:
        return run.is_finished or run.stopped
    return run.phase.lower() == goal.lower()
