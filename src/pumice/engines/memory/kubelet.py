"""Simulates the scheduler and the kubelet: starts, runs and ends the pods of a simulated job."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from msgspec.structs import replace

from pumice.engines.memory.cluster_state import StoredPod, World
from pumice.engines.memory.event_log import EventLog
from pumice.engines.memory.scenario import Behaviour, Span
from pumice.engines.memory.timeline import Timeline
from pumice.model.snapshot import ContainerEnd, JobKey, ObservedPod, PodPhase

# How long a pod that failed while being deleted still exists.
_LAST_SEEN: Final = dt.timedelta(seconds=1)
# Reasons of a pod, not of one of its containers.
_POD_REASONS: Final = (
    "DeadlineExceeded",
    "Evicted",
    "NodeAffinity",
    "NodeLost",
    "NodeShutdown",
    "OutOfcpu",
    "OutOfmemory",
    "OutOfpods",
    "Preempted",
    "Preempting",
    "Terminated",
    "UnexpectedAdmissionError",
)


@dataclass(slots=True)
class Behaviours:
    """How pods behave: all, those of a task, or one. The last setting counts."""

    seed: int = 0
    # By selector and field: the number of the setting, and its value.
    _settings: dict[str, dict[str, tuple[int, Any]]] = field(default_factory=dict)
    _count: int = 0

    def set(self, pods: str, fields: Mapping[str, Any]) -> None:
        self._count += 1
        self._settings.setdefault(pods, {}).update({name: (self._count, value) for name, value in fields.items()})

    def of(self, pod: ObservedPod) -> Behaviour:
        latest: dict[str, tuple[int, Any]] = {}
        for name in names_of(pod):
            for what, setting in self._settings.get(name, {}).items():
                if what not in latest or latest[what][0] < setting[0]:
                    latest[what] = setting
        return Behaviour(**{what: value for what, (_, value) in latest.items()})

    def time(self, pod: ObservedPod, what: Literal["start", "run", "stop"]) -> dt.timedelta:
        span: Span = getattr(self.of(pod), what)
        return span.drawn(f"{self.seed} {pod.short_name} {pod.version} {pod.retry} {what}")


def names_of(pod: ObservedPod) -> tuple[str, ...]:
    """The selectors that match a pod."""
    return "*", pod.task, pod.short_name


@dataclass(slots=True)
class Kubelet:
    world: World
    key: JobKey
    timeline: Timeline
    story: EventLog
    behaviours: Behaviours
    capacity: int | None = None
    _to_hang: set[str] = field(default_factory=set)  # short names whose next pod never starts
    _hanging: set[str] = field(default_factory=set)  # uids
    _placed: set[str] = field(default_factory=set)  # uids of pods that have room
    _plans: dict[str, int] = field(default_factory=dict)  # by uid: the next planned event
    _crowd_changed: bool = False

    def behave(self, pods: str, fields: Mapping[str, Any]) -> None:
        """Set the behaviour of these pods (`*`, a task or a pod); the run time of running ones starts again."""
        self.behaviours.set(pods, fields)
        for stored in self.world.pods_of(self.key):
            runs = stored.seen.phase is PodPhase.RUNNING and not stored.seen.is_deleting
            if runs and pods in names_of(stored.seen):
                self._run_on(stored)

    def hang(self, name: str) -> None:
        """The next pod of this name, or the present one if it is pending, gets its room but never starts."""
        stored = self.find(name)
        if stored is not None and stored.seen.phase is PodPhase.PENDING:
            self._hanging.add(stored.seen.uid)
            self._cancel(stored.seen.uid)
        else:
            self._to_hang.add(name)

    def let_start(self, name: str) -> bool:
        """Let a hanging pod start. Return whether there was one."""
        stored = self.find(name)
        if stored is not None and stored.seen.uid in self._hanging:
            self._hanging.discard(stored.seen.uid)
            if stored.seen.uid in self._placed:
                self._start_soon(stored)
            return True
        was_to_hang = name in self._to_hang
        self._to_hang.discard(name)
        return was_to_hang

    def find(self, name: str) -> StoredPod | None:
        return next((stored for stored in self.world.pods_of(self.key) if stored.seen.short_name == name), None)

    def created(self, _key: JobKey, stored: StoredPod) -> None:
        self.story.made(stored.seen)
        self._crowd_changed = True
        if stored.seen.short_name in self._to_hang:
            self._to_hang.discard(stored.seen.short_name)
            self._hanging.add(stored.seen.uid)

    def deleting(self, _key: JobKey, stored: StoredPod) -> None:
        """A pod is being deleted: it is gone after its stop time, at most its grace period."""
        self.story.ending(stored.seen)
        self._gone_after(stored, self._time_to_stop(stored))

    def end(self, stored: StoredPod, end: ContainerEnd) -> None:
        self._cancel(stored.seen.uid)
        self.world.end_pod(self.key, stored.seen.name, replace(end, finished_at=self.world.clock.now))
        if end.exit_code and end.reason in _POD_REASONS:
            self.world.change_pod(self.key, stored.seen.name, reason=end.reason)
        self.story.pod_ended(stored.seen, end)
        self._crowd_changed = True

    def evict(self, stored: StoredPod, exit_code: int | None) -> None:
        """Another client deletes the pod; with an exit code it fails while being deleted."""
        name, uid = stored.seen.short_name, stored.seen.uid
        self.story.record("PodDeleting", "is deleted by someone else", pod=name)
        if not self.world.delete_pod(self.key, stored.seen.name):
            return
        stop = self._time_to_stop(stored)
        if exit_code is None:
            self._gone_after(stored, stop, report=True)
            return

        def fail() -> None:
            # The job and its pods may have been deleted meanwhile.
            if self._is_there(stored, uid):
                self.end(stored, ContainerEnd(stored.seen.task, exit_code))

        self.timeline.plan(self.world.clock.now + stop, fail)
        self._gone_after(stored, stop + _LAST_SEEN)

    def give_room(self) -> None:
        """Start the pods for which there is room, but none before the whole gang fits."""
        if not self._crowd_changed:
            return
        self._crowd_changed = False
        taking, counting, waiting = 0, 0, []
        for stored in self.world.pods_of(self.key):
            pod = stored.seen
            placed = pod.uid in self._placed
            taking += placed and not pod.is_finished
            if pod.is_finished or placed:
                counting += not pod.is_deleting
            elif not pod.is_deleting:
                waiting.append(stored)
        room = len(waiting) if self.capacity is None else max(self.capacity - taking, 0)
        fitting = waiting[:room]
        if counting + len(fitting) >= self.gang:
            for stored in fitting:
                self._placed.add(stored.seen.uid)
                if stored.seen.uid not in self._hanging:
                    self._start_soon(stored)

    @property
    def gang(self) -> int:
        group = self.world.groups.get(self.key)
        return 0 if group is None else int(group.manifest["spec"]["minMember"])

    def waiting(self) -> list[str]:
        """Pods without room."""
        return [pod.short_name for pod in self._pending() if pod.uid not in self._placed]

    def hanging(self) -> list[str]:
        return [pod.short_name for pod in self._pending() if pod.uid in self._placed & self._hanging]

    def _pending(self) -> list[ObservedPod]:
        pods = [stored.seen for stored in self.world.pods_of(self.key)]
        return [pod for pod in pods if pod.phase is PodPhase.PENDING]

    def _start_soon(self, stored: StoredPod) -> None:
        def start() -> None:
            self.world.change_pod(self.key, stored.seen.name, phase=PodPhase.RUNNING, ready=True)
            self._run_on(stored)

        delay = self.behaviours.time(stored.seen, "start")
        self._plans[stored.seen.uid] = self.timeline.plan(self.world.clock.now + delay, start)

    def _run_on(self, stored: StoredPod) -> None:
        """A later step of the scenario may change how long the pod runs; the last one counts."""
        uid = stored.seen.uid
        self._cancel(uid)

        def finish() -> None:
            behaviour = self.behaviours.of(stored.seen)
            self.end(stored, ContainerEnd(stored.seen.task, behaviour.exit, behaviour.reason))

        self._plans[uid] = self.timeline.plan(self.world.clock.now + self.behaviours.time(stored.seen, "run"), finish)

    def _time_to_stop(self, stored: StoredPod) -> dt.timedelta:
        if stored.seen.phase is not PodPhase.RUNNING:
            return dt.timedelta()
        return min(self.behaviours.time(stored.seen, "stop"), stored.grace)

    def _gone_after(self, stored: StoredPod, delay: dt.timedelta, *, report: bool = False) -> None:
        uid = stored.seen.uid
        self._cancel(uid)

        def gone() -> None:
            if report and self._is_there(stored, uid):
                self.story.record("PodGone", "is gone", pod=stored.seen.short_name)
            self.world.vanish(self.key, stored.seen.name, uid)
            self._placed.discard(uid)
            self._hanging.discard(uid)
            self._crowd_changed = True

        self.timeline.plan(self.world.clock.now + delay, gone)

    def _cancel(self, uid: str) -> None:
        if uid in self._plans:
            self.timeline.cancel(self._plans.pop(uid))

    def _is_there(self, stored: StoredPod, uid: str) -> bool:
        there = self.world.pods.get((self.key, stored.seen.name))
        return there is not None and there.seen.uid == uid
