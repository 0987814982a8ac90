"""Carries out the steps of a scenario on the cluster state, and reports them, also those that find no pod."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from pumice.engines.memory.cluster_state import StoredPod, World
from pumice.engines.memory.engine import MemoryEngine
from pumice.engines.memory.event_log import EventLog
from pumice.engines.memory.kubelet import Kubelet
from pumice.engines.memory.scenario import Step
from pumice.model.job import JobSpec, Metadata, scaled
from pumice.model.snapshot import Command, ContainerEnd, JobKey, PodPhase

# The phases that a new PodGroup may start in.
_FIRST_PHASES: Final = ("Inqueue", "Pending")


@dataclass(slots=True)
class Director:
    world: World
    key: JobKey
    engine: MemoryEngine
    kubelet: Kubelet
    story: EventLog
    controller: Callable[[Step], None]  # stops and starts it
    _commands: int = 0

    def play(self, step: Step) -> None:
        actions: dict[str, Callable[[Step], None]] = {
            "pods": lambda step: self.kubelet.behave(step.pods, step.behaviour),
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
        actions[step.kind](step)

    def _end(self, step: Step) -> None:
        stored = self._pod(step, "end", alive=True)
        if stored is not None:
            container = step.container or stored.seen.task
            self.kubelet.end(stored, ContainerEnd(container, step.code, step.reason, step.signal))

    def _evict(self, step: Step) -> None:
        stored = self._pod(step, "evict", alive=False)
        if stored is not None:
            self.kubelet.evict(stored, step.exit)

    def _hang(self, step: Step) -> None:
        if step.pending:
            self.kubelet.hang(step.pod)
        elif not self.kubelet.let_start(step.pod):
            self.story.record("StepSkipped", f"{step.pod} does not hang: nothing to release")

    def _restart_containers(self, step: Step) -> None:
        stored = self._pod(step, "restart", alive=True)
        if stored is not None:
            self.world.change_pod(self.key, stored.seen.name, restarts=stored.seen.restarts + step.restarts)
            times = f" {step.restarts} times" if step.restarts > 1 else ""
            self.story.record("PodContainersRestarted", f"restarted a container{times}", step.pod)

    def _change_readiness(self, step: Step) -> None:
        stored = self._pod(step, "change", alive=True)
        if stored is None:
            return
        if stored.seen.phase is not PodPhase.RUNNING:
            self.story.record("StepSkipped", f"{step.pod} does not run yet: nothing to change")
            return
        self.world.change_pod(self.key, stored.seen.name, ready=step.ready)
        self.story.record("PodReadinessChanged", "is ready" if step.ready else "is not ready", step.pod)

    def _pod(self, step: Step, verb: str, *, alive: bool) -> StoredPod | None:
        """The pod of a step; if the step cannot act on it, that is reported."""
        stored = self.kubelet.find(step.pod)
        if stored is None:
            why = "is not there"
        elif stored.seen.is_deleting:
            why = "is on its way out"
        elif alive and stored.seen.is_finished:
            why = f"has {str(stored.seen.phase).lower()} already"
        else:
            return stored
        self.story.record("StepSkipped", f"{step.pod} {why}: nothing to {verb}")
        return None

    def _send(self, step: Step) -> None:
        action = step.command
        if self._job_is_there():
            self._commands += 1
            name = Metadata(name=f"command-{self._commands}")
            self.world.send(self.key, Command(action=action, metadata=name))
            self.story.record("CommandSent", f"Command {action}", action=action)

    def _scale(self, step: Step) -> None:
        sizes = ", ".join(f"{task} {count}" for task, count in step.scale.items())
        self._change_spec(lambda spec: scaled(spec, step.scale), f"scaled: {sizes}")

    def _suspend(self, step: Step) -> None:
        message = f"spec.suspend: {str(step.suspend).lower()}"
        self._change_spec(lambda spec: msgspec.structs.replace(spec, suspend=step.suspend), message)

    def _change_spec(self, change: Callable[[JobSpec], JobSpec], message: str) -> None:
        if self._job_is_there():
            job = self.world.jobs[self.key]
            self.world.put_job(msgspec.structs.replace(job, spec=change(job.spec)))
            self.story.record("SpecChanged", message)

    def _change_group(self, step: Step) -> None:
        """Change the phase of the PodGroup; if there is none, of the next one."""
        phase, group = step.group, self.world.groups.get(self.key)
        if not self._job_is_there():
            return
        if group is None and phase in _FIRST_PHASES:
            self.engine.first_group_phase = phase
            self.story.record("GroupChanged", f"the next PodGroup begins as {phase}")
            return
        if group is None:
            self.story.record("StepSkipped", "there is no PodGroup: nothing to change")
            return
        self.engine.first_group_phase = _FIRST_PHASES[0]
        group.phase = phase
        self.world.touch(self.key)
        self.story.record("GroupChanged", f"PodGroup is {phase}")

    def _job_is_there(self) -> bool:
        there = self.key in self.world.jobs
        if not there:
            self.story.record("StepSkipped", "the job is gone: nothing to change")
        return there
