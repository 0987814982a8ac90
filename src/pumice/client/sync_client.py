"""Client: the synchronous version of AsyncClient; and the functions of `pumice`, which use a default client."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self, Unpack

from pumice.client.async_client import AsyncClient, terminal_view
from pumice.client.loop_thread import private_loop
from pumice.client.python_words import python_words
from pumice.client.run_options.keywords import Options, Pathlike
from pumice.client.sync_run import OwnedRun, Run
from pumice.client.values import Result
from pumice.engines.local.outcome import INTERRUPTED, Stop
from pumice.engines.local.run_errors import Unsupported
from pumice.model.job import Job


class Client:
    """The runs of this user on this machine.

    `namespace` selects runs, by default all, and is that of Jobs without one. `state` is the directory of their
    records, by default $XDG_STATE_HOME.
    """

    def __init__(self, *, namespace: str = "", state: Pathlike | None = None) -> None:
        self._core = AsyncClient(namespace=namespace, state=state)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Submitted runs continue."""

    def run(self, job: Job, **options: Unpack[Options]) -> Result:
        """Run a job to its end, and print what `pumice run` prints. It ends with this process.

        Raises RunFailed if it does not complete; InvalidJob, InvalidOption, DoesNotFit, Denied and Unsupported if it
        cannot start. Ctrl-C stops it gracefully, twice kills it; then KeyboardInterrupt is raised.
        """
        loop = private_loop()
        lease = loop.call(self._core.lease(job, options))
        view = terminal_view(job)

        def stop(count: int) -> None:
            if count > 1 and not lease.has_begun:
                raise KeyboardInterrupt
            loop.soon(lambda: lease.stop(Stop(INTERRUPTED, "Interrupted")))

        with python_words(), interrupts(stop) as interrupted:
            # In this thread: a notebook shows what another thread prints elsewhere, or not at all.
            for event in loop.iterate(lease.events()):
                view(event)
        if interrupted:
            raise KeyboardInterrupt
        return loop.call(self._core.result(lease))

    def start(self, job: Job, **options: Unpack[Options]) -> OwnedRun:
        """Start a run that this process owns: it stops with the block, or with this process.

        Raises InvalidJob, InvalidOption, DoesNotFit, Denied and Unsupported.
        """
        return OwnedRun(private_loop().call(self._core.start(job, **options)))

    def submit(self, job: Job, **options: Unpack[Options]) -> Run:
        """Queue a run that outlives this process, and return its handle.

        Raises InvalidJob, InvalidOption, DoesNotFit, Denied, Unsupported and ConnectionFailed.
        """
        return Run(private_loop().call(self._core.submit(job, **options)))

    def get(self, run: str) -> Run:
        """Return the run of a name: NAME (its newest run), NAME:N, @last, or 8 or more characters of a uid.

        Raises NoSuchRun.
        """
        return Run(private_loop().call(self._core.get(run)))

    def runs(self, *names: str, all: bool = False, active: bool = False) -> list[Run]:  # noqa: A002 - as `ps --all`
        """Return the active runs and those that finished within 24 hours, newest first; by default of all names.

        `all` returns every stored run, `active` those that have not finished. Raises NoSuchRun for an unknown name.
        """
        return [Run(each) for each in private_loop().call(self._core.runs(*names, all=all, active=active))]

    def shut_down(self) -> None:
        """Stop all runs of this client's state directory at once, and the service that queues them."""
        private_loop().call(self._core.shut_down())


@contextmanager
def interrupts(handle: Callable[[int], None]) -> Iterator[list[int]]:
    """Call a function with the count of Ctrl-C so far, instead of interrupting the block. Yields the signals.

    Only the main thread gets signals. If the program ignores SIGINT, it stays ignored.
    """
    seen: list[int] = []

    def notice(number: int, _frame: object) -> None:
        seen.append(number)
        handle(len(seen))

    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield seen
        return
    before = signal.signal(signal.SIGINT, notice)
    try:
        yield seen
    finally:
        signal.signal(signal.SIGINT, before)


def run(job: Job, **options: Unpack[Options]) -> Result:
    """Run a job to its end, print what `pumice run` prints, and return how it ended. Raises RunFailed.

    Ctrl-C stops it gracefully, twice kills it; then KeyboardInterrupt is raised.
    """
    return Client().run(job, **options)


def start(job: Job, **options: Unpack[Options]) -> OwnedRun:
    """Start a run that stops with its block, or with this process: `Client.start` of a local client."""
    return Client().start(job, **options)


def submit(job: Job, **options: Unpack[Options]) -> Run:
    """Queue a run that outlives this process, and return its handle: `Client.submit` of a local client."""
    return Client().submit(job, **options)


def get(run: str) -> Run:
    """Return the run of a name: NAME (its newest run), NAME:N, @last, or characters of a uid. Raises NoSuchRun."""
    return Client().get(run)


def runs(*names: str, all: bool = False, active: bool = False) -> list[Run]:  # noqa: A002 - as `ps --all`
    """Return active runs and those that finished within 24 hours, the newest first: `Client.runs`."""
    return Client().runs(*names, all=all, active=active)


def connect(context: str = "", *, namespace: str = "") -> Client:
    """Return a client: of this machine, or of the cluster that a context of your kubeconfig names.

    Raises Unsupported for a cluster, until Pumice has a client for it.
    """
    if context:
        raise Unsupported(f"{context}: runs on a cluster are not supported yet", "without a context, runs are local")
    return Client(namespace=namespace)
