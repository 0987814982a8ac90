"""LocalSession: the pods of one run in its sandbox; the composition root of the local engine.

A session is made when everything else is there: the plan of the run, what is reserved for it, and its sandbox.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace

from pumice.engines.local.clock import ClockWatch, elapsed, now
from pumice.engines.local.container_spec.builder import SandboxFacts, SpecBuilder
from pumice.engines.local.container_spec.restrictions import Processors
from pumice.engines.local.engine import LocalEngine
from pumice.engines.local.kubelet.disk_watch import DiskWatch
from pumice.engines.local.kubelet.hang_watch import HangWatch
from pumice.engines.local.kubelet.pod import LocalPod, longest_grace
from pumice.engines.local.kubelet.pod_factory import PodFactory
from pumice.engines.local.kubelet.sampler import Sampler
from pumice.engines.local.live_outcome import JobProgress, live_outcome, waits_in_vain
from pumice.engines.local.preparation.reservation import Reservation
from pumice.engines.local.preparation.run_plan import Plan
from pumice.engines.local.preparation.scaling import updated
from pumice.engines.local.sandbox.sandbox_port import SandboxPort
from pumice.model.objects import claims
from pumice.model.vocabulary import Action, Phase
from pumice.runtime.loop import Loop
from pumice.runtime.offline_context import offline_context
from pumice.runtime.queue import KeyQueue
from pumice.runtime.runner import Runner
from pumice.store.events import Emitter, PodKilled, StatusWritten, Stopping, Tick, WarningIssued
from pumice.store.options import Kill
from pumice.store.run_end import RunEnded, Stop
from pumice.store.run_errors import NoSuchPod

_TICK: Final = 0.5
# Seconds without a sign after which a run that is stopped may have hung.
_HUNG: Final = 10.0
# This many ticks without a running pod in a row: between the end of one task and the start of the next there are few.
_STALLED_TICKS: Final = 6


class LocalSession:
    def __init__(
        self, plan: Plan, reservation: Reservation, sandbox: SandboxPort, facts: SandboxFacts, emit: Emitter
    ) -> None:
        self.plan, self.reservation, self.sandbox, self.emit = plan, reservation, sandbox, emit
        scheduler, queue = reservation.scheduler, KeyQueue()
        builder = SpecBuilder(
            inputs=reservation.inputs,
            sandbox=facts,
            warn=emit.warn,
            gpus_of=scheduler.gpus_of,
            processors=Processors(plan.machine.cpus),
        )
        self._watch, self._stalled = ClockWatch(), 0
        self.progress = JobProgress(emit)
        self.pods = PodFactory(
            job=lambda: self.engine.job,
            sandbox=sandbox,
            spec_builder=builder,
            scheduler=scheduler,
            record=reservation.files,
            emit=emit,
            changed=lambda: queue.add(self.engine.key),
        )
        self.engine = LocalEngine(
            plan.job,
            self.pods.create,
            on_pass=self.progress.on_pass,
            on_status=lambda status: emit(StatusWritten(status)),
            address_of=reservation.inputs.address_of,
            claims=frozenset(plan.claims),
            objects=reservation.objects,
            queue=queue,
        )
        admitted = {self.engine.key: plan.admitted}
        self.loop = Loop(self.engine, offline_context(), now, queue=queue, rest=8.0, admitted=admitted)
        self.hang_watch = HangWatch(emit, self.pods, lambda: list(self.engine.pods.values()), sandbox.own_network)
        self.pods.look = self.hang_watch.look
        self.sampler = Sampler(reservation.files.directory, sandbox, self.engine.pods, scheduler.gpus_of)
        self.disk = DiskWatch(list(plan.claims.values()), reservation.inputs.scratch, reservation.files.directory)

    async def run(self, stop: Callable[[Stop], object]) -> None:
        """Return when the job has ended and none of its processes is left. `stop` is called if the disk fills up."""
        plan = self.plan

        def exceeded(message: str) -> None:
            stop(Stop(1, "DiskLimitExceeded", f"{plan.job.name} {message}"))

        beside = [
            self._tick(),
            self._report("measuring pods", self.sampler.run()),
            self._report("watching the disk", self.disk.watch(plan.settings.disk, exceeded)),
            *(self._report("--kill", self._kill_later(kill)) for kill in plan.request.options.kills),
        ]
        tasks = [asyncio.create_task(work) for work in beside]
        try:
            await self._run_job()
        finally:
            self.pods.closed = True
            for task in tasks:
                task.cancel()

    async def _run_job(self) -> None:
        if self.engine.job.status.state.phase in (Phase.ABORTING, Phase.ABORTED):
            # A suspended run continues, also one whose process was killed during the suspension.
            self.engine.send(Action.RESUME_JOB)
        self.engine.touch()
        runner = asyncio.create_task(Runner(self.loop).run())
        ended = asyncio.create_task(self.progress.ended.wait())
        try:
            await asyncio.wait([runner, ended], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ended.cancel()
            if not runner.done():
                runner.cancel()
        with suppress(asyncio.CancelledError):
            await runner
        await self.engine.end_all()
        # No other run knows the claims that were made for this one.
        for claim in claims(self.engine.job):
            if (directory := self.plan.claims.get(str(claim["metadata"]["name"]))) is not None:
                with suppress(OSError):
                    directory.rmdir()  # only if it is empty

    def outcome(self, stop: Stop | None) -> RunEnded:
        evidence = self.progress.evidence(self.engine, self.pods.failures, self.plan.request.source)
        directory = str(self.reservation.files.directory)
        evidence = replace(evidence, hang=self.hang_watch.last, directory=directory)
        found = live_outcome(self.plan, self.reservation, self.engine.pods.values(), evidence, stop)
        return replace(found, disk=self.disk.measure())

    def stop(self, grace: float | None = None) -> None:
        """End the pods, each within its own grace period or within `grace` seconds."""
        if grace is not None:
            for pod in self.engine.pods.values():
                pod.grace_period = grace
        self.emit(Stopping(longest_grace(self.plan.manifests) if grace is None else grace))
        if self.hang_watch.last is not None or self.hang_watch.silent < _HUNG:
            self.engine.send(Action.TERMINATE_JOB)
        else:
            self.pods.look_first(lambda: self.engine.send(Action.TERMINATE_JOB))

    def scale(self, replicas: Mapping[str, int]) -> None:
        admitted = updated(self.engine.job, replicas)
        self.reservation.inputs.resize(admitted.job)
        self.loop.admitted[self.engine.key] = admitted
        self.engine.update(admitted.job.spec)

    def pod(self, short_name: str) -> LocalPod:
        """Raises NoSuchPod."""
        for pod in self.engine.pods.values():
            if pod.short_name == short_name:
                return pod
        known = ", ".join(pod.short_name for pod in self.engine.pods.values())
        raise NoSuchPod(f"the job has no pod {short_name} now", f"it has {known or 'none'}")

    async def _kill_later(self, kill: Kill) -> None:
        await self.progress.first_running.wait()
        await asyncio.sleep(kill.after)
        flag = f"--kill {kill.pod}@{kill.after:g}s"
        pod = next(
            (each for each in self.engine.pods.values() if each.short_name == kill.pod and each.is_running), None
        )
        if pod is None:
            self.emit.warn(f"{flag}: the pod was not running then")
            return
        self.emit(PodKilled(kill.pod, flag))
        await pod.kill(int(signal.SIGKILL))

    async def _report(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Do work beside the job; an error in it is a warning, and the job does not end."""
        try:
            await work
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody awaits this work
            self.emit.warn(f"{name} failed: {type(error).__name__}: {error}")

    async def _tick(self) -> None:
        """Emit the passing of time, and warn about a job that waits in vain."""
        while True:
            await asyncio.sleep(_TICK)
            self.emit(Tick())
            await self._report("watching the job", self._look())

    async def _look(self) -> None:
        for message in self._watch.look():
            self.emit(WarningIssued(message))
        if self.emit.gate.closed:
            # The pods are not silent: a slow listener delays their output.
            self.pods.last_sign = elapsed()
        await self.hang_watch.check()
        warning = waits_in_vain(self.engine.job, self.engine.job.status)
        self._stalled = self._stalled + 1 if warning else 0
        if self._stalled == _STALLED_TICKS:
            self.emit.warn(warning)
