"""Runs in notebooks: a table of phase, pods, attempt and last lines, as HTML. Everything in it is escaped."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, Final

from pumice.client import run_history
from pumice.client.local_client import LocalClient
from pumice.client.run_logs import RunLogs, log_lines
from pumice.client.values import LogLine, PodStatus, Status
from pumice.engines.local.logs.log_reader import LogSelection
from pumice.engines.local.run_errors import Unsupported
from pumice.engines.local.runs.run_store import StoredRun
from pumice.model.text import printable

_MOST_PODS: Final = 16
_LINES: Final = 8
_LONGEST: Final = 200
_CELL: Final = ' style="text-align:left"'


def run_html(client: LocalClient, run: StoredRun) -> str:
    """Return a run at this moment."""
    if not run.exists:
        return f"<p><b>{_text(run.ref)}</b> was removed</p>"
    logs = RunLogs(run, LogSelection(tail=_LINES)).read()
    lines = [line for batches in logs for line in log_lines(batches)]
    return html_of(client.summary(run), run_history.pods(run), lines)


def html_of(status: Status, pods: Sequence[PodStatus], lines: Sequence[LogLine]) -> str:
    """Return a table of the pods, with what the run says about itself above and its last lines below."""
    why = str(status.verdict) if status.verdict is not None else status.note
    attempt = f"attempt {status.attempt} of {status.max_attempts}" if status.max_attempts else ""
    counts = f"{status.pods.running} of {status.pods.total} pods run"
    about = " · ".join(filter(None, (counts, attempt)))
    parts = [f"<p><b>{_text(status.run)}</b> {_text(status.phase)} · {_text(about)}</p>"]
    if why:
        parts.append(f"<pre>{_block(why)}</pre>")
    rows = "".join(_row(pod) for pod in _shown(pods))
    head = "".join(f"<th{_CELL}>{name}</th>" for name in ("pod", "phase", "attempt", "restarts", "end", "last line"))
    parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>")
    if len(pods) > _MOST_PODS:
        parts.append(f"<p>and {len(pods) - _MOST_PODS} more pods</p>")
    if lines:
        parts.append(f"<pre>{_block(chr(10).join(map(str, lines)))}</pre>")
    return f"<div>{''.join(parts)}</div>"


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


def _shown(pods: Sequence[PodStatus]) -> Sequence[PodStatus]:
    """Return the pods to show: if there are too many, failed ones first."""
    if len(pods) <= _MOST_PODS:
        return pods
    return sorted(pods, key=lambda pod: pod.phase != "Failed")[:_MOST_PODS]


def _row(pod: PodStatus) -> str:
    end = f"signal {pod.signal}" if pod.signal else "" if pod.code is None else f"exit code {pod.code}"
    ended = ", ".join(filter(None, (end, pod.reason if pod.reason != "Completed" else "")))
    cells = (pod.name, pod.phase or "-", str(pod.attempt or ""), str(pod.restarts or ""), ended, pod.line)
    return "<tr>" + "".join(f"<td{_CELL}>{_text(cell)}</td>" for cell in cells) + "</tr>"


def _text(text: str) -> str:
    """Return untrusted text on one line: no markup, no control characters, no bidirectional control characters."""
    return escape(printable(text, _LONGEST))


def _block(text: str) -> str:
    return "\n".join(_text(line) for line in text.split("\n"))
