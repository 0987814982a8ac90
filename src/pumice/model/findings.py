"""What is wrong (or doubtful) about a document: severity, place, value found, message, hint.

Everything that checks input yields findings; nothing that checks input raises or prints. The place is a path of keys
and indexes, so that whoever read the file can turn it into a line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_$-]+\Z")


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


class Path(tuple[str | int, ...]):
    """A place in a document: `SPEC / "tasks" / 1 / "replicas"` prints as `spec.tasks[1].replicas`."""

    __slots__ = ()

    def __truediv__(self, step: str | int) -> Path:
        return Path((*self, step))

    def __str__(self) -> str:
        text = ""
        for step in self:
            if isinstance(step, str) and _PLAIN_KEY.match(step):
                text += f".{step}" if text else step
            else:
                # Label keys hold dots and slashes; Kubernetes prints them in brackets, too.
                text += f"[{step}]"
        return text

    def is_within(self, places: Collection[tuple[str | int, ...]]) -> bool:
        """Whether it is one of the places, or below one."""
        return bool(places) and any(self[:length] in places for length in range(len(self) + 1))


ROOT: Final = Path()
SPEC: Final = Path(("spec",))
METADATA: Final = Path(("metadata",))


class _Absent:
    """The value of a finding that is about something missing, or whose value would say nothing."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()


@dataclass(frozen=True, slots=True)
class Finding:
    path: Path
    message: str
    value: object = ABSENT
    hint: str = ""
    severity: Severity = Severity.ERROR
    # Of a field with a wrong name or at a wrong place: where it should be, so that nobody reports it as missing there.
    correct_path: Path | None = field(default=None, compare=False)
    # Of a value that does not fit a schema: the type expression that it should fit (see `shape`).
    expected_type: str = field(default="", compare=False)

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR


def warning(path: Path, message: str, value: object = ABSENT, hint: str = "") -> Finding:
    return Finding(path, message, value, hint, Severity.WARNING)


def without_consequences(findings: Iterable[Finding]) -> list[Finding]:
    """All findings but those that miss something which another one found under a wrong name or at a wrong place."""
    every = list(findings)
    meant = {finding.correct_path for finding in every if finding.correct_path is not None}
    return [finding for finding in every if not finding.path.is_within(meant)]
