"""Draws pages from their views: the environment of the templates, and what they may call."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import isfunction
from typing import Final

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from pumice.diagnosis.pod_ends import OOM_KILLED
from pumice.diagnosis.verdict_lines import heading_lines
from pumice.model.units import size_text
from pumice.ui import tabs, words
from pumice.ui.detail_values import ActionPlan, Frame, JobView, LogWindow
from pumice.ui.figures import plots, timeline
from pumice.ui.markup import HtmlContext
from pumice.ui.queries import TABS
from pumice.ui.values import Job, Listing

KEYS: Final = (
    ("/", "search, or filter the list"),
    ("j k", "next row, row before"),
    ("enter", "open the row"),
    ("esc", "back; leave the field"),
    ("1 – 7", "filter of the list, tab of a job"),
    ("[ ]", "attempt before, next attempt"),
    ("e", "first error"),
    ("n N", "next match, match before; in the search enter, shift enter"),
    ("f", "follow new lines"),
    ("t", "times of lines"),
    ("w", "wrap long lines"),
    ("z", "logs on the full screen"),
    ("m", "mark the line on top"),
    ("← ↑ → ↓", "in tabs, lifelines and cells"),
    ("?", "this list"),
)

# Templates get every public function of these modules, also as a filter.
FUNCTIONS: Final = {each.__name__: each for each in (heading_lines, size_text)} | {
    name: each
    for module in (words, tabs, plots, timeline)
    for name, each in vars(module).items()
    if isfunction(each) and each.__module__ == module.__name__ and not name.startswith("_")
}
VALUES: Final = {
    "ATTEMPT_MARKS": words.ATTEMPT_MARKS,
    "FAILED_AT": timeline.FAILED_AT,
    "KEYS": KEYS,
    "MARKS_TO": words.MARKS_TO,
    "OOM_KILLED": OOM_KILLED,
    "OUTCOME_MARKS": words.OUTCOME_MARKS,
    "STATES": words.STATES,
    "TABS": TABS,
    "TICKS": words.TICKS,
    "TICKS_TO": words.TICKS_TO,
}


def draw(template: str, **values: object) -> str:
    """Return a page: `opened`, or `needs_token` with its style."""
    return ENVIRONMENT.get_template(f"{template}.html").render(**values)


def jobs_page(frame: Frame, listing: Listing) -> str:
    return draw("jobs", frame=frame, listing=listing, page="jobs", title="Jobs")


def action_page(frame: Frame, job: Job, plan: ActionPlan, refused: str = "") -> str:
    """Return the dialog as a page, for browsers without the script; `refused`: why it was not done when asked for."""
    return draw("action", frame=frame, uid=job.uid, plan=plan, refused=refused, page="action", title=plan.title)


def error_page(frame: Frame, title: str, message: str) -> str:
    """Return the page that says what is wrong with the request."""
    return draw("error", frame=frame, message=message, page="error", title=title)


def job_page(view: JobView) -> str:
    return draw("job", frame=view.frame, view=view, page="job", title=view.job.run)


def draw_lines(logs: LogWindow, tasks: Iterable[words.Named], q: str = "") -> LogWindow:
    """Return a window with its lines as the page draws them; matches of `q` are marked."""
    module = ENVIRONMENT.get_template("log_lines.html").module
    html = module.log_lines(logs, words.colours(tasks), q)  # type: ignore[attr-defined] # a macro of the template
    return msgspec.structs.replace(logs, items=(), html=str(html))


def compile_templates() -> None:
    """Compile all templates, so that no page waits for it."""
    for name in ENVIRONMENT.list_templates():
        ENVIRONMENT.get_template(name)


# Each template is compiled once.
ENVIRONMENT: Final = Environment(
    loader=PackageLoader("pumice.ui"),
    autoescape=True,
    undefined=StrictUndefined,
    extensions=[HtmlContext],
    auto_reload=False,
)
ENVIRONMENT.filters |= FUNCTIONS
ENVIRONMENT.globals |= FUNCTIONS | VALUES
