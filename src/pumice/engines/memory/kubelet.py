"""What a scheduler and a kubelet would do with the pods of a simulated job: start them, let them run, end them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pumice.engines.memory.cluster_state import StoredPod, World
from pumice.engines.memory.event_log import Story
from pumice.engines.memory.pod_behavior import Behaviours, names_of
from pumice.engines.memory.timeline import Timeline
from pumice.model.snapshot import ContainerEnd, JobKey, ObservedPod, PodPhase

# How long a pod that failed on its way out is still seen.
_LAST_SEEN: Final = dt.timedelta(seconds=1)
# Told about the pod, not about one of its containers.
_POD_REASONS: Final = ("Evicted", "NodeLost", "Preempting")


@dataclass(slots=True)
class Kubelet:
    world: World
    key: JobKey
    timeline: Timeline
    story: Story
    behaviours: Behaviours
    capacity: int | None = None
    _told_to_hang: set[str] = field(default_factory=set)  # short names whose next pod never starts
    _hanging: set[str] = field(default_factory=set)  # uids
    _placed: set[str] = field(default_factory=set)  # uids of those that have room
    _plans: dict[str, int] = field(default_factory=dict)  # by uid: what comes next if nothing else happens to it
    _crowd_changed: bool = False

    def behave(self, pods: str, fields: Mapping[str, Any]) -> None:
        """From now on these pods (`*`, a task or a pod) behave so; those that run already run on from now."""
        self.behaviours.say(pods, fields)
        for stored in self.world.pods_of(self.key):
            runs = stored.seen.phase is PodPhase.RUNNING and not stored.seen.is_deleting
            if runs and pods in names_of(stored.seen):
                self._run_on(stored)

    def hang(self, name: str) -> None:
        """The next pod of this name takes its room but never starts; so does one that is there and has not started."""
        stored = self.find(name)
        if stored is not None and stored.seen.phase is PodPhase.PENDING:
            self._hanging.add(stored.seen.uid)
            self._cancel(stored.seen.uid)
        else:
            self._told_to_hang.add(name)

    def let_start(self, name: str) -> bool:
        """End the hanging of a pod; whether one hung, or would have."""
        stored = self.find(name)
        if stored is not None and stored.seen.uid in self._hanging:
            self._hanging.discard(stored.seen.uid)
            if stored.seen.uid in self._placed:
                self._start_soon(stored)
            return True
        told = name in self._told_to_hang
        self._told_to_hang.discard(name)
        return told

    def find(self, name: str) -> StoredPod | None:
        return next((stored for stored in self.world.pods_of(self.key) if stored.seen.short_name == name), None)

    def created(self, _key: JobKey, stored: StoredPod) -> None:
        self.story.made(stored.seen)
        self._crowd_changed = True
        if stored.seen.short_name in self._told_to_hang:
            self._told_to_hang.discard(stored.seen.short_name)
            self._hanging.add(stored.seen.uid)

    def deleting(self, _key: JobKey, stored: StoredPod) -> None:
        """A pod was told to end: it takes its time, but not longer than its grace, and then it is gone."""
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
        """Somebody else removes the pod; with an exit code it fails on its way out and is seen so."""
        name, uid = stored.seen.short_name, stored.seen.uid
        self.story.record("PodDeleting", "is removed by somebody else", pod=name)
        if not self.world.ask_to_delete(self.key, stored.seen.name):
            return
        stop = self._time_to_stop(stored)
        if exit_code is None:
            self._gone_after(stored, stop, told=True)
            return

        def fail() -> None:
            # The job may have been removed meanwhile, with all its pods.
            if self._is_there(stored, uid):
                self.end(stored, ContainerEnd(stored.seen.task, exit_code))

        self.timeline.plan(self.world.clock.now + stop, fail)
        self._gone_after(stored, stop + _LAST_SEEN)

    def give_room(self) -> None:
        """Let those pods start for which there is room, but nobody before the whole gang fits."""
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
                self._place(stored)

    @property
    def gang(self) -> int:
        group = self.world.groups.get(self.key)
        return 0 if group is None else int(group.manifest["spec"]["minMember"])

    def waiting(self) -> list[str]:
        """Pods that have found no room."""
        return [pod.short_name for pod in self._pending() if pod.uid not in self._placed]

    def hanging(self) -> list[str]:
        return [pod.short_name for pod in self._pending() if pod.uid in self._placed & self._hanging]

    def _pending(self) -> list[ObservedPod]:
        pods = [stored.seen for stored in self.world.pods_of(self.key)]
        return [pod for pod in pods if pod.phase is PodPhase.PENDING]

    def _place(self, stored: StoredPod) -> None:
        self._placed.add(stored.seen.uid)
        if stored.seen.uid not in self._hanging:
            self._start_soon(stored)

    def _start_soon(self, stored: StoredPod) -> None:
        def start() -> None:
            self.world.change_pod(self.key, stored.seen.name, phase=PodPhase.RUNNING, ready=True)
            self._run_on(stored)

        delay = self.behaviours.start(stored.seen)
        self._plans[stored.seen.uid] = self.timeline.plan(self.world.clock.now + delay, start)

    def _run_on(self, stored: StoredPod) -> None:
        """A later word of the scenario may change how long it runs; the last one counts."""
        uid = stored.seen.uid
        self._cancel(uid)

        def finish() -> None:
            behaviour = self.behaviours.of(stored.seen)
            self.end(stored, ContainerEnd(stored.seen.task, behaviour.exit, behaviour.reason))

        self._plans[uid] = self.timeline.plan(self.world.clock.now + self.behaviours.run(stored.seen), finish)

    def _time_to_stop(self, stored: StoredPod) -> dt.timedelta:
        if stored.seen.phase is not PodPhase.RUNNING:
            return dt.timedelta()
        return min(self.behaviours.stop(stored.seen), stored.grace)

    def _gone_after(self, stored: StoredPod, delay: dt.timedelta, *, told: bool = False) -> None:
        uid = stored.seen.uid
        self._cancel(uid)

        def gone() -> None:
            if told and self._is_there(stored, uid):
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
