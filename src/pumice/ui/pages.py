"""Draws pages from their views: the environment of the templates, and what they may call."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined

from pumice.diagnosis.pod_ends import OOM_KILLED
from pumice.diagnosis.verdict_lines import heading_lines
from pumice.model.units import size_text
from pumice.ui import marks, tabs, words
from pumice.ui.detail_values import ActionPlan, Frame, JobView, LogWindow
from pumice.ui.figures import plots, timeline
from pumice.ui.markup import HtmlContext
from pumice.ui.queries import TABS
from pumice.ui.values import Job, Listing

FILTERS: Final[tuple[Callable[..., Any], ...]] = (
    *(words.ago, words.brief, words.clock, words.cores, words.duration, words.file_name, words.number),
    *(words.offset, words.plural, words.seconds_before),
    *(marks.colours, marks.sum_counts, marks.tasks_words),
    *(plots.gpu_words, timeline.life_words, timeline.percent, timeline.phases_words),
    *(plots.area_path, plots.band_path, plots.band_top, plots.highest, plots.is_hot, plots.last_point),
    *(plots.limit_path, plots.limit_words, plots.line_path, plots.metric_name, plots.plot_top, plots.spark_top),
    plots.value_words,
    *(tabs.cell_words, tabs.origin_group, tabs.short_gib, tabs.state_words),
    *(heading_lines, tabs.message_parts, size_text, tabs.now_rows, tabs.others_words),
)
FUNCTIONS: Final[tuple[Callable[..., Any], ...]] = (
    *(marks.bar_parts, marks.cell_counts, marks.failed_count, marks.running_count),
    *(plots.gpu_owners, plots.machine_meters),
    *(plots.measured_pods, plots.measured_seconds, plots.one_pod, plots.small_plots),
    *(tabs.attempt_options, tabs.by_heading, tabs.by_task, tabs.compare_options, tabs.first_failures, tabs.holders),
    *(tabs.log_query, tabs.log_volume, tabs.origin_counts, tabs.plugin_colours, tabs.pod_options),
    *(tabs.ranked_options, tabs.ranked_pods, tabs.rows_by_pod),
    *(timeline.attempt_heads, timeline.close_up, timeline.life_bars, timeline.many_picture, timeline.phase_bars),
    *(timeline.surface_labels, timeline.surfaces, timeline.timeline_picture),
    *(tabs.verdict_facts, words.query),
)
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

VALUES: Final = {
    "ATTEMPT_MARKS": marks.ATTEMPT_MARKS,
    "FAILED_AT": timeline.FAILED_AT,
    "KEYS": KEYS,
    "MARKS_TO": marks.MARKS_TO,
    "OOM_KILLED": OOM_KILLED,
    "OUTCOME_MARKS": marks.OUTCOME_MARKS,
    "STATES": marks.STATES,
    "TABS": TABS,
    "TICKS": marks.TICKS,
    "TICKS_TO": marks.TICKS_TO,
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


def draw_lines(logs: LogWindow, tasks: Iterable[marks.Named], q: str = "") -> LogWindow:
    """Return a window with its lines as the page draws them; matches of `q` are marked."""
    module = ENVIRONMENT.get_template("log_lines.html").module
    html = module.log_lines(logs, marks.colours(tasks), q)  # type: ignore[attr-defined] # a macro of the template
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
ENVIRONMENT.filters |= {each.__name__: each for each in FILTERS}
ENVIRONMENT.globals |= {each.__name__: each for each in FUNCTIONS} | VALUES
