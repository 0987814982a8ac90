"""`--progress`: a line every few seconds that says how far the tests are and how long they still take.

It replaces the dots, which say neither. How long each test took is kept in pytest's cache, so that the next run knows;
without that, a test counts as much as most tests of its folder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence

import pytest

from scripts.duration_text import duration

EVERY = 15.0
LONG = 20.0
KEY = f"pumice/durations{os.environ.get('PUMICE_SOAK', '')}"
# Seconds of a test, by its folder; elsewhere a tenth.
TYPICAL = {"tests/cluster": 2.7, "tests/local": 1.2, "tests/page": 2.7}


class Progress:
    def __init__(self, config: pytest.Config, writer: pytest.TerminalReporter) -> None:
        self._writer = writer
        # None under `-p no:cacheprovider`, which the declared type does not say.
        self._cache: pytest.Cache | None = getattr(config, "cache", None)
        found = self._cache.get(KEY, {}) if self._cache is not None else {}
        self._known: dict[str, float] = found if isinstance(found, dict) else {}
        self._took: dict[str, float] = {}
        self._total: Sequence[str] = ()
        self._started: dict[str, float] = {}
        self._ended = self._failed = 0
        self._began = self._said = time.monotonic()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._start(ids)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:
            self._start([item.nodeid for item in session.items])

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.CollectReport | pytest.TestReport) -> tuple[str, str, str] | None:
        """No dots: a test that passes prints nothing."""
        if isinstance(report, pytest.TestReport) and report.passed:
            return ("passed", "", "") if report.when == "call" else ("", "", "")
        return None

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._started[nodeid] = time.monotonic()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._started.pop(nodeid, None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._took[report.nodeid] = self._took.get(report.nodeid, 0.0) + report.duration
        self._failed += report.failed
        self._ended += report.when == "teardown"
        now = time.monotonic()
        if now - self._said >= EVERY:
            self._said = now
            self._writer.write_line(self.line(now))

    def pytest_sessionfinish(self) -> None:
        if self._cache is not None:
            self._cache.set(KEY, self._known | {name: round(took, 2) for name, took in self._took.items()})

    def line(self, now: float) -> str:
        elapsed = now - self._began
        done = self._weight(self._took) / max(self._weight(self._total), 0.001)
        left = f", about {duration(elapsed / done - elapsed)} left" if 0 < done < 1 else ""
        failed = f", {self._failed} FAILED" if self._failed else ""
        slow = [name for name, began in self._started.items() if now - began >= LONG]
        running = f"; running for long: {', '.join(slow)}" if slow else ""
        return f"  {self._ended} of {len(self._total)} tests{failed}, {duration(elapsed)}{left}{running}"

    def _start(self, ids: Sequence[str]) -> None:
        self._total = ids
        self._began = self._said = time.monotonic()

    def _weight(self, tests: Iterable[str]) -> float:
        """How many seconds these tests take: as long as last time, else as most tests of their folder."""
        return sum(self._known.get(test, TYPICAL.get("/".join(test.split("/")[:2]), 0.1)) for test in tests)
