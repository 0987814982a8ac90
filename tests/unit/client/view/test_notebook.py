"""The table of a run in a notebook: what is in it, and that nothing of a job is markup."""

from __future__ import annotations

import asyncio
import datetime as dt
from html.parser import HTMLParser

import pytest

from pumice.client import async_run, sync_run
from pumice.client.values import LogLine, PodStatus, Status
from pumice.client.view.notebook import displayed, html_of
from pumice.engines.local.run_errors import Unsupported
from pumice.engines.local.runs.run_record import PodCounts
from pumice.engines.local.why import Verdict

NOW = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
HOSTILE = "<script>alert(1)</script>&\x1b[31m\u202e\"'"
ALLOWED = {"div", "p", "b", "pre", "table", "thead", "tbody", "tr", "th", "td"}


def _status(**fields: object) -> Status:
    common = {
        "run": "ddp:1",
        "name": "ddp",
        "number": 1,
        "uid": "u",
        "namespace": "default",
        "phase": "Running",
        "reason": "",
        "pods": PodCounts(running=2, total=4),
        "attempt": 2,
        "max_attempts": 3,
        "note": "",
        "created": NOW,
        "started": NOW,
        "finished": None,
        "exit_code": None,
        "priority": 0,
        "mode": "detached",
        "host": "here",
        "file": "",
        "directory": "",
    }
    return Status(**{**common, **fields})  # type: ignore[arg-type] # fields of Status


def _pod(index: int, **fields: object) -> PodStatus:
    return PodStatus(name=f"w-{index}", task="w", index=index, **fields)  # type: ignore[arg-type] # its fields


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str | None]] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(attrs)

    def handle_data(self, data: str) -> None:
        self.text += f"{data}\n"


def test_the_table_shows_phase_pods_attempt_and_last_lines() -> None:
    pods = [_pod(0, phase="Running", attempt=2), _pod(1, phase="Failed", attempt=2, code=5, line="bad", restarts=1)]
    lines = [LogLine(time=NOW, pod="w-0", container="w", text="epoch 7")]
    reader = _Reader()
    reader.feed(html_of(_status(note="w-1 exit code 5"), pods, lines))
    for expected in ("ddp:1", "Running", "2 of 4 pods run", "attempt 2 of 3", "w-1", "exit code 5", "bad", "epoch 7"):
        assert expected in reader.text


def test_nothing_of_a_job_is_markup() -> None:
    verdict = Verdict(text=f"{HOSTILE}\nsecond line")
    pods = [_pod(0, phase="Failed", reason=HOSTILE, line=HOSTILE, code=1)]
    lines = [LogLine(time=NOW, pod=HOSTILE, container="w", text=HOSTILE)]
    text = html_of(_status(verdict=verdict, phase="Failed", note=HOSTILE), pods, lines)
    reader = _Reader()
    reader.feed(text)
    assert reader.tags <= ALLOWED
    assert reader.attributes == {("style", "text-align:left")}
    assert not {"\x1b", "\u202e"} & set(text)
    assert "<script>alert(1)</script>&\\x1b[31m\\u202e\"'" in reader.text
    assert "second line" in reader.text


def test_of_many_pods_those_that_failed_are_shown() -> None:
    pods = [_pod(index, phase="Failed" if index == 900 else "Running") for index in range(1000)]
    text = html_of(_status(), pods, [])
    assert text.count("<tr>") == 17
    assert "w-900" in text
    assert "and 984 more pods" in text


def test_watching_needs_a_notebook() -> None:
    with pytest.raises(Unsupported, match="watch shows a run in a notebook"):
        displayed()


class _Ending:
    """A run that ends right after it is shown for the first time."""

    is_over = False

    def _repr_html_(self) -> str:
        before, self.is_over = self.is_over, True
        return "the end" if before else "running"


class _Run(_Ending, sync_run.Run):
    def __init__(self) -> None:
        """Without a record."""

    def status(self) -> Status:
        return _status(finished=NOW if self.is_over else None)


class _AsyncRun(_Ending, async_run.AsyncRun):
    def __init__(self) -> None:
        """Without a record."""

    async def status(self) -> Status:
        return _status(finished=NOW if self.is_over else None)


def test_what_watch_shows_last_is_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    for module in (sync_run, async_run):
        monkeypatch.setattr(module, "displayed", lambda: shown.append)
        monkeypatch.setattr(module, "WATCH_SECONDS", 0)
    _Run().watch()
    asyncio.run(_AsyncRun().watch())
    assert shown == ["running", "the end"] * 2
