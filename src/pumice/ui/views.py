"""The input of the functions that draw pages: each view has all values of one page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from pumice.client.observer import Scope
from pumice.ui.detail_values import (
    ActionPlan,
    Events,
    File,
    LogFilter,
    LogWindow,
    Metrics,
    PodPage,
    Policies,
    Rendered,
    SearchResult,
    Timeline,
    Volume,
)
from pumice.ui.values import Info, Job, Listing

OVERVIEW: Final = "overview"
TABS: Final = {  # of a job, with their labels
    OVERVIEW: "Overview",
    "resources": "Resources",
    "rendered": "Pods as rendered",
    "events": "Events",
    "policies": "Policies",
}


@dataclass(frozen=True, slots=True)
class Frame:
    """What every page has. `token` is needed to POST: a hidden field `token`, or the header `X-Pumice-Token`."""

    info: Info
    token: str
    scope: Scope = field(default_factory=Scope)


@dataclass(frozen=True, slots=True)
class JobsView:
    """`GET /?phase&q&after`."""

    frame: Frame
    listing: Listing


@dataclass(frozen=True, slots=True)
class JobView:
    """`GET /jobs/{uid}?tab&attempt&pod&task&stream&at&q&compare&after`. What a tab does not show is None.

    overview: timeline, pods, logs, volume, metrics (of the first that failed), search if `q`; resources: metrics, pods;
    rendered; events; policies and file.
    """

    frame: Frame
    job: Job
    tab: str = OVERVIEW
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


@dataclass(frozen=True, slots=True)
class ActionView:
    """`GET /jobs/{uid}/actions/{name}`: the dialog as a page, for browsers without the script. Its form POSTs here."""

    frame: Frame
    job: Job
    plan: ActionPlan
    refused: str = ""  # why the action that was asked for was not done


@dataclass(frozen=True, slots=True)
class ErrorView:
    frame: Frame
    title: str
    message: str
