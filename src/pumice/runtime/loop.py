"""The reconcile loop: observe a job, decide, write the status, carry out the commands, emit the events.

The order is fixed. The status is written first, by compare-and-set: a decision from an outdated cache stops at the
conflict, and after a crash the next pass derives the same commands from the written status.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

import msgspec
from msgspec.structs import replace

from pumice.admission.admit import Admitted, admit_stored
from pumice.admission.context import Context
from pumice.admission.updates import scale_down_command
from pumice.model.snapshot import Failure, JobKey, Snapshot
from pumice.plugins.base import Base, PluginError
from pumice.plugins.shaping import manifest_of
from pumice.reconcile.decide import decide
from pumice.reconcile.decision import Decision, EngineCommand, Ensure
from pumice.runtime.ports import ConflictError, Engine, EngineError
from pumice.runtime.queue import KeyQueue
from pumice.runtime.status_writes import StatusWrites

_log = logging.getLogger(__name__)

Clock = Callable[[], dt.datetime]

LONGEST_REST: Final = dt.timedelta(seconds=2)
# After so many failures of one kind the pass stops; the next pass tries the rest.
ENOUGH_FAILURES: Final = 10
# A job with more pods, or a longer spec, is reconciled in a thread, so that other jobs do not wait for it.
MOST_PODS_AT_ONCE: Final = 500
LONGEST_SPEC_AT_ONCE: Final = 16 * 1024


@dataclass(slots=True)
class Loop:
    engine: Engine
    context: Context
    clock: Clock
    queue: KeyQueue = field(default_factory=KeyQueue)
    parallel: int = 1  # how many commands of one job may be under way at once
    # After a pass the key rests for this multiple of the time that `decide` took, so that changes coalesce: a job of
    # thousands of pods would otherwise be reconciled once for each of them.
    rest: float = 0.0
    # A status of which only counts have changed is written at most once in this time.
    status_interval: dt.timedelta = dt.timedelta()
    # A message that changes alone is written at most once in this time.
    text_interval: dt.timedelta = dt.timedelta()
    # The threads for large jobs. They need real time: a simulation has none.
    threads: Executor | None = None
    passes: int = 0
    # What the engine last failed at, by job: reported in the status until it works. A new process finds it again.
    _failures: dict[JobKey, tuple[Failure, ...]] = field(default_factory=dict)
    # A job is admitted once for each change of its spec. A caller that has admitted a job already adds it here.
    admitted: dict[JobKey, Admitted] = field(default_factory=dict)
    # The jobs of `admitted` that are reconciled in a thread.
    _large: set[JobKey] = field(default_factory=set)
    # How long `decide` took in the pass that is under way.
    _decided_in: dict[JobKey, dt.timedelta] = field(default_factory=dict)
    # Jobs whose last pass ended in a conflict.
    _conflicts: set[JobKey] = field(default_factory=set)
    _writes: StatusWrites = field(init=False)

    def __post_init__(self) -> None:
        self._writes = StatusWrites(self.status_interval, self.text_interval)

    async def serve_next(self) -> bool:
        """Reconcile one key if one is due. Return whether there was one."""
        key = self.queue.take(self.clock())
        if key is None:
            return False
        await self.serve(key)
        return True

    async def serve(self, key: JobKey) -> None:
        """Reconcile a key that was taken from the queue, and release it."""
        try:
            good = await self.reconcile(key)
        except ConflictError:
            # Another client has changed the job: reconcile again at once. A second conflict means that the change has
            # not reached the cache yet, so back off.
            good = key not in self._conflicts
            self._conflicts.add(key)
            if good:
                self.queue.add(key)
        except EngineError:
            good = False
        except BaseException:
            # A defect, or the end of the program: release the key.
            self.queue.failed(key, self.clock())
            raise
        else:
            self._conflicts.discard(key)
        took = self._decided_in.pop(key, dt.timedelta())
        now = self.clock()
        if good:
            self.queue.done(key, now + min(took * self.rest, LONGEST_REST) if self.rest else None)
        else:
            self.queue.failed(key, now)

    async def reconcile(self, key: JobKey) -> bool:
        """One pass. Return False if something failed and must be tried again."""
        self.passes += 1
        snapshot = await self.engine.observe(key)
        if snapshot is None:
            self._failures.pop(key, None)
            self.admitted.pop(key, None)
            self._large.discard(key)
            self._writes.forget(key)
            return True
        stored, began = snapshot, self.clock()
        status = self._writes.current(key, stored.job.status)
        snapshot = replace(stored, job=msgspec.structs.replace(stored.job, status=status))
        if self.threads is not None and self._is_large(snapshot, key):
            work = asyncio.get_running_loop().run_in_executor(self.threads, self._decide, snapshot, key, began)
            decision = await work
        else:
            decision = self._decide(snapshot, key, began)
        self._decided_in[key] = self.clock() - began
        decision, until = self._writes.quiet(key, status, decision, self.clock())
        if until is not None:
            self.queue.add_at(key, until)
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("job %s: %s", key, _shown(decision), extra={"job": key})
        await self._write_status(key, stored, decision)
        good = await self._carry_out(key, decision)
        await self.engine.emit(stored, decision.events)
        if decision.requeue_after is not None:
            self.queue.add_at(key, self.clock() + decision.requeue_after)
        return good

    async def _write_status(self, key: JobKey, stored: Snapshot, decision: Decision) -> None:
        if decision.status == stored.job.status:
            self._writes.release(key)
            return
        until = self._writes.hold(key, stored.job.status, decision, self.clock())
        if until is not None:
            self.queue.add_at(key, until)
            return
        await self.engine.write_status(stored, decision.status)
        self._writes.written(key, self.clock())

    def _is_large(self, snapshot: Snapshot, key: JobKey) -> bool:
        if key not in self.admitted:
            long = len(msgspec.json.encode(snapshot.job.spec)) > LONGEST_SPEC_AT_ONCE
            (self._large.add if long else self._large.discard)(key)
        return key in self._large or len(snapshot.pods) + snapshot.job.total_replicas > MOST_PODS_AT_ONCE

    def _decide(self, snapshot: Snapshot, key: JobKey, now: dt.datetime) -> Decision:
        snapshot, plugins = self._prepare(snapshot, key)
        try:
            return decide(snapshot, plugins, now)
        except PluginError as error:
            return decide(replace(snapshot, errors=(str(error),)), (), now)

    def _prepare(self, snapshot: Snapshot, key: JobKey) -> tuple[Snapshot, tuple[Base, ...]]:
        """The snapshot for `decide`: the job with defaults, its errors, and what the engine failed at before."""
        spec, admitted = snapshot.job.spec, self.admitted.get(key)
        if admitted is None or not (
            spec is admitted.written.spec or spec in (admitted.job.spec, admitted.written.spec)
        ):
            admitted = self.admitted[key] = admit_stored(snapshot.job, self.context)
        findings = [finding for finding in admitted.findings if finding.is_error]
        errors = [
            f"{finding.path}: {f'{finding.value}: ' if isinstance(finding.value, str | int) else ''}{finding.message}"
            for finding in findings
        ]
        if any(finding.path[-1:] == ("minAvailable",) for finding in findings):
            # Scaled down without the webhook, which would have refused it with this command.
            command = scale_down_command(admitted.job, admitted.job)
            errors += [f"to lower it: {command}"] if command else []
        job = msgspec.structs.replace(snapshot.job, spec=admitted.job.spec)
        failures = self._failures.get(key, ())
        return replace(snapshot, job=job, errors=(*snapshot.errors, *errors), failures=failures), admitted.plugins

    async def _carry_out(self, key: JobKey, decision: Decision) -> bool:
        failures: dict[Failure, None] = {}
        # In runs of one kind, in order: pods may be created at once, but not before what they mount.
        for _, commands in groupby(decision.commands, type):
            failures |= dict.fromkeys(await self._apply_all(key, list(commands)))
        if failures:
            self._failures[key] = tuple(failures)
        elif self._failures.pop(key, None):
            # The status names them still. What worked may change nothing that would lead to another pass.
            self.queue.add(key)
        return not failures

    async def _apply_all(self, key: JobKey, commands: Sequence[EngineCommand]) -> list[Failure]:
        """Apply commands of one kind, several at once; return the failures."""
        failures: dict[int, Failure] = {}
        left = enumerate(commands)

        async def work(*, until_good: bool = False) -> None:
            while len(failures) < ENOUGH_FAILURES and (taken := next(left, None)) is not None:
                position, command = taken
                failure = await self._apply(key, command)
                if failure is not None:
                    failures[position] = failure
                elif until_good:
                    return

        if key in self._failures:
            # After a failure, try one by one until something works again.
            await work(until_good=True)
        workers = min(self.parallel, len(commands))
        if workers == 1:
            await work()
        else:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(workers):
                    tasks.create_task(work())
        # In the order of the commands: if the message varied, each pass would change the status and cause the next.
        return [failures[position] for position in sorted(failures)[:ENOUGH_FAILURES]]

    async def _apply(self, key: JobKey, command: EngineCommand) -> Failure | None:
        try:
            await self.engine.apply(key, command)
        except EngineError as error:
            name = manifest_of(command.owned)["metadata"]["name"] if isinstance(command, Ensure) else ""
            return Failure(error.reason, str(error), name)
        return None


def _shown(decision: Decision) -> str:
    """The decision for the debug log: `Running; 3 CreatePod; again in 10s`."""
    counts = Counter(type(command).__name__ for command in decision.commands)
    later = [] if decision.requeue_after is None else [f"again in {decision.requeue_after.total_seconds():g}s"]
    return "; ".join([str(decision.status.state.phase), *(f"{count} {kind}" for kind, count in counts.items()), *later])
