"""The text of Volcano's scheduler about a gang that does not fit: `4/4 tasks in gang unschedulable: ...`."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from pumice.diagnosis.pod_ends import in_words

_FITTING: Final = re.compile(r"(\d{1,9}) (?:Schedulable|Running|Bound|Binding|Allocated|Succeeded)\b")
_MINIMUM: Final = re.compile(r"(\d{1,9}) minAvailable")
_ORIGIN: Final = re.compile(r"Origin reason is (\S+): (.*)")


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
