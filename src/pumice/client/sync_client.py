"""Client, Run and OwnedRun: the synchronous versions of AsyncClient, AsyncRun and AsyncOwnedRun.

Each method is made from the asynchronous one: `status = sync(AsyncRun.status)` runs it on the private loop, for the
`_core` of the object. `sync` keeps its parameters, its result and its documentation, and type checkers see them.
`pumice.run` and the other functions use a default client.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FunctionType, TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, Unpack, cast, overload

from pumice.client.async_client import AsyncClient, terminal_view
from pumice.client.async_run import WATCH_SECONDS, AsyncForwardedPort, AsyncOwnedRun, AsyncRun
from pumice.client.backend import Backend
from pumice.client.backends import open_backend
from pumice.client.loop_thread import private_loop
from pumice.client.run_options.kinds import Pathlike
from pumice.client.run_options.table import Options
from pumice.client.values import Result
from pumice.client.view.notebook import displayed
from pumice.client.view.run_lists import RunList, statuses_of
from pumice.diagnosis.outcome import StopReason
from pumice.model.job import Job
from pumice.store.run_end import INTERRUPTED, Stop
from pumice.store.run_errors import RunLostError

P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U")
R_co = TypeVar("R_co", covariant=True)


class Method(Protocol[P, R_co]):
    """A function of a class, as type checkers see it."""

    @overload
    def __get__(self, instance: None, owner: type, /) -> Callable[Concatenate[Any, P], R_co]: ...

    @overload
    def __get__(self, instance: object, owner: type, /) -> Callable[P, R_co]: ...


@overload
def sync(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Method[P, T]: ...


@overload
def sync(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]], wrap: Callable[[T], U]) -> Method[P, U]: ...


def sync(method: Callable[..., Coroutine[Any, Any, Any]], wrap: Callable[[Any], Any] | None = None) -> Any:
    """Return the method without `await`; `wrap` makes the result from that of the asynchronous method."""

    def call(self: Any, *args: Any, **options: Any) -> Any:
        __tracebackhide__ = True  # for pytest and IPython, which show the code of the caller instead
        result = private_loop().call(method(self._core, *args, **options))
        return result if wrap is None else wrap(result)

    return _documented(call, method)


def sync_iterator(method: Callable[Concatenate[Any, P], AsyncIterator[T]]) -> Method[P, Iterator[T]]:
    """Return the method with an iterator for its asynchronous iterator."""

    def call(self: Any, *args: Any, **options: Any) -> Iterator[Any]:
        __tracebackhide__ = True
        return private_loop().iterate(method(self._core, *args, **options))

    return cast("Method[P, Iterator[T]]", _documented(call, method))


def _documented(call: Any, method: Any) -> Any:
    """Give the function the name, the signature and the documentation of the asynchronous one."""
    while (wrapped := getattr(method, "__wrapped__", None)) is not None:
        method = wrapped
    # A copy that is never called: `inspect` reads its signature, with the result of the synchronous method.
    shown = FunctionType(method.__code__, method.__globals__, method.__name__, method.__defaults__, method.__closure__)
    shown.__kwdefaults__ = method.__kwdefaults__
    result = str(method.__annotations__.get("return", "")).replace("Async", "")
    shown.__annotations__ = {**method.__annotations__, "return": result}
    call.__wrapped__, call.__annotations__, call.__doc__ = shown, shown.__annotations__, method.__doc__
    call.__name__ = call.__qualname__ = method.__name__
    return call


class ForwardedPort:
    """A port of this machine that leads to a port of a pod. `Run.forward` returns it."""

    def __init__(self, core: AsyncForwardedPort) -> None:
        self._core = core

    @property
    def port(self) -> int:
        """The port of 127.0.0.1."""
        return self._core.port

    @property
    def address(self) -> str:
        """127.0.0.1:PORT."""
        return self._core.address

    def __enter__(self) -> Self:
        return self

    __exit__ = sync(AsyncForwardedPort.__aexit__)
    close = sync(AsyncForwardedPort.close)


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

    status = sync(AsyncRun.status)
    wait = sync(AsyncRun.wait)
    logs = sync_iterator(AsyncRun.logs)
    events = sync_iterator(AsyncRun.events)
    why = sync(AsyncRun.why)
    pods = sync(AsyncRun.pods)
    history = sync(AsyncRun.history)
    top = sync(AsyncRun.top)
    stop = sync(AsyncRun.stop)
    suspend = sync(AsyncRun.suspend)
    resume = sync(AsyncRun.resume)
    restart = sync(AsyncRun.restart)
    scale = sync(AsyncRun.scale)
    kill = sync(AsyncRun.kill)
    exec = sync(AsyncRun.exec)
    forward = sync(AsyncRun.forward, ForwardedPort)
    copy_from = sync(AsyncRun.copy_from)
    copy_to = sync(AsyncRun.copy_to)
    code = sync(AsyncRun.code)
    detach = sync(AsyncRun.detach)
    remove = sync(AsyncRun.remove)


class OwnedRun(Run):
    """A run that stops with its block, or with this process. `Client.start` returns it."""

    def __enter__(self) -> Self:
        return self

    __exit__ = sync(AsyncOwnedRun.__aexit__)
    detach = sync(AsyncOwnedRun.detach)


class Client:
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
        self._core = AsyncClient(context=context, namespace=namespace, state=state, backend=backend)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close connections. Submitted runs continue."""
        private_loop().call(self._core.__aexit__(kind, error, traceback))

    def run(self, job: Job, **options: Unpack[Options]) -> Result:
        """Run a job to its end, and print what `pumice run` prints. On this machine it ends with this process.

        Raises RunFailed if it does not complete; InvalidJob, InvalidOption, DoesNotFit, Denied and Unsupported if it
        cannot start. Ctrl-C stops it gracefully, twice kills it, or leaves it to its end on a cluster; then
        KeyboardInterrupt is raised.
        """
        loop = private_loop()
        lease = loop.call(self._core.lease(job, options))
        view = terminal_view(job)

        def stop(count: int) -> None:
            if count > 1 and not lease.has_begun:
                raise KeyboardInterrupt
            if count > 1 and lease.outlives_client:
                loop.soon(lease.release)
                return
            loop.soon(lambda: lease.stop(Stop(INTERRUPTED, StopReason.INTERRUPTED), insist=True))

        with interrupts(stop) as interrupted:
            try:
                # In this thread: a notebook shows what another thread prints elsewhere, or not at all.
                for event in loop.iterate(lease.events()):
                    view(event)
            except RunLostError:
                if not lease.has_begun:
                    raise
        if interrupted:
            raise KeyboardInterrupt
        return loop.call(self._core.result(lease))

    start = sync(AsyncClient.start, OwnedRun)
    submit = sync(AsyncClient.submit, Run)
    get = sync(AsyncClient.get, Run)
    runs = sync(AsyncClient.runs, lambda runs: RunList(map(Run, runs), statuses_of(runs)))
    shut_down = sync(AsyncClient.shut_down)


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

    Raises InvalidOption for a context that does not exist. Nothing is contacted before the first call.
    `AsyncClient(context=...)` is its asynchronous version.
    """
    return Client(namespace=namespace, backend=open_backend(context, namespace))
