"""The list of jobs, and one job: values from the store, the history of a run, and the queue of this machine."""

from __future__ import annotations

import datetime as dt
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from pumice.client.local_client import LocalClient
from pumice.client.run_logs import moment_of
from pumice.engines.local.logs.log_reader import LogReader, LogSelection
from pumice.engines.local.logs.log_source import stream_of
from pumice.engines.local.runs.run_record import RunStatus
from pumice.engines.local.runs.run_store import StoredRun
from pumice.model.findings import SPEC
from pumice.model.vocabulary import Phase
from pumice.reconcile.verdict import how_it_ended
from pumice.ui.data.actions import actions_of
from pumice.ui.data.history import RunHistory
from pumice.ui.data.machine import MachineData
from pumice.ui.data.runs import Known, RunTable, group_of, is_over, stamp
from pumice.ui.data.states import AttemptStates, attempt_states, attempts, task_pods
from pumice.ui.data.verdict import line_of, verdict
from pumice.ui.values import FAILED_STATES, Group, Job, JobRow, LastLine, Listing, PodState, RetryBudget

PAGE: Final = 200
_MOST_ROWS: Final = 1000
_LONGEST_LINE: Final = 500
_SUFFIXES: Final = {1: "st", 2: "nd", 3: "rd"}


@dataclass(slots=True)
class JobData:
    client: LocalClient
    runs: RunTable
    machine: MachineData
    _rows: OrderedDict[str, tuple[tuple[int, int], JobRow]] = field(default_factory=OrderedDict)  # by directory

    def listing(self, group: Group = Group.ALL, q: str = "", after: str = "") -> Listing:
        everything, counts = self.runs.all(), self.counts()
        words = q.lower().split()
        matching = [each for each in everything if all(word in each.words for word in words)]
        found = [each for each in matching if group in (Group.ALL, each.group)]
        begin = next((index + 1 for index, each in enumerate(found) if after and each.key == after), 0)
        shown = found[begin : begin + PAGE]
        return Listing(
            items=tuple(self.row(each) for each in shown),
            counts=counts,
            total=len(found),
            phase=group,
            q=q,
            after=shown[-1].key if len(found) > begin + PAGE else "",
            before=begin,
            others=len(matching) - len(found),
        )

    def counts(self) -> dict[Group, int]:
        """Return the number of runs of each group."""
        everything = self.runs.all()
        counts = dict.fromkeys(Group, 0)
        counts[Group.ALL] = len(everything)
        for each in everything:
            counts[each.group] += 1
        return counts

    def row(self, known: Known) -> JobRow:
        run = None if known.damaged else self.client.store.load(Path(known.directory))
        if run is None:
            return _damaged(known)
        now, ended = stamp(run), known.finished is not None
        cached = self._rows.get(known.directory)
        if cached is not None and ended and cached[0] == now:
            return cached[1]
        status = run.status()
        if ended:
            # The histories of runs that have ended are not kept: the list shows hundreds of them.
            history = RunHistory(run)
            history.refresh()
        else:
            history = self.runs.history(run)
        row = JobRow(**self._fields(history, status))
        if ended:
            self._rows[known.directory] = (now, row)
            while len(self._rows) > _MOST_ROWS:
                self._rows.popitem(last=False)
        return row

    def job(self, run: StoredRun) -> Job:
        status, history = run.status(), self.runs.history(run)
        over = is_over(run, status)
        states = attempt_states(history, history.attempt, over=over)
        fields = self._fields(history, status)
        source = run.source
        spec = history.job.spec
        deadline = None
        if spec.active_deadline_seconds and history.first_running is not None and status.finished is None:
            deadline = history.first_running + dt.timedelta(seconds=spec.active_deadline_seconds)
        waiting = self.machine.waiting(run, with_queue=True) if fields["group"] is Group.WAITING else None
        return Job(
            **{**fields, "waiting": waiting or fields["waiting"]},
            verdict=None if status.phase == Phase.COMPLETED else verdict(history, status, states),
            budget=RetryBudget(
                spent=history.spent,
                limit=spec.max_retry or status.max_attempts,
                line=line_of(source, SPEC / "maxRetry"),
            ),
            actions=actions_of(run, status),
            min_available=spec.min_available or history.job.total_replicas,
            min_available_line=line_of(source, SPEC / "minAvailable"),
            min_success=spec.min_success,
            min_success_line=line_of(source, SPEC / "minSuccess"),
            deadline=deadline,
            deadline_line=line_of(source, SPEC / "activeDeadlineSeconds"),
            events=history.events.total,
            fired=len(history.fired),
            directory=str(run.directory),
            version=run.record.version,
            seq=history.seq,
        )

    def _fields(self, history: RunHistory, status: RunStatus) -> dict[str, Any]:
        run, record = history.run, history.run.record
        over, group = is_over(run, status), group_of(status)
        states = attempt_states(history, history.attempt, over=over)
        waiting = self.machine.waiting(run) if group is Group.WAITING else None
        now = self.client.now()
        ran = None if status.started is None else ((status.finished or now) - status.started).total_seconds()
        waited = None if status.started is None else (status.started - record.created).total_seconds()
        if group is Group.SUSPENDED and history.first_running is not None:
            # Its status forgets when it started; what counts is the time until it was suspended.
            ran = (history.phases[-1].start - history.first_running).total_seconds()
        since = history.phases[-1].start if history.phases else status.started or record.created
        state = history.job.status.state
        if status.finished is None and group is Group.ACTIVE and history.seq > status.seq and state.phase:
            # The status is written less often than the journal.
            status = msgspec.structs.replace(status, phase=state.phase, reason=state.reason, message=state.message)
        return {
            "uid": record.uid,
            "run": run.ref,
            "name": record.name,
            "number": record.number,
            "namespace": record.namespace,
            "file": record.file,
            "phase": status.phase,
            "group": group,
            "created": record.created,
            "since": status.finished or since,
            "reason": status.reason,
            "message": status.message,
            "plugins": tuple(history.job.spec.plugins),
            "queue": history.job.spec.queue or "default",
            "tasks": task_pods(history, states),
            "failed": sum(state in FAILED_STATES for state in states.states.values()),
            "attempt": history.attempt,
            "attempts": attempts(history, over=over, phase=status.phase),
            "started": status.started,
            "finished": status.finished,
            "ran": ran,
            "waited": waited,
            "text": self._sentence(history, status, states, waiting.text if waiting is not None else ""),
            "last_line": last_line(run, states),
            "waiting": waiting,
            "note": record.note,
            "mode": record.mode,
            "host": record.host,
            "priority": record.priority,
            "exit_code": status.exit_code,
            "damaged": f"{history.damaged} entries of the journal cannot be read" if history.damaged else "",
        }

    def _sentence(self, history: RunHistory, status: RunStatus, states: AttemptStates, waits: str) -> str:
        """Return the state in one sentence. The number of failures comes first, so that it is never cut off."""
        group, counts = group_of(status), states.counts()
        total = history.job.total_replicas
        if group is Group.WAITING:
            return waits or status.note or "waits for its start"
        if group is Group.SUSPENDED:
            return "suspended: it can be resumed"
        if status.phase == Phase.COMPLETED:
            return f"{counts.get(PodState.DONE, 0)} succeeded{_in_attempt(history.attempt)}"
        if status.finished is not None:
            return status.verdict[0] if status.verdict else status.message or status.reason or "stopped"
        if is_over(history.run, status):
            host = history.run.record.host
            return "its process was killed" if history.run.is_of_this_host else f"runs on {host}"
        parts = []
        if states.failures:
            first = states.failures[0]
            failed = sum(counts.get(each, 0) for each in FAILED_STATES)
            parts.append(f"{failed} failed: {first.pod.short_name} first ({how_it_ended(first.end)})")
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
            can = (
                "can still" if total - sum(counts.get(each, 0) for each in FAILED_STATES) >= wanted else "can no longer"
            )
            parts.append(f"minSuccess {wanted} {can} be reached")
        return ", ".join(parts)


def last_line(run: StoredRun, states: AttemptStates) -> LastLine | None:
    """Return the last line of the pod that failed first; else the last line of the run."""
    if states.failures and states.failures[0].end.last_line:
        pod, end = states.failures[0].pod, states.failures[0].end
        text = end.last_line[:_LONGEST_LINE]
        return LastLine(pod=pod.short_name, task=pod.task, text=text, time=end.finished_at)
    found: LastLine | None = None
    try:
        for batches in LogReader(run.directory, LogSelection(tail=1)).read():
            _, execution, time, flags, content = batches[-1]
            line = content.removesuffix(b"\n").rpartition(b"\n")[2].decode("utf-8", "replace")
            found = LastLine(
                pod=execution.pod,
                task=execution.pod.rpartition("-")[0],
                text=line.rpartition("\r")[2][:_LONGEST_LINE] or line[:_LONGEST_LINE],
                stream=stream_of(time, flags),
                time=moment_of(time) if time else None,
            )
    except (OSError, ValueError, LookupError):
        return None
    return found


def _damaged(known: Known) -> JobRow:
    return JobRow(
        uid="",
        run=f"{known.name}:{known.number}",
        name=known.name,
        number=known.number,
        namespace=known.namespace,
        file="",
        phase="Unknown",
        group=known.group,
        created=known.created,
        since=known.created,
        text=known.damaged or "its record cannot be read",
        damaged=known.damaged or "its record cannot be read",
    )


def _in_attempt(number: int) -> str:
    return "" if number == 1 else f", in the {number}{_SUFFIXES.get(number, 'th')} attempt"
