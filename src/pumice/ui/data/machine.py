"""The capacity that runs share, its reservations, and why runs wait."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from pumice.client.observer import Capacity, WaitingRun
from pumice.diagnosis.outcome import Outcome
from pumice.diagnosis.why import OTHER_PROGRAMS, Why, WhyCode, sentence
from pumice.model import VERSION
from pumice.model.quantity import Quantity
from pumice.model.resources import GPU, sum_usage
from pumice.model.text import plural, shown_words
from pumice.model.units import amount_text
from pumice.store.run_record import RunRecord, RunStatus
from pumice.ui.values import Evidence, Hint, Holder, Info, QueueEntry, Reservation, Resources, Shortage, Waiting

_UNITS: Final = {"cpu": "CPU", "memory": "memory", GPU: "GPU"}


def info(capacity: Capacity, scope: str, now: dt.datetime, notices: Sequence[str] = ()) -> Info:
    return Info(
        scope=scope,
        host=capacity.host,
        version=VERSION,
        now=now,
        capacity=_resources(capacity.total, capacity.gpus),
        reserved=tuple(
            Reservation(job=each.run, uid=each.uid, resources=_resources(each.amounts, each.gpus))
            for each in capacity.holdings
        ),
        notices=tuple(notices),
    )


def waiting(capacity: Capacity, found: WaitingRun, record: RunRecord, *, with_queue: bool = False) -> Waiting:
    """Return why a run waits."""
    why = found.why
    hints = [Hint(text=each.text, command=each.command or "") for each in why.hints]
    if not hints and capacity.host and why.code is WhyCode.RESOURCES and why.position is None:
        # It does not fit the empty machine.
        text = "It wants more than this machine has. Lowered to what there is, it runs:"
        file = "FILE" if record.marks is None else record.file
        after = f" -- {shown_words(record.args)}" if record.args else ""
        hints.append(Hint(text=text, command=f"pumice submit {file} --fit{after}"))
    needs = [_shortage(capacity, why, name, amount) for name, amount in found.demand.items()]
    return Waiting(
        code=why.code,
        text=sentence(why),
        lead=f"{why.short[0].resource}:" if why.short and not why.message else "",
        since=why.since,
        position=why.position,
        pods=found.pods,
        drains_at=why.drains_at,
        behind=why.behind or "",
        short=tuple(sorted(needs, key=lambda each: (each.short == "", each.resource))),
        hints=tuple(hints),
        queue=tuple(_entries(capacity, record)) if with_queue else (),
        evidence=tuple(
            Evidence(subject=f"{each.kind} {each.name}".strip(), field=each.field, since=each.since, text=each.text)
            for each in why.evidence
        )
        or msgspec.UNSET,
    )


def _shortage(capacity: Capacity, why: Why, resource: str, wanted: Quantity) -> Shortage:
    name = _UNITS.get(resource, resource)
    found = next((each for each in why.short if each.resource == resource), None)
    if found is None:
        amounts = (wanted, capacity.free.get(resource, Quantity()), capacity.total.get(resource, Quantity()))
        texts = [amount_text(resource, each) for each in amounts]
        return Shortage(resource=name, wanted=texts[0], free=texts[1], capacity=texts[2])
    holders = []
    for each in found.held_by:
        holder = each.run or (each.program if isinstance(each.program, str) else OTHER_PROGRAMS)
        because = "time limit" if each.ends_by is not None else ""
        amount = amount_text(resource, each.amount)
        state = _state(capacity, each.run or "")
        holders.append(Holder(job=holder, amount=amount, until=each.ends_by, because=because, **state))
    short = max(Quantity.parse(found.wanted) - Quantity.parse(found.free), Quantity())
    return Shortage(
        resource=name,
        wanted=amount_text(resource, found.wanted),
        free=amount_text(resource, found.free),
        capacity=amount_text(resource, found.capacity),
        short=amount_text(resource, short),
        held_by=tuple(holders),
    )


def _state(capacity: Capacity, name: str) -> dict[str, Any]:
    """Return uid, outcome and phase of an active run."""
    if name not in capacity.active:
        return {"uid": "", "outcome": None, "phase": ""}
    uid, status = capacity.active[name]
    return {"uid": uid, "outcome": status.outcome, "phase": status.phase}


def _entries(capacity: Capacity, record: RunRecord) -> Iterator[QueueEntry]:
    """Yield the runs that hold room, then those that wait, in order."""
    for each in {each.run: each for each in capacity.holdings}.values():
        needs, state = needs_text(each.amounts, len(each.gpus)), _state(capacity, each.run)
        yield QueueEntry(position=None, job=each.run, needs=needs, until=each.ends_by, **state)
    for other in capacity.waiting.values():
        yield QueueEntry(
            position=other.why.position,
            job=other.run,
            uid=other.uid,
            outcome=Outcome.WAITING,
            phase="Pending",
            needs=needs_text(other.demand, 0),
            is_this=other.uid == record.uid,
        )


def needs_text(amounts: Mapping[str, Quantity], gpus: int) -> str:
    """Return what a run needs or holds, for people: `8 GPUs, 16 CPUs, 64 GiB`."""
    parts = []
    devices = gpus or (amounts[GPU].value() if GPU in amounts else 0)
    if devices:
        parts.append(plural(devices, "GPU"))
    if "cpu" in amounts and amounts["cpu"] > Quantity():
        number = amount_text("cpu", amounts["cpu"])
        parts.append(f"{number} CPU{'' if number == '1' else 's'}")
    if "memory" in amounts and amounts["memory"] > Quantity():
        parts.append(f"{amount_text('memory', amounts['memory'])} memory")
    others = [name for name in amounts if name not in _UNITS and amounts[name] > Quantity()]
    parts += [f"{amounts[name].value()} {name}" for name in others]
    return ", ".join(parts)


def freed_by(record: RunRecord, status: RunStatus) -> str:
    """Return what a run frees when its pods end: what it needs to start."""
    demand = sum_usage(
        ({name: Quantity.parse(text) for name, text in pods.requests.items()}, pods.count) for pods in record.gang
    )
    return needs_text(demand, len(status.gpus))


def _resources(amounts: Mapping[str, Quantity], gpus: tuple[str, ...]) -> Resources:
    cpu, memory = amounts.get("cpu", Quantity()), amounts.get("memory", Quantity())
    # Where GPUs have no numbers, as on a cluster, they are an amount.
    number = amounts[GPU].value() if GPU in amounts and not gpus else msgspec.UNSET
    return Resources(cpu=cpu.milli_value() / 1000, memory=memory.value(), gpus=gpus, gpu_number=number or msgspec.UNSET)
