"""`make fuzz` notices tracebacks and inputs that take too long, names the case and can repeat it."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator

import pytest

from scripts import fuzz
from tests.fuzz.mutations import mutated_bytes, mutated_document
from tests.fuzz.targets import TARGETS, jobs


@pytest.fixture(autouse=True)
def _time_limit() -> Iterator[None]:
    before = signal.signal(signal.SIGPROF, fuzz._stop)
    yield
    signal.signal(signal.SIGPROF, before)


def never_ends(_draw: random.Random) -> None:
    while True:
        pass


def is_broken(draw: random.Random) -> None:
    raise KeyError(draw.random())


@pytest.mark.parametrize("target", [never_ends, is_broken])
def test_defects_are_noticed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], target: Callable[[random.Random], None]
) -> None:
    monkeypatch.setattr(fuzz, "TARGETS", {"images": target})
    monkeypatch.setattr(fuzz, "LONGEST", 0.1)
    assert not fuzz.passes("images:17")
    assert "FAILED images:17" in capsys.readouterr().out


@pytest.mark.parametrize("target", TARGETS)
def test_each_target_accepts_a_first_case(target: str) -> None:
    assert fuzz.passes(f"{target}:1")


def test_the_same_seed_is_the_same_input() -> None:
    def drawn(seed: int) -> tuple[object, bytes]:
        draw = random.Random(seed)
        return str(mutated_document(jobs()[0], draw)), mutated_bytes(b"HTTP/1.1 200 OK", draw)

    assert drawn(3) == drawn(3)
    assert drawn(3) != drawn(4)
