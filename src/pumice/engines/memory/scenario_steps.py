"""Carries out the steps of a scenario on the world, and says so; also when a step finds nobody to act on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pumice.engines.memory.cluster_state import StoredPod, World
from pumice.engines.memory.engine import MemoryEngine
from pumice.engines.memory.event_log import Story
from pumice.engines.memory.kubelet import Kubelet
from pumice.engines.memory.scenario import Step
from pumice.model.command import Command
from pumice.model.job import JobSpec, Metadata, TaskSpec
from pumice.model.snapshot import ContainerEnd, JobKey, PodPhase

Fields = Mapping[str, Any]

# What a scheduler makes of a PodGroup that is new.
_FIRST_PHASES: Final = ("Inqueue", "Pending")
# At the very beginning these come before the controller has made anything, so that they hold for the first pods, too.
SETTINGS: Final = frozenset(("pods", "pending", "group", "controller"))


@dataclass(slots=True)
class Director:
    world: World
    key: JobKey
    engine: MemoryEngine
    kubelet: Kubelet
    story: Story
    controller: Callable[[Fields], None]  # stops and starts it
    _commands: int = 0

    def play(self, step: Step) -> None:
        plays: dict[str, Callable[[Fields], None]] = {
            "pods": self._behave,
            "exit": self._end,
            "evict": self._evict,
            "pending": self._hang,
            "restarts": self._restart_containers,
            "ready": self._change_readiness,
            "controller": self.controller,
            "command": self._send,
            "scale": self._scale,
            "suspend": self._suspend,
            "group": self._change_group,
        }
        plays[step.kind](step.fields)

    def _behave(self, fields: Fields) -> None:
        self.kubelet.behave(fields["pods"], {name: value for name, value in fields.items() if name != "pods"})

    def _end(self, fields: Fields) -> None:
        stored = self._pod(fields, "end", alive=True)
        if stored is not None:
            container = fields.get("container", stored.seen.task)
            self.kubelet.end(stored, ContainerEnd(container, fields["exit"], fields["reason"], fields["signal"]))

    def _evict(self, fields: Fields) -> None:
        stored = self._pod(fields, "evict", alive=False)
        if stored is not None:
            self.kubelet.evict(stored, fields.get("exit"))

    def _hang(self, fields: Fields) -> None:
        name = fields["pod"]
        if fields["pending"]:
            self.kubelet.hang(name)
        elif not self.kubelet.let_start(name):
            self.story.tell("StepSkipped", f"{name} does not hang: nothing to let go")

    def _restart_containers(self, fields: Fields) -> None:
        stored = self._pod(fields, "restart", alive=True)
        if stored is not None:
            times = fields["restarts"]
            self.world.change_pod(self.key, stored.seen.name, restarts=stored.seen.restarts + times)
            told = "restarted a container" + (f" {times} times" if times > 1 else "")
            self.story.tell("PodContainersRestarted", told, fields["pod"])

    def _change_readiness(self, fields: Fields) -> None:
        stored = self._pod(fields, "change", alive=True)
        if stored is None:
            return
        if stored.seen.phase is not PodPhase.RUNNING:
            self.story.tell("StepSkipped", f"{fields['pod']} does not run yet: nothing to change")
            return
        self.world.change_pod(self.key, stored.seen.name, ready=fields["ready"])
        self.story.tell("PodReadinessChanged", "is ready" if fields["ready"] else "is not ready", fields["pod"])

    def _pod(self, fields: Fields, verb: str, *, alive: bool) -> StoredPod | None:
        """The pod that a step means; where it finds none, the story says so."""
        stored = self.kubelet.find(fields["pod"])
        if stored is None:
            why = "is not there"
        elif stored.seen.is_deleting:
            why = "is on its way out"
        elif alive and stored.seen.is_finished:
            why = f"has {str(stored.seen.phase).lower()} already"
        else:
            return stored
        self.story.tell("StepSkipped", f"{fields['pod']} {why}: nothing to {verb}")
        return None

    def _send(self, fields: Fields) -> None:
        action = fields["command"]
        if self._job_is_there():
            self._commands += 1
            name = Metadata(name=f"command-{self._commands}")
            self.world.send(self.key, Command(action=action, metadata=name))
            self.story.tell("CommandSent", f"Command {action}", action=action)

    def _scale(self, fields: Fields) -> None:
        wanted: Mapping[str, int] = fields["scale"]

        def scaled(spec: JobSpec) -> JobSpec:
            tasks = [_scaled(task, wanted.get(task.name, task.replicas)) for task in spec.tasks]
            total = sum(task.replicas for task in tasks)
            return msgspec.structs.replace(spec, tasks=tasks, min_available=min(spec.min_available, total))

        self._change_spec(scaled, "scaled: " + ", ".join(f"{task} {count}" for task, count in wanted.items()))

    def _suspend(self, fields: Fields) -> None:
        suspend = fields["suspend"]
        told = f"spec.suspend: {str(suspend).lower()}"
        self._change_spec(lambda spec: msgspec.structs.replace(spec, suspend=suspend), told)

    def _change_spec(self, change: Callable[[JobSpec], JobSpec], told: str) -> None:
        if self._job_is_there():
            job = self.world.jobs[self.key]
            self.world.put_job(msgspec.structs.replace(job, spec=change(job.spec)))
            self.story.tell("SpecChanged", told)

    def _change_group(self, fields: Fields) -> None:
        """Of the PodGroup that there is; where there is none, the next one may be made to wait."""
        phase, group = fields["group"], self.world.groups.get(self.key)
        if not self._job_is_there():
            return
        if group is None and phase in _FIRST_PHASES:
            self.engine.first_group_phase = phase
            self.story.tell("GroupChanged", f"the next PodGroup begins as {phase}")
            return
        if group is None:
            self.story.tell("StepSkipped", "there is no PodGroup: nothing to change")
            return
        self.engine.first_group_phase = _FIRST_PHASES[0]
        group.phase = phase
        self.world.touch(self.key)
        self.story.tell("GroupChanged", f"PodGroup is {phase}")

    def _job_is_there(self) -> bool:
        there = self.key in self.world.jobs
        if not there:
            self.story.tell("StepSkipped", "the job is gone: nothing to change")
        return there


def _scaled(task: TaskSpec, replicas: int) -> TaskSpec:
    """As `kubectl edit` by somebody who knows: minAvailable may not be above the replicas."""
    least = task.min_available if task.min_available is None else min(task.min_available, replicas)
    return msgspec.structs.replace(task, replicas=replicas, min_available=least)
