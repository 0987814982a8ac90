from __future__ import annotations

import datetime as dt
import json

import msgspec
import pytest

from pumice.diagnosis.outcome import Outcome
from pumice.diagnosis.verdict import plain_verdict
from pumice.diagnosis.why import EvidenceLine, Hint, Holder, Shortage, Why, WhyCode, sentence, success_text, why_lines
from tests.unit.notebook_cells import ESCAPED, HOSTILE, shown

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
CPU = Shortage(
    resource="cpu", wanted="8", free="3", capacity="16", held_by=(Holder(run="ddp:3", amount="12", ends_by=None),)
)


def waits(*short: Shortage, position: int = 1) -> Why:
    return Why(run="sweep:7", code=WhyCode.RESOURCES, position=position, short=short)


def holders(count: int) -> tuple[Holder, ...]:
    return tuple(Holder(run=f"r:{number}", amount="500m") for number in range(1, count + 1))


def test_the_json_is_that_of_the_contract() -> None:
    why = Why(
        run="sweep:7",
        code=WhyCode.RESOURCES,
        outcome=Outcome.WAITING,
        since=NOON,
        position=1,
        drains_at=NOON + dt.timedelta(minutes=10),
        short=(CPU,),
        hints=(Hint("2 of 8 workers fit now", "pumice scale sweep:7 worker=2"),),
    )
    text = msgspec.json.encode(why)
    assert json.loads(text) == {
        "run": "sweep:7",
        "code": "Resources",
        "outcome": "Waiting",
        "since": "2026-01-01T12:00:00Z",
        "position": 1,
        "drainsAt": "2026-01-01T12:10:00Z",
        "behind": None,
        "short": [
            {
                "resource": "cpu",
                "wanted": "8",
                "free": "3",
                "capacity": "16",
                "heldBy": [{"run": "ddp:3", "amount": "12", "endsBy": None}],
            }
        ],
        "hints": [{"text": "2 of 8 workers fit now", "command": "pumice scale sweep:7 worker=2"}],
        "message": "",
        "evidence": [],
        "verdict": None,
    }
    assert msgspec.json.decode(text, type=Why) == why


@pytest.mark.parametrize(
    ("why", "text"),
    [
        pytest.param(waits(CPU), "cpu: 8 wanted, 3 free; ddp:3 holds 12; first in queue", id="cpu"),
        pytest.param(
            waits(Shortage(resource="cpu", wanted="1500m", free="0", capacity="2"), position=2),
            "cpu: 1.5 wanted, 0 free; second in queue",
            id="nobody holds it",
        ),
        pytest.param(
            waits(
                Shortage(
                    resource="memory",
                    wanted="16Gi",
                    free="1536Mi",
                    capacity="32Gi",
                    held_by=(
                        Holder(run="a:1", amount="8Gi"),
                        Holder(run=None, amount="14Gi", program="other programs"),
                    ),
                ),
                position=3,
            ),
            "memory: 16 GiB wanted, 1.5 GiB free; a:1 holds 8 GiB, other programs use 14 GiB; third in queue",
            id="memory",
        ),
        pytest.param(
            waits(
                CPU,
                Shortage(
                    resource="nvidia.com/gpu",
                    wanted="2",
                    free="0",
                    capacity="2",
                    held_by=(Holder(run=None, amount="1", program="python3 (pid 42)"),),
                ),
                position=11,
            ),
            "cpu: 8 wanted, 3 free; ddp:3 holds 12; nvidia.com/gpu: 2 wanted, 0 free; python3 (pid 42) holds 1; "
            "number 11 in queue",
            id="several resources",
        ),
        pytest.param(
            waits(Shortage(resource="cpu", wanted="8", free="0", capacity="8", held_by=holders(5))),
            "cpu: 8 wanted, 0 free; r:1 holds 0.5, r:2 holds 0.5, r:3 holds 0.5, 2 others hold 1; first in queue",
            id="many holders",
        ),
        pytest.param(
            waits(Shortage(resource="cpu", wanted="8", free="0", capacity="8", held_by=holders(4))),
            "cpu: 8 wanted, 0 free; r:1 holds 0.5, r:2 holds 0.5, r:3 holds 0.5, r:4 holds 0.5; first in queue",
            id="as many as others would take",
        ),
        pytest.param(
            Why(run="a:1", code=WhyCode.DRAINING, position=2, behind="big:1"),
            "fits, but the machine drains for big:1; second in queue",
            id="draining",
        ),
        pytest.param(
            Why(run="a:1", code=WhyCode.ORDER, position=2, behind="big:1"),
            "fits, but waits behind big:1; second in queue",
            id="order",
        ),
        pytest.param(
            Why(run="a:1", code=WhyCode.SUSPENDED, message="suspended by `pumice suspend`"),
            "suspended by `pumice suspend`",
            id="message",
        ),
        pytest.param(Why(run="a:1", code=WhyCode.RUNNING), "Running", id="only a code"),
    ],
)
def test_the_sentence(why: Why, text: str) -> None:
    assert sentence(why) == str(why) == text


def test_a_message_is_the_whole_sentence() -> None:
    why = waits(CPU)
    assert sentence(msgspec.structs.replace(why, message=sentence(why))) == sentence(why)


def test_the_topic_ignores_how_much_is_free() -> None:
    assert waits(CPU).topic == waits(msgspec.structs.replace(CPU, free="2")).topic
    assert waits(CPU).topic != waits(CPU, position=2).topic


def test_evidence_has_its_object_its_field_and_its_age() -> None:
    seen = EvidenceLine(kind="Pod", name="a-0", field="status.phase", since=NOON, text="Pending")
    quota = EvidenceLine(kind="ResourceQuota", name="team", field="", text="4 short")
    why = Why(run="a", code=WhyCode.QUOTA, message="it is short", evidence=(seen, quota), hints=(Hint("ask for less"),))
    later = NOON + dt.timedelta(seconds=185)
    head = "a waits: it is short"
    assert why_lines(why, later) == [
        head,
        "  Pod a-0 status.phase, for 3m05s: Pending",
        "  ResourceQuota team: 4 short",
        "  ask for less",
    ]
    assert why_lines(why)[1] == "  Pod a-0 status.phase: Pending"


@pytest.mark.parametrize(
    ("why", "lines"),
    [
        pytest.param(
            Why(run="a:1", code=WhyCode.ORDER, position=2, behind="big:1", hints=(Hint("more of it", "pumice ps"),)),
            ["a:1 waits: fits, but waits behind big:1; second in queue", "  more of it: pumice ps"],
            id="a wait, with a command",
        ),
        pytest.param(
            Why(run="a:1", code=WhyCode.RUNNING, outcome=Outcome.RUNNING, message="hangs", hints=(Hint("add py-spy"),)),
            ["a:1 Running: hangs", "  add py-spy"],
            id="a hint without a command",
        ),
    ],
)
def test_the_lines_have_the_reason_and_what_helps(why: Why, lines: list[str]) -> None:
    assert why_lines(why) == lines


def test_in_a_terminal_it_is_one_line() -> None:
    assert repr(waits(CPU)) == "<Why sweep:7 Resources: cpu: 8 wanted, 3 free; ddp:3 holds 12; first in queue>"
    failed = Why(run="a:1", code=WhyCode.FAILED, message=f"w-0 failed\x1b{HOSTILE}\nsecond line")
    assert repr(failed).startswith("<Why a:1 Failed: w-0 failed\\x1b<script>")
    assert "second" not in repr(failed)


def test_in_a_notebook_shortages_are_a_table() -> None:
    hints = (Hint("2 of 8 workers fit now", "pumice scale sweep:7 worker=2"),)
    text = shown(msgspec.structs.replace(waits(CPU), hints=hints)._repr_html_())
    assert text.splitlines()[0] == "sweep:7"
    assert "first in queue\n  2 of 8 workers fit now: pumice scale sweep:7 worker=2" in text
    assert text.endswith("held by\ncpu\n8\n3\n16\nddp:3 holds 12\n")


def test_in_a_notebook_a_failure_is_its_verdict() -> None:
    verdict = msgspec.structs.replace(plain_verdict("", ""), text=f"w-0 failed first\n  {HOSTILE}")
    text = shown(Why(run="a:1", code=WhyCode.FAILED, outcome=Outcome.FAILED, verdict=verdict)._repr_html_())
    assert text == f"a:1\n Failed\nw-0 failed first\n  {ESCAPED}\n"


def test_a_success_counts_its_pods() -> None:
    assert success_text(2, 26.0) == "2 pods succeeded, in 26.0s"
    assert success_text(1, 0.5) == "1 pod succeeded, in 0.5s"
