"""Run: the synchronous version of AsyncRun. The same names, without `await`."""

from __future__ import annotations

import datetime as dt
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from pumice.client.async_run import WATCH_SECONDS, AsyncOwnedRun, AsyncRun
from pumice.client.loop_thread import private_loop
from pumice.client.run_options.keywords import Pathlike
from pumice.client.usage import Sample
from pumice.client.values import FINISHED, Attempt, Event, LogLine, PodStatus, Result, Status
from pumice.client.view.notebook import displayed
from pumice.engines.local.why import Why


class Run:
    """A run. `Client.submit`, `get` and `runs` return it."""

    def __init__(self, core: AsyncRun) -> None:
        self._core = core

    @property
    def ref(self) -> str:
        """NAME:N."""
        return self._core.ref

    @property
    def uid(self) -> str:
        return self._core.uid

    def __str__(self) -> str:
        return self.ref

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.ref}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and other.uid == self.uid

    def __hash__(self) -> int:
        return hash(self.uid)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy in another process has the same identity; an owned run stays with its owner."""
        return Run, (self._core,)

    def _repr_html_(self) -> str:
        return self._core._repr_html_()

    def watch(self) -> None:
        """Show the run in a notebook, updated in place, until it ends. An interrupt ends the display, not the run.

        Raises Unsupported outside of a notebook.
        """
        # In this thread: what another one displays does not appear in the cell.
        show = displayed()
        while True:
            # Asked first: what is shown last is the end.
            is_over = self.status().is_over
            show(self._repr_html_())
            if is_over:
                return
            time.sleep(WATCH_SECONDS)

    def status(self) -> Status:
        """Return the run at this moment. Raises NoSuchRun if it was removed."""
        return private_loop().call(self._core.status())

    def wait(self, goal: str = FINISHED, *, timeout: float | str | None = None, check: bool = False) -> Result:
        """Wait until the run has ended or has reached the goal: `finished`, `running` or a phase.

        Returns on failure too; `check` raises RunFailed then. Raises WaitTimeout after `timeout`, which is in seconds,
        or a text such as `10m`. An interrupt ends the waiting, not the run.
        """
        return private_loop().call(self._core.wait(goal, timeout=timeout, check=check))

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
    ) -> Iterator[LogLine]:
        """Yield the lines of all pods in one order until the run ends; without `follow`, only what is stored now.

        Waits for pods that do not exist yet, and continues after restarts. Raises NoSuchRun, NoSuchPod and
        InvalidOption at once. `since` is the time before now, in seconds or as `10m`.
        """
        batches = self._core.log_batches(
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
        return (line for lines in private_loop().iterate(batches) for line in lines)

    def events(self, *, follow: bool = True) -> Iterator[Event]:
        """Yield past and new events until the run ends; without `follow`, only past ones."""
        return private_loop().iterate(self._core.events(follow=follow))

    def why(self, pod: str = "") -> Why:
        """Return why the run, or one of its pods, waits, or why it failed. Raises NoSuchPod."""
        return private_loop().call(self._core.why(pod))

    def pods(self) -> list[PodStatus]:
        """Return the newest pod of each name."""
        return private_loop().call(self._core.pods())

    def history(self) -> list[Attempt]:
        """Return the attempts, the first one first."""
        return private_loop().call(self._core.history())

    def top(self) -> list[Sample]:
        """Return what each pod uses of CPUs, memory and GPUs; the last record if the run has ended."""
        return private_loop().call(self._core.top())

    def stop(self, *, force: bool = False, grace: float | str | None = None) -> Result:
        """Stop the run gracefully, or at once; return when it has ended.

        `grace`, in seconds or as `30s`, replaces the grace periods of the pods.
        """
        return private_loop().call(self._core.stop(force=force, grace=grace))

    def suspend(self) -> Result:
        """End the pods; return when they have ended. `resume` continues with the pods that have not succeeded."""
        return private_loop().call(self._core.suspend())

    def resume(self, *, env: Mapping[str, str] | None = None, with_: Sequence[Pathlike] = ()) -> None:
        """Queue a suspended run again. Raises WrongState for one that is not suspended.

        `env` and the Secrets in the files `with_` supply again the values that are not stored.
        """
        private_loop().call(self._core.resume(env=env, with_=with_))

    def restart(self) -> None:
        """Restart all pods; it does not count as a retry. Raises WrongState if the run is not running."""
        private_loop().call(self._core.restart())

    def scale(self, replicas: Mapping[str, int]) -> None:
        """Change the number of pods of tasks. Raises WrongState if the run is not running, and InvalidOption."""
        private_loop().call(self._core.scale(replicas))

    def kill(self, pod: str, signal: int = signal.SIGKILL) -> bool:
        """Send a signal to the containers of a pod (`worker-0`). False if none of them runs. Raises NoSuchPod."""
        return private_loop().call(self._core.kill(pod, signal))

    def exec(
        self, pod: str, command: Sequence[str], *, container: str = "", timeout: float | str | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command in a running container, by default the pod's first; return its code and its output.

        Raises NoSuchPod, and WrongState if the container is not running.
        """
        return private_loop().call(self._core.exec(pod, command, container=container, timeout=timeout))

    def copy_from(self, pod: str, path: str, local: Pathlike, *, container: str = "") -> list[str]:
        """Copy a file or a directory of a pod to a local path, or into it if it is a directory, as `pumice cp` does.

        Return what was left out, with the reason. Raises NoSuchPod, WrongState if the pod is not running and its
        files are not kept, and InvalidOption, as for a link on the way to the local path that a pod may have made.
        """
        return private_loop().call(self._core.copy_from(pod, path, local, container=container))

    def copy_to(self, local: Pathlike, pod: str, path: str, *, container: str = "") -> list[str]:
        """Copy a local file or directory to a path of a running pod, or into it if it is a directory there.

        Return what was left out, with the reason. Raises NoSuchPod, WrongState if the pod is not running, and
        InvalidOption, as for a link on the way to the local path that a pod may have made.
        """
        return private_loop().call(self._core.copy_to(local, pod, path, container=container))

    def detach(self) -> None:
        """Let the run continue without the process that started it. Raises WrongState if it is not running."""
        private_loop().call(self._core.detach())

    def remove(self, *, force: bool = False) -> None:
        """Remove the record and the logs. Raises WrongState if the run has not ended, unless `force` stops it first."""
        private_loop().call(self._core.remove(force=force))


class OwnedRun(Run):
    """A run that stops with its block, or with this process. `Client.start` returns it."""

    def __init__(self, core: AsyncOwnedRun) -> None:
        super().__init__(core)
        self._owned = core

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop the run gracefully if it has not ended, unless it was detached."""
        private_loop().call(self._owned.__aexit__(kind, error, traceback))

    def detach(self) -> None:
        """Let the run continue without this process, also after the block. Raises WrongState if it is not running."""
        private_loop().call(self._owned.detach())
