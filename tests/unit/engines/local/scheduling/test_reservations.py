"""What runs know of each other, in real files with real locks."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from pumice.engines.local.scheduling.reservations import Reservations, Reserved, reservations_directory, total
from pumice.model.quantity import Quantity


def reserved(*gpus: str, **amounts: str) -> Reserved:
    return Reserved({name: Quantity.parse(text) for name, text in amounts.items()}, gpus)


def seen_by(reservations: Reservations) -> list[Reserved]:
    with reservations.turn():
        return reservations.others()


def test_runs_see_what_others_have_reserved(tmp_path: Path) -> None:
    with Reservations(tmp_path / "r", "a") as one, Reservations(tmp_path / "r", "b") as other:
        assert seen_by(one) == [Reserved()]
        with one.turn():
            one.reserve(reserved("0", "GPU-7", cpu="1500m", memory="1Gi"))
        assert seen_by(other) == [reserved("0", "GPU-7", cpu="1500m", memory="1Gi")]
        with one.turn():
            one.reserve(reserved(cpu="1"))
        assert seen_by(other) == [reserved(cpu="1")]
        assert seen_by(one) == [Reserved()]


def test_what_has_ended_has_reserved_nothing(tmp_path: Path) -> None:
    with Reservations(tmp_path, "a") as one:
        with Reservations(tmp_path, "b") as other, other.turn():
            other.reserve(reserved(cpu="1"))
        assert seen_by(one) == []
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "turn"]


def _reserve_and_wait(directory: Path, ready: Connection) -> None:
    with Reservations(directory, "killed") as mine:
        with mine.turn():
            mine.reserve(reserved("0", cpu="2"))
        ready.send(True)
        signal.pause()


def test_a_run_that_was_killed_has_reserved_nothing(tmp_path: Path) -> None:
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
def test_a_file_that_cannot_be_read_reserves_nothing(tmp_path: Path, text: str) -> None:
    with Reservations(tmp_path, "a") as one, Reservations(tmp_path, "b"):
        (tmp_path / "b.json").write_text(text)
        assert seen_by(one) == [Reserved()]


def test_a_session_may_end_before_the_run(tmp_path: Path) -> None:
    directory = tmp_path / "session"
    with Reservations(directory, "a") as one:
        shutil.rmtree(directory)
        with one.turn():
            one.reserve(reserved(cpu="1"))
            assert one.others() == []


def test_what_is_no_reservation_is_left_alone(tmp_path: Path) -> None:
    """As somebody may have put it there, or root, who once ran a job with this user's home."""
    (tmp_path / "directory.json").mkdir()
    (tmp_path / "link.json").symlink_to("elsewhere")
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "garbage.json").write_bytes(b"\xff{")
    with Reservations(tmp_path, "one") as one, one.turn():
        assert one.others() == []
    assert (tmp_path / "directory.json").is_dir()


def test_total() -> None:
    assert total([reserved(cpu="1"), reserved(cpu="500m", memory="1Gi")]) == {
        "cpu": Quantity.parse("1500m"),
        "memory": Quantity.parse("1Gi"),
    }


def test_the_session_s_directory_comes_first(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert reservations_directory({}, state) == state / "reservations"
    assert reservations_directory({"XDG_RUNTIME_DIR": str(tmp_path)}, state) == tmp_path / "pumice"
    assert reservations_directory({"XDG_RUNTIME_DIR": str(tmp_path / "gone")}, state) == state / "reservations"
    assert reservations_directory({"XDG_RUNTIME_DIR": "."}, state) == state / "reservations"
