from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from pumice.cli.runs.ps import lines
from pumice.client.backend import Listing
from pumice.client.values import Status
from pumice.diagnosis.outcome import Outcome
from pumice.model.quantity import Quantity
from pumice.store.run_record import GangPods, PodCounts

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def _status(number: int, outcome: Outcome, **fields: Any) -> Status:
    common: dict[str, Any] = {
        "run": f"q:{number}",
        "name": "q",
        "number": number,
        "uid": f"u-{number}",
        "namespace": "default",
        "outcome": outcome,
        "phase": "Running",
        "reason": "",
        "message": "",
        "pods": PodCounts(running=2, total=2),
        "attempt": 1,
        "max_attempts": 3,
        "note": "",
        "args": [],
        "created": NOW,
        "started": NOW,
        "finished": None,
        "exit_code": None,
        "priority": 0,
        "mode": "detached",
        "host": "here",
        "file": "q.yaml",
        "directory": "",
        "gang": [GangPods(task="worker", count=2, requests={"cpu": "500m", "memory": "1Gi"})],
    }
    return Status(**{**common, **fields})


def _cells(*found: Status, wide: bool = False) -> list[list[str]]:
    amounts = {"u-1": {"cpu": Quantity.parse("1500m"), "memory": Quantity.parse("3Gi")}}
    return [line.split(maxsplit=5) for line in lines(Listing(list(found), amounts), NOW, wide=wide)]


def test_the_note_of_a_run_that_waits_is_shown_before_the_reason() -> None:
    why = "cpu: 2 wanted, 1 free; first in queue"
    shown = _cells(*(_status(n, Outcome.WAITING, note=f"lr={n}", message=why, started=None) for n in (1, 2)))
    assert [row[5] for row in shown[1:]] == [f"lr=1 · {why}", f"lr=2 · {why}"]
    assert shown[0] == ["RUN", "STATUS", "PODS", "TRY", "AGE", "NOTE"]


def test_the_arguments_of_a_run_are_shown_before_its_note_and_the_reason() -> None:
    why = "cpu: 2 wanted, 1 free; first in queue"
    long = ["--data", "x" * 80]
    given: list[dict[str, object]] = [
        {"args": ["--lr", "0.1", "a b", "--key=***"]},
        {"args": ["--lr", "1"], "note": "try", "message": why},
        {"args": long, "message": why},
    ]
    shown = _cells(*(_status(n, Outcome.WAITING, **fields, started=None) for n, fields in enumerate(given)))
    assert [row[5] for row in shown[1:]] == [
        "--lr 0.1 'a b' --key=***",
        f"--lr 1 · try · {why}",
        f"--data {'x' * 50}... · {why}",
    ]


def test_of_a_run_that_ended_the_pods_that_succeeded_are_counted() -> None:
    ended = _status(1, Outcome.SUCCEEDED, phase="Completed", finished=NOW, pods=PodCounts(total=4, succeeded=4))
    assert _cells(ended)[1][:3] == ["q:1", "Succeeded", "4/4"]


def test_wide_shows_what_a_run_holds_now_and_what_others_need_to_start() -> None:
    """D12: a run that was scaled holds more than it needed to start."""
    shown = _cells(_status(1, Outcome.RUNNING), _status(2, Outcome.WAITING, phase="Pending", started=None), wide=True)
    header, scaled, waits = (row[5].split("  ") for row in shown)
    assert header[0] == "PHASE"
    assert [each.strip() for each in scaled if each][:4] == ["Running", "0", "1.5", "3 GiB"]
    assert [each.strip() for each in waits if each][:4] == ["Pending", "0", "1", "2 GiB"]


def test_a_list_loads_neither_an_event_loop_nor_the_reader_of_yaml(tmp_path: Path) -> None:
    program = (
        "import sys; from pumice.cli.main import main; main(['ps']);"
        "print(sorted({'asyncio', 'yaml', 'subprocess', 'pumice.store.history.run_history'} & {*sys.modules}))"
    )
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
