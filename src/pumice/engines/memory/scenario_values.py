"""The single values of a scenario file: numbers, durations, words; each with a finding for what it may not be."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pumice.engines.memory.scenario import HORIZON
from pumice.model.duration import Duration, DurationError
from pumice.model.findings import ABSENT, Finding, Path
from pumice.model.suggestions import did_you_mean

_LONGEST_WORD: Final = 100
_MANY: Final = 10**9


@dataclass(slots=True, kw_only=True)
class ValueReader:
    findings: list[Finding] = field(default_factory=list)

    def fault(self, at: Path, message: str, value: object = ABSENT, hint: str = "") -> None:
        self.findings.append(Finding(at, message, value, hint))

    def known(self, raw: Mapping[Any, Any], accepted: Sequence[str], at: Path) -> None:
        for key in raw:
            if key not in accepted:
                hint = did_you_mean(str(key), accepted) or f"there are {', '.join(accepted)}"
                self.fault(at / str(key), "unknown field", hint=hint)

    def number(self, value: object, at: Path, least: int | None = 0, most: int | None = None) -> int:
        if value is ABSENT:
            self.fault(at, "is missing")
        elif isinstance(value, bool) or not isinstance(value, int):
            self.fault(at, "must be a whole number", value)
        elif (least is not None and value < least) or (most is not None and value > most):
            bounds = f"must be {least} or more" if most is None else f"must be between {least} and {most}"
            self.fault(at, bounds, value)
        else:
            return value
        return 0

    def truth(self, value: object, at: Path) -> bool:
        if not isinstance(value, bool):
            self.fault(at, "must be true or false", value)
        return value is True

    def text(self, value: object, at: Path, longest: int = _LONGEST_WORD) -> str:
        if not isinstance(value, str):
            self.fault(at, "must be a text", value)
        elif len(value) > longest:
            self.fault(at, f"must be at most {longest} characters", value)
        elif not all(char.isprintable() or char == "\n" for char in value):
            self.fault(at, "must be printable", value)
        else:
            return value
        return ""

    def word(self, value: object, accepted: Iterable[str], at: Path) -> str:
        words = [str(word) for word in accepted]
        if value not in words:
            self.fault(at, f"must be one of {', '.join(words)}", value, did_you_mean(str(value), words))
        return str(value)

    def duration(self, value: object, at: Path) -> dt.timedelta:
        try:
            duration = Duration.parse(value).timedelta
        except DurationError as error:
            seconds = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MANY
            self.fault(at, error.message, value, f"did you mean {value}s?" if seconds else error.hint)
            return dt.timedelta()
        if duration < dt.timedelta():
            self.fault(at, "must not be negative", value)
        elif duration > HORIZON:
            self.fault(at, f"must be at most {HORIZON // dt.timedelta(hours=1)}h", value)
        else:
            return duration
        return dt.timedelta()
