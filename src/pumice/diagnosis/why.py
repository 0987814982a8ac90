"""Why a run waits or did not complete, as data, and the sentence that says why it waits.

The sentence: `cpu: 8 wanted, 3 free; ddp:3 holds 12; first in queue`.

`pumice why -o json` prints the data; names of codes and fields are stable, and more may follow.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

from pumice.diagnosis.outcome import Outcome
from pumice.diagnosis.verdict import Verdict
from pumice.model.quantity import Quantity
from pumice.model.text import plural, printable
from pumice.model.units import amount_text, elapsed_text

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
    # Only on a cluster:
    ADMISSION = "Admission"  # the API server, or a webhook, refuses its pods
    QUOTA = "Quota"  # a ResourceQuota is exhausted
    QUEUE = "Queue"  # a queue holds it
    GANG = "Gang"  # a part of its gang fits
    SCHEDULER = "Scheduler"  # no node takes a pod
    AUTOSCALER = "Autoscaler"  # nodes are being added
    VOLUME = "Volume"  # a claim is missing or unbound, or cannot be attached or mounted
    NODE = "Node"  # a node cannot start a pod, or does not answer


# The codes of runs that have ended.
END_CODES: Final = {
    Outcome.SUCCEEDED: WhyCode.COMPLETED,
    Outcome.STOPPED: WhyCode.STOPPED,
    Outcome.FAILED: WhyCode.FAILED,
}
_NO_WAIT: Final = frozenset(
    {
        WhyCode.SUSPENDED,
        WhyCode.SECRETS_MISSING,
        WhyCode.HOST,
        WhyCode.STARTING,
        WhyCode.RUNNING,
        WhyCode.FAILED,
        WhyCode.STOPPED,
        WhyCode.COMPLETED,
    }
)


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


class EvidenceLine(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What an object of the cluster says about the reason."""

    kind: str
    name: str
    field: str  # such as status.conditions[PodScheduled]; of an Event, its reason
    since: dt.datetime | None = None
    text: str


class Why(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Why a run, or one of its pods, is in its state."""

    run: str
    code: WhyCode
    outcome: Outcome | None = None  # of a run, not of a pod
    since: dt.datetime | None = None
    position: int | None = None  # in the queue, from 1
    drains_at: dt.datetime | None = None  # from then on no later run that could delay it passes it
    behind: str | None = None  # the run that keeps it from starting though it fits
    short: tuple[Shortage, ...] = ()
    hints: tuple[Hint, ...] = ()
    message: str = ""  # the sentence; empty where it follows from `short`, `behind` and `position`
    evidence: tuple[EvidenceLine, ...] = ()  # of a Job on a cluster
    verdict: Verdict | None = None  # of a run that has ended

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return printable(f"<Why {self.run} {self.code}: {self.text.partition(chr(10))[0]}>")

    def _repr_html_(self) -> str:
        from pumice.model.display import notebook_html  # noqa: PLC0415 - only notebooks need it

        verdict = self.verdict.text if self.verdict is not None else ""
        rows = []
        for each in self.short:
            amounts = [amount_text(each.resource, amount) for amount in (each.wanted, each.free, each.capacity)]
            rows.append((each.resource, *amounts, _holders(each.resource, each.held_by)))
        return notebook_html.division(
            notebook_html.heading(self.run, self.outcome or self.code),
            notebook_html.block(verdict or "\n".join(why_lines(self))),
            notebook_html.table(("resource", "wanted", "free", "of", "held by"), rows) if rows else "",
        )

    @property
    def text(self) -> str:
        return sentence(self)

    @property
    def topic(self) -> object:
        """What the reason is about, without amounts, which change all the time."""
        held = [(each.resource, [holder.run for holder in each.held_by]) for each in self.short]
        return (self.code, self.position, self.behind, held, self.message)


def success_text(pods: int, seconds: float) -> str:
    """`2 pods succeeded, in 26.0s`."""
    return f"{plural(pods, 'pod')} succeeded, in {elapsed_text(seconds)}"


def sentence(why: Why) -> str:
    """Return the reason in words, on one line."""
    if why.message:
        return why.message
    parts = []
    for each in why.short:
        wanted, free = (amount_text(each.resource, text) for text in (each.wanted, each.free))
        parts.append(f"{each.resource}: {wanted} wanted, {free} free")
        parts += [_holders(each.resource, each.held_by)] if each.held_by else []
    if why.behind is not None:
        draining = why.code is WhyCode.DRAINING
        parts.append(f"fits, but {'the machine drains for' if draining else 'waits behind'} {why.behind}")
    if why.position is not None:
        ordinal = _ORDINALS[why.position - 1] if why.position <= len(_ORDINALS) else f"number {why.position}"
        parts.append(f"{ordinal} in queue")
    return "; ".join(parts or [why.code.value])


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
        texts.append(f"{len(others)} others hold {amount_text(resource, total)}")
    return ", ".join(texts)


def why_lines(why: Why, now: dt.datetime | None = None) -> list[str]:
    """Return the reason in words, its evidence, and the commands that would help; with `now`, the age of evidence."""
    has_verdict = why.verdict is not None and bool(why.verdict.text)
    is_word = why.code in _NO_WAIT or why.outcome is Outcome.RUNNING
    word = why.outcome or why.code if is_word else "waits"
    text = sentence(why) if has_verdict else f"{why.run} {word}: {sentence(why)}"
    evidence = []
    # A verdict has its own evidence, and ends with what to type next.
    for line in () if has_verdict else why.evidence:
        # `Pod train-worker-0 status.conditions[PodScheduled], for 3m05s: 0/3 nodes are available: ...`
        since = None if now is None or line.since is None else max(0.0, (now - line.since).total_seconds())
        age = "" if since is None else f", for {elapsed_text(since)}"
        about = " ".join(filter(None, (line.kind, line.name, line.field)))
        evidence.append(f"  {about}{age}: {line.text}")
    hints = why.hints if why.verdict is None else tuple(hint for hint in why.hints if hint.command is None)
    return [text, *evidence, *(f"  {hint_text(hint)}" for hint in hints)]


def hint_text(hint: Hint) -> str:
    return f"{hint.text}: {hint.command}" if hint.command else hint.text
