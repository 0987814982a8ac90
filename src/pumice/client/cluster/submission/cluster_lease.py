"""A Job that this process submits and follows. The Job needs no client: it continues whatever becomes of this one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from pumice.client.backend import RunRef, StopRun, wait
from pumice.client.cluster.submission.submit import Submission, check, submit
from pumice.client.cluster.watching import watch
from pumice.client.lease import read_events, start_task
from pumice.client.values import Status
from pumice.diagnosis.outcome import StopReason
from pumice.diagnosis.why import WhyCode
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import JOBS
from pumice.model import keys
from pumice.model.text import shown_words
from pumice.model.vocabulary import Phase
from pumice.reconcile.phases import DEADLINE
from pumice.store.events import (
    Listener,
    PhaseChanged,
    Progress,
    RequestAccepted,
    RunEvent,
    RunPlanned,
    RunWaits,
    Tick,
    WarningIssued,
)
from pumice.store.history.run_history import RunHistory
from pumice.store.run_end import INTERRUPTED, TERMINATED, TIMED_OUT, TIMEOUT, RunEnded, Stop
from pumice.store.run_errors import RunError, WrongState
from pumice.store.run_request import RunRequest

if TYPE_CHECKING:
    from pumice.client.cluster.cluster_backend import ClusterBackend

_TICK: Final = 0.5
_FIRST_LOOK: Final = 1.5  # seconds after which a Job that does not run is asked why
_LONGEST_PAUSE: Final = 15.0
_RUNS: Final = frozenset({WhyCode.RUNNING, WhyCode.COMPLETED, WhyCode.FAILED, WhyCode.STOPPED})
_Said: TypeAlias = "asyncio.Queue[RunEvent | Exception | None]"  # None is the end


class ClusterLease:
    """The run ends with the Job. Whoever leaves it detaches it; `close` stops it, as it is owned then."""

    outlives_client = True

    def __init__(self, backend: ClusterBackend, request: RunRequest) -> None:
        self._backend, self._request = backend, request
        self._ref: RunRef | None = None
        self._stop: Stop | None = None
        self._said: _Said = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._left = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
        self._waits = True  # nothing of it runs
        self._has_run = asyncio.Event()
        self.warning = ""

    @property
    def ref(self) -> RunRef:
        if self._ref is None:
            raise WrongState("the run has not begun")
        return self._ref

    @property
    def has_begun(self) -> bool:
        return self._ref is not None

    @property
    def is_detached(self) -> bool:
        return self._left.is_set()

    @property
    def flags(self) -> str:
        return self._backend.connection.flags(self.ref.namespace)

    async def events(self) -> AsyncGenerator[RunEvent, None]:
        """Submit the Job and yield what happens. A Job that is created is not left without what belongs to it."""
        # A lost connection, and that it is back.
        self._backend.listen(self._say)
        submission = await check(self._backend, self._request)
        work = start_task(self._work(submission))
        try:
            while not self.is_detached:
                said: RunEvent | Exception | None = Tick()
                with suppress(TimeoutError):
                    async with asyncio.timeout(_TICK):
                        said = await self._said.get()
                if isinstance(said, Exception):
                    raise said
                if said is None:
                    return
                yield said
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def _work(self, submission: Submission) -> None:
        try:
            creation = start_task(self._create(submission))
            try:
                await asyncio.shield(creation)
            except asyncio.CancelledError:
                if not submission.is_creating.is_set():
                    creation.cancel()
                await asyncio.gather(creation, return_exceptions=True)
                raise
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._say_why()), group.create_task(self._keep_time(submission))]
                await self._follow(submission)
                for task in tasks:
                    task.cancel()
        except ExceptionGroup as error:
            self._said.put_nowait(error.exceptions[0])
        except Exception as error:  # noqa: BLE001 - the reader of the events gets it
            self._said.put_nowait(error)
        else:
            self._said.put_nowait(None)

    async def _create(self, submission: Submission) -> None:
        self._ref = await submit(self._backend, submission, self._say)
        if self._stop is not None:
            await self._end(self._ref)

    def _say(self, message: str) -> None:
        self._said.put_nowait(Progress(message))

    async def _follow(self, submission: Submission) -> None:
        async with aclosing(watch(self._backend, self.ref, whole=True)) as updates:
            async for update in updates:
                match update:
                    case RunPlanned():
                        args = self._request.options.args
                        notes = [*([f"args {shown_words(args)}"] if args else ()), *update.notes, *submission.notes]
                        self._said.put_nowait(replace(update, notes=notes))
                    case RunEnded():
                        ended, seconds = update, self._request.options.timeout
                        if seconds is not None and update.job.status.state.reason == DEADLINE:
                            ended = replace(update, stop=_timed_out(update.job.name, seconds))
                        elif self._stop is not None:
                            ended = stopped_here(update, self._stop)
                        self._said.put_nowait(ended)
                    case RunWaits():
                        # `_say_why` looks closer.
                        continue
                    case PhaseChanged():
                        self._waits = update.status.state.phase in (Phase.PENDING, "")
                        if not self._waits:
                            self._has_run.set()
                        self._said.put_nowait(update)
                    case RunHistory() | Status():
                        continue
                    case _:
                        self._said.put_nowait(update)

    async def _say_why(self) -> None:
        """Say why nothing runs, and again when the reason changes."""
        said, pause = "", _FIRST_LOOK
        while True:
            await asyncio.sleep(pause)
            if not self._waits:
                pause = _FIRST_LOOK
                continue
            try:
                why = await self._backend.why(self.ref)
            except RunError:
                # The Job is followed all the same, which says what is wrong.
                pause = _LONGEST_PAUSE
                continue
            if why.code not in _RUNS and why.message != said:
                said = why.message
                self._said.put_nowait(RunWaits(why))
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _keep_time(self, submission: Submission) -> None:
        if submission.seconds is None:
            return
        # As activeDeadlineSeconds counts: the time in the queue is no part of it.
        await self._has_run.wait()
        await asyncio.sleep(submission.seconds)
        why = _timed_out(self.ref.name, submission.seconds)
        self._said.put_nowait(RequestAccepted(why))
        self.stop(why)

    async def open(self, listener: Listener = lambda _event: None) -> RunRef:
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = start_task(read_events(self, listener, begun))
        try:
            await begun
        except asyncio.CancelledError:
            # Nobody gets the run.
            run, self._stop = self._ref, Stop(INTERRUPTED, StopReason.INTERRUPTED)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            if run is not None:
                await self._end(run)
            with suppress(RunError):
                # As for a run that is cancelled later: it has ended when this returns.
                if self._ref is not None and self._stop is not None:
                    await wait(self._backend, [self._ref])
            raise
        return self.ref

    def stop(self, why: Stop, *, insist: bool = False) -> None:
        """Ask the controller to end the Job."""
        first, self._stop = self._stop is None, why
        if self._ref is not None and (first or insist):
            self._ending = start_task(self._end(self._ref))

    async def _end(self, run: RunRef) -> None:
        try:
            if self._stop is not None and self._stop.reason == TIMEOUT:
                # Its controller cannot know why. Without the right, the Job does not say it.
                metadata = {"uid": run.uid, "annotations": {keys.TIMED_OUT: self._stop.message}}
                body, client = msgspec.json.encode({"metadata": metadata}), self._backend.connection.client
                with suppress(ApiError):
                    await client.merge_patch(JOBS, run.namespace, run.name, body, attempts=3)
            await self._backend.change(run, StopRun())
        except RunError as error:
            self._stop = None
            self._said.put_nowait(WarningIssued(f"{run} cannot be stopped: {error.problem.message}"))

    def close(self) -> None:
        if self._task is not None and not self._task.done() and not self.is_detached:
            self.stop(Stop(TERMINATED, StopReason.STOPPED))

    async def detach(self) -> None:
        self.release()
        await self.ended()

    def release(self) -> None:
        self._left.set()

    async def ended(self) -> None:
        if self._task is not None:
            await asyncio.shield(self._task)


def stopped_here(event: RunEnded, stop: Stop) -> RunEnded:
    """Return the end of a Job that this client has stopped: the Job knows only that somebody did."""
    verdict = event.verdict
    if verdict is None:
        return event
    if stop.message:
        verdict = replace(verdict, reason=stop.reason, message=stop.message, stopped=True)
    return replace(event, stop=stop, verdict=verdict)


def _timed_out(name: str, seconds: float) -> Stop:
    size, unit = next((one for one in ((3600, "h"), (60, "m")) if not seconds % one[0]), (1, "s"))
    return Stop(TIMED_OUT, TIMEOUT, f"{name} ran longer than its timeout of {seconds / size:g}{unit} and was stopped")
