"""What the tabs of one job show: timeline, pods, logs, measurements, rendered pods, events, policies, file, actions.

`JobView` is all of it, as its page is drawn from it.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

import msgspec

from pumice.client.observer import Scope
from pumice.store.history.event_log import LoggedEvent
from pumice.store.history.run_history import PhaseSpan
from pumice.ui.values import Info, Job, PodState, RetryBudget, Value

# --- the timeline -------------------------------------------------------------------------------------------------


class Segment(Value, frozen=True):
    """A part of the life of a pod. `kind` is wait, init or run; `exit` is set where it ended."""

    kind: str
    start: dt.datetime
    end: dt.datetime | None = None
    attempt: int = 1
    exit: str = ""
    exit_code: int | None = None
    reason: str = ""
    state: PodState = PodState.RUNNING  # in which the segment ended; RESTARTING before a container's next start


class Lifeline(Value, frozen=True):
    pod: str
    task: str
    index: int
    state: PodState
    segments: tuple[Segment, ...] = ()
    note: str = ""  # why it stands out: `exit 1: val_loss is nan`
    delay: float | None = None  # seconds after the first failure of the attempt


class StateCounts(Value, frozen=True):
    """How many pods were in each state at a time."""

    time: dt.datetime
    waiting: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    stopped: int = 0


class FailureMark(Value, frozen=True):
    time: dt.datetime
    pod: str
    attempt: int
    exit: str
    first: bool = False


class Timeline(Value, frozen=True):
    """`GET …/timeline`. Up to 64 pods: `pods`; more: `buckets`, and in `pods` at most 12 that stand out.

    With `every=1`, `pods` has the first 1,000 of more pods, too.
    """

    attempt: int  # 0: all
    begin: dt.datetime
    end: dt.datetime  # now, if it goes on
    live: bool
    created: dt.datetime
    phases: tuple[PhaseSpan, ...] = ()
    total: int = 0
    pods: tuple[Lifeline, ...] = ()
    buckets: tuple[StateCounts, ...] = ()
    failures: tuple[FailureMark, ...] = ()
    every: bool = False  # `pods` was asked for as a whole, not only what stands out


# --- pods ---------------------------------------------------------------------------------------------------------


class PodRow(Value, frozen=True):
    """Sparklines have at most 40 points, None where nothing was measured; they are empty if there are over 64 pods."""

    pod: str
    task: str
    index: int
    attempt: int
    state: PodState
    rank: int | None = None
    address: str = ""
    node: str = ""
    restarts: int = 0
    exit: str = ""
    exit_code: int | None = None
    reason: str = ""
    last_line: str = ""
    start: dt.datetime | None = None
    end: dt.datetime | None = None
    cpu: float | None = None  # cores
    cpu_limit: float | None = None
    memory: int | None = None  # bytes
    memory_limit: int | None = None
    gpu: float | None = None  # percent busy
    gpu_memory: int | None = None
    gpus: tuple[str, ...] = ()
    cpu_points: tuple[float | None, ...] = ()
    memory_points: tuple[float | None, ...] = ()


class PodPage(Value, frozen=True):
    """`GET …/pods`. `counts` has all pods of the attempt; `after` continues the list."""

    attempt: int
    items: tuple[PodRow, ...]
    total: int
    counts: dict[PodState, int] = msgspec.field(default_factory=dict)
    after: str = ""


# --- logs ---------------------------------------------------------------------------------------------------------


class LogFilter(Value, frozen=True):
    """What of the logs is chosen; the query of the three endpoints. `attempt` 0: all."""

    attempt: int = 0
    pod: str = ""
    task: str = ""
    stream: str = ""


class LogLine(Value, frozen=True, kw_only=True):
    """`number` counts the lines of the selection from 0; `seq` is that of the batch, and stable."""

    number: int
    seq: int
    time: dt.datetime | None
    pod: str = ""  # empty for a line of Pumice itself
    task: str
    container: str = ""
    stream: str = ""
    text: str
    attempt: int
    restart: int = 0
    error: bool = False
    cut: int | None = None  # the line had so many bytes, and is cut here
    redraws: int = (
        0  # parts that a carriage return replaced, as those of a progress bar; only the last one is in `text`
    )
    kind: str = "line"  # or gap, phase, pod, policy: what Pumice says between the lines


class LogWindow(Value, frozen=True):
    """`GET …/logs`. `at` is the number of the first line. `live`: more lines may follow."""

    filter: LogFilter
    total: int
    errors: int
    at: int
    items: tuple[LogLine, ...] = ()
    begin: dt.datetime | None = None  # times are shown from here
    first_error: int | None = None  # the number of the line that the verdict names
    live: bool = False
    truncated: bool = False  # the oldest lines were removed
    lines: int | None = None  # of which only those with a match are counted in `total`; None if all are
    share: int = 1  # 1 of so many lines came, and all with an error; only in the stream
    rate: int = 0  # lines a second, if `share` is not 1
    others: dict[int, int] = msgspec.field(default_factory=dict)  # lines of other attempts
    html: str | msgspec.UnsetType = msgspec.UNSET  # with `html=1`: the lines as the page draws them, not `items`


class SearchResult(Value, frozen=True):
    """`GET …/logs/search`. `positions` are line numbers; at most 10,000 from `after` on, `total` is exact."""

    q: str
    total: int
    positions: tuple[int, ...] = ()
    after: int | None = None
    lines: int = 0  # that were searched
    message: str = ""  # why nothing could be searched


class VolumeBucket(Value, frozen=True):
    time: dt.datetime
    first: int  # number of its first line
    lines: int
    errors: int


class Volume(Value, frozen=True):
    begin: dt.datetime | None
    end: dt.datetime | None
    total: int
    errors: int
    buckets: tuple[VolumeBucket, ...] = ()
    complete: bool = True  # else ask again: more of the logs is searched for errors


# --- measurements -------------------------------------------------------------------------------------------------


class Series(Value, frozen=True):
    pod: str
    points: tuple[float | None, ...]


class Metric(Value, frozen=True):
    """One plot: a line a pod, or quantiles and the pods that stand out. `points[i]` is at `begin + i * step`."""

    name: str  # cpu, memory, gpu, gpuMemory
    unit: str  # cores, bytes, percent
    limit: float | None = None
    unenforced: float | None = None  # a limit of the file that pods can exceed
    series: tuple[Series, ...] = ()
    median: tuple[float | None, ...] = ()
    low: tuple[float | None, ...] = ()  # 5th percentile
    high: tuple[float | None, ...] = ()  # 95th percentile


class Metrics(Value, frozen=True):
    """`GET …/metrics`. Without samples `metrics` is empty, and `message` says why."""

    attempt: int
    pod: str
    begin: dt.datetime | None = None
    step: float = 0.0
    metrics: tuple[Metric, ...] = ()
    message: str = ""


# --- pods as rendered, events, policies, file ---------------------------------------------------------------------


class RenderedItem(Value, frozen=True):
    """A row of `pumice explain --json`. `other` is the value of the compared pod; None if that has none."""

    heading: str
    kind: str
    container: str
    name: str
    value: str
    by: str  # you, default, job, or a plugin
    why: str = ""
    line: int | None = None
    per_pod: bool = False
    other: str | None = None
    differs: bool = False


class Rendered(Value, frozen=True):
    pod: str
    name: str  # with the job's
    attempt: int
    pods: tuple[str, ...]
    ranks: tuple[int | None, ...] = ()  # of `pods`; empty if no plugin numbers them
    rank: int | None = None
    world: int | None = None
    compare: str = ""
    items: tuple[RenderedItem, ...] = ()
    manifest: str = ""  # as YAML
    message: str = ""


class Events(Value, frozen=True):
    """`GET …/events`, the newest first."""

    total: int
    items: tuple[LoggedEvent, ...]
    after: int | None = None


class Firing(Value, frozen=True):
    time: dt.datetime
    attempt: int
    pod: str
    text: str
    spent: int  # of the retry budget, afterwards


class PolicyRow(Value, frozen=True):
    path: str
    line: int | None
    lines: tuple[int, ...]  # of the file that belong to it
    when: str  # `PodFailed`, `exitCode 42`
    action: str
    task: str = ""
    timeout: str = ""
    firings: tuple[Firing, ...] = ()
    why_not: str = ""


class Policies(Value, frozen=True):
    items: tuple[PolicyRow, ...]  # those that fired first
    budget: RetryBudget | None = None
    rehearse: str = ""  # a command


class File(Value, frozen=True):
    """`GET …/file`. `as_submitted` is false if only the Job was kept, written again as YAML: then no line is known."""

    name: str
    lines: tuple[str, ...]
    as_submitted: bool
    marks: dict[int, str] = msgspec.field(default_factory=dict)  # fired, or budget, by line
    stored: bool | msgspec.UnsetType = msgspec.UNSET  # it is the Job as a cluster stores it


# --- actions ------------------------------------------------------------------------------------------------------


class ActionPlan(Value, frozen=True):
    """`GET …/actions/{name}`: what would happen, for a dialog."""

    name: str
    title: str  # `Stop ddp:3 for good?`
    button: str  # `Stop 6 pods`
    allowed: bool
    why_not: str = ""
    danger: bool = False
    now: str = ""
    phases: tuple[str, ...] = ()
    remark: str = ""  # `Final: it cannot be resumed.`
    frees: str = ""
    kept: str = ""
    command: str = ""  # that does the same


class ActionResult(Value, frozen=True):
    done: bool
    message: str
    uid: str = ""  # of the run to show next
    run: str = ""


# --- pages ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Frame:
    """What every page has. `token` is needed to POST: a hidden field `token`, or the header `X-Pumice-Token`."""

    info: Info
    token: str
    scope: Scope = field(default_factory=Scope)


@dataclass(frozen=True, slots=True)
class JobView:
    """`GET /jobs/{uid}?tab&attempt&pod&task&stream&at&q&compare&after`. What a tab does not show is None.

    overview: timeline, pods, logs, volume, metrics (of the first that failed), search if `q`; resources: metrics, pods;
    rendered; events; policies and file.
    """

    frame: Frame
    job: Job
    tab: str = "overview"
    attempt: int = 0  # 0: all
    chosen: LogFilter = field(default_factory=LogFilter)
    timeline: Timeline | None = None
    pods: PodPage | None = None
    logs: LogWindow | None = None
    volume: Volume | None = None
    search: SearchResult | None = None
    metrics: Metrics | None = None
    rendered: Rendered | None = None
    events: Events | None = None
    policies: Policies | None = None
    file: File | None = None
