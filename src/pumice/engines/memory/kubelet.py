"""What a scheduler and a kubelet would do with the pods of a simulated job: start them, let them run, end them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pumice.engines.memory.agenda import Agenda
from pumice.engines.memory.scenario import Behaviour
from pumice.engines.memory.story import Story
from pumice.engines.memory.world import StoredPod, World
from pumice.model.snapshot import ContainerEnd, JobKey, PodPhase

# Where a pending pod stands, told by its reason.
STARTING = "Starting"
HANGING = "Hanging"


@dataclass(slots=True)
class Kubelet:
    world: World
    agenda: Agenda
    story: Story
    capacity: int | None = None
    hanging: set[str] = field(default_factory=set)  # pods whose next incarnation never starts
    _behaviours: list[tuple[str, Mapping[str, object]]] = field(default_factory=list)

    def behave(self, key: JobKey, pods: str, fields: Mapping[str, object]) -> None:
        """From now on these pods (`*`, a task or a pod) behave so; also those that run already."""
        self._behaviours.append((pods, fields))
        for stored in self.world.pods_of(key):
            if pods in _names(stored) and stored.seen.phase is PodPhase.RUNNING:
                self._run_on(key, stored)

    def created(self, key: JobKey, stored: StoredPod) -> None:
        self.story.made(stored.seen)
        self._try_to_start(key, stored)

    def deleting(self, key: JobKey, stored: StoredPod) -> None:
        """A pod was told to end: it takes its time, but not longer than its grace, and then it is gone."""
        uid, name = stored.seen.uid, stored.seen.name
        stop = min(self._behaviour_of(stored).stop, stored.grace)

        def gone() -> None:
            self.world.vanish(key, name, uid)
            self._fill_up(key)

        self.agenda.plan(self.world.clock.now + stop, gone)

    def end(self, key: JobKey, stored: StoredPod, end: ContainerEnd) -> None:
        if not stored.seen.is_finished:
            self.world.end_pod(key, stored.seen.name, replace(end, finished_at=self.world.clock.now))
            self.story.pod_ended(stored.seen, end)
            self._fill_up(key)

    def evict(self, key: JobKey, stored: StoredPod) -> None:
        """Somebody else removes the pod."""
        name = stored.seen.short_name
        self.story.tell("PodDeleted", f"{name} is removed by somebody else", pod=name)
        if self.world.ask_to_delete(key, stored.seen.name):
            self.deleting(key, stored)

    def _try_to_start(self, key: JobKey, stored: StoredPod) -> None:
        name, uid = stored.seen.short_name, stored.seen.uid
        if name in self.hanging:
            self.hanging.discard(name)
            stored.seen = replace(stored.seen, reason=HANGING)
        elif self.capacity is None or self._room_taken(key) < self.capacity:
            stored.seen = replace(stored.seen, reason=STARTING)
            delay = self._behaviour_of(stored).start
            self.agenda.plan(self.world.clock.now + delay, lambda: self._start(key, stored, uid))

    def _room_taken(self, key: JobKey) -> int:
        pods = [stored.seen for stored in self.world.pods_of(key)]
        return sum(pod.phase is PodPhase.RUNNING or pod.reason == STARTING for pod in pods if not pod.is_finished)

    def _fill_up(self, key: JobKey) -> None:
        """Room may have become free: let those start that found none."""
        for stored in self.world.pods_of(key):
            if stored.seen.phase is PodPhase.PENDING and not stored.seen.reason and not stored.seen.is_deleting:
                self._try_to_start(key, stored)

    def _start(self, key: JobKey, stored: StoredPod, uid: str) -> None:
        if self._is_there(key, stored, uid) and stored.seen.phase is PodPhase.PENDING:
            self.world.change_pod(key, stored.seen.name, phase=PodPhase.RUNNING, ready=True, reason="")
            self._run_on(key, stored)

    def _run_on(self, key: JobKey, stored: StoredPod) -> None:
        behaviour, uid = self._behaviour_of(stored), stored.seen.uid

        def finish() -> None:
            runs = stored.seen.phase is PodPhase.RUNNING and not stored.seen.is_deleting
            # A later word of the scenario may have changed how long it runs.
            if self._is_there(key, stored, uid) and runs and self._behaviour_of(stored) == behaviour:
                self.end(key, stored, ContainerEnd(stored.seen.task, behaviour.exit, behaviour.reason))

        self.agenda.plan(self.world.clock.now + behaviour.run, finish)

    def _is_there(self, key: JobKey, stored: StoredPod, uid: str) -> bool:
        there = self.world.pods.get((key, stored.seen.name))
        return there is not None and there.seen.uid == uid

    def _behaviour_of(self, stored: StoredPod) -> Behaviour:
        """All that was said about the pod so far; what was said last counts."""
        behaviour = Behaviour()
        for pods, fields in self._behaviours:
            if pods in _names(stored):
                behaviour = replace(behaviour, **fields)  # type: ignore[arg-type]  # read by ScenarioReader
        return behaviour


def _names(stored: StoredPod) -> tuple[str, ...]:
    return "*", stored.seen.task, stored.seen.short_name
