"""The verdict about a job, and which pod it names."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from pumice.engines.local.outcome import Failures, Outcome, Stop
from pumice.engines.local.verdict import explained, missing_module, verdict_lines, what_ends_restarts, what_follows
from pumice.engines.local.why import ActedPolicy, Follower, Verdict
from pumice.model.findings import SPEC
from pumice.model.job import Job, JobSpec, LifecyclePolicy, Metadata, TaskSpec
from pumice.model.problem import Position
from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase
from pumice.model.status import JobState, JobStatus
from pumice.reconcile.decision import JobEvent

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
_LIMITED = {"name": "w", "resources": {"limits": {"memory": "1Gi"}}}
JOB = Job(
    spec=JobSpec(
        max_retry=3,
        tasks=[TaskSpec(name="w", template={"spec": {"containers": [_LIMITED, {"name": "other"}]}})],
    )
)


def _end(second: float, code: int = 1, line: str = "", **fields: object) -> ContainerEnd:
    end = ContainerEnd("w", code, finished_at=START + dt.timedelta(seconds=second), last_line=line)
    return replace(end, **fields)


def _failed(index: int, end: ContainerEnd, *, version: int = 0, uid: str = "") -> ObservedPod:
    return ObservedPod(f"j-w-{index}", uid or f"u{index}", "w", index, version, 1, PodPhase.FAILED, START, ends=(end,))


def _failures(*pods: ObservedPod) -> Failures:
    failures = Failures()
    for pod in pods:
        failures.record(pod)
    return failures


def _outcome(*ends: ContainerEnd, job: Job = JOB, **fields: Any) -> Outcome:
    pods = [_failed(index, end) for index, end in enumerate(ends)]
    return Outcome(job, _failures(*pods).in_order(), **fields)


def _names(failures: Failures) -> list[str]:
    return [failure.pod.short_name for failure in failures.in_order()]


def test_the_first_failure_comes_first_in_at_most_six_lines() -> None:
    ends = [_end(10 - index, line="first\n  hint: second") for index in range(6)]
    state = JobState(
        phase="Failed", reason="RetriesExhausted", message="all 3 attempts failed (maxRetry); the last cause: x"
    )
    job = Job(spec=JobSpec(max_retry=3), status=JobStatus(state=state))
    policy = JobEvent("ExecuteAction", "", policy=SPEC / "policies" / 0, event="PodFailed", action="AbortJob")
    outcome = _outcome(*ends, job=job, policy=policy)
    followers = [f"w-{4 - later} (exit code 1, {later + 1}.0s later)" for later in range(3)]
    assert verdict_lines(outcome, lambda path: Position("job.yaml", len(path)), "pumice run x") == (
        "w-5 failed first: exit code 1 after 5.0s (attempt 2 of 3)",
        "  last line     first; hint: second",
        f"  then          {', '.join(followers)} and 2 more",
        "  why           all 3 attempts failed (maxRetry)",
        "  policy        PodFailed -> AbortJob (policies[0], job.yaml:3)",
        "  next          pumice run x",
    )
    assert (outcome.exit_code, outcome.reason, outcome.attempt) == (1, "RetriesExhausted", 2)
    _, verdict = explained(outcome, lambda path: Position("job.yaml", len(path)))
    assert verdict == Verdict(
        pod="w-5",
        container="w",
        code=1,
        reason="RetriesExhausted",
        line="first; hint: second",
        followers=tuple(Follower(pod=f"w-{4 - later}", code=1, after=later + 1.0) for later in range(5)),
        policy=ActedPolicy(event="PodFailed", action="AbortJob", path="spec.policies[0]", where="job.yaml:3"),
        attempt=2,
    )


def test_a_verdict_without_a_failed_pod() -> None:
    completed = Job(status=JobStatus(state=JobState(phase="Completed")))
    assert explained(Outcome(completed)) == ((), None)
    _, verdict = explained(Outcome(completed, stop=Stop(124, "Timeout", "ran too long")))
    assert verdict == Verdict(reason="Timeout")


@pytest.mark.parametrize(
    ("end", "text"),
    [
        pytest.param(_end(1, 7), "exit code 7 after 1.0s", id="exit code"),
        pytest.param(_end(1, 137, signal=9), "signal 9 (SIGKILL) after 1.0s", id="signal"),
        pytest.param(
            _end(1, 137, signal=9, reason="OOMKilled"), "signal 9 (SIGKILL), OOMKilled after 1.0s", id="out of memory"
        ),
        pytest.param(_end(1, 1, container="first"), "exit code 1 in container first after 1.0s", id="init container"),
        pytest.param(
            _end(1, 127, reason="StartError", container=""), "exit code 127, StartError after 1.0s", id="the pod itself"
        ),
    ],
)
def test_the_first_line_says_how_the_pod_failed(end: ContainerEnd, text: str) -> None:
    outcome = _outcome(end)
    assert verdict_lines(outcome)[0] == f"w-0 failed first: {text} (attempt 2 of 3)"
    assert outcome.exit_code == end.exit_code


@pytest.mark.parametrize(
    ("end", "line"),
    [
        pytest.param(_end(1, line="words"), "  last line     words", id="last line"),
        pytest.param(_end(1, line="no such", reason="StartError"), "  cause         no such", id="never ran"),
        pytest.param(
            _end(1, line="words", reason="OOMKilled"),
            "  cause         it used more than its memory limit, 1Gi (job.yaml:10)",
            id="out of memory",
        ),
        pytest.param(
            _end(1, reason="OOMKilled", container="other"),
            "  cause         this machine had no memory left",
            id="no limit",
        ),
    ],
)
def test_the_second_line_says_why(end: ContainerEnd, line: str) -> None:
    assert verdict_lines(_outcome(end), lambda path: Position("job.yaml", len(path)))[1] == line


def test_a_long_line_is_cut() -> None:
    line = verdict_lines(_outcome(_end(1, line="x" * 5000)))[1]
    assert line.endswith("xxx...")
    assert len(line) < 400


def test_without_a_failure_the_state_is_the_verdict() -> None:
    state = JobState(phase="Failed", reason="DeadlineExceeded", message="the job ran longer than allowed")
    outcome = _outcome(job=Job(metadata=Metadata(name="j"), status=JobStatus(state=state)))
    assert verdict_lines(outcome, next_step="do") == ("j Failed: the job ran longer than allowed", "  next          do")
    assert outcome.exit_code == 1


def test_a_stopped_or_completed_run_blames_no_pod() -> None:
    stopped = _outcome(_end(1, 3), stop=Stop(124, "Timeout", "too long"))
    failed = "  failed        w-0: exit code 3 after 1.0s"
    assert verdict_lines(stopped, next_step="do") == ("too long", failed, "  next          do")
    assert (stopped.exit_code, stopped.reason, stopped.first) == (124, "Timeout", None)
    assert verdict_lines(_outcome(stop=Stop()), next_step="do") == ()
    completed = _outcome(_end(1, 3), job=Job(status=JobStatus(state=JobState(phase="Completed"))))
    assert verdict_lines(completed) == ()
    assert (completed.exit_code, completed.first) == (0, None)


def test_a_stopped_run_names_what_failed_before() -> None:
    loop = replace(_failed(1, _end(1, 3, line="no torch")), phase=PodPhase.RUNNING, restarts=5)
    failures = _failures(_failed(0, _end(1, line="one")), loop, _failed(2, _end(2, 4), version=1))
    found = Outcome(JOB, failures.in_order(), stop=Stop(130, "Interrupted"), earlier=failures.earlier, log="/w-2.log")
    assert verdict_lines(found, next_step="pumice logs w-2") == (
        " was stopped by Ctrl-C",
        "  failed        w-2: exit code 4 after 2.0s",
        "  before        attempt 2: w-0 failed, exit code 1 after 1.0s: one",
        "  log           /w-2.log",
        "  next          pumice logs w-2",
    )
    failures = _failures(loop)
    looping = Outcome(JOB, failures.in_order(), restarted=failures.restarted(), stop=Stop(124, "Timeout", "too long"))
    assert verdict_lines(looping) == ("too long", "  restarted     w-1: 5 restarts, last exit code 3: no torch")


def test_the_log_file_is_named_and_the_command_that_shows_it() -> None:
    found = _outcome(_end(1), log="/a.log", look="pumice logs j:1/w-0 --tail 30")
    assert verdict_lines(found, next_step="pumice run x")[1:] == (
        "  log           /a.log",
        "  next          pumice run x",
    )
    assert verdict_lines(found)[1:] == ("  log           /a.log", "  next          pumice logs j:1/w-0 --tail 30")


GLOO_CLOSED = "RuntimeError: [pair.cc:561] Connection closed by peer [10.0.0.2]:1. This is typically caused by a crash"


@pytest.mark.parametrize(
    ("ends", "first"),
    [
        pytest.param(
            [_end(1, line=GLOO_CLOSED), _end(2, 3, "ValueError: x")], "w-1", id="its cause took longer to end"
        ),
        pytest.param([_end(1, line=GLOO_CLOSED), _end(90, 3)], "w-0", id="a failure long after it is not its cause"),
        pytest.param([_end(1, line=GLOO_CLOSED), _end(2, line=GLOO_CLOSED)], "w-0", id="all lost a peer"),
        pytest.param([_end(1, 143, signal=15), _end(2, 137, signal=9)], "w-1", id="SIGTERM by a launcher"),
        pytest.param([_end(1, 3), _end(0.5, line="BrokenPipeError: no"), _end(2, 4)], "w-0", id="not the last either"),
        pytest.param([_end(1, line=GLOO_CLOSED, finished_at=None)], "w-0", id="at an unknown time"),
    ],
)
def test_who_only_followed_is_not_blamed(ends: list[ContainerEnd], first: str) -> None:
    outcome = _outcome(*ends)
    assert outcome.first is not None
    assert outcome.first.pod.short_name == first
    assert outcome.exit_code == outcome.first.end.exit_code
    assert verdict_lines(outcome)[0].startswith(f"{first} failed first: ")


def test_a_follower_that_ended_before_its_cause_is_marked_as_one() -> None:
    lines = verdict_lines(_outcome(_end(1, line=GLOO_CLOSED), _end(1.5, 3, "ValueError: x")))
    assert lines[1:3] == (
        "  last line     ValueError: x",
        "  then          w-0 (exit code 1, 0.5s earlier, because of it)",
    )


def _with_policy(**policy: Any) -> Job:
    tasks = [TaskSpec(name="w", replicas=2, template=JOB.spec.tasks[0].template)]
    return Job(spec=JobSpec(max_retry=3, tasks=tasks, policies=[LifecyclePolicy(**policy)] if policy else []))


@pytest.mark.parametrize(
    ("job", "left", "text"),
    [
        pytest.param(
            _with_policy(), 1, "no policy acts on PodFailed, the job goes on with 1 of 2", id="the job goes on"
        ),
        pytest.param(_with_policy(), 0, "no policy acts on PodFailed, no other pod is left", id="the last pod"),
        pytest.param(
            _with_policy(exit_code=5, action="TerminateJob"), 1, "PodFailed -> TerminateJob", id="of the exit code"
        ),
        pytest.param(
            _with_policy(event="PodFailed", action="RestartJob", timeout="30s"),
            1,
            "PodFailed -> RestartJob in 30s",
            id="later",
        ),
        pytest.param(
            msgspec.structs.replace(
                JOB,
                spec=JobSpec(
                    max_retry=2, tasks=JOB.spec.tasks, policies=[LifecyclePolicy(event="*", action="RestartJob")]
                ),
            ),
            1,
            "PodFailed -> RestartJob, but no attempt is left of 2 (maxRetry)",
            id="no attempt is left",
        ),
    ],
)
def test_what_follows_from_a_failure(job: Job, left: int, text: str) -> None:
    assert what_follows(job, _failed(0, _end(1, 5)), left) == text


@pytest.mark.parametrize(
    ("policies", "hint"),
    [
        pytest.param([], True, id="none"),
        pytest.param([LifecyclePolicy(event="PodFailed", action="AbortJob")], True, id="another"),
        pytest.param([LifecyclePolicy(event="TaskFailed", action="AbortJob")], False, id="the one"),
        pytest.param([LifecyclePolicy(events=["*"], action="AbortJob")], False, id="any"),
    ],
)
def test_the_policy_that_would_end_restarts(policies: list[LifecyclePolicy], hint: bool) -> None:
    job = Job(spec=JobSpec(policies=policies, tasks=[TaskSpec(name="a", max_retry=3)]))
    text = what_ends_restarts(job, "a")
    wanted = (
        "a policy {event: TaskFailed, action: TerminateJob} of task a would end the job after 3 restarts (its maxRetry)"
    )
    assert text == (wanted if hint else "")


def test_attempts_are_mentioned_where_a_policy_restarts() -> None:
    first = replace(_failed(0, _end(1)), retry=0)
    for policy, attempt in (
        ({}, ""),
        ({"event": "PodFailed", "action": "TerminateJob"}, ""),
        ({"event": "PodEvicted", "action": "RestartJob"}, ""),
        ({"event": "*", "action": "RestartJob"}, " (attempt 1 of 3)"),
        ({"event": "TaskFailed", "action": "RestartTask"}, " (attempt 1 of 3)"),
        ({"exit_code": 3, "action": "RestartPod"}, " (attempt 1 of 3)"),
    ):
        outcome = Outcome(_with_policy(**policy), _failures(first).in_order())
        assert verdict_lines(outcome)[0] == f"w-0 failed first: exit code 1 after 1.0s{attempt}"


def test_pods_that_were_asked_to_end_did_not_fail() -> None:
    ended = replace(_failed(0, _end(1, 143)), deleted_at=START)
    assert _names(_failures(ended)) == []
    # A pod that failed by itself stays a failure when it is removed later.
    assert _names(_failures(_failed(0, _end(1)), ended)) == ["w-0"]


def test_the_failure_of_a_replaced_pod_does_not_count() -> None:
    failed = _failed(0, _end(1))
    again = replace(failed, uid="another", phase=PodPhase.RUNNING, ends=())
    assert _names(_failures(failed, _failed(1, _end(2)), again)) == ["w-1"]
    assert _names(_failures(failed, _failed(1, _end(2), version=1))) == ["w-1"]


def test_a_restart_counts_as_soon_as_it_is_announced() -> None:
    waiting = replace(_failed(0, _end(1, 3)), phase=PodPhase.RUNNING)
    failures = _failures(waiting)
    assert failures.restarted() == ()
    failures.record_restart(waiting)
    failures.record(replace(waiting, restarts=0))
    assert [failure.pod.restarts for failure in failures.restarted()] == [1]
    failures.record(replace(waiting, restarts=1))
    failures.record_restart(replace(waiting, restarts=1))
    assert [failure.pod.restarts for failure in failures.restarted()] == [2]


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        pytest.param("ModuleNotFoundError: No module named 'torch'", "torch", id="import"),
        pytest.param("ModuleNotFoundError: No module named 'torch.distributed'", "torch", id="part of a package"),
        pytest.param("/usr/bin/python3: No module named torch", "torch", id="python3 -m"),
        pytest.param("sh: 1: python3.12: not found", "python3.12", id="interpreter, in dash"),
        pytest.param("bash: line 1: python: command not found", "python", id="interpreter, in bash"),
        pytest.param("ValueError: no", "", id="another error"),
    ],
)
def test_missing_module(line: str, missing: str) -> None:
    assert missing_module(line) == missing


def test_a_restarted_pod_counts_where_no_pod_failed() -> None:
    again = replace(_failed(0, _end(1, 3)), phase=PodPhase.RUNNING, restarts=2)
    assert _names(_failures(again)) == ["w-0"]
    assert _names(_failures(again, _failed(1, _end(2)))) == ["w-1"]
    assert _names(_failures(again, replace(again, phase=PodPhase.SUCCEEDED))) == []
    assert _names(_failures(replace(again, restarts=0))) == []
    assert _names(_failures(again, _failed(1, _end(2), version=1))) == ["w-1"]
