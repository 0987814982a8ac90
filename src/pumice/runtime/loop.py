"""The loop: observe a job, decide, write the status, carry out the commands, tell the events; then the next.

The order is fixed. The status goes first, by compare-and-set: whoever decided on an outdated view is stopped before he
does harm, and a crash after the write heals by itself, because the commands follow again from what was written.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import msgspec

from pumice.admission.admit import Admitted, admit
from pumice.admission.context import Context
from pumice.model.findings import Finding
from pumice.model.job import Job, JobSpec, VolumeSpec
from pumice.model.snapshot import JobKey, Snapshot, Trouble
from pumice.plugins.base import Base
from pumice.plugins.guard import PluginError
from pumice.reconcile.decide import decide
from pumice.reconcile.decision import Decision, EngineCommand
from pumice.runtime.ports import ConflictError, Engine, EngineError
from pumice.runtime.queue import KeyQueue

Clock = Callable[[], dt.datetime]


@dataclass(slots=True)
class Loop:
    engine: Engine
    context: Context
    clock: Clock
    queue: KeyQueue = field(default_factory=KeyQueue)
    passes: int = 0
    # What an engine last failed at, by job: told in the job's status until it works. Lost with the process, and found
    # again by the next one.
    _troubles: dict[JobKey, tuple[Trouble, ...]] = field(default_factory=dict)
    # A job is admitted once for each change of its spec, not once a pass.
    _admitted: dict[JobKey, tuple[JobSpec, Admitted]] = field(default_factory=dict)

    async def serve_next(self) -> bool:
        """Serve one key if one is due; whether there was one."""
        key = self.queue.take(self.clock())
        if key is None:
            return False
        try:
            good = await self.reconcile(key)
        except ConflictError:
            # Somebody else was faster. What he wrote is what counts; look at it.
            self.queue.add(key)
            good = True
        except EngineError:
            good = False
        except BaseException:
            # A defect, or the end of the program: whoever goes on must not find the key held by nobody.
            self.queue.failed(key, self.clock())
            raise
        if good:
            self.queue.done(key)
        else:
            self.queue.failed(key, self.clock())
        return True

    async def reconcile(self, key: JobKey) -> bool:
        """One pass. False if something did not work and must be tried again."""
        self.passes += 1
        snapshot = await self.engine.observe(key)
        if snapshot is None:
            self._troubles.pop(key, None)
            self._admitted.pop(key, None)
            return True
        stored = snapshot
        snapshot, plugins = self._prepared(snapshot, key)
        try:
            decision = decide(snapshot, plugins, self.clock())
        except PluginError as error:
            decision = decide(replace(snapshot, faults=(str(error),)), (), self.clock())
        if decision.status != stored.job.status:
            await self.engine.write_status(stored, decision.status)
        good = await self._carry_out(key, decision)
        await self.engine.emit(stored, decision.events)
        if decision.requeue_after is not None:
            self.queue.add_at(key, self.clock() + decision.requeue_after)
        return good

    def _prepared(self, snapshot: Snapshot, key: JobKey) -> tuple[Snapshot, tuple[Base, ...]]:
        """The snapshot as `decide` wants it: the job with defaults, what is wrong with it, and what failed before."""
        admitted = self._admit(snapshot.job, key)
        faults = tuple(_told(finding) for finding in admitted.findings if finding.is_error)
        troubles = self._troubles.get(key, ())
        # The names of claims that Volcano's controller wrote beside the claims that it made are kept.
        spec = msgspec.structs.replace(admitted.job.spec, volumes=snapshot.job.spec.volumes)
        job = msgspec.structs.replace(snapshot.job, spec=spec)
        return replace(snapshot, job=job, faults=faults, troubles=troubles), admitted.plugins

    def _admit(self, job: Job, key: JobKey) -> Admitted:
        known = self._admitted.get(key)
        if known is not None and known[0] is job.spec:
            return known[1]
        if known is not None and known[0] == job.spec:
            admitted = known[1]
        else:
            volumes = [_as_written(volume) for volume in job.spec.volumes]
            written = msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, volumes=volumes))
            admitted = admit(msgspec.to_builtins(written), self.context)
        self._admitted[key] = (job.spec, admitted)
        return admitted

    async def _carry_out(self, key: JobKey, decision: Decision) -> bool:
        troubles: list[Trouble] = []
        for command in decision.commands:
            trouble = await self._tried(key, command)
            if trouble is not None and trouble not in troubles:
                troubles.append(trouble)
        if troubles:
            self._troubles[key] = tuple(troubles)
        else:
            self._troubles.pop(key, None)
        return not troubles

    async def _tried(self, key: JobKey, command: EngineCommand) -> Trouble | None:
        try:
            await self.engine.apply(key, command)
        except EngineError as error:
            return Trouble(error.reason, str(error))
        return None


def _told(finding: Finding) -> str:
    value = f"{finding.value}: " if isinstance(finding.value, str | int) else ""
    return f"{finding.path}: {value}{finding.message}"


def _as_written(volume: VolumeSpec) -> VolumeSpec:
    return volume if volume.volume_claim is None else msgspec.structs.replace(volume, volume_claim_name="")
