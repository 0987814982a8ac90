"""Policies for real: pods that fail, are killed, complete or hang, and what becomes of their job.

Each run of a container adds its host name to the file `runs` of the working directory, which all pods share.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.local.running import Manifest, Result, Workspace, job, task
from tests.local.sandbox.boxes import need_namespaces

RUNS = 'echo "${HOSTNAME#trial-}" >> runs; '
# The first run of each pod ends in this way, later ones end well.
ONCE = RUNS + '[ -e "$HOSTNAME" ] && exit 0; touch "$HOSTNAME"; '
FOR_LONG = RUNS + "sleep 600"


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    need_namespaces()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def runs(workspace: Workspace) -> Counter[str]:
    return Counter((workspace.directory / "runs").read_text().split())


def policy(event: str, action: str, **more: Any) -> Manifest:
    return {"event": event, "action": action, **more}


def until(pod: str, times: int) -> str:
    """Wait until a pod, by its short name, has been run so often."""
    return f"{RUNS}until [ $(grep -cx {pod} runs) -ge {times} ]; do sleep 0.2; done"


def good(result: Result) -> None:
    assert result.code == 0, result.err


def test_a_failed_worker_restarts_the_whole_job(workspace: Workspace) -> None:
    """It fails when every pod has written that it runs."""
    fail = '[ "$HOSTNAME" = trial-worker-0 ] && sleep 600'
    fail += "; until [ -e trial-worker-0 ] && [ $(wc -l < runs) -ge 3 ]; do sleep 0.2; done; exit 3"
    worker = task("worker", ONCE + fail, 2)
    master = task("master", until("worker-1", 2))
    result = workspace.run(job(master, worker, policies=[policy("PodFailed", "RestartJob")]))
    good(result)
    assert runs(workspace) == {"master-0": 2, "worker-0": 2, "worker-1": 2}
    assert "worker-1 failed: PodFailed -> RestartJob (policies[0], job.yaml:" in result.err


def test_a_failed_pod_restarts_its_task_only(workspace: Workspace) -> None:
    first = f"[ $HOSTNAME = trial-worker-0 ] || sleep 600; {until('worker-1', 1).removeprefix(RUNS)}"
    worker = task("worker", RUNS + f"[ -e again ] && exit 0; {first}; touch again; exit 3", 2)
    worker["policies"] = [policy("PodFailed", "RestartTask")]
    result = workspace.run(job(task("other", until("worker-1", 2)), worker))
    good(result)
    assert runs(workspace) == {"other-0": 1, "worker-0": 2, "worker-1": 2}


def test_a_failed_pod_restarts_alone(workspace: Workspace) -> None:
    first = '[ "$HOSTNAME" = trial-worker-1 ] || { ' + until("worker-1", 2).removeprefix(RUNS) + "; exit 0; }; exit 4"
    worker = task("worker", ONCE + first, 2, policies=[policy("PodFailed", "RestartPod")])
    good(workspace.run(job(worker)))
    assert runs(workspace) == {"worker-0": 1, "worker-1": 2}


def test_a_failed_pod_restarts_its_partition(workspace: Workspace) -> None:
    script = RUNS + (
        'case "$HOSTNAME" in '
        f"*-3) [ -e again ] && exit 0; {until('worker-2', 1).removeprefix(RUNS)}; touch again; exit 5;; "
        "*-2) [ -e again ] || sleep 600; exit 0;; "
        "*) until [ $(grep -cx worker-2 runs) -ge 2 ]; do sleep 0.2; done;; esac"
    )
    worker = task("worker", script, 4, partitionPolicy={"totalPartitions": 2, "partitionSize": 2})
    worker["policies"] = [policy("PodFailed", "RestartPartition")]
    result = workspace.run(job(worker))
    good(result)
    found = runs(workspace)
    assert (found["worker-0"], found["worker-1"], found["worker-3"]) == (1, 1, 2), result.err
    assert found["worker-2"] == 2


@pytest.mark.parametrize(
    ("fields", "code", "expected"),
    [
        pytest.param({"exitCode": 7, "action": "CompleteJob"}, 7, 0, id="that code"),
        pytest.param({"exitCodes": [5, 6], "action": "CompleteJob"}, 7, 7, id="none of several"),
    ],
)
def test_exit_codes(workspace: Workspace, fields: Manifest, code: int, expected: int) -> None:
    others = [policy("PodFailed", "TerminateJob")] if expected else []
    spec = job(task("bad", RUNS + f"exit {code}"), task("other", FOR_LONG), policies=[fields, *others])
    assert workspace.run(spec).code == expected


def test_the_code_of_an_init_container_counts(workspace: Workspace) -> None:
    bad = task("bad", FOR_LONG)
    init: Manifest = {"name": "init", "image": "nowhere", "command": ["sh", "-c", "exit 9"]}
    bad["template"]["spec"]["initContainers"] = [init]
    spec = job(bad, task("other", FOR_LONG), policies=[{"exitCode": 9, "action": "CompleteJob"}])
    good(workspace.run(spec))


def test_a_completed_task_completes_the_job(workspace: Workspace) -> None:
    master = task("master", RUNS + "until [ -e runs ]; do sleep 0.2; done", 2)
    master["policies"] = [policy("TaskCompleted", "CompleteJob")]
    result = workspace.run(job(master, task("worker", FOR_LONG, 2)))
    good(result)
    assert "TaskCompleted -> CompleteJob (tasks[0].policies[0], job.yaml:" in result.err


@pytest.mark.parametrize("action", ["AbortJob", "TerminateJob"])
def test_a_failure_ends_the_job(workspace: Workspace, action: str) -> None:
    spec = job(task("bad", RUNS + "exit 3"), task("other", FOR_LONG), policies=[policy("PodFailed", action)])
    result = workspace.run(spec)
    assert result.code == 3
    assert f"bad-0 failed: PodFailed -> {action}" in result.err
    assert result.verdict[0].startswith("bad-0 failed first: exit code 3")


@pytest.mark.parametrize("action", ["RestartTask", "RestartPod"])
def test_retries_are_counted(workspace: Workspace, action: str) -> None:
    spec = job(task("bad", RUNS + "exit 3"), policies=[policy("PodFailed", action)], maxRetry=3)
    result = workspace.run(spec)
    assert result.code == 3
    assert runs(workspace) == {"bad-0": 3}, result.err


def test_restarts_of_a_task_are_counted(workspace: Workspace) -> None:
    bad = task("bad", RUNS + "exit 3", policies=[policy("PodFailed", "RestartTask")], maxRestarts=1)
    result = workspace.run(job(bad, task("other", FOR_LONG), maxRetry=10))
    assert result.code == 3
    assert runs(workspace)["bad-0"] == 2, result.err


def test_a_policy_of_the_task_comes_before_that_of_the_job(workspace: Workspace) -> None:
    bad = task("bad", RUNS + "exit 3", policies=[policy("PodFailed", "CompleteJob")])
    good(workspace.run(job(bad, task("other", FOR_LONG), policies=[policy("PodFailed", "RestartJob")])))
    assert runs(workspace)["bad-0"] == 1


def test_a_pod_that_hangs_pending_meets_its_policy(workspace: Workspace) -> None:
    """It is too large for any machine, and not one of the gang."""
    large = task("large", FOR_LONG, container={"resources": {"requests": {"cpu": "4000"}}})
    large["policies"] = [policy("PodPending", "TerminateJob", timeout="1s")]
    (workspace.directory / "runs").touch()
    result = workspace.run(job(task("other", FOR_LONG), large, minAvailable=1))
    assert result.code == 1, result.err
    assert "PodPending -> TerminateJob" in result.err
    assert "waits until there is room for it on this machine (cpu: 4000 wanted" in result.err
    # The policy may end the other pod before it has written anything.
    assert "large-0" not in runs(workspace)


def test_a_policy_waits_for_its_timeout(workspace: Workspace) -> None:
    """The pod that fails has an end of its own; the job goes on until the time is up."""
    spec = job(
        task("bad", "until [ -e up ]; do sleep 0.1; done; touch failed; exit 3"),
        task("other", "touch up; until [ -e failed ]; do sleep 0.1; done; sleep 0.5; echo other goes on; sleep 600"),
        policies=[policy("PodFailed", "TerminateJob", timeout="6s")],
    )
    result = workspace.run(spec)
    assert result.code == 3
    assert "other goes on" in result.out


def test_containers_that_fail_for_good_fail_their_task(workspace: Workspace) -> None:
    bad = task("bad", RUNS + "exit 3", pod={}, maxRetry=1, policies=[policy("TaskFailed", "TerminateJob")])
    bad["template"]["spec"]["restartPolicy"] = "OnFailure"
    result = workspace.run(job(bad, task("other", FOR_LONG)))
    assert result.code == 3, result.err
    assert "TaskFailed -> TerminateJob" in result.err
    # The policy may end the second run before it has written anything.
    assert "bad-0 restart 1: exit code 3" in result.err


def test_a_task_waits_for_those_that_it_depends_on(workspace: Workspace) -> None:
    first = task("first", RUNS + "true")
    second = task("second", RUNS + "true", dependsOn={"name": ["first"], "condition": "Completed"})
    good(workspace.run(job(second, first)))
    assert (workspace.directory / "runs").read_text().split() == ["first-0", "second-0"]


def test_enough_successes_are_a_success(workspace: Workspace) -> None:
    script = RUNS + '[ "$HOSTNAME" = trial-only-0 ] || exit 3; sleep 0.5'
    good(workspace.run(job(task("only", script, 2), minAvailable=1, minSuccess=1)))
