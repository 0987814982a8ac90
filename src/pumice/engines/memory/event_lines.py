"""The lines of the event log. In the text, pods that did the same at one moment share a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

# Up to so many pods are named; more are counted.
_NAMED: Final = 3
_PHASE_WIDTH: Final = 12


@dataclass(slots=True)
class Line:
    at: float
    phase: str
    event: str
    what: str  # what happened; of a pod, without its name
    pod: str = ""
    policy: str = ""  # the path of the policy that acted on it
    action: str = ""

    @property
    def message(self) -> str:
        return f"{self.pod} {self.what}" if self.pod else self.what

    @property
    def acted(self) -> str:
        return f" -> policy {self.policy} {self.event}: {self.action}" if self.policy else ""

    @property
    def moment(self) -> str:
        return f"t+{self.at:.1f}s"


def texts(lines: Sequence[Line]) -> Iterator[str]:
    """The lines as text."""
    width = max((len(line.moment) for line in lines), default=0)
    for line, message in _gathered(lines):
        yield f"{line.moment:<{width}}  {line.phase:<{_PHASE_WIDTH}}{message}{line.acted}".rstrip()


def _gathered(lines: Sequence[Line]) -> Iterator[tuple[Line, str]]:
    for key, together in groupby(lines, lambda line: (line.at, line.phase, bool(line.pod))):
        if not key[-1]:
            yield from ((line, line.message) for line in together)
            continue
        alike: dict[tuple[str, ...], list[Line]] = {}
        for line in together:
            task = line.pod.rpartition("-")[0]
            # An event that a policy acted on has its own line.
            alike.setdefault((line.pod,) if line.policy else (task, line.event, line.what), []).append(line)
        for about, group in alike.items():
            names = ", ".join(line.pod for line in group) if len(group) <= _NAMED else f"{len(group)} of {about[0]}"
            yield group[0], f"{names} {group[0].what}"
