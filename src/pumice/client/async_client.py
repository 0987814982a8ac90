"""AsyncClient: starts and finds runs, on this machine or on a cluster. `Client` is the synchronous version."""

from __future__ import annotations

import asyncio
import os
import sys
from types import TracebackType
from typing import Self, Unpack

from pumice.client.async_run import AsyncOwnedRun, AsyncRun
from pumice.client.backend import Backend, RunRef, Selection
from pumice.client.backends import open_backend, require_local
from pumice.client.job_files import counted
from pumice.client.lease import Lease
from pumice.client.loading import origin_of
from pumice.client.requests import run_request
from pumice.client.run_options.kinds import Pathlike
from pumice.client.run_options.table import Options, check_foreground
from pumice.client.values import Result
from pumice.client.view.output import fit, style_for
from pumice.client.view.run_lists import RunList
from pumice.client.view.screen import Screen
from pumice.client.view.text_view import TextView
from pumice.diagnosis.outcome import StopReason
from pumice.model.job import Job
from pumice.store.events import Listener
from pumice.store.run_end import INTERRUPTED, Stop
from pumice.store.run_request import RunRequest


class AsyncClient:
    """The runs of this user on this machine, or the Jobs of the cluster that a context of the kubeconfig names.

    `namespace` selects runs, by default all on this machine, and is that of Jobs without one. `state` is the directory
    of their records, by default $XDG_STATE_HOME. Raises InvalidOption for a context that does not exist.
    """

    def __init__(
        self,
        *,
        context: str = "",
        namespace: str = "",
        state: Pathlike | None = None,
        backend: Backend | None = None,
    ) -> None:
        directory = None if state is None else os.path.abspath(state)  # noqa: PTH100 - it need not exist
        self._backend = open_backend(context, namespace, directory) if backend is None else backend
        self._namespace = namespace
        self._environ = os.environ if directory is None else {**os.environ, "XDG_STATE_HOME": directory}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close connections. Submitted runs continue."""
        await self._backend.close()

    async def run(self, job: Job, **options: Unpack[Options]) -> Result:
        """Run a job to its end, and print what `pumice run` prints. On this machine it ends with this process.

        Raises RunFailed if it does not complete; InvalidJob, InvalidOption, DoesNotFit, Denied and Unsupported if it
        cannot start. When it is cancelled, the run stops gracefully.
        """
        lease = await self.lease(job, options)
        await lease.open(terminal_view(job))
        try:
            await lease.ended()
        except asyncio.CancelledError:
            lease.stop(Stop(INTERRUPTED, StopReason.INTERRUPTED), insist=True)
            await lease.ended()
            raise
        return await self.result(lease)

    async def start(self, job: Job, **options: Unpack[Options]) -> AsyncOwnedRun:
        """Start a run that this process owns: it stops with the block, or with this process.

        A Job on a cluster stops with the block; it continues if this process is killed. Raises InvalidJob,
        InvalidOption, DoesNotFit, Denied and Unsupported.
        """
        lease = await self.lease(job, options)
        return AsyncOwnedRun(self._backend, await lease.open(), lease)

    async def submit(self, job: Job, **options: Unpack[Options]) -> AsyncRun:
        """Queue a run that outlives this process, and return its handle; on a cluster, create the Job.

        Raises InvalidJob, InvalidOption, DoesNotFit, Denied, Unsupported and ConnectionFailed.
        """
        request = await asyncio.to_thread(self.request, job, options)
        return AsyncRun(self._backend, await self._backend.submit(await self._backend.check(request)))

    async def get(self, run: str) -> AsyncRun:
        """Return the run of a name: NAME (its newest run), NAME:N, @last, or 8 or more characters of a uid.

        Raises NoSuchRun.
        """
        return AsyncRun(self._backend, await self._backend.find(run))

    async def runs(self, *names: str, all: bool = False, active: bool = False) -> list[AsyncRun]:  # noqa: A002 - as `ps --all`
        """Return the active runs and those that finished within 24 hours, newest first; by default of all names.

        `all` returns every stored run, `active` those that have not finished. Raises NoSuchRun for an unknown name.
        """
        found = await self._backend.runs(Selection(names, all, active))
        return RunList((AsyncRun(self._backend, RunRef.of(each)) for each in found.runs), found.runs)

    async def shut_down(self) -> None:
        """Stop all runs of this client's state directory at once, and the service that queues them.

        Raises Unsupported unless the runs are on this machine.
        """
        await require_local(self._backend, "`shut_down`").shut_down()

    async def lease(self, job: Job, options: Options) -> Lease:
        check_foreground(options, "use `submit`")
        return self._backend.start(await asyncio.to_thread(self.request, job, options))

    async def result(self, lease: Lease) -> Result:
        """Return how a run ended. Raises RunFailed if it did not complete."""
        return await AsyncRun(self._backend, lease.ref).wait(check=True)

    def request(self, job: Job, options: Options) -> RunRequest:
        return run_request(job, options, self._environ, self._namespace, on_cluster=self._backend.waits)


def terminal_view(job: Job) -> Listener:
    """Print the warnings about the Job, and return a listener that prints a run as `pumice run` does."""
    origin = origin_of(job)
    style = style_for(sys.stderr)
    for report in origin.warnings:
        sys.stderr.write(fit(report.text(style.bold, style.warning), sys.stderr) + "\n")
    if origin.warnings:
        sys.stderr.write(counted(origin.warnings) + "\n")
    return TextView(Screen.of(sys.stdout, sys.stderr), origin.source)
