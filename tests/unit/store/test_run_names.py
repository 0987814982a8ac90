"""The names of runs and pods: what is printed can be typed."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.store.files.run_store import RunStore
from pumice.store.run_names import LAST, RunName, parse_pod, parse_run
from tests.local.queued import record

LABELS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
NAMES = st.lists(LABELS, min_size=1, max_size=3).map(".".join)
NUMBERS = st.integers(1, 999_999_999)


@given(NAMES, NUMBERS)
def test_the_name_of_a_run_round_trips(name: str, number: int) -> None:
    ref = f"{name}:{number}"
    assert parse_run(ref) == RunName(ref, name, number)
    assert parse_run(name) == RunName(name, name)


@given(st.none() | st.tuples(NAMES, NUMBERS), LABELS, st.integers(0, 99_999))
def test_the_name_of_a_pod_round_trips(run: tuple[str, int] | None, task: str, index: int) -> None:
    ref = "" if run is None else f"{run[0]}:{run[1]}"
    pod = f"{task}-{index}"
    assert parse_pod(f"{ref}/{pod}" if ref else pod) == (ref or LAST, pod)


@given(st.text())
def test_any_text_is_a_name_or_refused(text: str) -> None:
    found = parse_run(text)
    assert found is None or found.text == text
    pod = parse_pod(text)
    assert pod is None or text in (pod[1], f"{pod[0]}/{pod[1]}")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("job", ("job", 2), id="newest"),
        pytest.param("job:1", ("job", 1), id="number"),
        pytest.param("00000001", ("job", 1), id="uid"),
        pytest.param("00000003", ("00000003", 1), id="a name wins over a uid"),
        pytest.param("@last", ("00000003", 1), id="last"),
    ],
)
def test_what_a_name_means(tmp_path: Path, text: str, found: tuple[str, int]) -> None:
    store = RunStore(tmp_path / "state")
    for number, name in enumerate(("job", "job", "00000003"), start=1):
        wanted = record(tmp_path, f"{number:08d}-0000-0000-0000-000000000000", name=name)
        directory = store.reserve("default", name)
        created = wanted.created.replace(minute=number)
        numbered = msgspec.structs.replace(wanted, number=int(directory.name), created=created)
        store.create(directory, numbered).lock.release()
    run = store.find(text)
    assert (run.record.name, run.record.number) == found
