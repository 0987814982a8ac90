from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from pumice.diagnosis.why import Hint, Holder, Shortage, Why, WhyCode
from pumice.engines.local.scheduling.machine import Machine
from pumice.engines.local.scheduling.plan import PATIENCE, Decision, Hold, PodSet, Refuse, Running, Start, Waiting, plan
from pumice.model.quantity import Quantity
from pumice.model.resources import GPU

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
GI = 1 << 30
MINUTE = dt.timedelta(minutes=1)
MACHINE = Machine(tuple(range(16)), 16, 64 * GI, ("0", "1", "2", "3"), 64 * GI)
PATIENT, EXPIRED = NOW - PATIENCE + MINUTE, NOW - PATIENCE


def usage(**amounts: float | str) -> dict[str, Quantity]:
    return {GPU if name == "gpu" else name: Quantity.parse(amount) for name, amount in amounts.items()}


def run(name: str, arrival: int = 1, *, count: int = 1, task: str = "worker", **rest: Any) -> Waiting:
    fields = {key: rest.pop(key) for key in list(rest) if key not in ("cpu", "memory", "gpu")}
    return Waiting(name=name, pods=(PodSet(task, count, usage(**rest)),), arrival=arrival, **fields)


def active(name: str, *, minutes: int | None = None, gpus: tuple[str, ...] = (), **amounts: float | str) -> Running:
    ends_by = None if minutes is None else NOW + minutes * MINUTE
    return Running(name=name, amounts=usage(**amounts), gpus=gpus, ends_by=ends_by)


def started(decisions: dict[str, Decision]) -> list[str]:
    return [name for name, decision in decisions.items() if isinstance(decision, Start)]


def held(decisions: dict[str, Decision], name: str) -> Why:
    decision = decisions[name]
    assert isinstance(decision, Hold)
    return decision.why


@pytest.mark.parametrize(
    ("waiting", "running", "starts"),
    [
        pytest.param([], [], [], id="nothing"),
        pytest.param([run("b:1", 2, cpu=10), run("a:1", 1, cpu=10)], [], ["a:1"], id="arrival"),
        pytest.param([run("a:1", 1, cpu=10), run("b:1", 2, cpu=10, priority=1)], [], ["b:1"], id="priority"),
        pytest.param([run("b:1", 7, cpu=10), run("a:1", 7, cpu=10)], [], ["a:1"], id="equal arrival: by name"),
        pytest.param([run("a:1", 1, cpu=8), run("b:1", 2, cpu=8)], [], ["a:1", "b:1"], id="both fit"),
        pytest.param([run("a:1")], [active("x:1", cpu=16)], ["a:1"], id="no requests"),
        pytest.param([run("a:1", cpu=1, count=4)], [active("x:1", cpu=13)], [], id="a gang is not split"),
        pytest.param([run("a:1", cpu=1, count=3)], [active("x:1", cpu=13)], ["a:1"], id="the gang fits"),
        pytest.param([run("a:1", memory="40Gi"), run("b:1", 2, memory="30Gi")], [], ["a:1"], id="memory"),
        pytest.param(
            [run("big:1", cpu=8, held_since=PATIENT), run("small:1", 2, cpu=4)],
            [active("x:1", cpu=12)],
            ["small:1"],
            id="backfill while patience lasts",
        ),
        pytest.param(
            [run("big:1", cpu=8), run("small:1", 2, cpu=4)],
            [active("x:1", cpu=12)],
            ["small:1"],
            id="backfill at first",
        ),
        pytest.param(
            [run("big:1", cpu=8, held_since=EXPIRED), run("small:1", 2, cpu=4)],
            [active("x:1", cpu=12)],
            [],
            id="then the machine drains",
        ),
        pytest.param(
            [run("big:1", gpu=4, cpu=4, held_since=EXPIRED), run("small:1", 2, cpu=8)],
            [active("x:1", cpu=4, gpu=1, gpus=("0",))],
            ["small:1"],
            id="takes nothing that the head lacks, leaves its demand",
        ),
        pytest.param(
            [run("big:1", gpu=4, cpu=4, held_since=EXPIRED), run("small:1", 2, cpu=9)],
            [active("x:1", cpu=4, gpu=1, gpus=("0",))],
            [],
            id="does not leave the head's demand",
        ),
        pytest.param(
            [run("big:1", gpu=4, cpu=4, held_since=EXPIRED), run("small:1", 2, gpu=1)],
            [active("x:1", gpu=1, gpus=("0",))],
            [],
            id="takes what the head lacks",
        ),
        pytest.param(
            [run("big:1", cpu=16, held_since=EXPIRED), run("small:1", 2, cpu=4, bound=29 * MINUTE)],
            [active("x:1", cpu=4, minutes=20), active("y:1", cpu=4, minutes=30)],
            ["small:1"],
            id="ends before the head's start by bounds",
        ),
        pytest.param(
            [run("big:1", cpu=16, held_since=EXPIRED), run("small:1", 2, cpu=4, bound=30 * MINUTE)],
            [active("x:1", cpu=4, minutes=20), active("y:1", cpu=4, minutes=30)],
            [],
            id="ends with it",
        ),
        pytest.param(
            [run("big:1", cpu=12, held_since=EXPIRED), run("small:1", 2, cpu=4, bound=25 * MINUTE)],
            [active("x:1", cpu=4, minutes=20), active("y:1", cpu=4, minutes=30)],
            [],
            id="the head starts before the last bound",
        ),
        pytest.param(
            [run("big:1", cpu=16, held_since=EXPIRED), run("small:1", 2, cpu=4, bound=MINUTE)],
            [active("x:1", cpu=4, minutes=20), active("y:1", cpu=4)],
            [],
            id="a run that blocks the head has no bound",
        ),
        pytest.param(
            [run("big:1", cpu=16, held_since=EXPIRED), run("small:1", 2, cpu=4, bound=MINUTE)],
            [active("x:1", cpu=4, minutes=20), active("y:1", memory="1Gi")],
            ["small:1"],
            id="a run without a bound that does not block the head",
        ),
        pytest.param(
            [run("big:1", cpu=16, held_since=EXPIRED), run("small:1", 2, cpu=4)],
            [active("x:1", cpu=4, minutes=20)],
            [],
            id="the later run has no bound",
        ),
        pytest.param(
            [run("big:1", cpu=16, held_since=EXPIRED), run("small:1", 2, cpu=4, bound=MINUTE)],
            [active("x:1", cpu=4, minutes=-5)],
            [],
            id="an overdue run may end at any moment",
        ),
        pytest.param(
            [
                run("gpus:1", 1, gpu=4, held_since=EXPIRED),
                run("cpus:1", 2, cpu=16, held_since=EXPIRED),
                run("small:1", 3, cpu=1),
            ],
            [active("x:1", cpu=8, gpu=1, gpus=("0",))],
            [],
            id="every run without patience is protected, not only the first",
        ),
        pytest.param(
            [run("big:1", cpu=8, held_since=EXPIRED), run("urgent:1", 2, cpu=4, priority=1)],
            [active("x:1", cpu=12)],
            ["urgent:1"],
            id="a higher priority is ahead",
        ),
        pytest.param(
            [run("e:1/worker-3", 1, cpu=2, extra=True), run("a:1", 2, cpu=4)],
            [active("e:1", cpu=12)],
            ["a:1"],
            id="further pods queue behind gangs",
        ),
        pytest.param(
            [run("e:1/worker-3", 1, cpu=2, extra=True, priority=1), run("a:1", 2, cpu=4)],
            [active("e:1", cpu=12)],
            ["e:1/worker-3"],
            id="further pods of a higher priority do not",
        ),
        pytest.param(
            [run("e:1/worker-3", 1, cpu=2, extra=True), run("a:1", 2, cpu=6)],
            [active("e:1", cpu=12)],
            [],
            id="further pods take nothing that a gang lacks, patience or not",
        ),
        pytest.param(
            [run("e:1/worker-3", 1, cpu=2, extra=True), run("a:1", 2, gpu=4, cpu=2)],
            [active("e:1", cpu=12, gpu=1, gpus=("3",))],
            ["e:1/worker-3"],
            id="further pods that cannot delay a gang start",
        ),
        pytest.param(
            [run("e:1/worker-3", 1, cpu=8, extra=True, priority=1, held_since=EXPIRED), run("a:1", 2, cpu=4)],
            [active("e:1", cpu=12)],
            ["a:1"],
            id="the machine does not drain for further pods",
        ),
    ],
)
def test_which_runs_start(waiting: list[Waiting], running: list[Running], starts: list[str]) -> None:
    assert started(plan(waiting, running, MACHINE, NOW)) == starts


@pytest.mark.parametrize(
    ("waiting", "gpus"),
    [
        pytest.param(run("a:1", gpu=1, count=2), ("1", "3"), id="whole devices, without those of runs and programs"),
        pytest.param(run("a:1", gpu=1, gpus=("3", "1")), ("3",), id="within CUDA_VISIBLE_DEVICES, in its order"),
        pytest.param(run("a:1", gpu=1, gpus=("0", "2")), None, id="not outside of it"),
        pytest.param(run("a:1", gpu=3), None, id="too many"),
        pytest.param(run("a:1", cpu=1), (), id="none wanted"),
    ],
)
def test_gpus(waiting: Waiting, gpus: tuple[str, ...] | None) -> None:
    # The program on GPU 0 belongs to the run that has it; the one on GPU 2 does not belong to any.
    machine = Machine((0,), 1, GI, MACHINE.gpus, GI, {"0": "python3 (pid 7)", "2": "python3 (pid 42)"})
    decision = plan([waiting], [active("x:1", gpus=("0",))], machine, NOW)["a:1"]
    assert (decision.gpus if isinstance(decision, Start) else None) == gpus


@pytest.mark.parametrize(
    ("visible", "starts"),
    [
        pytest.param(("2", "3"), ["small:1"], id="other devices than those of the head"),
        pytest.param(("1", "2"), [], id="the first free one is the head's"),
    ],
)
def test_what_a_head_lacks_are_the_devices_that_it_sees(visible: tuple[str, ...], starts: list[str]) -> None:
    waiting = [run("big:1", gpu=2, gpus=("0", "1"), held_since=EXPIRED), run("small:1", 2, gpu=1, gpus=visible)]
    assert started(plan(waiting, [active("x:1", gpus=("0",))], MACHINE, NOW)) == starts


BUSY = Machine(MACHINE.cpus, 16, 8 * GI, ("0",), 64 * GI, {"0": "python3 (pid 42)"})


@pytest.mark.parametrize(
    ("big", "running", "drains"),
    [
        pytest.param(run("big:1", memory="32Gi", held_since=EXPIRED), [], False, id="memory of other programs"),
        pytest.param(
            run("big:1", memory="60Gi", held_since=EXPIRED), [active("x:1", memory="8Gi")], False, id="not enough"
        ),
        pytest.param(
            run("big:1", memory="32Gi", held_since=EXPIRED), [active("x:1", memory="30Gi")], True, id="memory of runs"
        ),
        pytest.param(run("big:1", gpu=1, held_since=EXPIRED), [], False, id="a GPU of other programs"),
        pytest.param(
            run("big:1", gpu=1, memory="1Gi", held_since=EXPIRED),
            [active("x:1", gpus=("0",), memory="1Gi")],
            True,
            id="a GPU of a run",
        ),
    ],
)
def test_a_head_that_other_programs_hold_up_does_not_drain(big: Waiting, running: list[Running], drains: bool) -> None:
    decisions = plan([big, run("small:1", 2, cpu=1, memory="8Gi", gpu=0)], running, BUSY, NOW)
    assert started(decisions) == ([] if drains else ["small:1"])
    assert held(decisions, "big:1").drains_at == (EXPIRED + PATIENCE if drains else None)


def test_memory_of_runs_that_start_together_counts_before_they_use_it() -> None:
    machine = Machine((0,), 1, 8 * GI, (), 64 * GI)
    waiting = [run(f"a:{number}", number, memory="3Gi") for number in (1, 2, 3)]
    assert started(plan(waiting, [], machine, NOW)) == ["a:1", "a:2"]


@pytest.mark.parametrize(
    ("waiting", "short"),
    [
        pytest.param(
            run("a:1", cpu=5, count=4), Shortage(resource="cpu", wanted="20", free="16", capacity="16"), id="cpu"
        ),
        pytest.param(
            run("a:1", gpu=2, gpus=("1",)), Shortage(resource=GPU, wanted="2", free="1", capacity="1"), id="GPUs"
        ),
        pytest.param(
            Waiting(name="a:1", pods=(PodSet("t", 1, {"x.org/fpga": Quantity.parse(1)}),), arrival=1),
            Shortage(resource="x.org/fpga", wanted="1", free="0", capacity="0"),
            id="what the machine does not have",
        ),
    ],
)
def test_what_never_fits_is_refused_and_holds_nobody_back(waiting: Waiting, short: Shortage) -> None:
    decisions = plan([waiting, run("b:1", 2, cpu=16), run("c:1", 3, cpu=1)], [], MACHINE, NOW)
    assert decisions["a:1"] == Refuse((short,))
    assert started(decisions) == ["b:1"]
    assert held(decisions, "c:1").position == 1


def test_all_memory_counts_as_capacity_though_other_programs_use_it() -> None:
    assert isinstance(plan([run("a:1", memory="32Gi")], [], BUSY, NOW)["a:1"], Hold)


def test_why_a_run_waits() -> None:
    waiting = [run("sweep:7", count=8, cpu=1, held_since=PATIENT), run("later:1", 2, cpu=9)]
    running = [active("small:2", cpu=1), active("ddp:3", cpu=12, minutes=5)]
    decisions = plan(waiting, running, MACHINE, NOW)
    held_by = (
        Holder(run="ddp:3", amount="12", ends_by=NOW + 5 * MINUTE),
        Holder(run="small:2", amount="1", ends_by=None),
    )
    assert held(decisions, "sweep:7") == Why(
        run="sweep:7",
        code=WhyCode.RESOURCES,
        since=PATIENT,
        position=1,
        drains_at=NOW + MINUTE,
        short=(Shortage(resource="cpu", wanted="8", free="3", capacity="16", held_by=held_by),),
        hints=(Hint("3 of 8 workers fit now", "pumice scale sweep:7 worker=3"),),
    )
    later = held(decisions, "later:1")
    assert (later.since, later.position, later.hints) == (NOW, 2, ())


@pytest.mark.parametrize(
    ("ahead", "waiting", "code"),
    [
        pytest.param(run("big:1", cpu=8, held_since=EXPIRED), run("a:1", 2, cpu=2), WhyCode.DRAINING, id="draining"),
        pytest.param(run("big:1", cpu=8), run("a:1", 2, cpu=2, extra=True), WhyCode.ORDER, id="order"),
    ],
)
def test_why_a_run_that_fits_waits(ahead: Waiting, waiting: Waiting, code: WhyCode) -> None:
    why = held(plan([ahead, waiting], [active("x:1", cpu=12)], MACHINE, NOW), "a:1")
    assert (why.code, why.behind, why.short, why.position) == (code, "big:1", (), 2)
    assert why.hints == (Hint("big:1 is ahead of it", "pumice why big:1"),)


@pytest.mark.parametrize(
    ("pods", "scalable", "hints"),
    [
        pytest.param([("worker", 4, 2)], True, ("pumice scale a:1 worker=1",), id="one"),
        pytest.param([("ps", 1, 1), ("worker", 4, 1)], True, ("pumice scale a:1 worker=2",), id="beside the others"),
        pytest.param([("ps", 1, 4), ("worker", 4, 1)], True, (), id="the others do not fit"),
        pytest.param([("ps", 1, 3), ("worker", 4, 1)], True, (), id="only the others fit"),
        pytest.param([("worker", 1, 4)], True, (), id="none fits"),
        pytest.param([("worker", 4, 2)], False, (), id="the job counts on the number"),
    ],
)
def test_how_many_pods_would_fit(pods: list[tuple[str, int, int]], scalable: bool, hints: tuple[str, ...]) -> None:
    sets = tuple(PodSet(task, count, usage(cpu=cpu)) for task, count, cpu in pods)
    waiting = Waiting(name="a:1", pods=sets, arrival=1, scalable=scalable)
    why = held(plan([waiting], [active("x:1", cpu=13)], MACHINE, NOW), "a:1")
    assert tuple(hint.command for hint in why.hints) == hints


def test_who_holds_memory_and_gpus() -> None:
    machine = Machine((0,), 1, 8 * GI, ("0", "1"), 64 * GI, {"1": "python3 (pid 42)"})
    running = [active("x:1", memory="16Gi", gpus=("0",))]
    why = held(plan([run("a:1", memory="32Gi", gpu=1)], running, machine, NOW), "a:1")
    assert {short.resource: short.held_by for short in why.short} == {
        "memory": (
            Holder(run="x:1", amount="16Gi"),
            Holder(run=None, amount="40Gi", program="other programs"),
        ),
        GPU: (Holder(run="x:1", amount="1"), Holder(run=None, amount="1", program="python3 (pid 42)")),
    }
