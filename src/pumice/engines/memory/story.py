"""The story of a simulated job: a line for each thing that happened, with the phase that the job was in."""

from __future__ import annotations

from dataclasses import dataclass, field

from pumice.engines.memory.engine import MemoryEngine
from pumice.engines.memory.world import World
from pumice.model.job import Job
from pumice.model.snapshot import ContainerEnd, JobKey, ObservedPod
from pumice.model.vocabulary import Phase
from pumice.reconcile.ledger import read_ledger


@dataclass(slots=True)
class Line:
    at: float
    phase: str
    event: str
    message: str
    pod: str = ""
    policy: str = ""
    action: str = ""

    def text(self) -> str:
        acted = f" -> policy {self.policy}: {self.action}" if self.policy else ""
        return f"t+{self.at:.1f}s".ljust(10) + f"{self.phase:<12}{self.message}{acted}"


@dataclass(slots=True)
class Story:
    world: World
    engine: MemoryEngine
    key: JobKey
    lines: list[Line] = field(default_factory=list)
    _phase: str = ""
    _heard: int = 0
    _made: dict[str, int] = field(default_factory=dict)  # at this moment, by task

    def tell(self, event: str, message: str, pod: str = "", action: str = "") -> None:
        self.lines.append(Line(self.world.clock.elapsed, self._phase or Phase.PENDING, event, message, pod, "", action))

    def made(self, pod: ObservedPod) -> None:
        self._made[pod.task] = self._made.get(pod.task, 0) + 1

    def pod_ended(self, pod: ObservedPod, end: ContainerEnd) -> None:
        if end.exit_code == 0:
            self.tell("PodSucceeded", f"{pod.short_name} succeeded", pod.short_name)
            return
        details = ", ".join(filter(None, (str(end.exit_code), end.reason)))
        self.tell("PodFailed", f"{pod.short_name} failed ({details})", pod.short_name)

    def listen(self) -> None:
        """Take down what the controller said and did in its last pass."""
        for _, event in self.engine.events[self._heard :]:
            if event.policy:
                self._acted(event.pod, event.policy, event.action)
            elif event.reason not in set(Phase) and event.reason != "CommandIssued":
                self.tell(event.reason, event.message)
        self._heard = len(self.engine.events)
        job = self.world.jobs.get(self.key)
        if job is None:
            if self._phase != "deleted":
                self.close_moment()
                self._phase = "deleted"
                self.tell("JobDeleted", "the job is removed")
        elif job.status.state.phase != self._phase:
            self.close_moment()
            self._phase = job.status.state.phase
            self.tell("PhaseChanged", _about(job))

    def close_moment(self) -> None:
        if self._made:
            parts = ", ".join(f"{task} {count}" for task, count in self._made.items())
            total = sum(self._made.values())
            self.tell("PodsMade", f"{total} pod{'s' if total > 1 else ''} made: {parts}")
            self._made.clear()

    def _acted(self, pod: str, policy: str, action: str) -> None:
        """A policy acted: told with what made it act if that was just now, else on its own."""
        now = self.world.clock.elapsed
        for line in reversed(self.lines):
            if line.at == now and line.pod == pod and not line.policy and line.event.startswith("Pod"):
                line.policy, line.action = policy, action
                return
        self.tell("PolicyActed", f"{pod or 'the job'}", pod)
        self.lines[-1].policy, self.lines[-1].action = policy, action


def _about(job: Job) -> str:
    """What is worth saying about a phase when it is entered."""
    status = job.status
    match status.state.phase:
        case Phase.RUNNING:
            return f"{status.running}/{job.total_replicas} running"
        case Phase.RESTARTING:
            spent = read_ledger(status).spent
            budget = job.spec.max_retry or 3
            return f"{status.terminating} pods end; retry {status.retry_count}, budget {spent} of {budget} spent"
        case Phase.PENDING:
            return f"version {status.version}" if status.version else "begins"
        case Phase.COMPLETED:
            return f"{status.succeeded} succeeded"
        case _:
            return status.state.message or f"{status.terminating} pods end"
