"""AsyncClient: starts and finds runs on this machine. `Client` is the synchronous version."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

from pumice.client.async_run import AsyncOwnedRun, AsyncRun
from pumice.client.lease import Lease
from pumice.client.loading import origin_of
from pumice.client.local_client import LocalClient
from pumice.client.python_words import in_python_words
from pumice.client.reports import counted
from pumice.client.requests import run_request
from pumice.client.run_options.keywords import Options, Pathlike
from pumice.client.values import Result
from pumice.client.view.output import fit, style_for
from pumice.client.view.screen import Screen
from pumice.client.view.text_view import TextView
from pumice.engines.local.events import Listener
from pumice.engines.local.outcome import INTERRUPTED, Stop
from pumice.engines.local.runs.run_request import RunRequest
from pumice.model.job import Job


@in_python_words
class AsyncClient:
    """The runs of this user on this machine.

    `namespace` selects runs, by default all, and is that of Jobs without one. `state` is the directory of their
    records, by default $XDG_STATE_HOME.
    """

    def __init__(self, *, namespace: str = "", state: Pathlike | None = None) -> None:
        environ: Mapping[str, str] = os.environ
        if state is not None:
            environ = {**os.environ, "XDG_STATE_HOME": os.path.abspath(state)}  # noqa: PTH100 - it need not exist
        self._local = LocalClient(environ, namespace)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Submitted runs continue."""

    async def run(self, job: Job, **options: Unpack[Options]) -> Result:
        """Run a job to its end, and print what `pumice run` prints. It ends with this process.

        Raises RunFailed if it does not complete; InvalidJob, InvalidOption, DoesNotFit, Denied and Unsupported if it
        cannot start. When it is cancelled, the run stops gracefully.
        """
        lease = await self.lease(job, options)
        await lease.open(terminal_view(job))
        try:
            await lease.ended()
        except asyncio.CancelledError:
            lease.stop(Stop(INTERRUPTED, "Interrupted"))
            await lease.ended()
            raise
        return await self.result(lease)

    async def start(self, job: Job, **options: Unpack[Options]) -> AsyncOwnedRun:
        """Start a run that this process owns: it stops with the block, or with this process.

        Raises InvalidJob, InvalidOption, DoesNotFit, Denied and Unsupported.
        """
        lease = await self.lease(job, options)
        return AsyncOwnedRun(self._local, await lease.open(), lease)

    async def submit(self, job: Job, **options: Unpack[Options]) -> AsyncRun:
        """Queue a run that outlives this process, and return its handle.

        Raises InvalidJob, InvalidOption, DoesNotFit, Denied, Unsupported and ConnectionFailed.
        """
        request = await asyncio.to_thread(self.request, job, options)
        # The preparation reads files and the machine; the caller's event loop does not wait for it.
        name = await asyncio.to_thread(lambda: asyncio.run(self._local.submit_async(request)))
        return AsyncRun(self._local, self._local.store.find(name, request.job.job.namespace or "default"))

    async def get(self, run: str) -> AsyncRun:
        """Return the run of a name: NAME (its newest run), NAME:N, @last, or 8 or more characters of a uid.

        Raises NoSuchRun.
        """
        return AsyncRun(self._local, self._local.find(run))

    async def runs(self, *names: str, all: bool = False, active: bool = False) -> list[AsyncRun]:  # noqa: A002 - as `ps --all`
        """Return the active runs and those that finished within 24 hours, newest first; by default of all names.

        `all` returns every stored run, `active` those that have not finished. Raises NoSuchRun for an unknown name.
        """
        found = await asyncio.to_thread(self._local.runs, names, everything=all, active=active)
        stored = [self._local.store.load(Path(each.directory)) for each in found]
        # One that another program removes meanwhile is left out.
        return [AsyncRun(self._local, run) for run in stored if run is not None]

    async def shut_down(self) -> None:
        """Stop all runs of this client's state directory at once, and the service that queues them."""
        await self._local.shut_down_async()

    async def lease(self, job: Job, options: Options) -> Lease:
        return Lease(self._local, await asyncio.to_thread(self.request, job, options))

    async def result(self, lease: Lease) -> Result:
        """Return how a run ended. Raises RunFailed if it did not complete."""
        return await AsyncRun(self._local, lease.stored).wait(check=True)

    def request(self, job: Job, options: Options) -> RunRequest:
        return run_request(job, options, self._local.environ, self._local.namespace)


def terminal_view(job: Job) -> Listener:
    """Print the warnings about the Job, and return a listener that prints a run as `pumice run` does."""
    origin = origin_of(job)
    style = style_for(sys.stderr)
    for report in origin.warnings:
        sys.stderr.write(fit(report.text(style.bold, style.warning), sys.stderr) + "\n")
    if origin.warnings:
        sys.stderr.write(counted(origin.warnings) + "\n")
    return TextView(Screen.of(sys.stdout, sys.stderr), origin.source)
