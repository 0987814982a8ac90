"""What happened in a run, from its journal: its events, its attempts and its pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Final

import msgspec

from pumice.client.values import Attempt, Event, PodStatus
from pumice.engines.local.event_json import JsonView
from pumice.engines.local.events import ContainerRestarted, PhaseChanged, PodChanged
from pumice.engines.local.outcome import Outcome
from pumice.engines.local.runs.event_codec import EventDecoder
from pumice.engines.local.runs.journal import Entry, EntryKind, read_journal
from pumice.engines.local.runs.run_store import StoredRun
from pumice.engines.local.verdict import how_it_failed, one_line, verdict_lines
from pumice.model.job import Job
from pumice.model.slot import slots
from pumice.model.snapshot import ContainerEnd, ObservedPod

_POLL: Final = 0.2


def attempts(run: StoredRun) -> list[Attempt]:
    """Return the attempts of a run, the first one first."""
    entries = read_journal(run.directory)[0]
    # The time in the queue is no part of the first attempt.
    begin = next((entry.time for entry in entries if entry.kind == EntryKind.STARTED), run.record.created)
    decoder, found = EventDecoder(Job()), [Attempt(number=1, begin=begin)]

    def change(**fields: object) -> None:
        found[-1] = msgspec.structs.replace(found[-1], **fields)

    for entry in entries:
        event = decoder.decode(entry)
        if isinstance(event, PhaseChanged):
            if event.attempt > found[-1].number:
                change(end=entry.time)
                found.append(Attempt(number=event.attempt, begin=entry.time))
            if event.acted is not None:
                change(policy=f"{event.acted.event}: {event.acted.action}")
        if isinstance(event, PodChanged) and event.follows and not found[-1].first_failure:
            pod, end = event.pod, event.pod.first_failure
            change(pod=pod.short_name, first_failure=f"{pod.short_name}: {one_line(how_it_failed(pod, ''))}")
            if end is not None:
                change(code=end.exit_code, signal=end.signal or None, line=one_line(end.last_line))
        if isinstance(event, Outcome):
            change(end=entry.time)
            if event.first is not None:
                # The verdict knows which failure came first; at the time of a failure it may not be known.
                pod, end = event.first.pod, event.first.end
                failure = f"{pod.short_name}: {one_line(how_it_failed(pod, ''))}"
                change(pod=pod.short_name, first_failure=failure, code=end.exit_code, signal=end.signal or None)
                change(line=one_line(end.last_line))
    # One whose process was killed has no outcome.
    change(end=found[-1].end or run.status().finished)
    return found


def pods(run: StoredRun) -> list[PodStatus]:
    """Return the newest pod of each name, in the order of the tasks; those of the plan that do not exist yet, too."""
    decoder, seen, gpus = EventDecoder(Job()), dict[str, PodStatus](), dict[str, tuple[str, ...]]()
    for entry in read_journal(run.directory)[0]:
        event = decoder.decode(entry)
        if isinstance(event, PodChanged) and event.gpus:
            gpus[event.pod.uid] = event.gpus
        if isinstance(event, PodChanged | ContainerRestarted):
            status = msgspec.structs.replace(_pod_status(event.pod, entry), gpus=gpus.get(event.pod.uid, ()))
            seen[event.pod.short_name] = status
            if isinstance(event, ContainerRestarted):
                restarted = msgspec.structs.replace(seen[event.pod.short_name], restarts=event.count)
                seen[event.pod.short_name] = restarted
    job = decoder.job if decoder.job.name else run.written_job()
    planned = [PodStatus(name=slot.short_name, task=slot.task.name, index=slot.index) for slot in slots(job)]
    return [*(seen.pop(each.name, each) for each in planned), *seen.values()]


def _pod_status(pod: ObservedPod, entry: Entry) -> PodStatus:
    end: ContainerEnd | None = pod.first_failure
    if end is None and pod.is_finished:
        end = max(pod.ends, key=lambda each: each.finished_at or pod.created_at, default=None)
    finished = None
    if pod.is_finished:
        finished = max((each.finished_at for each in pod.ends if each.finished_at is not None), default=entry.time)
    return PodStatus(
        name=pod.short_name,
        task=pod.task,
        index=pod.index,
        phase=str(pod.phase),
        attempt=pod.retry + 1,
        restarts=pod.restarts,
        ready=pod.ready,
        created=pod.created_at,
        finished=finished,
        container="" if end is None else end.container,
        code=None if end is None else end.exit_code,
        signal=None if end is None else end.signal or None,
        reason=(end.reason if end is not None else "") or pod.reason or (pod.waiting.reason if pod.waiting else ""),
        line=one_line(end.last_line) if end is not None and end is pod.first_failure else "",
        message=pod.message or (pod.waiting.message if pod.waiting else ""),
    )


class EventReader:
    """Reads the events of a run, in passes: each pass continues where the last one ended."""

    def __init__(self, run: StoredRun) -> None:
        self._directory, self._offset = run.directory, 0
        self._decoder = EventDecoder(Job())
        self._view = JsonView(lambda _text: None, lambda outcome: verdict_lines(outcome, run.source))

    def read(self) -> Iterator[Event]:
        """Yield the events that are new since the last pass."""
        entries, self._offset = read_journal(self._directory, self._offset)
        yield from self._events(entries)

    def _events(self, entries: Sequence[Entry]) -> Iterator[Event]:
        known = Event.__struct_fields__
        for entry in entries:
            event = self._decoder.decode(entry)
            fields = {} if event is None else self._view.fields(event)
            if fields:
                own = {name: value for name, value in fields.items() if name in known}
                yield msgspec.convert({"seq": entry.seq, "time": entry.time, **own}, Event)

    async def follow(self, is_live: Callable[[], bool]) -> AsyncIterator[Event]:
        """Yield past and new events until the run is no longer live."""
        live = True
        while live:
            live = is_live()
            for event in self.read():
                yield event
            if live:
                await asyncio.sleep(_POLL)
