"""The text of a scheduler that finds no node for a pod, such as `0/3 nodes are available: 3 Insufficient cpu.`."""

from __future__ import annotations

import re
from typing import Final

import msgspec

_TEXT: Final = re.compile(r"0/(\d{1,9}) nodes are (?:un)?available: (.*)")
_PREEMPTION: Final = re.compile(r"\.? *preemption: .*")
_PARTS: Final = re.compile(r"[,.] +(?=\d+ )")
_REASON: Final = re.compile(r"(\d{1,9}) (.+)")
_CLAIM_MISSING: Final = re.compile(r'persistentvolumeclaim "([^"]+)" (?:not found|is being deleted)')
# Reasons that are about the claims of the pod, not about the nodes.
_OF_CLAIMS: Final = ("unbound immediate PersistentVolumeClaims", "didn't find available persistent volumes to bind")


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
