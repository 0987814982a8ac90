"""The texts of a scheduler that finds no node for a pod, or that finds that a gang does not fit.

`0/3 nodes are available: 3 Insufficient cpu.`, and of Volcano's scheduler `4/4 tasks in gang unschedulable: ...`.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from pumice.diagnosis.pod_ends import in_words

_TEXT: Final = re.compile(r"0/(\d{1,9}) nodes are (?:un)?available: (.*)")
_PREEMPTION: Final = re.compile(r"\.? *preemption: .*")
_PARTS: Final = re.compile(r"[,.] +(?=\d+ )")
_REASON: Final = re.compile(r"(\d{1,9}) (.+)")
_CLAIM_MISSING: Final = re.compile(r'persistentvolumeclaim "([^"]+)" (?:not found|is being deleted)')
# Reasons that are about the claims of the pod, not about the nodes.
_OF_CLAIMS: Final = ("unbound immediate PersistentVolumeClaims", "didn't find available persistent volumes to bind")
_FITTING: Final = re.compile(r"(\d{1,9}) (?:Schedulable|Running|Bound|Binding|Allocated|Succeeded)\b")
_MINIMUM: Final = re.compile(r"(\d{1,9}) minAvailable")
_ORIGIN: Final = re.compile(r"Origin reason is (\S+): (.*)")


class NodeReason(msgspec.Struct, frozen=True):
    nodes: int
    text: str  # `Insufficient cpu`, `node(s) had untolerated taint(s)`


class SchedulerText(msgspec.Struct, frozen=True, kw_only=True):
    """A node can count under several reasons, so the numbers of nodes may add up to more than there are."""

    nodes: int
    before: str = ""  # why no node was even tried, such as a claim that is not bound
    reasons: tuple[NodeReason, ...] = ()

    @property
    def missing_claim(self) -> str:
        match = _CLAIM_MISSING.search(self.before)
        return match[1] if match is not None else ""

    @property
    def is_about_claims(self) -> bool:
        texts = (self.before, *(reason.text for reason in self.reasons))
        return bool(self.missing_claim) or any(words in text for text in texts for words in _OF_CLAIMS)


def read_scheduler_text(message: str) -> SchedulerText | None:
    """Return None for a text that says nothing of nodes."""
    match = _TEXT.search(" ".join(message.split()))
    if match is None:
        # Some versions say no more than that a claim is missing.
        return SchedulerText(nodes=0, before=message) if _CLAIM_MISSING.search(message) else None
    reasons, before = [], []
    for part in _PARTS.split(_PREEMPTION.sub("", match[2]).rstrip(". ")):
        reason = _REASON.fullmatch(part)
        if reason is None:
            before.append(part)
        else:
            reasons.append(NodeReason(int(reason[1]), reason[2]))
    return SchedulerText(nodes=int(match[1]), before=", ".join(before), reasons=tuple(reasons))


class GangText(msgspec.Struct, frozen=True):
    fitting: int  # pods for which there is room
    minimum: int  # pods that must start together
    pod: str = ""  # that does not fit
    said: str = ""  # of it, by the scheduler

    @property
    def part(self) -> str:
        """`only 3 of the 4 pods that must start together fit`."""
        part = f"only {self.fitting}" if self.fitting else "none"
        verb = "fits" if self.fitting <= 1 else "fit"
        return f"{part} of the {self.minimum} pods that must start together {verb}"


def read_gang_text(message: str) -> GangText | None:
    """Return None for a text of another form."""
    text = in_words("", message)
    minimum, origin = _MINIMUM.search(text), _ORIGIN.search(text)
    if minimum is None:
        return None
    fitting = sum(int(match[1]) for match in _FITTING.finditer(text.partition("Origin reason")[0]))
    pod, said = ("", "") if origin is None else (origin[1], origin[2])
    return GangText(fitting, int(minimum[1]), pod, said)


def gang_sentence(message: str) -> str:
    """Return what the text means, in the words of `pumice why`; a text of another form stays as it is."""
    text = read_gang_text(message)
    if text is None:
        return message
    return f"{text.part}: {in_words('', text.said)}" if text.said else text.part
