"""What a client learns about what happened in a run: its events, attempts, pods and log lines."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final

import msgspec

from pumice.client.backend import Backend, RunRef
from pumice.client.values import Attempt, Event, LogLine, PodStatus
from pumice.diagnosis.pod_ends import one_line
from pumice.model.slot import slots
from pumice.store.event_json import JsonView
from pumice.store.events import RunEvent
from pumice.store.history.pod_life import PodLife
from pumice.store.history.run_history import AttemptTimes, RunHistory
from pumice.store.journal import Entry
from pumice.store.logs.log_source import UNKNOWN, LogBatch, stream_of

_NANOSECONDS: Final = 10**9


def attempts(history: RunHistory) -> list[Attempt]:
    """Return the attempts of a run, oldest first."""
    found = []
    for times in history.attempts or [AttemptTimes(1, history.record.created, history.status.finished)]:
        begin, end = history.span(times)
        policy = "" if times.acted is None else f"{times.acted.event}: {times.acted.action}"
        verdict = history.verdict(times.number)
        first = None if verdict is None else verdict.first
        attempt = Attempt(number=times.number, begin=begin, end=end, policy=policy)
        if first is not None:
            how, line = f"{first.pod}: {first.how}", first.line
            more = {"pod": first.pod, "first_failure": how, "code": first.code, "signal": first.signal, "line": line}
            attempt = msgspec.structs.replace(attempt, **more)
        found.append(attempt)
    return found


def pods(history: RunHistory) -> list[PodStatus]:
    """Return the newest pod of each name, in the order of the tasks; those of the plan that do not exist yet, too."""
    seen = {life.name: _pod_status(life) for life in history.lives_of()}
    planned = [PodStatus(name=slot.short_name, task=slot.task.name, index=slot.index) for slot in slots(history.job)]
    return [*(seen.pop(each.name, each) for each in planned), *seen.values()]


def _pod_status(life: PodLife) -> PodStatus:
    pod = life.pod
    end = pod.deciding_end if pod.is_finished else pod.first_failure
    finished = None
    if pod.is_finished:
        finished = max((each.finished_at for each in pod.ends if each.finished_at is not None), default=life.changed)
    return PodStatus(
        name=pod.short_name,
        task=pod.task,
        index=pod.index,
        phase=str(pod.phase),
        attempt=pod.retry + 1,
        restarts=life.restarts,
        ready=pod.ready,
        created=pod.created_at,
        finished=finished,
        container="" if end is None else end.container,
        code=None if end is None else end.exit_code,
        signal=None if end is None else end.signal or None,
        reason=(end.reason if end is not None else "") or pod.reason or (pod.waiting.reason if pod.waiting else ""),
        line=one_line(end.last_line) if end is not None and end is pod.first_failure else "",
        message=pod.message or (pod.waiting.message if pod.waiting else ""),
        gpus=life.gpus,
    )


def pod_names(history: RunHistory) -> list[str]:
    """Return the short names of the pods that a run has or had."""
    planned = (slot.short_name for slot in slots(history.job))
    return list(dict.fromkeys((*planned, *sorted(life.name for life in history.lives.values()))))


def events(backend: Backend, run: RunRef, *, follow: bool) -> AsyncIterator[Event]:
    """Yield past events; with `follow`, also new ones until the run ends. Raises NoSuchRun at once."""
    return _events(backend, run, backend.journal(run, follow=follow))


async def _events(backend: Backend, run: RunRef, journal: AsyncIterator[Sequence[Entry]]) -> AsyncIterator[Event]:
    record = (await backend.history(run)).record
    history, view, known = RunHistory(record), JsonView(lambda _text: None), Event.__struct_fields__
    async for entries in journal:
        for entry in entries:
            event = history.add(entry)
            fields = view.fields(event) if isinstance(event, RunEvent) else {}
            if fields:
                own = {name: value for name, value in fields.items() if name in known}
                yield msgspec.convert({"seq": entry.seq, "time": entry.time, **own}, Event)


def log_lines(batches: Iterable[LogBatch]) -> list[LogLine]:
    """Return the lines of batches."""
    found: list[LogLine] = []
    for _, execution, time, flags, text in batches:
        common: dict[str, Any] = {
            "time": None if time == UNKNOWN else moment_of(time),
            "pod": execution.pod,
            "container": execution.container,
            "stream": stream_of(time, flags),
            "attempt": execution.attempt,
            "restart": execution.restart,
        }
        lines = text.removesuffix(b"\n").decode("utf-8", "replace").split("\n")
        found.extend(LogLine(text=line, **common) for line in lines)
    return found


def moment_of(time: int) -> dt.datetime:
    """Return the time of a batch, which is in nanoseconds since 1970."""
    moment = dt.datetime.fromtimestamp(time // _NANOSECONDS, dt.UTC)
    return moment.replace(microsecond=time % _NANOSECONDS // 1000)
