"""Why a run waits or did not complete, as data, and the sentence that says why it waits.

The sentence: `cpu: 8 wanted, 3 free; ddp:3 holds 12; first in queue`.

`pumice why -o json` prints the data; names of codes and fields are stable, and more may follow.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from pumice.model.quantity import Quantity
from pumice.model.text import size_text

OTHER_PROGRAMS: Final = "other programs"
_ORDINALS: Final = ("first", "second", "third")
_MOST_HOLDERS: Final = 3


class WhyCode(StrEnum):
    RESOURCES = "Resources"  # it does not fit now
    ORDER = "Order"  # it fits, and a gang is ahead of it
    DRAINING = "Draining"  # it fits, and the machine drains for a run ahead of it
    SUSPENDED = "Suspended"
    DEPENDENCY = "Dependency"  # pods wait for another task
    IMAGE = "Image"
    SECRETS_MISSING = "SecretsMissing"
    HOST = "Host"  # it belongs to another machine
    STARTING = "Starting"
    RUNNING = "Running"
    FAILED = "Failed"
    STOPPED = "Stopped"
    COMPLETED = "Completed"


class Holder(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The holder of some of a resource: a run, or programs that belong to no run."""

    run: str | None
    amount: str
    ends_by: dt.datetime | None = None  # at the latest; None if it has no bound
    program: str | msgspec.UnsetType = msgspec.UNSET


class Shortage(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A resource of which a run wants more than is free. Amounts are quantities."""

    resource: str
    wanted: str
    free: str
    capacity: str
    held_by: tuple[Holder, ...] = ()


class Hint(msgspec.Struct, frozen=True, rename="camel"):
    text: str
    command: str | None = None


class Follower(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A pod that failed after the first one, and because of it."""

    pod: str
    code: int
    signal: int | None = None
    reason: str = ""
    after: float | None = None  # seconds after the first failure


class ActedPolicy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The policy that ended the run, or the attempt."""

    event: str
    action: str
    path: str  # spec.policies[0]
    where: str = ""  # job.yaml:21


class Verdict(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why a run did not complete. `pod` failed first; it is empty if none did. As text: what `pumice run` prints."""

    pod: str = ""
    container: str = ""
    code: int | None = None
    signal: int | None = None
    reason: str = ""
    line: str = ""  # the last one that the container printed, or why it never ran
    followers: tuple[Follower, ...] = ()
    policy: ActedPolicy | None = None
    attempt: int = 0
    log: str = ""  # the path of the container's log
    text: str = ""

    def __str__(self) -> str:
        return self.text


class Why(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why a run, or one of its pods, is in its state."""

    run: str
    code: WhyCode
    since: dt.datetime | None = None
    position: int | None = None  # in the queue, from 1
    drains_at: dt.datetime | None = None  # from then on no later run that could delay it passes it
    behind: str | None = None  # the run that keeps it from starting though it fits
    short: tuple[Shortage, ...] = ()
    hints: tuple[Hint, ...] = ()
    message: str = ""  # for people, where `short` and `behind` do not say it
    verdict: Verdict | None = None  # of a run that has ended

    def __str__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        return sentence(self)

    @property
    def topic(self) -> object:
        """What the reason is about, without amounts, which change all the time."""
        held = [(each.resource, [holder.run for holder in each.held_by]) for each in self.short]
        return (self.code, self.position, self.behind, held, self.message)


def sentence(why: Why) -> str:
    """Return the reason in words, on one line."""
    parts = [why.message] if why.message else []
    parts += [part for shortage in why.short for part in _shortage(shortage)]
    if why.behind is not None:
        draining = why.code is WhyCode.DRAINING
        parts.append(f"fits, but {'the machine drains for' if draining else 'waits behind'} {why.behind}")
    if why.position is not None:
        ordinal = _ORDINALS[why.position - 1] if why.position <= len(_ORDINALS) else f"number {why.position}"
        parts.append(f"{ordinal} in queue")
    return "; ".join(parts or [why.code.value])


def amount_text(resource: str, text: str) -> str:
    """Return a quantity for people: `0.5` CPUs, `16 GiB` of memory."""
    amount = Quantity.parse(text)
    if resource == "cpu":
        return f"{amount.milli_value() / 1000:.12g}"
    return size_text(amount.value()) if resource == "memory" else str(amount.value())


def _shortage(shortage: Shortage) -> Iterator[str]:
    wanted, free = (amount_text(shortage.resource, text) for text in (shortage.wanted, shortage.free))
    yield f"{shortage.resource}: {wanted} wanted, {free} free"
    holders = _holders(shortage.resource, shortage.held_by)
    if holders:
        yield holders


def _holders(resource: str, holders: Sequence[Holder]) -> str:
    """Name the holders with the largest amounts, and sum up the others."""
    shown = holders if len(holders) <= _MOST_HOLDERS + 1 else holders[:_MOST_HOLDERS]
    texts = []
    for holder in shown:
        name = holder.run or holder.program or OTHER_PROGRAMS
        verb = "use" if name == OTHER_PROGRAMS else "holds"
        texts.append(f"{name} {verb} {amount_text(resource, holder.amount)}")
    if others := holders[len(shown) :]:
        total = sum((Quantity.parse(holder.amount) for holder in others), Quantity())
        texts.append(f"{len(others)} others hold {amount_text(resource, str(total))}")
    return ", ".join(texts)
