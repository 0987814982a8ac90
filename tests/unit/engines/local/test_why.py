from __future__ import annotations

import datetime as dt
import json

import msgspec
import pytest

from pumice.engines.local.why import Hint, Holder, Shortage, Why, WhyCode, sentence

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
    assert sentence(why) == text
