from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.model.job import JobStatus
from pumice.model.slot import MOST_PODS
from pumice.reconcile.ledger import Ledger, Restart, RestartKind, most_attempts, read_ledger, write_ledger
from tests.unit.reconcile.values import NOW

MICROSECOND = dt.timedelta(microseconds=1)
FULL = Ledger(
    spent=2,
    generation=7,
    void=1,
    seen={"worker": frozenset((0, 1, 2))},
    succeeded={"worker": frozenset((1,))},
    restart=Restart(RestartKind.TARGETS, 3, {"worker": frozenset((0, 2))}),
    restarts_by_task={"worker": 2},
    evicted={"worker-2": NOW + MICROSECOND},
    noticed={"TaskFailed/worker": NOW},
    unknown_since=NOW,
    first_running=NOW,
    suspended=True,
    obeyed=frozenset(("c-1",)),
    min_available={"": 3, "worker": 2},
    waiting="p-1",
    others={"plugin-svc": "svc"},
)


def read(entries: dict[str, str]) -> Ledger:
    return read_ledger(JobStatus(controlled_resources=entries))


def test_every_field_is_written() -> None:
    assert write_ledger(FULL) == {
        "plugin-svc": "svc",
        "pumice/evicted/worker-2": "2030-01-02T03:04:05.000001Z",
        "pumice/first-running": "2030-01-02T03:04:05.000000Z",
        "pumice/generation": "7",
        "pumice/min-available": "3",
        "pumice/min-available/worker": "2",
        "pumice/noticed/TaskFailed/worker": "2030-01-02T03:04:05.000000Z",
        "pumice/obeyed/c-1": "true",
        "pumice/restart": "targets@3",
        "pumice/restarts/worker": "2",
        "pumice/seen/worker": "0-2",
        "pumice/spent": "2",
        "pumice/succeeded/worker": "1",
        "pumice/suspended": "true",
        "pumice/target/worker": "0,2",
        "pumice/unknown-since": "2030-01-02T03:04:05.000000Z",
        "pumice/void": "1",
        "pumice/waiting": "p-1",
    }


@pytest.mark.parametrize("ledger", [pytest.param(Ledger(), id="empty"), pytest.param(FULL, id="full")])
def test_a_written_ledger_is_read_back(ledger: Ledger) -> None:
    assert read(write_ledger(ledger)) == ledger


def test_an_empty_ledger_writes_nothing() -> None:
    assert write_ledger(Ledger(seen={"worker": frozenset()})) == {}


def test_foreign_entries_are_kept() -> None:
    assert read({"volume-pvc-x": "x", "pumice/spent": "1"}).others == {"volume-pvc-x": "x"}


def test_everything_about_targets_is_forgotten() -> None:
    left = FULL.without_targets({"worker": frozenset((0, 1))})
    assert (left.seen, left.succeeded) == ({"worker": frozenset((2,))}, {"worker": frozenset()})


NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,6}[a-z0-9])?", fullmatch=True)
BY_TASK = st.dictionaries(NAMES, st.frozensets(st.integers(0, 40), min_size=1), max_size=3)
MOMENTS = st.datetimes(dt.datetime(2001, 1, 1), dt.datetime(2100, 1, 1), timezones=st.just(dt.UTC))  # noqa: DTZ001 - hypothesis adds the zone
COUNTS = st.integers(0, 99)
LEDGERS = st.builds(
    Ledger,
    spent=COUNTS,
    generation=COUNTS,
    void=COUNTS,
    seen=BY_TASK,
    succeeded=BY_TASK,
    restart=st.none() | st.builds(Restart, st.sampled_from(RestartKind), COUNTS, BY_TASK),
    restarts_by_task=st.dictionaries(NAMES, COUNTS, max_size=3),
    evicted=st.dictionaries(st.builds("{}-{}".format, NAMES, COUNTS), MOMENTS, max_size=3),
    noticed=st.dictionaries(st.builds("TaskFailed/{}".format, NAMES), MOMENTS, max_size=3),
    unknown_since=st.none() | MOMENTS,
    first_running=st.none() | MOMENTS,
    suspended=st.booleans(),
    obeyed=st.frozensets(NAMES, max_size=3),
    waiting=st.one_of(st.just(""), NAMES),
    others=st.dictionaries(st.builds("plugin-{}".format, NAMES), NAMES, max_size=2),
)


@given(LEDGERS)
def test_any_ledger_is_read_as_it_was_written(ledger: Ledger) -> None:
    assert read(write_ledger(ledger)) == ledger


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("pumice/spent", "many", id="a word for a number"),
        pytest.param("pumice/spent", "-1", id="less than nothing"),
        pytest.param("pumice/void", "9" * 5000, id="a number of 5000 digits"),
        pytest.param("pumice/generation", "", id="no number"),
        pytest.param("pumice/restart", "everything@1", id="an unknown restart"),
        pytest.param("pumice/restart", "", id="no restart"),
        pytest.param("pumice/seen/worker", "all", id="no indexes"),
        pytest.param("pumice/evicted/worker-1", "yesterday", id="no moment"),
        pytest.param("pumice/evicted/worker-x", "2030-01-02T03:04:05Z", id="no pod"),
        pytest.param("pumice/evicted/", "2030-01-02T03:04:05Z", id="nobody"),
        pytest.param("pumice/noticed/TaskFailed/worker", "2030-01-02T03:04:05", id="a moment without a zone"),
        pytest.param("pumice/unknown-since", "0000-00-00", id="a moment that never was"),
        pytest.param("pumice/first-running", "99999-01-01T00:00:00Z", id="a moment that never comes"),
        pytest.param("pumice/whatever", "x", id="an unknown key"),
    ],
)
def test_invalid_entries_are_ignored(key: str, value: str) -> None:
    assert read({key: value}) == Ledger()


def test_a_restart_of_an_unknown_retry_is_one_of_the_first() -> None:
    assert read({"pumice/restart": "targets@x"}).restart == Restart(RestartKind.TARGETS)


def test_indexes_of_tasks_without_end_are_not_all_read() -> None:
    many = {f"pumice/seen/task-{number}": "0-149999" for number in range(2000)}
    assert sum(len(indexes) for indexes in read(many).seen.values()) == MOST_PODS


@pytest.mark.parametrize(
    ("restarts", "spent", "most"),
    [
        pytest.param(0, 0, 3, id="the first attempt"),
        pytest.param(1, 1, 3, id="a failure costs a retry"),
        pytest.param(1, 0, 4, id="an eviction costs none"),
        pytest.param(4, 2, 5, id="both"),
        pytest.param(3, 3, 3, id="all are spent"),
        pytest.param(0, 2, 3, id="a status that was written by someone else"),
    ],
)
def test_each_restart_that_costs_no_retry_allows_another_attempt(restarts: int, spent: int, most: int) -> None:
    status = JobStatus(retry_count=restarts, controlled_resources=write_ledger(Ledger(generation=1, spent=spent)))
    assert most_attempts(3, status) == most


def test_volcanos_controller_counts_every_restart() -> None:
    """It keeps no ledger. A Job that says nothing may have three attempts."""
    assert most_attempts(0, JobStatus(retry_count=2, controlled_resources={"plugin-svc": "svc"})) == 3
