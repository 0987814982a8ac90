"""The timeline of a run: phases, and a lifeline per pod; above 64 pods, counts over time and the outliers."""

from __future__ import annotations

import datetime as dt
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from pumice.client.observer import Observed
from pumice.diagnosis.pod_ends import how_it_ended, one_line
from pumice.model.units import elapsed_text
from pumice.store.history.pod_life import PodLife
from pumice.store.history.run_history import RunHistory
from pumice.ui.data.states import AttemptStates, attempt_states
from pumice.ui.detail_values import FailureMark, Lifeline, Segment, StateCounts, Timeline
from pumice.ui.queries import JobQuery
from pumice.ui.values import FAILED_STATES, PodState

MOST_LINES: Final = 64
_STAND_OUT: Final = 12
_EVERY: Final = 1000  # lines, if all are asked for
_BUCKETS: Final = 120
_MOST_BUCKETS: Final = 600
_SLOW: Final = 2.0  # times the median
_FEW: Final = 3
_FEW_OF_MANY: Final = 0.02
_ENOUGH: Final = 8  # pods that are done, to say what is slow
_SILENT: Final = 10.0  # times the median of the others
_SHORTEST_SILENCE: Final = 60.0  # seconds
_Attempts = Mapping[int, AttemptStates]  # by number
_NOTHING: Final = 9  # the rank of a pod that does not stand out


def timeline(seen: Observed, asked: JobQuery, now: dt.datetime, last_lines: Mapping[str, dt.datetime]) -> Timeline:
    """Without an attempt, all are shown, as they are on the page. `last_lines`: when pods printed last, if known."""
    history, status, over = seen.history, seen.status, seen.is_over
    attempt = asked.attempt or 0
    chosen = [each for each in history.attempts if attempt in (0, each.number)]
    lives = [life for life in history.lives.values() if attempt in (0, life.attempt)]
    states = {each: attempt_states(history, each, over=over) for each in {life.attempt for life in lives}}
    created = history.record.created
    live = not over and (attempt in (0, history.attempt))
    end = now
    if not live:
        # When the last thing happened in an attempt, or in the run.
        ends = [each.end for each in history.attempts if attempt in (0, each.number) and each.end is not None]
        ends += [life.ended for life in lives if life.ended is not None]
        ends += [status.finished] if status.finished is not None and attempt in (0, history.attempt) else []
        end = max([*ends, *(life.changed for life in lives[-1:])], default=now)
    begin = chosen[0].start if chosen else status.started or created
    end = max(end, begin)
    lines = _lifelines(history, states, lives, live=live)
    many = len(lines) > MOST_LINES
    odd = {line.pod: line for line in _outstanding(lines, end, last_lines)} if many else {}
    number = min(max(asked.buckets or _BUCKETS, 2), _MOST_BUCKETS)
    moments = [begin + index * ((end - begin) / (number - 1)) for index in range(number)]
    shown = [odd.get(line.pod, line) for line in lines[:_EVERY]] if asked.every or not many else odd.values()
    return Timeline(
        attempt=attempt,
        begin=begin,
        end=end,
        live=live,
        created=created,
        phases=tuple(each for each in history.phases if attempt in (0, each.attempt) and each.start <= end),
        total=len({life.name for life in lives}),
        pods=tuple(shown),
        buckets=tuple(_counts(history, states, lives, moments)) if many else (),
        failures=tuple(_failures(states)),
        every=many and asked.every,
    )


def _state(states: _Attempts, life: PodLife) -> PodState:
    return states[life.attempt].states.get(life.name, PodState.STOPPED)


def _lifelines(history: RunHistory, states: _Attempts, lives: Sequence[PodLife], *, live: bool) -> list[Lifeline]:
    """Return a line for each name, with the lives of all its pods."""
    by_name: dict[str, list[PodLife]] = {}
    for life in lives:
        by_name.setdefault(life.name, []).append(life)
    found = []
    for name in (life.name for life in history.lives_of() if life.name in by_name):
        of_name = by_name[name]
        last = of_name[-1]
        end = last.pod.first_failure
        of_attempt = states[last.attempt]
        failure = next((each for each in of_attempt.failures if each.pod.uid == last.pod.uid), None)
        note = ""
        if failure is not None and end is not None:
            said = one_line(end.last_line)
            note = f"{how_it_ended(end)}{f': {said}' if said else ''}"
        elif last.pod.waiting is not None:
            note = f"waits: {last.pod.waiting.message or last.pod.waiting.reason}"
        found.append(
            Lifeline(
                pod=name,
                task=last.pod.task,
                index=last.pod.index,
                state=_state(states, last),
                segments=tuple(part for life in of_name for part in _segments(life, _state(states, life), live=live)),
                note=note,
                delay=None if failure is None else of_attempt.delay(failure),
            )
        )
    return found


def _segments(life: PodLife, state: PodState, *, live: bool) -> list[Segment]:
    pod, found = life.pod, list[Segment]()
    end = pod.first_failure
    started = life.runs[0].start if life.runs else life.ended
    if started is None or started > pod.created_at:
        kind = "init" if state is PodState.INIT else "wait"
        wait_end = started if started is not None or live else life.changed
        found.append(
            Segment(kind=kind, start=pod.created_at, end=wait_end, attempt=life.attempt, state=PodState.WAITING)
        )
    for piece in life.runs:
        is_last = piece is life.runs[-1]
        how = piece.how if piece.how is not None else end if is_last else None
        ended = piece.end if piece.end is not None or live else life.changed
        restarted = piece.how is not None and not (is_last and pod.is_finished)
        found.append(
            Segment(
                kind="run",
                start=piece.start,
                end=ended,
                attempt=life.attempt,
                exit="" if how is None or ended is None else how_it_ended(how),
                exit_code=None if how is None or ended is None else how.exit_code,
                reason="" if how is None else how.reason,
                state=PodState.RESTARTING if restarted else state,
            )
        )
    return found


def _failures(states: _Attempts) -> Iterable[FailureMark]:
    for number in sorted(states):
        of_attempt = states[number]
        first = "" if of_attempt.verdict is None else of_attempt.verdict.pod
        for each in (*of_attempt.left_early, *of_attempt.failures):
            if each.end.finished_at is not None:
                yield FailureMark(
                    time=each.end.finished_at,
                    pod=each.pod.short_name,
                    attempt=number,
                    exit=how_it_ended(each.end),
                    first=each.pod.short_name == first,
                )


def _outstanding(lines: Sequence[Lifeline], end: dt.datetime, last_lines: Mapping[str, dt.datetime]) -> list[Lifeline]:
    """Return the pods that are worth a look: failed, much slower than the others, silent, restarted, still waiting."""
    slow, silent = _slow(lines, end), _silent(lines, end, last_lines)
    ranked = sorted((_rank(line, slow, silent), position) for position, line in enumerate(lines))
    found = []
    for rank, position in ranked[:_STAND_OUT]:
        if rank[0] == _NOTHING:
            break
        line = lines[position]
        note = line.note
        if line.pod in slow:
            note = f"{slow[line.pod]:.1f} times the median"
        elif line.pod in silent:
            note = f"no line for {elapsed_text(silent[line.pod])}"
        found.append(msgspec.structs.replace(line, note=note))
    return found


def _rank(line: Lifeline, slow: Mapping[str, float], silent: Mapping[str, float]) -> tuple[int, float, int]:
    if line.state is PodState.FIRST:
        return (0, 0.0, line.index)
    if line.state in FAILED_STATES:
        return (1, line.delay or 0.0, line.index)
    if line.pod in slow:
        return (2, -slow[line.pod], line.index)
    if line.pod in silent:
        return (3, -silent[line.pod], line.index)
    if any(part.state is PodState.RESTARTING for part in line.segments):
        return (4, 0.0, line.index)
    return (5, 0.0, line.index) if line.state in (PodState.WAITING, PodState.INIT) else (_NOTHING, 0.0, line.index)


def _slow(lines: Sequence[Lifeline], end: dt.datetime) -> dict[str, float]:
    """Return the pods that run much longer than those that are done, with how many times the median."""
    done = sorted(_length(line, end) for line in lines if line.state is PodState.DONE)
    median = done[len(done) // 2] if len(done) >= _ENOUGH else 0.0
    if not median:
        return {}
    lengths = {line.pod: _length(line, end) / median for line in lines if line.state is PodState.RUNNING}
    return _few({pod: times for pod, times in lengths.items() if times > _SLOW}, len(lines))


def _silent(lines: Sequence[Lifeline], end: dt.datetime, last_lines: Mapping[str, dt.datetime]) -> dict[str, float]:
    """Return the running pods that have printed nothing for much longer than the others, with the seconds."""
    running = [line.pod for line in lines if line.state is PodState.RUNNING and line.pod in last_lines]
    silence = {pod: (end - last_lines[pod]).total_seconds() for pod in running}
    if len(silence) < _ENOUGH:
        return {}
    median = sorted(silence.values())[len(silence) // 2]
    limit = max(_SHORTEST_SILENCE, _SILENT * median)
    return _few({pod: seconds for pod, seconds in silence.items() if seconds > limit}, len(lines))


def _few(found: dict[str, float], total: int) -> dict[str, float]:
    """Return nothing if it is true of many: then none stands out."""
    return found if len(found) <= max(_FEW, total * _FEW_OF_MANY) else {}


def _length(line: Lifeline, end: dt.datetime) -> float:
    runs = [part for part in line.segments if part.kind == "run"]
    return sum(((part.end or end) - part.start).total_seconds() for part in runs)


def _counts(
    history: RunHistory, states: _Attempts, lives: Sequence[PodLife], moments: Sequence[dt.datetime]
) -> list[StateCounts]:
    """Return how many pods were in each state at these moments. A pod counts until its attempt ends."""
    names = ("waiting", "running", "done", "failed", "stopped")
    changes = {name: [0] * (len(moments) + 1) for name in names}
    ends = {each.number: each.end for each in history.attempts if each.number < history.attempt}

    def add(name: str, start: dt.datetime, end: dt.datetime | None) -> None:
        changes[name][bisect_left(moments, start)] += 1
        changes[name][len(moments) if end is None else bisect_left(moments, end)] -= 1

    for life in lives:
        created, state = life.pod.created_at, _state(states, life)
        started = life.runs[0].start if life.runs else life.ended
        add("waiting", created, started)
        if started is not None:
            add("running", started, life.ended)
        if life.ended is not None:
            into = "done" if state is PodState.DONE else "failed" if state in FAILED_STATES else "stopped"
            replaced = ends.get(life.attempt)
            add(into, life.ended, None if replaced is None else max(replaced, life.ended))
    totals = dict.fromkeys(names, 0)
    found = []
    for index, moment in enumerate(moments):
        totals = {name: totals[name] + changes[name][index] for name in names}
        found.append(StateCounts(time=moment, **totals))
    return found
