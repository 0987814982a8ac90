"""The names of runs and pods on the command line.

RUN = NAME | NAME:N | @last | UID (8 or more characters)      NAME is its newest run
    | NAME:N@file                                             opened from an archive
POD = [RUN/]TASK-INDEX                                        without RUN: @last
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

LAST: Final = "@last"
OPENED_SUFFIX: Final = "@file"
_NUMBERED: Final = re.compile(r"(?P<name>[a-z0-9][-.a-z0-9]*):(?P<number>[1-9][0-9]{0,8})(?P<opened>@file)?")
_UID: Final = re.compile(r"[0-9a-f]{8}[-0-9a-f]{0,28}")
_NAME: Final = re.compile(r"[a-z0-9][-.a-z0-9]*")
_POD: Final = re.compile(r"(?:(?P<run>[^/]+)/)?(?P<pod>[a-z0-9][-a-z0-9]*-[0-9]+)")


class RunName(Struct, frozen=True):
    """What a user typed for a run. `name` may also be the start of a uid."""

    text: str
    name: str = ""
    number: int = 0
    opened: bool = False  # from an archive

    @property
    def is_last(self) -> bool:
        return self.text == LAST

    @property
    def may_be_uid(self) -> bool:
        return not self.number and _UID.fullmatch(self.name) is not None


def run_ref(name: str, number: int, *, opened: bool = False) -> str:
    """Return `NAME:N`, or `NAME:N@file`. Where runs are not numbered, as Jobs on a cluster, it is the name."""
    return (f"{name}:{number}" if number else name) + (OPENED_SUFFIX if opened else "")


def is_directory_name(name: str) -> bool:
    """Return whether a name or uid can be that of a directory in the store."""
    return bool(name) and "/" not in name and "\0" not in name and not name.startswith(".")


def parse_run(text: str) -> RunName | None:
    """Return None for what cannot name a run."""
    if text == LAST:
        return RunName(text)
    if found := _NUMBERED.fullmatch(text):
        return RunName(text, found["name"], int(found["number"]), opened=found["opened"] is not None)
    return RunName(text, text) if _NAME.fullmatch(text) else None


def parse_pod(text: str) -> tuple[str, str] | None:
    """Return the run, by default `@last`, and the short name of the pod; None for what cannot name a pod."""
    found = _POD.fullmatch(text)
    return (found["run"] or LAST, found["pod"]) if found else None
