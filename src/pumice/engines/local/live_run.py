"""The live part of a run: the engine and the loop with the pods, watched until the job has ended."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import Struct

from pumice.engines.local.clock import ClockWatch, elapsed
from pumice.engines.local.engine import LocalEngine
from pumice.engines.local.events import Emitter, PhaseChanged, PodKilled, Stopping, Tick, WarningIssued
from pumice.engines.local.host_access.unshared import directory_with_missed_file, unshared_path
from pumice.engines.local.kubelet.activity import LOOK, activity
from pumice.engines.local.kubelet.pod import LocalPod, longest_grace
from pumice.engines.local.kubelet.pod_factory import PodFactory
from pumice.engines.local.options import Kill
from pumice.engines.local.outcome import Failure, Outcome, Stop
from pumice.engines.local.preparation.run_preparation import Preparation
from pumice.engines.local.preparation.scaling import updated
from pumice.engines.local.run_errors import NoSuchPod
from pumice.engines.local.runs.run_directory import KEPT
from pumice.engines.local.state.disk_use import DiskUse, measure, size_text
from pumice.model.job import Job
from pumice.model.objects import claims
from pumice.model.pod import all_containers
from pumice.model.pumice_error import PumiceError
from pumice.model.status import JobStatus
from pumice.model.vocabulary import Action, Event, Phase
from pumice.reconcile.decision import JobEvent
from pumice.reconcile.failure_lines import waited_in_vain
from pumice.reconcile.phases import FINAL
from pumice.runtime.loop import Loop
from pumice.runtime.runner import Runner

_ENDED: Final = FINAL | {Phase.ABORTED}
_TICK: Final = 0.5
# Seconds without any output or change after which a run says what its pods do, and for how many of them.
_SILENT: Final = 60.0
_MOST_SILENT: Final = 8
# Seconds without a sign after which a run that is stopped may have hung.
_HUNG: Final = 10.0
_LOOK_SECONDS: Final = 5.0
_DISK_PAUSE: Final = 5.0
# This many ticks without a running pod in a row: between the end of one task and the start of the next there are few.
_STALLED_TICKS: Final = 6


@dataclass(slots=True)
class JobProgress:
    """Follows the passes of the loop: emits the job's phases, and knows when it first ran and when it has ended."""

    emit: Emitter
    policy: JobEvent | None = None  # that acted last in the current attempt
    first_running: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    _phase: str = ""
    _attempt: int = 1

    def on_pass(self, engine: LocalEngine, events: Sequence[JobEvent]) -> None:
        status = engine.job.status
        acted = next((event for event in events if event.policy), None)
        self.policy = acted or self.policy
        if acted is not None or status.state.phase != self._phase:
            self._phase = status.state.phase
            if self._phase == Phase.PENDING:
                self._attempt = status.retry_count + 1
                # The policy that led to this attempt does not end it.
                self.policy = None
            self.emit(PhaseChanged(engine.job, status, self._attempt, acted))
        if status.state.phase == Phase.RUNNING:
            self.first_running.set()
        if status.state.phase in _ENDED and all(pod.observed().is_finished for pod in engine.pods.values()):
            self.ended.set()


class LiveRun(Struct, frozen=True):
    plan: Preparation
    emit: Emitter
    pods: PodFactory
    engine: LocalEngine
    loop: Loop
    progress: JobProgress
    has_own_proc: bool = True  # /proc of a container shows its own processes only
    doing: dict[str, str] = msgspec.field(default_factory=dict)  # by pod, when the run was found to hang
    largest: list[DiskUse] = msgspec.field(default_factory=lambda: [DiskUse()])  # the largest use of the disk so far

    def _disk_use(self) -> DiskUse:
        plan = self.plan
        layers = [path for path in (plan.record.directory / KEPT).glob("*") if path.name != "volumes"]
        return measure(plan.inputs.claims.values(), plan.inputs.scratch / "pods", layers)

    async def watch_disk(self, most: int | None, over: Callable[[str], object]) -> None:
        """Measure now and then what the job uses of the disk; `over` is called with a message above the limit."""
        while True:
            used = await asyncio.to_thread(self._disk_use)
            self.largest[0] = max(self.largest[0], used, key=lambda each: each.total)
            if most is not None and used.total > most:
                over(f"{self.engine.job.name} uses more of the disk than {size_text(most)} (disk-limit): {used}")
            await asyncio.sleep(_DISK_PAUSE)

    async def run(self) -> None:
        """Return when the job has ended and none of its processes is left."""
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
            if (directory := self.plan.inputs.claims.get(str(claim["metadata"]["name"]))) is not None:
                with suppress(OSError):
                    directory.rmdir()  # only if it is empty

    def outcome(self, stop: Stop | None) -> Outcome:
        failures = self.pods.failures.in_order()
        blamed = failures or (() if self.pods.failures.earlier is None else (self.pods.failures.earlier,))
        waited = {each.pod.short_name for each in failures if waited_in_vain(each.end.last_line)}
        disk = max(self.largest[0], self._disk_use(), key=lambda each: each.total)
        image = log = look = unshared = missed = beside = ""
        settings = self.plan.inputs.settings
        if blamed:
            first, end = blamed[0].pod, blamed[0].end
            spec = next((each.spec for each in self.engine.pods.values() if each.uid == first.uid), None)
            spec = spec or next(
                (each["spec"] for each in self.plan.manifests if each["metadata"]["name"] == first.name), {}
            )
            container = next((each for each in all_containers(spec) if each["name"] == end.container), {})
            image, directory = str(container.get("image") or ""), str(container.get("workingDir") or "")
            mounts = [str(each["mountPath"]) for one in all_containers(spec) for each in one.get("volumeMounts") or []]
            unshared = unshared_path(end.last_line, settings, mounts, os.environ)
            here = settings.workdir if settings.share_workdir else None
            if directory:
                found = directory_with_missed_file(end.last_line, directory, filter(None, [here]))
                missed = directory if found is not None else ""
            else:
                directories = [settings.project] if settings.project not in (None, here) else []
                beside = str(directory_with_missed_file(end.last_line, str(here or "/"), directories) or "")
            path = self.plan.record.newest_log(first.short_name, end.container)
            log = str(path or "")
            if path is not None and path.stat().st_size:
                look = self._look(blamed[0], of_this_attempt=bool(failures))
        elif self.doing:
            look = self._look(None)
        return Outcome(
            job=self.engine.job,
            failures=failures,
            restarted=self.pods.failures.restarted(),
            earlier=self.pods.failures.earlier,
            policy=self.progress.policy,
            stop=stop,
            kept=self.plan.kept(),
            log=log,
            look=look,
            doing=_grouped({pod: text for pod, text in self.doing.items() if pod not in waited}),
            directory=str(self.plan.record.directory),
            disk=disk,
            unshared=unshared,
            misses_workdir=missed,
            misses_project=beside,
            python=settings.python_text,
            host_image=image if self.plan.images.of(image) is None else "",
        )

    def _look(self, blamed: Failure | None, *, of_this_attempt: bool = True) -> str:
        """Return the command that shows the lines around a failure; of all pods if none failed."""
        namespace = self.engine.job.namespace
        words = ["pumice", "logs", self.plan.run.ref + (f"/{blamed.pod.short_name}" if blamed is not None else "")]
        words += ["-n", namespace] if namespace != "default" else []
        if blamed is not None:
            words += ["-c", blamed.end.container] if blamed.end.container != blamed.pod.task else []
            words += [] if of_this_attempt else ["--attempt", str(blamed.attempt)]
        return shlex.join([*words, "--tail", "30"])

    def stop(self, grace: float | None = None) -> None:
        """End the pods, each within its own grace period or within `grace` seconds."""
        if grace is not None:
            for pod in self.engine.pods.values():
                pod.grace_period = grace
        self.emit(Stopping(longest_grace(self.plan.manifests) if grace is None else grace))
        if self.doing or elapsed() - self.pods.last_sign < _HUNG:
            self.engine.send(Action.TERMINATE_JOB)
        else:
            self.pods.look_first(lambda: self.engine.send(Action.TERMINATE_JOB))

    def suspend(self) -> None:
        self.engine.send(Action.ABORT_JOB)

    def restart(self) -> None:
        self.engine.send(Action.RESTART_JOB)

    def scale(self, replicas: Mapping[str, int]) -> None:
        admitted = updated(self.engine.job, replicas)
        self.plan.inputs.resize(admitted.job)
        self.loop.admitted[self.engine.key] = admitted
        self.engine.update(admitted.job.spec)

    def pod(self, short_name: str) -> LocalPod:
        """Raises NoSuchPod."""
        for pod in self.engine.pods.values():
            if pod.short_name == short_name:
                return pod
        known = ", ".join(pod.short_name for pod in self.engine.pods.values())
        raise NoSuchPod(f"the job has no pod {short_name} now", f"it has {known or 'none'}")

    async def kill_later(self, kill: Kill) -> None:
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

    async def tick(self) -> None:
        """Emit the passing of time, and warn about a job that waits in vain."""
        stalled, warned, watch = 0, False, ClockWatch()
        while True:
            await asyncio.sleep(_TICK)
            self.emit(Tick())
            for message in watch.look():
                self.emit(WarningIssued(message))
            if self.emit.gate.closed:
                # The pods are not silent: a slow listener delays their output.
                self.pods.last_sign = elapsed()
            if not warned and elapsed() - self.pods.last_sign >= _SILENT:
                warned = True
                if any(pod.is_running for pod in self.engine.pods.values()):
                    self.emit.warn(await self._silence())
            warning = waits_in_vain(self.engine.job, self.engine.job.status)
            stalled = stalled + 1 if warning else 0
            if stalled == _STALLED_TICKS:
                self.emit.warn(warning)

    async def _silence(self) -> str:
        """Say what each pod does in a run that prints nothing."""
        running = [pod for pod in self.engine.pods.values() if pod.is_running]
        lines = [f"no pod has printed anything for {_SILENT:g}s; {len(running)} of them run"]
        doing = await self._activities(running)
        more = [f"  and {len(running) - _MOST_SILENT} more"] if doing and len(running) > _MOST_SILENT else []
        return "\n".join((*lines, *(f"  {pod}: {text}" for pod, text in doing.items()), *more))

    async def look(self) -> None:
        """Note what each pod does, before the pods of a run that hangs are ended."""
        self.doing.clear()
        self.doing.update(await self._activities([pod for pod in self.engine.pods.values() if pod.is_running]))

    async def _activities(self, running: Sequence[LocalPod]) -> dict[str, str]:
        """Return what pods do, by name. Without a /proc of their own, they cannot be distinguished."""
        names = {pod.address: pod.short_name for pod in self.engine.pods.values() if pod.address}

        async def of(pod: LocalPod) -> str:
            container = next((each for each in (*pod.init_containers, *pod.containers) if each.running), None)
            try:
                found = (1, b"") if container is None else await container.exec(list(LOOK), _LOOK_SECONDS)
            except (PumiceError, OSError, TimeoutError):
                # The image may have no shell, and the container may have ended.
                found = (1, b"")
            return activity(found[1].decode(errors="replace"), lambda address: names.get(address, address))

        looked_at = running[:_MOST_SILENT] if self.has_own_proc else []
        texts = await asyncio.gather(*map(of, looked_at))
        return dict(zip((pod.short_name for pod in looked_at), texts, strict=True))


def _grouped(doing: Mapping[str, str]) -> list[str]:
    """`worker-0, worker-1: python3 sleeping`: pods that do the same share a line."""
    pods: dict[str, list[str]] = {}
    for pod, text in doing.items():
        pods.setdefault(text, []).append(pod)
    return [f"{', '.join(names)}: {text}" for text, names in pods.items()]


def waits_in_vain(job: Job, status: JobStatus) -> str:
    """Say what a job waits for if no pod runs and none will: a task depends on others that failed, and no policy acts.

    On a cluster such a job waits forever, as in Volcano. A user at a terminal wants to know what would end it.
    """
    alive = status.pending + status.running + status.terminating + status.unknown
    if status.state.phase not in (Phase.PENDING, Phase.RUNNING) or alive or not status.failed:
        return ""
    for task in job.spec.tasks:
        if task.depends_on is not None and task.replicas and task.name not in status.task_status_count:
            names = ", ".join(task.depends_on.name)
            return (
                f"{task.name} waits for {names}, and no pod runs any more: {status.failed} failed\n"
                f"  hint: a policy {{event: {Event.POD_FAILED}, action: {Action.TERMINATE_JOB}}} would end the job;"
                " Ctrl-C ends it now"
            )
    return ""
