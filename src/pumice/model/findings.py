"""Findings: the errors and warnings about a document, each with path, value, message and hint.

Every check of input yields findings and neither raises nor prints. A path consists of keys and indexes; the reader of
the file turns it into a line number.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from pumice.model.problem import Problem
from pumice.model.pumice_error import PumiceError


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"


class Path(tuple[str | int, ...]):
    """A path in a document: `SPEC / "tasks" / 1 / "replicas"` prints as `spec.tasks[1].replicas`."""

    __slots__ = ()

    def __truediv__(self, step: str | int) -> Path:
        return Path((*self, step))

    def __str__(self) -> str:
        text = ""
        for step in self:
            if isinstance(step, str) and re.fullmatch("[A-Za-z0-9_$-]+", step):
                text += f".{step}" if text else step
            else:
                # Label keys contain dots and slashes. Kubernetes prints them in brackets, too.
                text += f"[{step}]"
        return text

    def is_within(self, paths: Collection[tuple[str | int, ...]]) -> bool:
        """Return whether this is one of the paths, or below one."""
        return bool(paths) and any(self[:length] in paths for length in range(len(self) + 1))


ROOT: Final = Path()
# A hostile document has an error in every value. The first ones are enough for its author.
MOST_FINDINGS: Final = 500
SPEC: Final = Path(("spec",))
METADATA: Final = Path(("metadata",))


class _Absent:
    """The value of a finding that shows none: the field is missing, or its value does not help."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "ABSENT"

    def __reduce__(self) -> str:
        """A copy, or what another process sends, is the same object: it is recognised by `is`."""
        return "ABSENT"


ABSENT: Final = _Absent()


class Finding(Struct, frozen=True, eq=False):
    """Two findings are equal if they say the same of the same value."""

    path: Path
    message: str
    value: object = ABSENT
    hint: str = ""
    severity: Severity = Severity.ERROR
    # For a misspelt or misplaced field: its correct path, at which no other finding needs to report it as missing.
    correct_path: Path | None = None
    # For a value that does not fit a schema: the type expression that it should fit (see `shape`).
    expected_type: str = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Finding) and self._key() == other._key()

    def __ne__(self, other: object) -> bool:
        return not self == other  # a Struct has one of its own, which compares the objects

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return self.path, self.message, self.value, self.hint, self.severity

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR

    @property
    def text(self) -> str:
        """Path, value and message on one line."""
        value = "" if self.value is ABSENT else f"{self.value}: "
        return f"{self.path}: {value}{self.message}" if self.path else f"{value}{self.message}"


class InvalidJob(PumiceError):  # noqa: N818 - a public name: `pumice.InvalidJob`
    """A Job that is not accepted: `findings`. `problems` are the same with positions in a file, where there is one."""

    __module__ = "pumice"  # as programs name it

    def __init__(self, findings: Sequence[Finding], problems: Sequence[Problem] = ()) -> None:
        found = [*problems] or [Problem(finding.text, finding.hint) for finding in findings if finding.is_error]
        first = found[0] if found else Problem("the Job is not valid")
        super().__init__(first.message, first.hint, first.where, found[1:])
        self.args = (findings, problems)  # to be pickled
        self.findings = tuple(findings)

    def __str__(self) -> str:
        return "\n".join(problem.text for problem in self.problems)


def warning(path: Path, message: str, value: object = ABSENT, hint: str = "") -> Finding:
    return Finding(path, message, value, hint, Severity.WARNING)


def without_consequences(findings: Iterable[Finding]) -> list[Finding]:
    """Drop findings about a missing field that another finding reports as misspelt or misplaced."""
    every = list(findings)
    corrected = {finding.correct_path for finding in every if finding.correct_path is not None}
    return [finding for finding in every if not finding.path.is_within(corrected)]
