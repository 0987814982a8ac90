"""`pumice simulate`: events, expectations, findings and exit codes."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from pumice.cli.main import main
from pumice.plugins.base import PluginError
from tests.meta.tree import ROOT

JOB = str(ROOT / "examples" / "restarts.yaml")
KEYS = ["at", "phase", "event", "pod", "policy", "action", "message"]
KINDS = "pods, exit, evict, pending, restarts, ready, controller, command, scale, suspend, group"
# The scenario of the contract, word for word but without the steps that would end the story early.
CONTRACT = """\
description: a worker is killed, the controller is away for a while
seed: 1                                   # for anything random; default 0
capacity: {pods: 4}                       # optional: more stay pending
steps:
- {at: 0s,  pods: "*", run: 60s, exit: 0}           # default behaviour of pods from here on
- {at: 30s, pod: worker-1, exit: 137, reason: OOMKilled}
- {at: 31s, controller: down, for: 5s}
- {expect: {phase: Completed, retryCount: 1, running: 0, pods: {worker-1: Succeeded}}, by: 120s}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "scenario.yaml"


def simulate(*words: str) -> int:
    return main(["simulate", *words])


def test_the_documented_scenario(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(CONTRACT)
    assert simulate(JOB, "-s", str(file)) == 0
    assert capsys.readouterr() == (
        """\
t+0.0s    Pending     3 pods made: master 1, worker 2
t+0.0s    Running     3/3 running
t+30.0s   Running     worker-1 failed (137, OOMKilled) -> policy spec.policies[0] PodFailed: RestartJob
t+30.0s   Restarting  3 pods end; retry 1, budget 1 of 3 spent
t+31.0s   Restarting  controller down for 5s
t+36.0s   Restarting  controller is back
t+36.0s   Pending     version 1: 3 pods made: master 1, worker 2
t+36.0s   Running     3/3 running
t+96.0s   Running     master-0 succeeded -> policy spec.tasks[0].policies[0] TaskCompleted: CompleteJob
t+96.0s   Running     worker-0, worker-1 succeeded
t+96.0s   Completing  no pod has to end
t+96.0s   Completed   3 succeeded
t+696.0s  gone        the job is deleted, with all that it owned
expect phase Completed by 120s     ok (96.0s)
expect retryCount 1 by 120s        ok (96.0s)
expect running 0 by 120s           ok (96.0s)
expect worker-1 Succeeded by 120s  ok (96.0s)
""",
        "",
    )


def test_every_documented_step(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = CONTRACT.replace(
        "- {expect",
        """\
- {at: 40s, pod: worker-0, evict: true}
- {at: 45s, pod: worker-1, pending: true}           # the next worker-1 hangs pending
- {at: 50s, command: AbortJob}
- {at: 60s, scale: {worker: 4}}
- {at: 90s, group: Unknown}                         # the PodGroup's phase
- {expect""",
    )
    file.write_text(text)
    assert simulate(JOB, "-s", str(file)) == 1
    out, err = capsys.readouterr()
    assert err.startswith("\ntraining Aborted: ")
    assert "expect phase Completed by 120s     missed: was Aborted (90.0s)" in out.splitlines()
    assert "expect running 0 by 120s           ok" in out.splitlines()


def test_without_a_scenario_every_pod_succeeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(str(ROOT / "examples" / "pytorch-job.yaml")) == 0
    assert capsys.readouterr().out == (
        """\
t+0.0s   Pending     3 pods made: master 1, worker 2
t+0.0s   Running     3/3 running
t+10.0s  Running     master-0 succeeded -> policy spec.tasks[0].policies[0] TaskCompleted: CompleteJob
t+10.0s  Running     worker-0, worker-1 succeeded
t+10.0s  Completing  no pod has to end
t+10.0s  Completed   3 succeeded
"""
    )


def test_examples_are_completed(capsys: pytest.CaptureFixture[str]) -> None:
    for example in sorted((ROOT / "examples").glob("*.yaml")):
        assert simulate(str(example)) == 0
        out, err = capsys.readouterr()
        assert err == ""
        assert "Completed" in out, example


def test_a_story_that_fails_ends_with_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    """As a run does, on stderr: it is the same value."""
    job = str(ROOT / "examples" / "ddp-resume.yaml")
    failures = [word for second in (3, 6, 9) for word in ("--fail", f"worker-0@{second}s:7")]
    assert simulate(job, *failures) == 0
    assert capsys.readouterr().err == (
        f"""
worker-0 failed first: exit code 7 after 2.0s (attempt 3 of 3)
  why           all 3 attempts failed (maxRetry)
  policy        PodFailed -> RestartJob (policies[0], {job}:11)
"""
    )
    assert simulate(job, *failures, "--json") == 0
    assert capsys.readouterr().err == ""


def test_json_has_the_same_keys_in_every_object(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(CONTRACT.replace("retryCount: 1, running: 0", "retryCount: 2"))
    assert simulate(JOB, "-s", str(file), "--json") == 1
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(list(one)[: len(KEYS)] == KEYS for one in printed)
    assert printed[2] == {
        "at": 30.0,
        "phase": "Running",
        "event": "PodFailed",
        "pod": "worker-1",
        "policy": "spec.policies[0]",
        "action": "RestartJob",
        "message": "worker-1 failed (137, OOMKilled)",
    }
    succeeded = [one["pod"] for one in printed if one["message"].endswith(" succeeded") and one["pod"]]
    assert succeeded == ["master-0", "worker-0", "worker-1"]
    missed = [one for one in printed if one["event"] == "ExpectationMissed"]
    assert missed == [
        {
            "at": 96.0,
            "phase": "Completed",
            "event": "ExpectationMissed",
            "pod": "",
            "policy": "",
            "action": "",
            "message": "expect retryCount 2 by 120s missed: was 1 (96.0s)",
            "expect": "retryCount",
            "wanted": 2,
            "found": 1,
        }
    ]
    assert [one["pod"] for one in printed if one["event"] == "ExpectationMet"] == ["", "worker-1"]


@pytest.mark.parametrize(
    ("expect", "printed"),
    [
        pytest.param("{expect: {phase: Failed}}", "expect phase Failed  missed: was Completed", id="at the end"),
        pytest.param(
            "{at: 1s, expect: {reason: OOMKilled}}", "expect reason OOMKilled at 1s  missed: was empty", id="empty"
        ),
        pytest.param(
            "{at: 1.25s, expect: {retryCount: 2}}", "expect retryCount 2 at 1.25s  missed: was 0", id="a number"
        ),
        pytest.param(
            "{at: 1s, expect: {pods: {worker: Failed}}, by: 2s}",
            "expect worker Failed from 1s to 2s  missed: was Running",
            id="pods",
        ),
    ],
)
def test_a_missed_expectation_names_the_actual_value(
    expect: str, printed: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(f"steps: [{expect}]")
    assert simulate(JOB, "-s", str(file)) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith(printed)


def test_all_findings_are_printed_with_their_lines(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("steps:\n- {at: 3, pod: wroker-1, exit: 1}\n- {at: 3s,\n   comand: AbortJob}\ncapacty: 3\n")
    assert simulate(JOB, "-s", str(file)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.replace(str(file), "F").splitlines() == [
        "F:2: steps[0].at: 3: must be a duration such as 10s, 5m or 1h30m",
        "  hint: did you mean 3s?",
        "F:2: steps[0].pod: wroker-1: no such pod in this job",
        "  hint: did you mean worker-1?",
        f"F:3: steps[1]: does not say what happens; one of {KINDS}, or what to expect",
        "  hint: did you mean command?",
        "F:5: capacty: unknown field",
        "  hint: did you mean capacity?",
        "4 errors",
    ]


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        pytest.param("", "F:1:1: the file is empty\n  hint: a scenario has steps:\n1 error\n", id="empty"),
        pytest.param(
            "steps: []\n---\nsteps: []\n",
            "F:3:1: only one scenario may be in a file, and this is the second\n1 error\n",
            id="two",
        ),
    ],
)
def test_a_file_must_contain_one_scenario(
    text: str, printed: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(text)
    assert simulate(JOB, "-s", str(file)) == 2
    assert capsys.readouterr().err.replace(str(file), "F") == printed


def test_missing_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(JOB, "-s", "no-such-file.yaml") == 2
    assert capsys.readouterr().err == "no-such-file.yaml: no such file\n  hint: check the spelling\n1 error\n"
    assert simulate("no-such-file.yaml") == 2


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Stdin:
        buffer = io.BytesIO(Path(JOB).read_bytes())

    monkeypatch.setattr(sys, "stdin", Stdin())
    assert simulate("-") == 0
    assert "3/3 running" in capsys.readouterr().out


def test_limits_of_the_job_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, two, large = Path(JOB).read_text(), tmp_path / "two.yaml", tmp_path / "large.yaml"
    two.write_text(text + "\n---\n" + text.replace("name: training", "name: other"))
    assert simulate(str(two)) == 2
    assert capsys.readouterr().err == f"{two}: 2 Jobs: simulate accepts one at a time\n"
    large.write_text(text.replace("replicas: 2", "replicas: 10000"))
    assert simulate(str(large)) == 2
    assert capsys.readouterr().err == f"{large}: 10001 pods: simulate accepts at most 10000\n  hint: lower replicas\n"


def test_a_plugin_that_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(*_: object) -> None:
        raise PluginError("broken", "no")

    monkeypatch.setattr("pumice.cli.offline.simulate.Simulation", broken)
    assert simulate(JOB) == 2
    assert capsys.readouterr().err == f"{JOB}: plugin broken failed: no\n"


def test_failures_without_a_scenario_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(JOB, "--fail", "worker-1@3s:137", "--evict", "worker-0@8s") == 0
    out = capsys.readouterr().out
    assert "t+3.0s    Running     worker-1 failed (137) -> policy spec.policies[0] PodFailed: RestartJob" in out
    assert "t+8.0s    Running     worker-0 is deleted by someone else" in out
    assert simulate(JOB, "--fail", "worker-1@30s") == 0
    out = capsys.readouterr().out
    assert "t+30.0s   Running     worker-1 failed (1) -> policy spec.policies[0] PodFailed: RestartJob" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--fail", "worker-1"], "--fail: worker-1: must be TASK-INDEX@TIME[:CODE], such as", id="form"),
        pytest.param(
            ["--evict", "worker-1@3s:4"], "--evict: worker-1@3s:4: must be TASK-INDEX@TIME, such as", id="code"
        ),
        pytest.param(["--fail", "worker-1@3"], "--fail: worker-1@3: must be a duration", id="no unit"),
        pytest.param(["--fail", "worker-1@3"], "  hint: did you mean 3s?", id="hint"),
        pytest.param(["--fail", "worker-9@3s"], "--fail: worker-9@3s: ", id="no such pod"),
        pytest.param(["--fail", "worker-1@3s:256"], "--fail: worker-1@3s:256: ", id="no exit code"),
        pytest.param(["--fail", "worker-1@3s", "-s", "x"], "not with a scenario file", id="both"),
    ],
)
def test_failures_that_cannot_be(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(JOB, *words) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert out == ""
