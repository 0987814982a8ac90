"""All runs in the order of the list, one run by its uid; the list, and one job: from the history, and the queue."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import msgspec

from pumice.client.backend import Backend, RunRef
from pumice.client.history_values import moment_of
from pumice.client.observer import ListedRun, Observed, Observer, Refusals
from pumice.diagnosis.code_change import code_change_words
from pumice.diagnosis.outcome import Outcome, held_text
from pumice.diagnosis.verdict_lines import lead_text
from pumice.model.findings import SPEC
from pumice.reconcile.ledger import most_attempts
from pumice.runtime.recently_used import RecentlyUsed
from pumice.store.logs.log_source import LogBatch, stream_of
from pumice.store.logs.numbered_log import NumberedLog
from pumice.store.run_errors import InvalidOption, NoSuchRun, RunError
from pumice.store.run_record import RunStatus
from pumice.ui.data.actions import actions_of
from pumice.ui.data.machine import waiting
from pumice.ui.data.states import (
    AttemptStates,
    attempt_states,
    attempts,
    counted_pods,
    earlier_attempts,
    task_pods,
    verdict,
)
from pumice.ui.values import (
    FAILED_STATES,
    GROUPS,
    Group,
    Job,
    JobRow,
    LastLine,
    Listing,
    PodState,
    RetryBudget,
    Waiting,
)

PAGE: Final = 200
_MOST_ROWS: Final = 1000
_LONGEST_LINE: Final = 500
_OF_RECORD: Final = ("uid", "name", "number", "namespace", "file", "created", "note", "mode", "host", "priority")
_MOST_GONE: Final = 1000
_RANKS: Final = {Group.ACTIVE: 0, Group.WAITING: 1, Group.SUSPENDED: 1}
_SUFFIXES: Final = {1: "st", 2: "nd", 3: "rd"}
T = TypeVar("T")


class NoSuchJobError(LookupError):
    """No run has this uid. `gone` has the name of a run that was removed while the page was open, and when."""

    def __init__(self, uid: str, gone: tuple[str, dt.datetime] | None = None) -> None:
        super().__init__(f"{uid}: no run has this uid" if gone is None else f"{gone[0]} was deleted, with its record")
        self.gone = gone


@dataclass(slots=True)
class RunList:
    backend: Backend
    observer: Observer
    # Runs that were removed while the page was open, by uid: NAME:N, and when it was noticed.
    gone: RecentlyUsed[str, tuple[str, dt.datetime]] = field(default_factory=lambda: RecentlyUsed(_MOST_GONE))
    _read: Sequence[ListedRun] = ()
    _sorted: Sequence[ListedRun] = ()
    _refs: Mapping[str, RunRef] = field(default_factory=dict)  # of those that can be read, by uid

    async def read(self) -> Sequence[ListedRun]:
        """Return all runs, in the order of the list: the same object until a run has changed."""
        runs = await self.observer.runs()
        if runs is not self._read:
            refs = {each.ref.uid: each.ref for each in runs if not each.damaged}
            for uid, ref in self._refs.items():
                if uid not in refs:
                    self.gone.keep(uid, (str(ref), self.backend.now()))
            # Active runs first, then those that wait, then those that ended, the newest first.
            order = sorted(
                runs, key=lambda run: (_RANKS.get(GROUPS[run.outcome], 2), -(run.finished or run.created).timestamp())
            )
            self._read, self._sorted, self._refs = runs, order, refs
        return self._sorted

    async def find(self, uid: str) -> RunRef:
        """Return the run of a uid, or of a name such as `ddp:3`. Raises NoSuchJobError, StoreError."""
        if uid not in self._refs:
            await self.read()
        if uid in self._refs:
            return self._refs[uid]
        try:
            return await self.backend.find(uid)
        except (NoSuchRun, InvalidOption) as error:
            raise NoSuchJobError(uid, self.gone.get(uid)) from error

    async def observe(self, uid: str) -> Observed:
        """Return a run of which the page shows more than a row. Raises NoSuchJobError, StoreError."""
        return await self._ask(self.observer.observe, uid)

    async def log(self, uid: str) -> NumberedLog:
        """Return the log of a run. Raises NoSuchJobError, StoreError."""
        return await self._ask(self.observer.log, uid)

    async def _ask(self, question: Callable[[RunRef], Awaitable[T]], uid: str) -> T:
        ref = await self.find(uid)
        try:
            return await question(ref)
        except NoSuchRun as error:
            self.observer.forget()
            await self.read()
            raise NoSuchJobError(uid, self.gone.get(ref.uid)) from error


def key_of(run: ListedRun) -> str:
    """Return what names a run in the list; one whose record cannot be read has no uid."""
    return run.ref.uid or f"{run.ref.namespace}/{run.ref}"


@dataclass(slots=True)
class JobData:
    """Its methods that are not async take long: call them in a thread."""

    backend: Backend
    observer: Observer
    runs: RunList
    _rows: RecentlyUsed[RunRef, tuple[int, JobRow]] = field(default_factory=lambda: RecentlyUsed(_MOST_ROWS))

    async def listing(self, group: Group = Group.ALL, q: str = "", after: str = "") -> Listing:
        everything = await self.runs.read()
        words = q.lower().split()
        matching = [each for each in everything if all(word in each.words for word in words)]
        found = [each for each in matching if group in (Group.ALL, GROUPS[each.outcome])]
        begin = next((index + 1 for index, each in enumerate(found) if after and key_of(each) == after), 0)
        shown = found[begin : begin + PAGE]
        return Listing(
            items=tuple([await self.row(each) for each in shown]),
            counts=counts(everything),
            total=len(found),
            phase=group,
            q=q,
            after=key_of(shown[-1]) if len(found) > begin + PAGE else "",
            before=begin,
            others=len(matching) - len(found),
        )

    async def row(self, run: ListedRun) -> JobRow:
        if run.damaged:
            return _damaged(run)
        cached = self._rows.get(run.ref)
        if cached is not None and cached[0] == run.version:
            return cached[1]
        ended = run.finished is not None
        try:
            seen = await self.observer.observe(run.ref, whole=False)
        except NoSuchRun:
            return _damaged(run)
        row = JobRow(**await self._fields(seen))
        if ended:
            self._rows.keep(run.ref, (run.version, row))
        return row

    async def job(self, seen: Observed) -> Job:
        fields = await self._fields(seen, with_queue=True)
        return await asyncio.to_thread(_job, seen, fields, await self.observer.refusals(seen))

    async def waiting(self, seen: Observed, *, with_queue: bool) -> Waiting | None:
        if GROUPS[seen.status.outcome] is not Group.WAITING:
            return None
        found = await self.observer.waiting(seen, whole=with_queue)
        if found is None:
            return None
        return waiting(await self.observer.capacity(), found, seen.record, with_queue=with_queue)

    async def _fields(self, seen: Observed, *, with_queue: bool = False) -> dict[str, Any]:
        waits = await self.waiting(seen, with_queue=with_queue)
        states = await asyncio.to_thread(attempt_states, seen.history, seen.history.attempt, over=seen.is_over)
        line = None
        if states.failures and (said := states.failures[0].end.last_line):
            pod, end = states.failures[0].pod, states.failures[0].end
            line = LastLine(pod=pod.short_name, task=pod.task, text=said[:_LONGEST_LINE], time=end.finished_at)
        else:
            with suppress(OSError, ValueError, LookupError, RunError):
                found = await self.observer.newest_line(seen.ref)
                line = None if found is None else _last_line(found)
        return await asyncio.to_thread(_fields, seen, states, waits, self.backend.now()) | {"last_line": line}


def counts(runs: Sequence[ListedRun]) -> dict[Group, int]:
    """Return the number of runs of each group."""
    numbers = dict.fromkeys(Group, 0)
    numbers[Group.ALL] = len(runs)
    for each in runs:
        numbers[GROUPS[each.outcome]] += 1
    return numbers


def _job(seen: Observed, fields: dict[str, Any], refusals: Refusals) -> Job:
    history, status = seen.history, seen.status
    states = attempt_states(history, history.attempt, over=seen.is_over)
    source = history.source
    spec = history.job.spec
    deadline = None
    if spec.active_deadline_seconds and history.first_running is not None and status.finished is None:
        deadline = history.first_running + dt.timedelta(seconds=spec.active_deadline_seconds)
    found = None if status.outcome is Outcome.SUCCEEDED else verdict(seen, states)
    return Job(
        **fields,
        verdict=found,
        before=earlier_attempts(history, found),
        max_attempts=most_attempts(spec.max_retry, history.job.status),
        budget=RetryBudget(
            spent=history.spent,
            limit=spec.max_retry or status.max_attempts,
            line=source.line(SPEC / "maxRetry"),
        ),
        actions=actions_of(seen, refusals),
        min_available=spec.min_available or history.job.total_replicas,
        min_available_line=source.line(SPEC / "minAvailable"),
        min_success=spec.min_success,
        min_success_line=source.line(SPEC / "minSuccess"),
        deadline=deadline,
        deadline_line=source.line(SPEC / "activeDeadlineSeconds"),
        events=history.events.total,
        fired=len(history.fired),
        directory=seen.directory,
        version=seen.record.version,
        seq=history.seq,
    )


def _fields(seen: Observed, states: AttemptStates, waits: Waiting | None, now: dt.datetime) -> dict[str, Any]:
    history, status, record, over = seen.history, seen.status, seen.record, seen.is_over
    group = GROUPS[status.outcome]
    # Its status knows only the last start: a run that was suspended or interrupted has others.
    until = status.finished or now
    started, ran, waited = status.started, history.seconds_active(until), history.waited
    if history.active and group is not Group.WAITING:
        started = history.active[0].start
    elif started is not None:
        ran, waited = (until - started).total_seconds(), (started - record.created).total_seconds()
    since = history.phases[-1].start if history.phases else status.started or record.created
    state = history.job.status.state
    if group is Group.ACTIVE and history.seq >= status.seq and state.phase:
        # The status is written less often than the journal.
        about = history.events.about(history.job.status)
        status = msgspec.structs.replace(status, phase=state.phase, reason=state.reason, message=about)
    tasks = task_pods(history, states) if seen.pods_known else counted_pods(history.job)
    counts = states.counts()
    if not seen.pods_known:  # what the controller of a cluster counts
        of_job = history.job.status
        numbers = (of_job.running, of_job.succeeded, of_job.failed, of_job.pending)
        kinds = (PodState.RUNNING, PodState.DONE, PodState.FAILED, PodState.WAITING)
        counts = {state: count for state, count in zip(kinds, numbers, strict=True) if count}
    lead, text = _sentence(seen, status, (states, counts), waits)
    lost = history.damaged
    return {
        **{name: getattr(record, name) for name in _OF_RECORD},
        "run": record.ref,
        "outcome": seen.outcome,
        "phase": status.phase,
        "group": group,
        "since": status.finished or since,
        "reason": status.reason,
        "message": status.text if status.outcome is Outcome.STOPPED else status.message,
        "plugins": tuple(history.job.spec.plugins),
        "queue": history.job.spec.queue or "default",
        "tasks": tasks,
        "failed": sum(count for state, count in counts.items() if state in FAILED_STATES),
        "attempt": history.attempt,
        "attempts": attempts(history, over=over, outcome=status.outcome),
        "started": started,
        "finished": status.finished,
        "ran": ran,
        "waited": None if started is None else waited,
        "text": text,
        "lead": lead,
        "waiting": waits,
        "args": tuple(record.args),
        "exit_code": status.exit_code,
        "code": code_change_words(status.code_change) if status.code_change is not None else "",
        "hang": None if over else history.status.hang,
        "published": () if over else history.status.published,
        "damaged": f"{lost} {'entry' if lost == 1 else 'entries'} of the journal cannot be read" if lost else "",
    }


def _sentence(
    seen: Observed, status: RunStatus, known: tuple[AttemptStates, dict[PodState, int]], waits: Waiting | None
) -> tuple[str, str]:
    """Return the state in one sentence, and its beginning that names what failed, so that it is never cut off."""
    history, group, (states, counts) = seen.history, GROUPS[status.outcome], known
    total = history.job.total_replicas
    if group is Group.WAITING:
        return "", (waits.text if waits is not None else "") or status.note or "waits for its start"
    if group is Group.SUSPENDED:
        # What is held says by itself what would start it. On a cluster, nobody knows who suspended it.
        said = (held_text(history.job.status.state) or "suspended") if seen.flags else status.text
        return "", f"{said}: it can be resumed" if status.outcome is Outcome.SUSPENDED else status.note
    if status.outcome is Outcome.SUCCEEDED:
        number = history.attempt
        again = "" if number == 1 else f", in the {number}{_SUFFIXES.get(number, 'th')} attempt"
        return "", f"{history.status.pods.succeeded} succeeded{again}"
    if status.finished is not None:
        lead = "" if status.verdict is None else lead_text(status.verdict)
        return lead, status.text or status.message or status.reason
    if seen.is_over:
        # It has not ended, and has no process here.
        where = f"runs on {seen.record.host}" if seen.elsewhere else "its process was killed"
        return "", "it had not ended when it was exported" if seen.ref.opened else where
    lead, parts = "", []
    first = states.verdict.first if states.verdict is not None else None
    if first is not None:
        failed = sum(counts.get(each, 0) for each in FAILED_STATES)
        lead = f"{failed} failed: {first.pod} first "
        parts.append(f"{lead}({first.exit})")
    parts.append(f"{counts.get(PodState.RUNNING, 0)} of {total} running")
    for state, word in (
        (PodState.DONE, "done"),
        (PodState.RESTARTING, "restarting"),
        (PodState.WAITING, "waiting"),
    ):
        if counts.get(state):
            parts.append(f"{counts[state]} {word}")
    wanted = history.job.spec.min_success
    if states.failures and wanted is not None:
        can = "can still" if total - sum(counts.get(each, 0) for each in FAILED_STATES) >= wanted else "can no longer"
        parts.append(f"minSuccess {wanted} {can} be reached")
    return lead, ", ".join(parts)


def _last_line(batch: LogBatch) -> LastLine:
    _, execution, time, flags, content = batch
    line = content.removesuffix(b"\n").rpartition(b"\n")[2].decode("utf-8", "replace")
    return LastLine(
        pod=execution.pod,
        task=execution.pod.rpartition("-")[0],
        text=line.rpartition("\r")[2][:_LONGEST_LINE] or line[:_LONGEST_LINE],
        stream=stream_of(time, flags),
        time=moment_of(time) if time else None,
    )


def _damaged(run: ListedRun) -> JobRow:
    why = run.damaged or "its record cannot be read"
    return JobRow(
        uid="",
        run=str(run.ref),
        name=run.ref.name,
        number=run.ref.number,
        namespace=run.ref.namespace,
        file="",
        outcome=Outcome.FAILED,
        phase="Unknown",
        group=GROUPS[run.outcome],
        created=run.created,
        since=run.created,
        text=why,
        damaged=why,
    )
