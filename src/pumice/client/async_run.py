"""AsyncRun: the handle of a run. `Run` is the synchronous version."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from signal import valid_signals
from types import TracebackType
from typing import Any, Final, Self

from pumice.client import history_values
from pumice.client.backend import (
    Backend,
    DetachRun,
    Exec,
    KillPod,
    RemoveRun,
    RestartRun,
    ResumeRun,
    RunRef,
    ScaleRun,
    StopRun,
    SuspendRun,
    complete,
    wait,
)
from pumice.client.backends import open_backend
from pumice.client.builders import words
from pumice.client.history_values import log_lines
from pumice.client.lease import Lease
from pumice.client.loop_thread import Batches, private_loop
from pumice.client.pod_access import LocalPort, PodPath, PodPort
from pumice.client.requests import documents_of
from pumice.client.run_options import kinds
from pumice.client.run_options.kinds import Pathlike, read_time
from pumice.client.values import (
    FINISHED,
    Attempt,
    Event,
    LogLine,
    PodStatus,
    Result,
    RunFailed,
    Status,
    check_goal,
    result_of,
)
from pumice.client.view.notebook import displayed, run_html
from pumice.client.view.run_lists import Pods
from pumice.diagnosis.why import Why
from pumice.model.problem import Position
from pumice.store.code.bundles import write_code
from pumice.store.logs.log_reader import LogSelection
from pumice.store.run_errors import InvalidOption
from pumice.store.sample_file import Sample

WATCH_SECONDS: Final = 0.5


class AsyncRun:
    """A run. `Client.submit`, `get` and `runs` return it."""

    def __init__(self, backend: Backend, run: RunRef) -> None:
        self._backend = backend
        self._run = run

    @property
    def ref(self) -> str:
        """NAME:N."""
        return str(self._run)

    @property
    def uid(self) -> str:
        return self._run.uid

    def __str__(self) -> str:
        return self.ref

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.ref}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncRun) and other.uid == self.uid

    def __hash__(self) -> int:
        return hash(self.uid)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process has the same identity; an owned run stays with its owner."""
        return restored, (self._backend.address, self._run)

    def _repr_html_(self) -> str:
        return private_loop().call(self._html())

    async def _html(self) -> str:
        return await run_html(self._backend, self._run)

    async def watch(self) -> None:
        """Show the run in a notebook, updated in place, until it ends. An interrupt ends the display, not the run.

        Raises Unsupported outside of a notebook.
        """
        show = displayed()
        while True:
            # Asked first: what is shown last is the end.
            is_over = (await self.status()).is_over
            show(await self._html())
            if is_over:
                return
            await asyncio.sleep(WATCH_SECONDS)

    async def status(self) -> Status:
        """Return the run at this moment. Raises NoSuchRun if it was removed."""
        return await self._backend.status(self._run)

    async def wait(self, goal: str = FINISHED, *, timeout: float | str | None = None, check: bool = False) -> Result:  # noqa: ASYNC109
        """Wait until the run has ended or has reached the goal: `finished`, `running` or a phase.

        Returns on failure too; `check` raises RunFailed then. Raises WaitTimeout after `timeout`, which is in seconds,
        or a text such as `10m`.
        """
        if not isinstance(goal, str):
            raise InvalidOption(f"{goal!r}: must be a text", f"a time is timeout={goal!r}", Position("goal"))
        check_goal(goal, "goal")
        limit = None if timeout is None else read_time("timeout", timeout)
        (found,) = await wait(self._backend, [self._run], goal, timeout=limit)
        result = result_of(found)
        if check and found.is_over and not result.ok:
            raise RunFailed(result)
        return result

    def logs(  # noqa: PLR0913 - keyword arguments, as the flags of `pumice logs`
        self,
        *,
        pod: str | Sequence[str] = (),
        task: str | Sequence[str] = (),
        container: str = "",
        attempt: int = 0,
        previous: bool = False,
        since: float | str | dt.timedelta | None = None,
        tail: int | None = None,
        grep: str = "",
        follow: bool = True,
    ) -> AsyncIterator[LogLine]:
        """Yield the lines of all pods in one order until the run ends; without `follow`, only what is stored now.

        Waits for pods that do not exist yet, and continues after restarts. Raises NoSuchRun, NoSuchPod and
        InvalidOption at once. `since` is the time before now, in seconds or as `10m`.
        """
        numbers: dict[str, object] = {"attempt": attempt, "tail": 0 if tail is None else tail}
        for name, number in numbers.items():
            if not isinstance(number, int) or number < 0:
                raise InvalidOption(f"{number!r}: must be 0 or more", "", Position(name))
        try:
            pattern = re.compile(grep) if grep else None
        except re.error as error:
            raise InvalidOption(f"{grep}: {error}", "must be a regular expression", Position("grep")) from error
        begin = 0 if since is None else self._backend.now().timestamp() - read_time("since", since)
        selection = LogSelection(
            pods=frozenset([pod] if isinstance(pod, str) else pod),
            tasks=frozenset([task] if isinstance(task, str) else task),
            container=container,
            attempt=attempt,
            previous=previous,
            since=int(begin * 1e9),  # in nanoseconds
            tail=tail,
            grep=pattern,
        )
        batches = self._backend.logs(self._run, selection, follow=follow)
        return Batches(log_lines(each) async for each in batches)

    def events(self, *, follow: bool = True) -> AsyncIterator[Event]:
        """Yield past and new events until the run ends; without `follow`, only past ones."""
        return history_values.events(self._backend, self._run, follow=follow)

    async def why(self, pod: str = "") -> Why:
        """Return why the run, or one of its pods, waits, or why it failed. Raises NoSuchPod."""
        return await self._backend.why(self._run, pod)

    async def pods(self) -> list[PodStatus]:
        """Return the newest pod of each name."""
        return Pods(history_values.pods(await self._backend.history(self._run)))

    async def history(self) -> list[Attempt]:
        """Return the attempts, oldest first."""
        return history_values.attempts(await self._backend.history(self._run))

    async def top(self) -> list[Sample]:
        """Return what each pod uses of CPUs, memory and GPUs; the last record if the run has ended."""
        return (await self._backend.usage(self._run)).samples

    async def stop(self, *, force: bool = False, grace: float | str | None = None) -> Result:
        """Stop the run gracefully, or at once; return when it has ended.

        `grace`, in seconds or as `30s`, replaces the grace periods of the pods.
        """
        seconds = None if grace is None else read_time("grace", grace)
        await self._backend.change(self._run, StopRun(force, seconds))
        return await self.wait()

    async def suspend(self) -> Result:
        """End the pods; return when they have ended. `resume` continues with the pods that have not succeeded."""
        await self._backend.change(self._run, SuspendRun())
        return await self.wait()

    async def resume(self, *, env: Mapping[str, str] | None = None, with_: Sequence[Pathlike] = ()) -> None:
        """Queue a suspended run again. Raises WrongState for one that is not suspended.

        `env` and the Secrets in the files `with_` supply again the values that are not stored.
        """
        documents = [each for file in with_ for each in documents_of(os.fspath(file), self._run.namespace)]
        secrets = [each for each in documents if each.get("kind") == "Secret"]
        await self._backend.change(self._run, ResumeRun(env or {}, secrets))

    async def restart(self) -> None:
        """Restart all pods; it does not count as a retry. Raises WrongState if the run is not running."""
        await self._backend.change(self._run, RestartRun())

    async def scale(self, replicas: Mapping[str, int]) -> None:
        """Change the number of pods of tasks. Raises WrongState if the run is not running, and InvalidOption."""
        given: Mapping[str, object] = replicas
        for task, number in given.items():
            if not isinstance(number, int) or number < 0:
                message = f"{task}: {number!r}: must be a number of pods, 0 or more"
                raise InvalidOption(message, "", Position("scale"))
        await self._backend.change(self._run, ScaleRun(replicas))

    async def kill(self, pod: str, signal: int = signal.SIGKILL) -> bool:
        """Send a signal to the containers of a pod (`worker-0`). False if none of them runs. Raises NoSuchPod."""
        if signal not in valid_signals():
            raise InvalidOption(f"{signal!r}: must be a signal, such as signal.SIGTERM", "", Position("signal"))
        return bool(await self._backend.change(self._run, KillPod(pod, int(signal))))

    async def exec(
        self,
        pod: str,
        command: Sequence[str],
        *,
        container: str = "",
        timeout: float | str | None = None,  # noqa: ASYNC109 - the process of the run ends the command
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command in a running container, by default the pod's first; return its code and its output.

        Raises NoSuchPod, and WrongState if the container is not running.
        """
        argv = words("command", command)
        limit = None if timeout is None else read_time("timeout", timeout)
        return await self._backend.exec(self._run, Exec(pod, argv, container, timeout=limit))

    async def forward(self, pod: str, port: int, *, local: int = 0) -> AsyncForwardedPort:
        """Make a port of a pod available on 127.0.0.1, by default on any free port, until the end of the block.

        A new connection goes to the pod that has the name then, also after a restart. Raises NoSuchPod, WrongState if
        the run is not running, and InvalidOption if the local port is taken.
        """
        ports = kinds.port(port, "port"), kinds.port(local, "local") if local else 0
        return AsyncForwardedPort(await self._backend.forward(self._run, PodPort(pod, *ports)))

    async def copy_from(self, pod: str, path: str, local: Pathlike, *, container: str = "") -> list[str]:
        """Copy a file or a directory of a pod to a local path, or into it if it is a directory, as `pumice cp` does.

        Return what was left out, with the reason. Raises NoSuchPod, WrongState if the pod is not running and its
        files are not kept, and InvalidOption, as for a link on the way to the local path that a pod may have made.
        """
        found = await self._backend.copy_from(self._run, PodPath(pod, path, container), Path(local))
        return [f"{each.path}: {each.why}" for each in found]

    async def copy_to(self, local: Pathlike, pod: str, path: str, *, container: str = "") -> list[str]:
        """Copy a local file or directory to a path of a running pod, or into it if it is a directory there.

        Return what was left out, with the reason. Raises NoSuchPod, WrongState if the pod is not running, and
        InvalidOption, as for a link on the way to the local path that a pod may have made.
        """
        found = await self._backend.copy_to(self._run, Path(local), PodPath(pod, path, container))
        return [f"{each.path}: {each.why}" for each in found]

    async def code(self, directory: Pathlike) -> list[str]:
        """Write the code of the run, as it was submitted, into a new directory.

        Return what was left out because it looks like a credential. Raises IncompleteCodeError, a RunError that names
        what is missing, and InvalidOption if the directory exists.
        """
        return list(write_code(self.ref, await self._backend.code(self._run), Path(directory)))

    async def detach(self) -> None:
        """Let the run continue without the process that started it. Raises WrongState if it is not running."""
        await self._backend.change(self._run, DetachRun())

    async def remove(self, *, force: bool = False, delete_claims: bool = False) -> None:
        """Remove the record and the logs; on a cluster, delete the Job with its pods.

        Raises WrongState if the run has not ended, unless `force` stops it first; InvalidOption if a Job on a cluster
        owns claims, unless `delete_claims` lets their data go with it.
        """
        await self._backend.change(self._run, RemoveRun(force, delete_claims))


class AsyncOwnedRun(AsyncRun):
    """A run that stops with its block, or with this process. `Client.start` returns it."""

    def __init__(self, backend: Backend, run: RunRef, lease: Lease) -> None:
        super().__init__(backend, run)
        self._lease = lease

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the run gracefully if it has not ended, unless it was detached."""
        self._lease.close()
        await self._lease.ended()

    async def detach(self) -> None:
        """Let the run continue without this process, also after the block. Raises WrongState if it is not running."""
        await self._lease.detach()


class AsyncForwardedPort:
    """A port of this machine that leads to a port of a pod. `Run.forward` returns it."""

    def __init__(self, opened: LocalPort) -> None:
        self._opened = opened

    @property
    def port(self) -> int:
        """The port of 127.0.0.1."""
        return self._opened.local_port

    @property
    def address(self) -> str:
        """127.0.0.1:PORT."""
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the port."""
        await self.close()

    async def close(self) -> None:
        """Close the port, and end its connections."""
        await self._opened.close()


def restored(address: tuple[Any, ...], run: RunRef) -> AsyncRun:
    """Return the handle of a run that was pickled. Raises NoSuchRun if the run was removed."""
    backend = open_backend(*address)
    if not backend.waits:
        complete(backend.status(run))
    return AsyncRun(backend, run)
