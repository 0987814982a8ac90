"""What a layer says: the cause of a wait, in a sentence, with its evidence and what would help."""

from __future__ import annotations

import datetime as dt

import msgspec

from pumice.diagnosis.cluster.objects import Event
from pumice.diagnosis.cluster.reading import PodReading
from pumice.diagnosis.pod_ends import in_words
from pumice.diagnosis.why import EvidenceLine, Hint, Shortage, WhyCode
from pumice.model.quantity import Quantity
from pumice.model.units import amount_text

_PREFIXES = ("requests.", "limits.")


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    code: WhyCode
    message: str
    since: dt.datetime | None = None
    evidence: tuple[EvidenceLine, ...] = ()  # the most telling first
    hints: tuple[Hint, ...] = ()
    short: tuple[Shortage, ...] = ()
    behind: str | None = None  # the PodGroup that is ahead
    task: str = ""  # whose pods it is about, unless it is about the Job


def event_line(event: Event) -> EvidenceLine:
    """Return an event as evidence: its object, its reason and its text."""
    about = event.involved_object
    text = in_words("", event.message)
    return EvidenceLine(kind=about.kind, name=about.name, field=f"event {event.reason}", since=event.begin, text=text)


def pod_line(pod: PodReading, field: str, text: str, since: dt.datetime | None = None) -> EvidenceLine:
    return EvidenceLine(kind="Pod", name=pod.name, field=field, since=since, text=in_words("", text))


def shortage(resource: str, wanted: Quantity, free: Quantity, capacity: Quantity) -> Shortage:
    """Return a shortage; what is overdrawn has nothing free."""
    left = free if not free.is_negative else Quantity()
    return Shortage(resource=resource, wanted=str(wanted), free=str(left), capacity=str(capacity))


def amount(resource: str, quantity: Quantity | str) -> str:
    """Format an amount of a resource that a quota names: `4 GiB` of `requests.memory`."""
    for prefix in _PREFIXES:
        resource = resource.removeprefix(prefix)
    return amount_text(resource, quantity)


def shortage_text(short: Shortage) -> str:
    """`requests.nvidia.com/gpu: 8 wanted, 4 of 8 free, 4 short`."""
    missing = Quantity.parse(short.wanted) - Quantity.parse(short.free)
    wanted, free, capacity, lack = (
        amount(short.resource, each) for each in (short.wanted, short.free, short.capacity, missing)
    )
    return f"{short.resource}: {wanted} wanted, {free} of {capacity} free, {lack} short"
