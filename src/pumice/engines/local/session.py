"""LocalSession: one run of one job on this machine; the composition root of the local engine.

    session = LocalSession(admit(document, offline_context()), RunOptions(default_settings(os.environ)))
    outcome = await session.run(print)

While `run` waits, other tasks of the same event loop may call `stop`, `scale`, `kill` and `exec`.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from pumice.admission.admit import Admitted
from pumice.engines.local.clock import elapsed, now
from pumice.engines.local.container_spec.builder import SandboxFacts, SpecBuilder
from pumice.engines.local.container_spec.resource_limits import Processors
from pumice.engines.local.engine import LocalEngine
from pumice.engines.local.events import (
    Emitter,
    Listener,
    LogGate,
    PortPublished,
    RequestAccepted,
    RunWaits,
    StatusWritten,
)
from pumice.engines.local.isolation import open_sandbox, outbound_route, published_ports
from pumice.engines.local.kubelet.pod import LocalPod, longest_grace
from pumice.engines.local.kubelet.pod_factory import PodFactory
from pumice.engines.local.kubelet.sampler import Sampler
from pumice.engines.local.live_run import JobProgress, LiveRun
from pumice.engines.local.options import Network, RunOptions
from pumice.engines.local.outcome import CLIENT_LOST, KILLED, NO_ROOM, TIMED_OUT, Outcome, Stop, suspension
from pumice.engines.local.preparation.job_images import Preparation, prepared_with_images
from pumice.engines.local.preparation.scaling import stored
from pumice.engines.local.run_errors import WrongState
from pumice.engines.local.runs.run_request import JobSource, OwnedRun, RunRequest
from pumice.engines.local.sandbox.sandbox_port import SandboxPort
from pumice.engines.local.state.state_directory import once_per_machine, state_error
from pumice.model.job import Manifest
from pumice.model.objects import KeyPair
from pumice.runtime.key_pairs import make_key_pair
from pumice.runtime.loop import Loop
from pumice.runtime.offline_context import offline_context
from pumice.runtime.queue import KeyQueue

# Seconds that a run has after its timeout and the grace of its pods.
PATIENCE = 30.0
_NOT_RUNNING = "the run has not started its pods yet, or has ended"
_CLEAN_UP = 10.0  # seconds that cleaning up takes at most, usually a tenth of one


@dataclass(slots=True)
class LocalSession:
    """`documents` are the ConfigMaps, Secrets and claims that the job uses."""

    job: Admitted
    options: RunOptions
    documents: Sequence[Manifest] = ()
    source: JobSource = field(default_factory=JobSource)
    owned: OwnedRun | None = None  # a stored run; without it, a new run is stored
    on_sandbox_lost: Callable[[str], None] | None = None  # otherwise the pods fail
    gate: LogGate = field(default_factory=LogGate)  # holds the pods' output back for a listener that is slow
    _stop: Stop | None = None
    _task: asyncio.Task[object] | None = None  # of `run`, to be cancelled
    _killed: bool = False  # stopped by force
    _plan: Preparation | None = None  # as soon as the run is stored
    _live: LiveRun | None = None  # as soon as pods may run
    _sampler: Sampler | None = None
    _cleaning: float | None = None  # since when the run cleans up after itself
    _failure: Exception | None = None  # of the listener
    _emit: Emitter | None = None
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, listener: Listener) -> Outcome:
        """Run the job to its end and return how it ended. A session runs once.

        Raises InvalidOption or RefusedError if the run cannot start, and the listener's exception, which stops it. The
        preparation blocks the event loop, for long only if an image has to be unpacked; not while one is pulled.
        """
        self._task = asyncio.current_task()
        emit = self._emit = Emitter([listener], self._listener_failed, self.gate)
        job = stored(self.job, self.options.scale, self.owned)
        request = RunRequest(job, self.options, self.documents, self.source, self.owned)
        async with prepared_with_images(request, emit) as plan:
            self._plan = plan
            outcome = Outcome(plan.admitted.job, stop=self._stop)
            timer: asyncio.Task[None] | None = None
            try:
                await self._wait_for_room(plan, emit)
                timer = asyncio.create_task(self._time_out(longest_grace(plan.manifests)))
                if self._stop is not None:
                    outcome = Outcome(plan.admitted.job, stop=self._stop)
                else:
                    outcome = await self._run(plan, emit)
            except asyncio.CancelledError:
                if not self._killed or self._task is None:
                    raise
                self._task.uncancel()
                if self._live is not None:
                    outcome = self._live.outcome(self._stop)
                else:
                    outcome = Outcome(plan.admitted.job, stop=self._stop)
            finally:
                if timer is not None:
                    timer.cancel()
                self._live = self._task = self._plan = None
            emit(outcome)
        if self._failure is not None:
            raise self._failure
        return outcome

    def stop(self, why: Stop | None = None, *, force: bool = False) -> bool:
        """Stop the run gracefully, or at once with `force`. False, without effect, if it is being stopped already."""
        why = why or Stop()
        self.gate.release()
        if force and self._cleaning is not None and elapsed() - self._cleaning < _CLEAN_UP:
            # Nothing runs any more, and interrupted it would leave files.
            return False
        if force and self._task is not None:
            self._stop = why if why.reason == CLIENT_LOST.reason else Stop(why.code, KILLED)
            self._accept(RequestAccepted(self._stop))
            self._killed = True
            self._task.cancel()
            return True
        if self._stop is not None:
            return False
        self._stop = why
        self._accept(RequestAccepted(why))
        self._stopping.set()
        if self._live is not None:
            self._live.stop(why.grace)
        return True

    def scale(self, replicas: Mapping[str, int]) -> None:
        """Change the replicas of tasks, as an accepted update of the Job on a cluster does.

        Raises InvalidOption if admission refuses the update. Pods that run already do not see the names of new pods.
        """
        self._running().scale(replicas)
        self._accept(RequestAccepted(replicas=dict(replicas)))

    def suspend(self) -> None:
        """End the pods and the run; what has succeeded is remembered, and a later run of the same record goes on."""
        live = self._running()
        if self._stop is None:
            self.gate.release()
            self._stop = suspension(self.job.job.name)
            self._accept(RequestAccepted(self._stop))
            live.suspend()

    def detach(self) -> str:
        """Let the run outlive its client: it is recorded as detached. Return its name.

        Raises WrongState and OSError.
        """
        if self._plan is None:
            raise WrongState("the run has not begun yet, or has ended")
        name = self._plan.run.detach()
        if self._live is not None and self.on_sandbox_lost is not None:
            self._live.pods.sandbox.on_lost = self.on_sandbox_lost
        return name

    def restart(self) -> None:
        """Restart all pods. It costs no retry."""
        self._running().restart()

    async def kill(self, pod: str, number: int = signal.SIGKILL) -> bool:
        """Send a signal to the containers of a pod (`worker-0`). False if none of them runs."""
        return await self._running().pod(pod).kill(int(number))

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
        return await self._running().pod(pod).container(container).exec(list(argv), timeout)

    def pod(self, name: str) -> LocalPod:
        """Return a pod (`worker-0`). Raises NoSuchPod or WrongState."""
        return self._running().pod(name)

    @property
    def sampler(self) -> Sampler:
        """What the running pods use of CPUs, memory and GPUs. Raises WrongState."""
        if self._live is None or self._sampler is None:
            raise WrongState(_NOT_RUNNING)
        return self._sampler

    def _accept(self, request: RequestAccepted) -> None:
        """Record a request before it is answered, so that the next process of the run knows it."""
        if self._emit is not None:
            self._emit(request)

    def _running(self) -> LiveRun:
        if self._live is None:
            raise WrongState(_NOT_RUNNING)
        return self._live

    def _listener_failed(self, error: Exception) -> None:
        self._failure = self._failure or error
        self.stop(Stop(1, "ListenerFailed"))

    async def _run(self, plan: Preparation, emit: Emitter) -> Outcome:
        settings = self.options.settings
        scratch = settings.state / "stage"
        # The key is made while job-init starts: to load the library takes about as long.
        host_key = asyncio.create_task(asyncio.to_thread(make_key_pair, "ed25519"))
        try:
            sandbox = await open_sandbox(
                plan.admitted.job.uid,
                scratch,
                self.options.isolation,
                emit.warn,
                plan.inputs.sandbox_options(plan.manifests),
            )
        except OSError as error:
            if not str(error.filename).startswith(str(scratch)):
                raise
            raise state_error(settings.state, error) from error
        sandbox.on_lost = self.on_sandbox_lost or sandbox.on_lost
        try:
            plan.raise_limits()
            return await self._run_in(sandbox, await host_key, plan, emit)
        finally:
            self._cleaning = elapsed()
            await sandbox.close()
            if not settings.keep:
                # Files that cannot be removed do not change how the job ended; the next run tries again.
                with suppress(OSError):
                    await asyncio.to_thread(plan.record.remove_scratch)

    async def _run_in(self, sandbox: SandboxPort, host_key: KeyPair, plan: Preparation, emit: Emitter) -> Outcome:
        options, job = self.options, plan.admitted.job
        ports = [(f"{job.name}-{each.pod}", each.port) for each in options.publish]
        names = [name for address, of in plan.inputs.names().items() for name in (*of, address)]
        # The default network: mention once per machine, not in every run, what it cannot do.
        warn = once_per_machine(options.settings.state, emit.warn) if options.network is not Network.JOB else emit.warn

        def announce(pod: str, port: int, address: str) -> None:
            emit(PortPublished(pod.removeprefix(f"{job.name}-"), port, address))

        async with (
            published_ports(sandbox, ports, announce),
            outbound_route(sandbox, options.network, names, warn, emit.warn) as route,
        ):
            facts = SandboxFacts(
                all_users=sandbox.all_users,
                only_user=sandbox.only_user,
                kernel_limits=sandbox.limits,
                env=route.env,
                nameservers=route.nameservers,
            )
            live = self._live = _assemble(plan, emit, sandbox, facts, host_key)
            if self._stop is not None:
                live.stop(self._stop.grace)
            sampler = self._sampler = Sampler(plan.record.directory, sandbox, live.engine.pods, plan.scheduler.gpus_of)
            beside = [
                asyncio.create_task(live.tick()),
                asyncio.create_task(sampler.run()),
                asyncio.create_task(
                    live.watch_disk(
                        options.settings.disk, lambda message: self.stop(Stop(1, "DiskLimitExceeded", message))
                    )
                ),
                *(asyncio.create_task(live.kill_later(kill)) for kill in options.kills),
            ]
            try:
                await live.run()
            finally:
                live.pods.closed = True
                for task in beside:
                    task.cancel()
            return live.outcome(self._stop)

    async def _wait_for_room(self, plan: Preparation, emit: Emitter) -> None:
        """Wait for the run's turn in the queue of this machine."""
        error = await plan.run.wait_for_room(self._stopping, self.options.max_wait, lambda why: emit(RunWaits(why)))
        if error:
            self.stop(Stop(NO_ROOM, "NoRoom", error))

    async def _time_out(self, grace: float) -> None:
        if self.options.timeout is None:
            return
        await asyncio.sleep(self.options.timeout)
        seconds = self.options.timeout
        size, unit = next((one for one in ((3600, "h"), (60, "m")) if not seconds % one[0]), (1, "s"))
        message = f"{self.job.job.name} ran longer than its timeout of {seconds / size:g}{unit} and was stopped"
        why = Stop(TIMED_OUT, "Timeout", message)
        if self._live is not None and self._stop is None:
            await self._live.look()
        self.stop(why)
        await asyncio.sleep(grace + PATIENCE)
        self.stop(why, force=True)


def _assemble(
    plan: Preparation, emit: Emitter, sandbox: SandboxPort, facts: SandboxFacts, host_key: KeyPair
) -> LiveRun:
    """Build the engine, the loop and what creates the pods."""
    job = plan.admitted.job
    builder = SpecBuilder(
        inputs=plan.inputs,
        sandbox=facts,
        host_key=host_key,
        warn=emit.warn,
        gpus_of=plan.scheduler.gpus_of,
        processors=Processors(plan.machine.cpus),
    )
    queue, progress = KeyQueue(), JobProgress(emit)
    pods = PodFactory(
        job=job,
        sandbox=sandbox,
        spec_builder=builder,
        scheduler=plan.scheduler,
        record=plan.record,
        emit=emit,
        changed=lambda: queue.add(engine.key),
    )
    engine = LocalEngine(
        job,
        pods.create,
        on_pass=progress.on_pass,
        on_status=lambda status: emit(StatusWritten(status)),
        address_of=plan.inputs.address_of,
        claims=frozenset(plan.inputs.claims),
        objects=plan.objects,
        queue=queue,
    )
    admitted = {engine.key: plan.admitted}
    loop = Loop(engine, offline_context(), now, queue=queue, rest=8.0, admitted=admitted)
    live = LiveRun(plan, emit, pods, engine, loop, progress, has_own_proc=sandbox.own_network)
    pods.look = live.look
    return live
