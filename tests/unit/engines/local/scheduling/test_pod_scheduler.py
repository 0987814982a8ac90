from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.scheduling.machine import Machine
from pumice.engines.local.scheduling.pod_scheduler import PodScheduler
from pumice.engines.local.scheduling.reservations import Reservations
from pumice.model.resources import GPU, sum_usage
from tests.async_tests import async_test

GIB = 1 << 30
MACHINE = Machine((0, 1, 2, 3), 4, 8 * GIB, ("0", "1", "2", "3"), all_memory=8 * GIB)


def spec(cpu: int = 0, gpus: int = 0) -> dict[str, Any]:
    limits = {name: count for name, count in (("cpu", cpu), (GPU, gpus)) if count}
    return {"containers": [{"name": "c", "resources": {"limits": limits}}]}


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[PodScheduler]:
    with Reservations(tmp_path, "a") as mine:
        yield PodScheduler(MACHINE, mine)


@pytest.fixture
def rival(tmp_path: Path) -> Iterator[PodScheduler]:
    """Another run on the same machine."""
    with Reservations(tmp_path, "b") as mine:
        yield PodScheduler(MACHINE, mine)


def reserved_by_others(scheduler: PodScheduler) -> dict[str, str]:
    with scheduler.reservations.locked():
        others = sum_usage((each.amounts, 1) for each in scheduler.reservations.others())
        return {name: str(amount) for name, amount in others.items()}


async def acquires_at_once(scheduler: PodScheduler, pod: str, wants: dict[str, Any]) -> bool:
    waited: list[bool] = []
    taking = asyncio.create_task(scheduler.acquire(pod, wants, lambda: waited.append(True)))
    while not (taking.done() or waited):  # noqa: ASYNC110 - either may come first
        await asyncio.sleep(0)
    taking.cancel()
    return taking.done() and not waited


def test_a_gang_that_fits_is_reserved(scheduler: PodScheduler, rival: PodScheduler) -> None:
    assert scheduler.reserve({"p0": spec(cpu=2, gpus=1), "p1": spec(cpu=1, gpus=2)}).fits
    assert reserved_by_others(rival) == {"cpu": "3", GPU: "3"}
    found = rival.reserve({"q0": spec(cpu=2)})
    assert not found.fits
    assert [(row.name, str(row.free), str(row.short)) for row in found.rows] == [("cpu", "1", "1")]
    assert rival.reserve({"q0": spec(cpu=1, gpus=1)}).fits


def test_a_gang_that_does_not_fit_reserves_nothing(scheduler: PodScheduler, rival: PodScheduler) -> None:
    assert not scheduler.reserve({"p0": spec(cpu=4), "p1": spec(cpu=1)}).fits
    assert rival.reserve({"q0": spec(cpu=4)}).fits


@async_test
async def test_gpus_are_distinct_across_pods_and_runs(scheduler: PodScheduler, rival: PodScheduler) -> None:
    assert scheduler.reserve({"p0": spec(gpus=1), "p1": spec(gpus=1)}).fits
    assert rival.reserve({"q0": spec(gpus=2)}).fits
    for owner, pod, wants in ((scheduler, "p0", 1), (rival, "q0", 2), (scheduler, "p1", 1)):
        assert await acquires_at_once(owner, pod, spec(gpus=wants))
    assert [scheduler.gpus_of("p0"), scheduler.gpus_of("p1"), rival.gpus_of("q0")] == [("0",), ("1",), ("2", "3")]
    assert not await acquires_at_once(rival, "q1", spec(gpus=1))
    scheduler.release("p0")
    assert scheduler.gpus_of("p0") == ()
    assert await acquires_at_once(rival, "q1", spec(gpus=1))
    assert rival.gpus_of("q1") == ("0",)


@async_test
async def test_a_recreated_pod_gets_the_same_gpus(scheduler: PodScheduler) -> None:
    assert scheduler.reserve({"p0": spec(gpus=1), "p1": spec(gpus=2)}).fits
    for pod, count in (("p0", 1), ("p1", 2)):
        assert await acquires_at_once(scheduler, pod, spec(gpus=count))
    for pod in ("p0", "p1"):
        scheduler.release(pod)
        scheduler.pod_removed(pod)
    for pod, count in (("p1", 2), ("p0", 1)):
        assert await acquires_at_once(scheduler, pod, spec(gpus=count))
    assert (scheduler.gpus_of("p0"), scheduler.gpus_of("p1")) == (("0",), ("1", "2"))


def test_reserved_gpus_that_this_run_cannot_see_do_not_count(tmp_path: Path, scheduler: PodScheduler) -> None:
    assert scheduler.reserve({"p0": spec(gpus=3)}).fits
    with Reservations(tmp_path, "c") as mine:
        last = Machine((0,), 1, GIB, ("3",), all_memory=GIB)
        assert PodScheduler(last, mine).reserve({"q0": spec(gpus=1)}).fits


@async_test
async def test_a_pod_outside_the_gang_waits_for_room(scheduler: PodScheduler) -> None:
    announced: list[str] = []
    scheduler.announce = announced.append
    assert scheduler.reserve({"p0": spec(cpu=3)}).fits
    # The gang's reservation holds, though p0 has not started.
    waiting = [asyncio.create_task(scheduler.acquire(pod, spec(cpu=2), lambda: None)) for pod in ("p1", "p2")]
    await asyncio.sleep(0)
    assert await acquires_at_once(scheduler, "p0", spec(cpu=3))
    assert not any(task.done() for task in waiting)
    scheduler.release("p0")
    await asyncio.gather(*waiting)
    assert announced == ["p1 waits until there is room for it on this machine (cpu: 2 wanted, 1 free)"]


@async_test
async def test_a_waiting_pod_notices_that_another_run_has_ended(scheduler: PodScheduler, tmp_path: Path) -> None:
    scheduler.retry_interval = 0.02
    with Reservations(tmp_path, "b") as other:
        assert PodScheduler(MACHINE, other).reserve({"q0": spec(cpu=4)}).fits
        taking = asyncio.create_task(scheduler.acquire("p0", spec(cpu=1), lambda: None))
        await asyncio.sleep(0.05)
        assert not taking.done()
    await taking


@async_test
async def test_a_finished_pod_releases_its_resources_to_others(scheduler: PodScheduler, rival: PodScheduler) -> None:
    assert scheduler.reserve({"p0": spec(cpu=4)}).fits
    assert await acquires_at_once(scheduler, "p0", spec(cpu=4))
    scheduler.release("p0")
    assert rival.reserve({"q0": spec(cpu=4)}).fits
    # The resources are gone, so a new p0 waits like any pod.
    scheduler.pod_removed("p0")
    assert not await acquires_at_once(scheduler, "p0", spec(cpu=4))
    rival.pod_removed("q0")
    assert reserved_by_others(rival) == {}


@async_test
async def test_a_pod_without_requests_never_waits(scheduler: PodScheduler, rival: PodScheduler) -> None:
    assert rival.reserve({"q0": spec(cpu=4)}).fits
    assert scheduler.reserve({"p0": spec(), "p1": spec()}).fits
    for pod in ("p0", "p1", "p2"):
        assert await acquires_at_once(scheduler, pod, spec())
        scheduler.release(pod)
        scheduler.pod_removed(pod)


@pytest.mark.parametrize(
    ("call", "code", "kept"),
    [
        pytest.param("pwrite", errno.ENOSPC, True, id="full disk"),
        pytest.param("open", errno.EMFILE, False, id="no descriptors left"),
    ],
)
@async_test
async def test_release_does_not_fail(
    scheduler: PodScheduler, rival: PodScheduler, monkeypatch: pytest.MonkeyPatch, call: str, code: int, *, kept: bool
) -> None:
    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    def seen_by_others() -> str:
        return reserved_by_others(rival).get("cpu", "nothing")

    assert scheduler.reserve({"p0": spec(cpu=1), "p1": spec(cpu=2)}).fits
    for pod, cpu in (("p0", 1), ("p1", 2)):
        assert await acquires_at_once(scheduler, pod, spec(cpu=cpu))
    with monkeypatch.context() as patches:
        patches.setattr(os, call, fail)
        scheduler.release("p0")
        scheduler.pod_removed("p0")
    # Other runs still see the last reservation.
    assert seen_by_others() == "3"
    scheduler.release("p1")
    assert seen_by_others() == ("1" if kept else "nothing")
    assert await acquires_at_once(scheduler, "p0", spec(cpu=1))
