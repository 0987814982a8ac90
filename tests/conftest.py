"""What every test can count on: no timing luck, and outside programs that are there or loudly missing."""

from __future__ import annotations

import gc
import os
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from scripts import kubernetes_programs, programs
from tests.progress import Progress
from tests.together import CLUSTER, Together

IN_CI = os.environ.get("CI") == "true"
SOAK = os.environ.get("PUMICE_SOAK") == "1"  # `make soak`: more examples, and tests that take longer than 30 seconds

# nohup and shells without job control start programs with some signals ignored, and children inherit that. Tests start
# from the defaults, and say so where they want something else.
for ignored in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(ignored) is signal.SIG_IGN:
        signal.signal(ignored, signal.default_int_handler if ignored == signal.SIGINT else signal.SIG_DFL)

# A loaded machine must not fail a property, so no example has a deadline. CI draws the same examples every time: a
# commit must not fail for a counterexample that has nothing to do with it.
settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=500 if SOAK else 25
)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, database=None)
settings.load_profile("ci" if IN_CI else "default")


# Where a test draws lots, CI draws the same every time; elsewhere each run draws new ones, which the summary names. Set
# here, so that all processes of a run have the same.
SEED = os.environ.setdefault("PUMICE_TEST_SEED", "7" if IN_CI else str(random.randrange(10**6)))


def seed() -> int:
    return int(SEED)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--progress", action="store_true", help="say how far the tests are, instead of dots")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    writer = config.pluginmanager.get_plugin("terminalreporter")
    if config.getoption("--progress") and isinstance(writer, pytest.TerminalReporter):
        config.pluginmanager.register(Progress(config, writer), "pumice-progress")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Together | None:
    return Together(config, log) if config.getvalue("dist") == "load" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """While Kubernetes is being built, the tests that need it come last."""
    if kubernetes_programs.find(os.environ, Path(__file__).parents[1]) is None:
        items.sort(key=lambda item: item.nodeid.startswith(CLUSTER))


def pytest_collection_finish() -> None:
    """Exempt the tests and all modules from garbage collection, which would look at them again and again."""
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    if not SOAK and item.get_closest_marker("soak"):
        pytest.skip("only in `make soak`")
    for marker in item.iter_markers("needs"):
        for name in marker.args:
            _need(programs.named(name))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests counted (`record_property`), summed up: how many crash points were tried is worth knowing."""
    counted = Counter[str]()
    for report in terminalreporter.getreports("passed"):
        counted.update({name: number for name, number in report.user_properties if isinstance(number, int)})
    for name, number in sorted(counted.items()):
        terminalreporter.write_line(f"{name}: {number}")
    terminalreporter.write_line(f"lots were drawn with PUMICE_TEST_SEED={SEED}")


def _need(program: programs.Program) -> None:
    if program.found:
        return
    missing = f"{program.name} is missing: {program.how_to_get}"
    if IN_CI:
        pytest.fail(missing, pytrace=False)
    pytest.skip(missing)
