"""What is told to programs, and what is kept of every run, with real jobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.local.running import Manifest, Workspace, extra_object, job, task
from tests.local.sandbox.boxes import need_namespaces

TYPES = {"plan", "phase", "pod", "log", "warning", "verdict"}


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    need_namespaces()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def _twice() -> Manifest:
    """Fails, is restarted by a policy, and then succeeds."""
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    script = "[ -e seen ] && exit 0; touch seen; echo words; echo; exit 4"
    return job(task("only", script), policies=policies, maxRetry=3)


def _events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_events(workspace: Workspace) -> None:
    result = workspace.run(_twice(), flags=["--json"])
    assert result.code == 0, result.err
    events = _events(result.out)
    assert {event["type"] for event in events} <= TYPES
    assert all("time" in event for event in events)
    assert events[0]["type"] == "plan"
    assert [event["line"] for event in events if event["type"] == "log"] == ["words", ""]
    pods = [(event["phase"], event["attempt"], event.get("code")) for event in events if event["type"] == "pod"]
    assert pods == [
        ("Pending", 1, None),
        ("Running", 1, None),
        ("Failed", 1, 4),
        ("Pending", 2, None),
        ("Running", 2, None),
        ("Succeeded", 2, 0),
    ]
    phases = [(event["phase"], event["attempt"], event.get("action")) for event in events if event["type"] == "phase"]
    # Whether it was seen to run before it failed is a matter of chance; each phase is told once.
    assert [phase for phase in phases if phase[0] != "Running"] == [
        ("Pending", 1, None),
        ("Restarting", 1, "RestartJob"),
        ("Pending", 2, None),
        ("Completing", 2, None),
        ("Completed", 2, None),
    ] or [phase for phase in phases if phase[0] != "Running"] == [
        ("Pending", 1, None),
        ("Restarting", 1, "RestartJob"),
        ("Pending", 2, None),
        ("Completed", 2, None),
    ]
    assert len(phases) == len(set(phases))
    verdict = {name: value for name, value in events[-1].items() if name not in ("time", "disk")}
    assert verdict == {"type": "verdict", "phase": "Completed", "code": 0, "attempt": 2}
    assert set(events[-1]["disk"]) == {"claims", "emptyDir", "layers"}


def test_events_of_a_failure(workspace: Workspace) -> None:
    result = workspace.run(job(task("only", "echo hi; exit 2"), maxRetry=1), flags=["--json"])
    verdict = _events(result.out)[-1]
    assert (verdict["type"], verdict["code"], verdict["pod"], verdict["container"]) == ("verdict", 2, "only-0", "only")
    assert (verdict["line"], verdict["reason"], verdict["phase"]) == ("hi", "PodFailed", "Failed")


@pytest.mark.parametrize("flags", [pytest.param([], id="text"), pytest.param(["--json"], id="json")])
def test_spec_events_and_logs_of_every_attempt_are_kept_and_no_scratch(workspace: Workspace, flags: list[str]) -> None:
    assert workspace.run(_twice(), flags=flags).code == 0
    directory = workspace.state / "runs" / "default" / "trial" / "1"
    files = {
        str(path.relative_to(directory)): path.read_text(errors="replace")
        for path in directory.rglob("*")
        if path.is_file()
    }
    assert set(files) == {
        "run.json",
        "code.json",
        "journal.jsonl",
        "status.json",
        "owner.lock",
        "pods/only-0/1/pod.json",
        "pods/only-0/1/only.0.log",
        "pods/only-0/1/only.0.idx",
        "pods/only-0/2/pod.json",
        "pods/only-0/2/only.0.log",
    }
    assert json.loads(files["run.json"])["job"]["metadata"]["name"] == "trial"
    assert json.loads(files["pods/only-0/2/pod.json"])["metadata"]["name"] == "trial-only-0"
    assert files["pods/only-0/1/only.0.log"] == "words\n\n"
    kinds = [entry["kind"] for entry in _events(files["journal.jsonl"])]
    assert kinds[0] == "RunPlanned"
    assert kinds[-1] == "RunEnded"
    assert "LogOutput" not in kinds
    status = json.loads(files["status.json"])
    assert (status["phase"], status["attempt"], status["exitCode"]) == ("Completed", 2, 0)
    assert list((workspace.state / "active").iterdir()) == []


def test_what_is_kept_is_private_and_holds_no_secret(workspace: Workspace) -> None:
    secret = extra_object("Secret", "hush", stringData={"WORD": "open-sesame"})
    container = {"envFrom": [{"secretRef": {"name": "hush"}}], "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    only = task("only", "test $WORD = $(cat /v/WORD)", container=container)
    only["template"]["spec"]["volumes"] = [{"name": "v", "secret": {"secretName": "hush"}}]
    result = workspace.run(job(only, plugins={"ssh": []}), secret)
    assert result.code == 0, result.err
    for path in workspace.state.rglob("*"):
        mode = path.stat().st_mode & 0o777
        assert not mode & 0o077 or not path.is_file() or path.stat().st_size == 0, path
        if path.is_file():
            assert b"open-sesame" not in path.read_bytes()
            assert b"PRIVATE KEY" not in path.read_bytes()
    assert workspace.state.stat().st_mode & 0o777 == 0o700


def test_the_oldest_runs_are_removed_with_a_line_that_says_so(workspace: Workspace) -> None:
    workspace.configure("[runs]\nkeep_per_name = 1\n")
    for number in range(1, 4):
        result = workspace.run(job(task("only", "true")))
        assert result.code == 0
        assert ("removed 1 old run: trial:" in result.err) == (number == 3)
    assert sorted(path.name for path in (workspace.state / "runs" / "default" / "trial").iterdir()) == [
        "2",
        "3",
        "next",
    ]
