"""One pod of a run, from its creation to its end."""

from __future__ import annotations

import datetime as dt

from msgspec import Struct, field

from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase
from pumice.store.events import ContainerRestarted, PodChanged


class Piece(Struct):
    """A time from a start to an end, such as from a start of the containers of a pod to their end."""

    start: dt.datetime
    end: dt.datetime | None = None
    how: ContainerEnd | None = None  # set if a container ended, and started again


class PodLife(Struct):
    """A pod that replaces it is another one."""

    pod: ObservedPod
    changed: dt.datetime
    runs: list[Piece] = field(default_factory=list)
    ended: dt.datetime | None = None
    note: str = ""  # what its failure led to
    seq: int = 0  # of the entry that changed it last
    restarts: int = 0  # of its containers, as far as they are announced
    gpus: tuple[str, ...] = ()  # the devices that it has, or had

    @property
    def name(self) -> str:
        return self.pod.short_name

    @property
    def attempt(self) -> int:
        return self.pod.retry + 1

    def change(self, event: PodChanged, time: dt.datetime) -> None:
        pod = event.pod
        self.pod, self.changed = pod, time
        self.note = event.follows or self.note
        self.gpus = event.gpus or self.gpus
        self.restarts = pod.restarts
        # A pod whose containers have ended for good does not start again, though its phase is still to follow.
        starts = self.runs[-1].end is not None and not pod.is_finished if self.runs else True
        if pod.phase is PodPhase.RUNNING and starts:
            self.runs.append(Piece(pod.changed_at or time))
        if pod.is_finished and self.ended is None:
            self.end(pod.ended_at or time)

    def restart(self, event: ContainerRestarted, time: dt.datetime) -> None:
        self.pod, self.changed, self.restarts = event.pod, time, event.count
        if not self.runs or self.runs[-1].end is not None:
            self.runs.append(Piece(self.pod.created_at))
        last = self.runs[-1]
        last.end, last.how = max(event.end.finished_at or time, last.start), event.end

    def end(self, time: dt.datetime) -> None:
        """End it, unless it has ended before."""
        if self.ended is None:
            self.ended = time
            if self.runs and self.runs[-1].end is None:
                self.runs[-1].end = max(time, self.runs[-1].start)
