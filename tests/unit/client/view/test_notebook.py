"""The table of a run in a notebook: what is in it, and that nothing of a job is markup."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from pumice.client import async_run, sync_client
from pumice.client.values import LogLine, PodStatus, Status
from pumice.client.view.notebook import displayed, html_of
from pumice.diagnosis.verdict import plain_verdict
from pumice.store.run_errors import Unsupported
from tests.unit.client.statuses import NOW, a_status
from tests.unit.notebook_cells import ESCAPED, HOSTILE, shown


def _pod(index: int, **fields: object) -> PodStatus:
    return PodStatus(name=f"w-{index}", task="w", index=index, **fields)  # type: ignore[arg-type] # its fields


def test_the_table_shows_outcome_pods_attempt_and_last_lines() -> None:
    pods = [_pod(0, phase="Running", attempt=2), _pod(1, phase="Failed", attempt=2, code=5, line="bad", restarts=1)]
    lines = [LogLine(time=NOW, pod="w-0", container="w", text="epoch 7")]
    text = shown(html_of(a_status(note="lr=4", args=["--x", "<1>"], message="w-1 exit code 5"), pods, lines))
    for expected in (
        "ddp:1",
        "Running",
        "2 of 4 pods run",
        "attempt 2 of 3",
        "w-1",
        "exit code 5",
        "bad",
        "--x '<1>' · lr=4",
    ):
        assert expected in text


def test_nothing_of_a_job_is_markup() -> None:
    verdict = replace(plain_verdict("", ""), text=f"{HOSTILE}\nsecond line")
    pods = [_pod(0, phase="Failed", reason=HOSTILE, line=HOSTILE, code=1)]
    lines = [LogLine(time=NOW, pod=HOSTILE, container="w", text=HOSTILE)]
    text = shown(html_of(a_status(verdict=verdict, phase="Failed", note=HOSTILE), pods, lines))
    assert ESCAPED in text
    assert "second line" in text


def test_of_many_pods_those_that_failed_are_shown() -> None:
    pods = [_pod(index, phase="Failed" if index == 900 else "Running") for index in range(1000)]
    text = html_of(a_status(), pods, [])
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


class _Run(_Ending, sync_client.Run):
    def __init__(self) -> None:
        """Without a record."""

    def status(self) -> Status:
        return a_status(finished=NOW if self.is_over else None)


class _AsyncRun(_Ending, async_run.AsyncRun):
    def __init__(self) -> None:
        """Without a record."""

    async def status(self) -> Status:
        return a_status(finished=NOW if self.is_over else None)

    async def _html(self) -> str:
        return self._repr_html_()


def test_what_watch_shows_last_is_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    for module in (sync_client, async_run):
        monkeypatch.setattr(module, "displayed", lambda: seen.append)
        monkeypatch.setattr(module, "WATCH_SECONDS", 0)
    _Run().watch()
    asyncio.run(_AsyncRun().watch())
    assert seen == ["running", "the end"] * 2
