from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from pumice.store.files.run_store import OwnedRun, RunStore
from pumice.store.files.state_directory import host_name
from pumice.store.run_errors import InvalidOption, NoSuchRun
from pumice.store.run_record import RunRecord

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def add(store: RunStore, name: str, namespace: str = "default", **fields: Any) -> OwnedRun:
    directory = store.reserve(namespace, name)
    number = int(directory.name)
    record = RunRecord(
        uid=f"{len(name):08x}-{number}-{namespace}",
        namespace=namespace,
        name=name,
        number=number,
        host=host_name(),
        boot="",
        created=NOON + dt.timedelta(minutes=number),
        job={},
        **fields,
    )
    return store.create(directory, record)


def test_a_new_run_is_active_and_owned_until_it_ends(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    owned = add(store, "ddp")
    assert owned.run.ref == "ddp:1"
    assert [run.ref for run in store.active_runs()] == ["ddp:1"]
    assert owned.run.is_owned
    owned.lock.release()
    store.finish(owned.run)
    assert store.active_runs() == []
    assert not owned.run.is_owned


def test_numbers_are_never_used_again(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    for _ in range(3):
        add(store, "ddp").lock.release()
    store.remove(store.find("ddp:3"))
    assert add(store, "ddp").run.ref == "ddp:4"
    assert list(store.trash.iterdir()) == []


def test_a_reserved_directory_is_no_run(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    directory = store.reserve("default", "ddp")
    assert list(store.all_runs()) == []
    store.give_up(directory)
    assert not directory.parent.exists()
    assert add(store, "ddp").run.ref == "ddp:1"


def test_names(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    for name in ("ddp", "ddp", "sweep"):
        add(store, name)
    assert store.find("ddp:1").ref == "ddp:1"
    add(store, "ddp", "other")
    assert store.find("ddp", "default").ref == "ddp:2"
    assert store.find("sweep").ref == "sweep:1"
    assert store.find("@last", "default").ref == "ddp:2"
    assert store.find("00000005").ref == "sweep:1"
    with pytest.raises(InvalidOption, match="several runs have this name: ddp:2 in namespace default, ddp:1 in"):
        store.find("ddp")
    for text in ("nothing", "ddp:9", "ddp:0", "", "../x", "a b"):
        with pytest.raises(NoSuchRun, match="no such run"):
            store.find(text)


def test_a_damaged_run_is_left_out(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    add(store, "ddp")
    (add(store, "sweep").run.directory / "run.json").write_text("{")
    assert [run.ref for run in store.all_runs()] == ["ddp:1"]
    (store.active / "stray").symlink_to("nowhere")
    assert [run.ref for run in store.active_runs()] == ["ddp:1"]
