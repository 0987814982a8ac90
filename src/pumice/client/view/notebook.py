"""Runs in notebooks: a table of outcome, pods, attempt and last lines, as HTML. Everything in it is escaped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from pumice.client import history_values
from pumice.client.backend import Backend, RunRef
from pumice.client.history_values import log_lines
from pumice.client.values import LogLine, PodStatus, Status
from pumice.model.display.notebook_html import block, division, heading, paragraph, table
from pumice.store.logs.log_reader import LogSelection
from pumice.store.run_errors import NoSuchRun, Unsupported

POD_COLUMNS: Final = ("pod", "phase", "attempt", "restarts", "end", "last line")
_MOST_PODS: Final = 16
_LINES: Final = 8


async def run_html(backend: Backend, run: RunRef) -> str:
    """Return a run at this moment."""
    try:
        logs = backend.logs(run, LogSelection(tail=_LINES))
        lines = [line async for batches in logs for line in log_lines(batches)]
        return html_of(await backend.status(run), history_values.pods(await backend.history(run)), lines)
    except NoSuchRun:
        return heading(str(run), "was removed")


def html_of(status: Status, pods: Sequence[PodStatus], lines: Sequence[LogLine]) -> str:
    """Return a table of the pods, with what the run says about itself above and its last lines below."""
    why = (status.verdict.text if status.verdict is not None else "") or status.message
    attempt = f"attempt {status.attempt} of {status.max_attempts}" if status.max_attempts else ""
    done, verb = (status.pods.succeeded, "succeeded") if status.is_finished else (status.pods.running, "run")
    about = " · ".join(filter(None, (f"{done} of {status.pods.total} pods {verb}", attempt, status.identity)))
    return division(
        heading(status.run, str(status.outcome), about),
        block(why),
        pods_html(pods),
        block("\n".join(map(str, lines))),
    )


def pods_html(pods: Sequence[PodStatus]) -> str:
    """Return pods as a table; of many, those that failed first."""
    rest = len(pods) - _MOST_PODS
    shown = sorted(pods, key=lambda pod: pod.phase != "Failed")[:_MOST_PODS] if rest > 0 else pods
    return table(POD_COLUMNS, map(pod_row, shown)) + (paragraph(f"and {rest} more pods") if rest > 0 else "")


def pod_row(pod: PodStatus) -> tuple[str, ...]:
    end = f"signal {pod.signal}" if pod.signal else "" if pod.code is None else f"exit code {pod.code}"
    ended = ", ".join(filter(None, (end, pod.reason if pod.reason != "Completed" else "")))
    return pod.name, pod.phase or "-", str(pod.attempt or ""), str(pod.restarts or ""), ended, pod.line


def displayed() -> Callable[[str], None]:
    """Return a function that shows HTML in the cell that runs, in place of what it showed before.

    Raises Unsupported outside of a notebook.
    """
    # Every notebook has loaded it.
    ipython: Any = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        hint = "run.logs() yields its lines anywhere; `pumice attach RUN` shows it in a terminal"
        raise Unsupported("watch shows a run in a notebook", hint)
    display = ipython.display
    handles: list[Any] = []
    shown: list[str] = []

    def show(text: str) -> None:
        if shown == [text]:
            return
        shown[:] = [text]
        if handles:
            handles[0].update(display.HTML(text))
        else:
            handles.append(display.display(display.HTML(text), display_id=True))

    return show
