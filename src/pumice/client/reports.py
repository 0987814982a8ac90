"""Findings with their positions in files, as text with the hint on a line of its own, or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from msgspec import Struct
from msgspec.structs import asdict

from pumice.model.findings import ABSENT, Finding, Severity
from pumice.model.problem import Position, Problem
from pumice.model.text import plural, printable
from pumice.yaml.documents import Document

_LONGEST_SHOWN: Final = 80
_LONGEST_IN_JSON: Final = 2000
Paint: TypeAlias = Callable[[str], str]  # adds colour to a text


class Report(Struct, frozen=True):
    """A finding with its position in a file. A problem of the text itself has no path, but its column is printed."""

    severity: Severity
    file: str
    line: int
    column: int
    path: str
    value: object
    message: str
    hint: str

    @classmethod
    def at(cls, finding: Finding, file: str = "", line: int = 0, column: int = 0) -> Report:
        what = finding.message, finding.hint
        return cls(finding.severity, file, line, column, str(finding.path), finding.value, *what)

    @classmethod
    def of_finding(cls, finding: Finding, document: Document) -> Report:
        return cls.at(finding, document.file, *document.position(finding.path))

    @classmethod
    def of_problem(cls, problem: Problem) -> Report:
        where = problem.where
        return cls(Severity.ERROR, where.file, where.line, where.column, "", ABSENT, problem.message, problem.hint)

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR

    def text(self, bold: Paint = str, warning: Paint = str) -> str:
        # A file that cannot be opened has neither line nor column.
        numbers = (self.line, self.column) if not self.path else (self.line,)
        position = ":".join((printable(self.file), *(str(number) for number in numbers if number)))
        position = f"{bold(position)}: " if position else ""
        kind = "" if self.is_error else warning("warning: ")
        path = f"{printable(self.path)}: " if self.path else ""
        hint = f"\n  hint: {printable(self.hint)}" if self.hint else ""
        return f"{position}{kind}{path}{self._shown}{printable(self.message)}{hint}"

    @property
    def _shown(self) -> str:
        if self.value is ABSENT:
            return ""
        value = self.value if isinstance(self.value, str) else _dumps(self.value)
        text = printable(value) or '""'
        return f"{text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + '...'}: "

    def json(self) -> str:
        value = None if self.value is ABSENT else _bounded(self.value)
        fields = {**asdict(self), "severity": self.severity.value, "value": value}
        return _dumps(fields)

    @property
    def problem(self) -> Problem:
        """The same without colour, for an exception."""
        numbers = (self.line, 0 if self.path else self.column)
        message = f"{f'{self.path}: ' if self.path else ''}{self._shown}{self.message}"
        return Problem(message, self.hint, Position(self.file, *numbers), fatal=self.is_error)


def counted(reports: Sequence[Report]) -> str:
    """`3 errors, 1 warning`."""
    errors = sum(report.is_error for report in reports)
    numbers = ((errors, "error"), (len(reports) - errors, "warning"))
    return ", ".join(plural(number, word) for number, word in numbers if number)


def in_order(reports: Sequence[Report]) -> list[Report]:
    """Sort by position in the file; findings of one position keep the order of the rules."""
    return sorted(reports, key=lambda report: (report.line, report.column))


def _dumps(value: object, *, ascii_only: bool = False) -> str:
    import json  # noqa: PLC0415 - takes a hundredth of `pumice validate`, which seldom has something to say

    return json.dumps(value, ensure_ascii=ascii_only, default=str)


def _bounded(value: object) -> object:
    if isinstance(value, str | bytes):
        return value[:_LONGEST_IN_JSON]
    if isinstance(value, dict | list) and len(text := _dumps(value, ascii_only=True)) > _LONGEST_IN_JSON:
        return text[:_LONGEST_IN_JSON]
    return value
