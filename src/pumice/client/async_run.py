"""AsyncRun: the handle of a run. It carries identity only; what can change is a method that returns a snapshot."""

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

from pumice.client import run_history
from pumice.client.builders import words
from pumice.client.errors import RunFailed
from pumice.client.lease import Lease
from pumice.client.local_client import LocalClient
from pumice.client.pods.copying import copy_from, copy_to
from pumice.client.python_words import in_python_words
from pumice.client.requests import documents_of
from pumice.client.run_history import EventReader
from pumice.client.run_logs import RunLogs, check_selection, is_live, log_lines
from pumice.client.run_options.keywords import Pathlike, seconds_of
from pumice.client.usage import Sample, usage
from pumice.client.values import (
    FINISHED,
    Attempt,
    Event,
    LogLine,
    PodStatus,
    Result,
    Status,
    check_goal,
    result_of,
)
from pumice.client.view.notebook import displayed, run_html
from pumice.engines.local.logs.log_reader import LogSelection
from pumice.engines.local.run_errors import InvalidOption, NoSuchRun
from pumice.engines.local.runs.run_store import StoredRun
from pumice.engines.local.why import Why
from pumice.model.problem import Position

WATCH_SECONDS: Final = 0.5


@in_python_words
class AsyncRun:
    """A run. `Client.submit`, `get` and `runs` return it."""

    def __init__(self, client: LocalClient, stored: StoredRun) -> None:
        self._client = client
        self._stored = stored

    @property
    def ref(self) -> str:
        """NAME:N."""
        return self._stored.ref

    @property
    def uid(self) -> str:
        return self._stored.record.uid

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
        return restored, (self._client.environ.get("XDG_STATE_HOME"), self._client.namespace, self._stored.directory)

    def _repr_html_(self) -> str:
        return run_html(self._client, self._stored)

    async def watch(self) -> None:
        """Show the run in a notebook, updated in place, until it ends. An interrupt ends the display, not the run.

        Raises Unsupported outside of a notebook.
        """
        show = displayed()
        while True:
            # Asked first: what is shown last is the end.
            is_over = (await self.status()).is_over
            show(self._repr_html_())
            if is_over:
                return
            await asyncio.sleep(WATCH_SECONDS)

    async def status(self) -> Status:
        """Return the run at this moment. Raises NoSuchRun if it was removed."""
        return self._client.summary(self._existing())

    async def wait(self, goal: str = FINISHED, *, timeout: float | str | None = None, check: bool = False) -> Result:  # noqa: ASYNC109
        """Wait until the run has ended or has reached the goal: `finished`, `running` or a phase.

        Returns on failure too; `check` raises RunFailed then. Raises WaitTimeout after `timeout`, which is in seconds,
        or a text such as `10m`.
        """
        if not isinstance(goal, str):
            raise InvalidOption(f"{goal!r}: must be a text", f"a time is timeout={goal!r}", Position("goal"))
        check_goal(goal, "goal")
        limit = None if timeout is None else seconds_of("timeout", timeout)
        (found,) = await self._client.wait_async([self._existing()], goal, timeout=limit)
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
        return _flat(
            self.log_batches(
                pod=pod,
                task=task,
                container=container,
                attempt=attempt,
                previous=previous,
                since=since,
                tail=tail,
                grep=grep,
                follow=follow,
            )
        )

    def log_batches(  # noqa: PLR0913 - those of `logs`
        self,
        *,
        pod: str | Sequence[str],
        task: str | Sequence[str],
        container: str,
        attempt: int,
        previous: bool,
        since: float | str | dt.timedelta | None,
        tail: int | None,
        grep: str,
        follow: bool,
    ) -> AsyncIterator[list[LogLine]]:
        """Yield the lines of `logs`, many at a time."""
        numbers: dict[str, object] = {"attempt": attempt, "tail": 0 if tail is None else tail}
        for name, number in numbers.items():
            if not isinstance(number, int) or number < 0:
                raise InvalidOption(f"{number!r}: must be 0 or more", "", Position(name))
        selection = LogSelection(
            pods=frozenset([pod] if isinstance(pod, str) else pod),
            tasks=frozenset([task] if isinstance(task, str) else task),
            container=container,
            attempt=attempt,
            previous=previous,
            since=self._nanoseconds(since),
            tail=tail,
            grep=_pattern(grep),
        )
        check_selection(self._existing(), selection, follow=follow)
        return self._batches(RunLogs(self._stored, selection), follow=follow)

    async def _batches(self, logs: RunLogs, *, follow: bool) -> AsyncIterator[list[LogLine]]:
        if not follow:
            for batches in logs.read():
                yield log_lines(batches)
            return
        await self._client.revive_async([self._stored])
        async for batches in logs.follow():
            yield log_lines(batches)

    def events(self, *, follow: bool = True) -> AsyncIterator[Event]:
        """Yield past and new events until the run ends; without `follow`, only past ones."""
        stored = self._existing()
        return EventReader(stored).follow(lambda: follow and is_live(stored))

    async def why(self, pod: str = "") -> Why:
        """Return why the run, or one of its pods, waits, or why it failed. Raises NoSuchPod."""
        return await asyncio.to_thread(self._client.why, self._existing(), pod)

    async def pods(self) -> list[PodStatus]:
        """Return the newest pod of each name."""
        return run_history.pods(self._existing())

    async def history(self) -> list[Attempt]:
        """Return the attempts, the first one first."""
        return run_history.attempts(self._existing())

    async def top(self) -> list[Sample]:
        """Return what each pod uses of CPUs, memory and GPUs; the last record if the run has ended."""
        stored = self._existing()
        return (await usage(self._client, [stored]))[stored.ref]

    async def stop(self, *, force: bool = False, grace: float | str | None = None) -> Result:
        """Stop the run gracefully, or at once; return when it has ended.

        `grace`, in seconds or as `30s`, replaces the grace periods of the pods.
        """
        seconds = None if grace is None else seconds_of("grace", grace)
        await self._client.stop_async(self._existing(), force=force, grace=seconds)
        return await self.wait()

    async def suspend(self) -> Result:
        """End the pods; return when they have ended. `resume` continues with the pods that have not succeeded."""
        await self._client.suspend_async(self._existing())
        return await self.wait()

    async def resume(self, *, env: Mapping[str, str] | None = None, with_: Sequence[Pathlike] = ()) -> None:
        """Queue a suspended run again. Raises WrongState for one that is not suspended.

        `env` and the Secrets in the files `with_` supply again the values that are not stored.
        """
        stored = self._existing()
        namespace = stored.record.namespace
        secrets = [each for file in with_ for each in documents_of(os.fspath(file), namespace)]
        await self._client.resume_async(stored, env or {}, [each for each in secrets if each.get("kind") == "Secret"])

    async def restart(self) -> None:
        """Restart all pods; it does not count as a retry. Raises WrongState if the run is not running."""
        await self._client.call_async(self._existing(), "restart")

    async def scale(self, replicas: Mapping[str, int]) -> None:
        """Change the number of pods of tasks. Raises WrongState if the run is not running, and InvalidOption."""
        given: Mapping[str, object] = replicas
        for task, number in given.items():
            if not isinstance(number, int) or number < 0:
                message = f"{task}: {number!r}: must be a number of pods, 0 or more"
                raise InvalidOption(message, "", Position("scale"))
        await self._client.scale_async(self._existing(), replicas)

    async def kill(self, pod: str, signal: int = signal.SIGKILL) -> bool:
        """Send a signal to the containers of a pod (`worker-0`). False if none of them runs. Raises NoSuchPod."""
        if signal not in valid_signals():
            raise InvalidOption(f"{signal!r}: must be a signal, such as signal.SIGTERM", "", Position("signal"))
        return bool(await self._client.call_async(self._existing(), "kill", pod=pod, signal=int(signal)))

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
        limit = None if timeout is None else seconds_of("timeout", timeout)
        fields = {"pod": pod, "argv": argv, "container": container, "timeout": limit}
        answer = await self._client.call_async(self._existing(), "exec", **fields)
        output = str(answer["output"]).encode("utf-8", "surrogateescape")
        return subprocess.CompletedProcess(argv, int(answer["code"]), output)

    async def copy_from(self, pod: str, path: str, local: Pathlike, *, container: str = "") -> list[str]:
        """Copy a file or a directory of a pod to a local path, or into it if it is a directory, as `pumice cp` does.

        Return what was left out, with the reason. Raises NoSuchPod, WrongState if the pod is not running and its
        files are not kept, and InvalidOption, as for a link on the way to the local path that a pod may have made.
        """
        found = await asyncio.to_thread(copy_from, self._existing(), pod, path, Path(local), container)
        return [f"{each.path}: {each.why}" for each in found]

    async def copy_to(self, local: Pathlike, pod: str, path: str, *, container: str = "") -> list[str]:
        """Copy a local file or directory to a path of a running pod, or into it if it is a directory there.

        Return what was left out, with the reason. Raises NoSuchPod, WrongState if the pod is not running, and
        InvalidOption, as for a link on the way to the local path that a pod may have made.
        """
        found = await asyncio.to_thread(copy_to, self._existing(), Path(local), pod, path, container)
        return [f"{each.path}: {each.why}" for each in found]

    async def detach(self) -> None:
        """Let the run continue without the process that started it. Raises WrongState if it is not running."""
        await self._client.call_async(self._existing(), "detach")

    async def remove(self, *, force: bool = False) -> None:
        """Remove the record and the logs. Raises WrongState if the run has not ended, unless `force` stops it first."""
        await self._client.remove_async(self._existing(), force=force)

    def _existing(self) -> StoredRun:
        if not self._stored.exists:
            raise NoSuchRun(f"{self.ref}: no such run", "it was removed")
        return self._stored

    def _nanoseconds(self, since: float | str | dt.timedelta | None) -> int:
        if since is None:
            return 0
        return int((self._client.now().timestamp() - seconds_of("since", since)) * 1e9)


@in_python_words
class AsyncOwnedRun(AsyncRun):
    """A run that stops with its block, or with this process. `Client.start` returns it."""

    def __init__(self, client: LocalClient, stored: StoredRun, lease: Lease) -> None:
        super().__init__(client, stored)
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


def restored(state: str | None, namespace: str, directory: Path) -> AsyncRun:
    """Return the handle of a run that was pickled. Raises NoSuchRun if the run was removed."""
    environ = os.environ if state is None else {**os.environ, "XDG_STATE_HOME": state}
    client = LocalClient(environ, namespace)
    stored = client.store.load(directory)
    if stored is None:
        raise NoSuchRun(f"{directory}: no such run", "it was removed")
    return AsyncRun(client, stored)


def _pattern(text: str) -> re.Pattern[str] | None:
    try:
        return re.compile(text) if text else None
    except re.error as error:
        raise InvalidOption(f"{text}: {error}", "must be a regular expression", Position("grep")) from error


async def _flat(batches: AsyncIterator[list[LogLine]]) -> AsyncIterator[LogLine]:
    async for lines in batches:
        for line in lines:
            yield line
