"""The memory engine with every call of the controller held against what must always be true."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pumice.engines.memory.engine import MemoryEngine
from pumice.model.job import Job, JobStatus, Manifest
from pumice.model.slot import NONE
from pumice.model.snapshot import JobKey, Snapshot
from pumice.reconcile.decision import CreatePod, DeletePod, EngineCommand
from pumice.reconcile.ledger import RestartKind, read_ledger, write_ledger

FINAL = {"Completed", "Failed", "Terminated"}


@dataclass(slots=True)
class WatchedEngine(MemoryEngine):
    """The memory engine, every call held against the rules."""

    strict: bool = True  # off where two controllers act on outdated views: what they do wrong is mended afterwards
    made: int = 0  # pods asked for
    created: int = 0  # pods that there really were
    history: list[JobStatus] = field(default_factory=list)
    succeeded: set[tuple[str, int]] = field(default_factory=set)  # what the controller has seen succeed

    async def write_status(self, snapshot: Snapshot, status: JobStatus) -> None:
        key = JobKey(snapshot.job.namespace, snapshot.job.name)
        before = self.world.jobs.get(key)
        try:
            # Not `super()`: a dataclass with slots is made anew, and the bare word would mean the one before.
            await MemoryEngine.write_status(self, snapshot, status)
        finally:
            after = self.world.jobs.get(key)
            if before is not None and after is not None and after.status != before.status:
                check_status(before.status, after.status)
                self.history.append(after.status)
                self._note_successes(after, snapshot)

    async def apply(self, key: JobKey, command: EngineCommand) -> None:
        job = self.world.jobs.get(key)
        if job is not None and self.strict:
            if isinstance(command, CreatePod):
                self._check_creation(key, job, command.manifest)
            elif isinstance(command, DeletePod):
                self._check_deletion(key, job, command)
        self.made += isinstance(command, CreatePod)
        before = len(self.world.pods)
        try:
            await MemoryEngine.apply(self, key, command)
        finally:
            self.created += isinstance(command, CreatePod) and len(self.world.pods) > before

    def _note_successes(self, job: Job, snapshot: Snapshot) -> None:
        """Who succeeded is not run again, unless a restart or scaling down has taken it back."""
        ledger = read_ledger(job.status)
        replicas = {task.name: task.replicas for task in job.spec.tasks}
        targets = ledger.restart.targets if ledger.restart is not None else {}
        if ledger.restart is not None and ledger.restart.kind is RestartKind.ALL:
            self.succeeded.clear()
        for pod in snapshot.pods:
            is_void = pod.version < ledger.void or pod.index in targets.get(pod.task, NONE)
            if pod.phase == "Succeeded" and not pod.is_deleting and not is_void:
                self.succeeded.add((pod.task, pod.index))
        self.succeeded = {
            (task, index)
            for task, index in self.succeeded
            if index < replicas.get(task, 0) and index not in targets.get(task, NONE)
        }

    def _check_creation(self, key: JobKey, job: Job, manifest: Manifest) -> None:
        status, ledger, notes = job.status, read_ledger(job.status), manifest["metadata"]["annotations"]
        task, index = notes["volcano.sh/task-spec"], int(notes["volcano.sh/task-index"])
        spec = job.task(task)
        assert status.state.phase in {"Pending", "Running"}
        assert spec is not None
        assert 0 <= index < spec.replicas
        assert (task, index) not in self.succeeded, f"{task}-{index} has succeeded already"
        assert (key, manifest["metadata"]["name"]) not in self.world.pods, "an index has two pods"
        assert ledger.spent < (job.spec.max_retry or 3), "a run more than maxRetry allows"
        limit = spec.max_restarts
        assert limit is None or ledger.restarts_by_task.get(task, 0) <= limit
        if self.gang:
            assert key in self.world.groups, "a pod without its PodGroup"
        old = [stored.seen for stored in self.world.pods_of(key) if stored.seen.version < status.version]
        for pod in old:
            late = pod.deleted_at is not None and pod.deleted_at <= self.world.clock.now
            assert pod.is_finished or late, "pods of two runs at once"

    def _check_deletion(self, key: JobKey, job: Job, command: DeletePod) -> None:
        """A pod of the present run goes only if it is meant: by scaling, by a targeted restart, or by the end."""
        stored = self.world.pods.get((key, command.name))
        if stored is None or stored.seen.uid != command.uid or stored.seen.is_deleting:
            return
        pod, phase, task = stored.seen, job.status.state.phase, job.task(stored.seen.task)
        if phase not in {"Pending", "Running", "Restarting"}:
            assert not pod.is_finished, "a finished pod is kept when a job ends"
            return
        if pod.version < job.status.version or task is None or pod.index >= task.replicas:
            return
        restart = read_ledger(job.status).restart
        assert restart is not None
        assert restart.kind is RestartKind.TARGETS
        assert pod.index in restart.targets.get(pod.task, NONE), f"{pod.short_name} is nobody's target"
        assert pod.retry < restart.retry, "a pod that was made for this retry is not meant by it"


def check_status(before: JobStatus, after: JobStatus) -> None:
    """What holds between any two statuses in a row."""
    assert after.retry_count - before.retry_count in (0, 1)
    assert after.version - before.version in (0, 1)
    assert read_ledger(after).spent - read_ledger(before).spent in (0, 1)
    if before.state.phase in FINAL:
        assert after.state.phase == before.state.phase, "a finished phase was left"
    if after.state.phase == before.state.phase:
        assert after.state.last_transition_time == before.state.last_transition_time
    else:
        assert after.conditions[-1].status == after.state.phase
        assert after.conditions[-1].last_transition_time == after.state.last_transition_time
    ledger = read_ledger(after)
    again = read_ledger(JobStatus(controlled_resources=write_ledger(ledger)))
    assert again == ledger
    total = Counter[str]()
    for task in after.task_status_count.values():
        total.update(task.phase)
    counts = (after.pending, after.running, after.succeeded, after.failed, after.unknown)
    assert counts == tuple(total[name] for name in ("Pending", "Running", "Succeeded", "Failed", "Unknown"))
