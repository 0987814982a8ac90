"""A run that hangs: since when no pod has printed anything, and what each pod does meanwhile."""

from __future__ import annotations

import datetime as dt
from collections.abc import Container
from typing import Final

import msgspec

from pumice.model.units import elapsed_text

# Seconds; below, people compare seconds better than minutes.
_LONGEST_SECONDS: Final = 120.0
PY_SPY: Final = "with py-spy in the Python of the pods (pip install py-spy), this shows in which functions they are"


class PodActivity(msgspec.Struct, frozen=True, rename="camel"):
    pod: str  # short name
    text: str  # `python3 sleeping; connected to master-0:23456`
    lacks_py_spy: bool = False  # it is a Python program, and the pod has no py-spy that could show its functions


class Hang(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The pods are looked at when the silence is noticed; not all of them, if they are many."""

    since: dt.datetime  # when a pod last printed something or changed
    silent: float  # seconds without output, when it was drawn or reported
    running: int  # pods
    doing: tuple[PodActivity, ...] = ()

    def at(self, now: dt.datetime) -> Hang:
        """Return the same silence at a later moment."""
        return msgspec.structs.replace(self, silent=max(self.silent, (now - self.since).total_seconds()))

    @property
    def lacks_py_spy(self) -> bool:
        return any(each.lacks_py_spy for each in self.doing)


def hang_lines(hang: Hang) -> tuple[str, ...]:
    """Return a sentence, and a line for each pod that was looked at."""
    doing = [f"  {each.pod}: {each.text}" for each in hang.doing]
    more = hang.running - len(doing)
    return (
        f"no pod has printed anything for {_silence(hang)}; {hang.running} of them run",
        *doing,
        *([f"  and {more} more"] if doing and more > 0 else []),
    )


def hang_text(hang: Hang) -> str:
    """Return the lines as one text, with a hint where py-spy would show more."""
    hint = (f"  hint: {PY_SPY}",) if hang.lacks_py_spy else ()
    return "\n".join((*hang_lines(hang), *hint))


def hang_note(hang: Hang) -> str:
    """Return the silence in the few words that a column of a table has room for."""
    return f"no output for {_silence(hang)}"


def hang_groups(hang: Hang, without: Container[str] = ()) -> tuple[str, ...]:
    """`worker-0, worker-1: python3 sleeping`: pods that do the same share a row; `without` names pods to leave out."""
    pods: dict[str, list[str]] = {}
    for each in hang.doing:
        if each.pod not in without:
            pods.setdefault(each.text, []).append(each.pod)
    return tuple(f"{', '.join(names)}: {text}" for text, names in pods.items())


def _silence(hang: Hang) -> str:
    return f"{int(hang.silent)}s" if hang.silent < _LONGEST_SECONDS else elapsed_text(hang.silent)
