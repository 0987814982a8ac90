"""LocalRun: one run of one job on this machine, from its request to its end.

    run = LocalRun(RunRequest(admit(document, offline_context()), RunOptions(default_settings(os.environ))))
    outcome = await run.run(print)

While `run` waits, other tasks of the same event loop may call `stop`, `scale`, `kill` and `exec`.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pumice.engines.local.clock import elapsed
from pumice.engines.local.code_watch import CodeWatch
from pumice.engines.local.container_spec.builder import SandboxFacts
from pumice.engines.local.host_access.consent import warn_of_sharing
from pumice.engines.local.isolation import open_sandbox, outbound_route
from pumice.engines.local.kubelet.pod import LocalPod, longest_grace
from pumice.engines.local.network.published_ports import published_ports
from pumice.engines.local.preparation.job_images import pull_images
from pumice.engines.local.preparation.reservation import Reservation, reserve
from pumice.engines.local.preparation.run_header import run_header
from pumice.engines.local.preparation.run_plan import Plan, check, hold_images
from pumice.engines.local.sandbox.sandbox_port import SandboxPort
from pumice.engines.local.scheduling.fit import pods_and_containers, raise_open_files_limit
from pumice.engines.local.scheduling.machine import read_machine
from pumice.engines.local.session import LocalSession
from pumice.model.units import whole_text
from pumice.model.vocabulary import Action
from pumice.runtime.key_pairs import make_key_pair
from pumice.store.events import Emitter, Listener, LogGate, RequestAccepted, RunWaits
from pumice.store.files.run_store import OwnedRun
from pumice.store.files.state_directory import once_per_machine, state_error
from pumice.store.options import Isolation, Network
from pumice.store.run_end import NO_ROOM, TIMED_OUT, TIMEOUT, RunEnded, Stop, by_force, suspension, unstarted
from pumice.store.run_errors import WrongState
from pumice.store.run_request import RunRequest

# Seconds that a run has after its timeout and the grace of its pods.
PATIENCE = 30.0
T = TypeVar("T")
_NOT_RUNNING = "the run has not started its pods yet, or has ended"
_CLEAN_UP = 10.0  # seconds that cleaning up takes at most, usually a tenth of one


@dataclass(slots=True)
class LocalRun:
    request: RunRequest
    on_sandbox_lost: Callable[[str], None] | None = None  # otherwise the pods fail
    gate: LogGate = field(default_factory=LogGate)  # holds the pods' output back for a listener that is slow
    owned: OwnedRun | None = None  # a stored run; without it, a new run is stored
    _stop: Stop | None = None  # why the run ends before its job does
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _killed: asyncio.Event = field(default_factory=asyncio.Event)  # stopped by force
    _reservation: Reservation | None = None  # while the run holds one
    _session: LocalSession | None = None  # while pods may run
    _cleaning: float = float("inf")  # since when the run cleans up after itself
    _failure: Exception | None = None  # of the listener
    _network_limits: list[str] = field(default_factory=list)  # what the default network of this machine cannot do
    _emit: Emitter = field(init=False)

    def __post_init__(self) -> None:
        self._emit = Emitter([], self._listener_failed, self.gate)

    async def run(self, listener: Listener) -> RunEnded:
        """Run the job to its end and return how it ended. It runs once.

        Raises InvalidOption or RefusedError if the run cannot start, and the listener's exception, which stops it. The
        preparation blocks the event loop, for long only if an image has to be unpacked; not while one is pulled.
        """
        emit = self._emit
        emit.listeners.append(listener)
        history = None if self.owned is None else self.owned.run.history()
        plan = check(self.request, read_machine(), os.environ, history)
        pulled = await self._unless_killed(pull_images(plan, emit)) if self.request.options.pull else ()
        with hold_images(plan, emit) as images, reserve(plan, images, emit, self.owned) as reservation:
            emit(run_header(plan, reservation, pulled))
            warn_of_sharing(plan.settings, once_per_machine(plan.settings.state, emit.warn))
            for warning in reservation.continuation_warnings([*plan.job.spec.plugins]):
                emit.warn(warning)
            self._reservation = reservation
            try:
                outcome = await self._unless_killed(self._wait_and_run(plan, reservation))
            except asyncio.CancelledError:
                if not self._killed.is_set():
                    raise
                session = self._session
                outcome = unstarted(plan.job, self._stop) if session is None else session.outcome(self._stop)
            finally:
                self._reservation = self._session = None
            if outcome.first is not None:
                # Only a program that failed may have needed more; a first run does not begin with it.
                for limit in self._network_limits:
                    once_per_machine(plan.settings.state, emit.warn)(limit)
            emit(outcome)
        if self._failure is not None:
            raise self._failure
        return outcome

    async def _unless_killed(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of `work`. Raises CancelledError if the run is stopped by force meanwhile."""
        working = asyncio.create_task(work)
        killing = asyncio.create_task(self._killed.wait())
        killing.add_done_callback(lambda _killing: working.cancel())
        try:
            return await working
        finally:
            killing.cancel()

    async def _wait_and_run(self, plan: Plan, reservation: Reservation) -> RunEnded:
        options = self.request.options
        error = await reservation.wait_for_room(self._stopping, options.max_wait, lambda why: self._emit(RunWaits(why)))
        if error:
            self.stop(Stop(NO_ROOM, "NoRoom", error))
        timer = asyncio.create_task(self._time_out(plan))
        code = CodeWatch(reservation.files.directory, self._emit)
        try:
            if self._stopping.is_set():
                return unstarted(plan.job, self._stop)
            if not plan.settings.snapshot:
                self._emit.listeners.append(code)
                code.look()
            async with self._sandbox(plan, reservation) as (sandbox, facts):
                session = self._session = LocalSession(plan, reservation, sandbox, facts, self._emit)
                if self._stop is not None:
                    # While the sandbox was opened.
                    session.stop(self._stop.grace)
                await session.run(self.stop)
                outcome = session.outcome(self._stop)
            await code.finish()
            return outcome
        finally:
            timer.cancel()
            code.close()

    @asynccontextmanager
    async def _sandbox(self, plan: Plan, reservation: Reservation) -> AsyncIterator[tuple[SandboxPort, SandboxFacts]]:
        """Open the sandbox with its network, and remove what the pods left behind when it is closed."""
        settings, options, emit, job = plan.settings, self.request.options, self._emit, plan.job
        scratch = settings.state / "stage"
        # The key is made while job-init starts: to load the library takes about as long.
        key = asyncio.create_task(asyncio.to_thread(make_key_pair, "ed25519"))
        in_sandbox = reservation.inputs.sandbox_options(plan.manifests)
        try:
            # Plain processes would see the live code.
            isolation = Isolation.NAMESPACES if settings.snapshot else options.isolation
            sandbox = await open_sandbox(job.uid, scratch, isolation, emit.warn, in_sandbox)
        except OSError as error:
            if not str(error.filename).startswith(str(scratch)):
                raise
            raise state_error(settings.state, error) from error
        sandbox.on_lost = self.on_sandbox_lost or sandbox.on_lost
        names = [name for address, of in reservation.inputs.names().items() for name in (*of, address)]
        warn = self._network_limits.append if options.network is not Network.JOB else emit.warn
        try:
            raise_open_files_limit(*pods_and_containers(plan.manifests))
            async with (
                published_ports(sandbox, job.name, plan.request.options.publish, emit),
                outbound_route(sandbox, options.network, names, warn, emit.warn) as route,
            ):
                yield (
                    sandbox,
                    SandboxFacts(
                        all_users=sandbox.all_users,
                        only_user=sandbox.only_user,
                        kernel_limits=sandbox.limits,
                        env=route.env,
                        nameservers=route.nameservers,
                        host_key=await key,
                    ),
                )
        finally:
            self._cleaning = elapsed()
            await sandbox.close()
            if not settings.keep:
                # Files that cannot be removed do not change how the job ended; the next run tries again.
                with suppress(OSError):
                    await asyncio.to_thread(reservation.files.remove_scratch)

    async def _time_out(self, plan: Plan) -> None:
        seconds = self.request.options.timeout
        if seconds is None:
            return
        await asyncio.sleep(seconds)
        message = f"{plan.job.name} ran longer than its timeout of {whole_text(seconds)} and was stopped"
        why = Stop(TIMED_OUT, TIMEOUT, message)
        if self._session is not None and self._stop is None:
            await self._session.hang_watch.look()
        self.stop(why)
        await asyncio.sleep(longest_grace(plan.manifests) + PATIENCE)
        self.stop(why, force=True)

    def stop(self, why: Stop | None = None, *, force: bool = False) -> bool:
        """Stop the run gracefully, or at once with `force`. False, without effect, if it is being stopped already."""
        why = why or Stop()
        self.gate.release()
        if force and 0 <= elapsed() - self._cleaning < _CLEAN_UP:
            # Nothing runs any more, and interrupted it would leave files.
            return False
        if force:
            self._stop = by_force(self._stop or why, why.code)
            self._emit(RequestAccepted(self._stop))
            self._stopping.set()
            self._killed.set()
            return True
        if self._stop is not None:
            return False
        self._stop = why
        self._emit(RequestAccepted(why))
        self._stopping.set()
        if self._session is not None:
            self._session.stop(why.grace)
        return True

    def scale(self, replicas: Mapping[str, int]) -> None:
        """Change the replicas of tasks, as an accepted update of the Job on a cluster does.

        Raises InvalidOption if admission refuses the update. Pods that run already do not see the names of new pods.
        """
        self.session.scale(replicas)
        self._emit(RequestAccepted(replicas=dict(replicas)))

    def suspend(self) -> None:
        """End the pods and the run; what has succeeded is remembered, and a later run of the same record goes on."""
        session = self.session
        if self._stop is None:
            self.gate.release()
            self._stop = suspension(self.request.job.job.name)
            self._emit(RequestAccepted(self._stop))
            session.engine.send(Action.ABORT_JOB)

    def detach(self) -> str:
        """Let the run outlive its client: it is recorded as detached. Return its name.

        Raises WrongState and OSError.
        """
        if self._reservation is None:
            raise WrongState("the run has not begun yet, or has ended")
        name = self._reservation.detach()
        if self._session is not None and self.on_sandbox_lost is not None:
            self._session.sandbox.on_lost = self.on_sandbox_lost
        return name

    def restart(self) -> None:
        """Restart all pods. It costs no retry."""
        self.session.engine.send(Action.RESTART_JOB)

    async def kill(self, pod: str, number: int = signal.SIGKILL) -> bool:
        """Send a signal to the containers of a pod (`worker-0`). False if none of them runs."""
        return await self.pod(pod).kill(int(number))

    async def exec(
        self,
        pod: str,
        argv: Sequence[str],
        *,
        container: str = "",
        timeout: float | None = None,  # noqa: ASYNC109 - the command must be killed when the time is up
    ) -> tuple[int, bytes]:
        """Run a command in a running container, by default the pod's first; return its exit code and its output.

        Raises TimeoutError, and StartError if there is no such command.
        """
        return await self.pod(pod).container(container).exec(list(argv), timeout)

    def pod(self, name: str) -> LocalPod:
        """Return a pod (`worker-0`). Raises NoSuchPod or WrongState."""
        return self.session.pod(name)

    @property
    def session(self) -> LocalSession:
        """The session, while pods may run. Raises WrongState."""
        if self._session is None:
            raise WrongState(_NOT_RUNNING)
        return self._session

    def _listener_failed(self, error: Exception) -> None:
        self._failure = self._failure or error
        self.stop(Stop(1, "ListenerFailed"))
