from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import socket
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from pumice.engines.local.scheduling.reservations import Reservation, Reservations, reservations_directory
from pumice.model.quantity import Quantity


def reserved(*gpus: str, **amounts: str) -> Reservation:
    return Reservation({name: Quantity.parse(text) for name, text in amounts.items()}, gpus)


def seen_by(reservations: Reservations) -> list[Reservation]:
    with reservations.locked():
        return reservations.others()


def test_runs_see_the_reservations_of_others(tmp_path: Path) -> None:
    with Reservations(tmp_path / "r", "a") as one, Reservations(tmp_path / "r", "b") as other:
        assert seen_by(one) == [Reservation()]
        with one.locked():
            one.reserve(reserved("0", "GPU-7", cpu="1500m", memory="1Gi"))
        assert seen_by(other) == [reserved("0", "GPU-7", cpu="1500m", memory="1Gi")]
        with one.locked():
            one.reserve(reserved(cpu="1"))
        assert seen_by(other) == [reserved(cpu="1")]
        assert seen_by(one) == [Reservation()]


def test_a_reservation_ends_with_its_run(tmp_path: Path) -> None:
    with Reservations(tmp_path, "a") as one:
        with Reservations(tmp_path, "b") as other, other.locked():
            other.reserve(reserved(cpu="1"))
        assert seen_by(one) == []
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "turn"]


def _reserve_and_wait(directory: Path, ready: Connection) -> None:
    with Reservations(directory, "killed") as mine:
        with mine.locked():
            mine.reserve(reserved("0", cpu="2"))
        ready.send(True)
        signal.pause()


def test_the_reservation_of_a_killed_run_is_removed(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_reserve_and_wait, args=(tmp_path, theirs))
    process.start()
    try:
        assert ours.poll(60)
        with Reservations(tmp_path, "a") as one:
            assert seen_by(one) == [reserved("0", cpu="2")]
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
            process.join(60)
            assert seen_by(one) == []
    finally:
        process.kill()
        process.join()
    assert not (tmp_path / "killed.json").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"amounts": {"cpu": "much"}, "gpus": []}'])
def test_an_unreadable_file_reserves_nothing(tmp_path: Path, text: str) -> None:
    with Reservations(tmp_path, "a") as one, Reservations(tmp_path, "b"):
        (tmp_path / "b.json").write_text(text)
        assert seen_by(one) == [Reservation()]


def test_a_run_may_outlive_its_login_session(tmp_path: Path) -> None:
    directory = tmp_path / "session"
    with Reservations(directory, "a") as one:
        shutil.rmtree(directory)
        with one.locked():
            one.reserve(reserved(cpu="1"))
            assert one.others() == []


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "directory.json").mkdir()
    (tmp_path / "link.json").symlink_to("elsewhere")
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "garbage.json").write_bytes(b"\xff{")
    with Reservations(tmp_path, "one") as one, one.locked():
        assert one.others() == []
    assert (tmp_path / "directory.json").is_dir()


def test_a_state_directory_that_machines_share_has_reservations_for_each(tmp_path: Path) -> None:
    assert reservations_directory(tmp_path) == tmp_path / "hosts" / socket.gethostname() / "reservations"
