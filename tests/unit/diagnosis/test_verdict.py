"""Which pod a verdict names, and what it says of the others."""

from __future__ import annotations

import datetime as dt
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from pumice.diagnosis.failures import Failures
from pumice.diagnosis.hang import Hang, PodActivity
from pumice.diagnosis.pod_ends import NOT_UNPACKED, READ_ONLY_CODE, Reason
from pumice.diagnosis.verdict import ActedPolicy, Evidence, FailedPod, Verdict, advise, failed_pod, judge, plain_verdict
from pumice.model.job import Job, JobSpec, JobState, JobStatus, LifecyclePolicy, Metadata, TaskSpec
from pumice.model.problem import Position
from pumice.model.snapshot import ContainerEnd, ObservedPod, PodPhase

START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
LOST_PEER = "ConnectionResetError: Connection reset by peer [10.77.0.10]"
TIMED_OUT = "RuntimeError: Timed out waiting 1800000ms for recv operation to complete"
HANG = Hang(since=START, silent=60.0, running=1, doing=(PodActivity("w-1", "a"),))
POLICY = ActedPolicy(event="PodFailed", action="AbortJob", path="spec.policies[0]", where="job.yaml:3", line=3)


def an_end(second: float | None, code: int = 1, line: str = "", **fields: object) -> ContainerEnd:
    finished = None if second is None else START + dt.timedelta(seconds=second)
    return replace(ContainerEnd("w", code, finished_at=finished, last_line=line), **fields)


def a_pod(index: int, end: ContainerEnd, **fields: Any) -> ObservedPod:
    phase = PodPhase.FAILED if end.exit_code else PodPhase.SUCCEEDED
    return replace(ObservedPod(f"j-w-{index}", f"u{index}", "w", index, 0, 0, phase, START, ends=(end,)), **fields)


def a_job(phase: str = "Failed", reason: str = "PodFailed", message: str = "", **fields: Any) -> Job:
    containers = [{"name": "w", "resources": {"limits": {"memory": "1Gi"}}}, {"name": "other"}]
    tasks = [TaskSpec(name="w", replicas=3, template={"spec": {"containers": containers}})]
    spec = msgspec.structs.replace(JobSpec(max_retry=3, min_available=3, tasks=tasks), **fields)
    state = JobState(phase=phase, reason=reason, message=message)
    return Job(metadata=Metadata(name="j"), spec=spec, status=JobStatus(state=state))


def evidence(*ends: ContainerEnd, job: Job | None = None, **fields: Any) -> Evidence:
    """Of pods w-0, w-1 and so on, which ended so."""
    failures = Failures()
    for index, end in enumerate(ends):
        failures.record(a_pod(index, end))
    found = Evidence(job=job or a_job(), failures=failures.in_order(), succeeded=failures.succeeded())
    return msgspec.structs.replace(found, restarted=failures.restarted(), **fields)


def judged(*ends: ContainerEnd, **fields: Any) -> Verdict:
    verdict = judge(evidence(*ends, **fields), lambda path: Position("job.yaml", len(path)))
    assert verdict is not None
    return verdict


def names(pods: tuple[FailedPod, ...]) -> list[str]:
    return [each.pod for each in pods]


def test_the_first_failure_the_followers_and_the_policy() -> None:
    found = judged(an_end(2), an_end(1, 3, "first\n  hint"), policy=POLICY)
    assert (found.pod, found.container, found.code, found.line) == ("w-1", "w", 3, "first; hint")
    assert (found.reason, found.attempt, found.max_attempts, found.policy) == ("PodFailed", 1, 0, POLICY)
    assert found.first == FailedPod(
        pod="w-1", container="w", code=3, signal=None, reason="", line="first; hint", after=None, age=1.0
    )
    assert found.followed == (FailedPod(pod="w-0", container="w", code=1, signal=None, reason="", after=1.0, age=2.0),)
    assert (found.independent, found.blamed, found.exit_code) == ((), found.first, 3)


def test_an_image_that_cannot_unpack_the_code_needs_another_option() -> None:
    code = advise(judged(an_end(2, 64, container="pumice-code")), "pumice logs j/w-0")
    assert (code.cause, code.next) == (NOT_UNPACKED, READ_ONLY_CODE)
    never = judged(an_end(2, 128, container="pumice-code", reason="StartError"))
    assert advise(never, "pumice logs j/w-0").next == READ_ONLY_CODE
    assert advise(judged(an_end(2, 64)), "pumice logs j/w-0").next == "pumice logs j/w-0"


def test_a_completed_job_has_no_verdict() -> None:
    assert judge(evidence(an_end(1), job=a_job("Completed", ""))) is None


@pytest.mark.parametrize(
    ("ends", "min_available", "followed", "independent"),
    [
        pytest.param([an_end(1), an_end(50)], 3, ["w-1"], [], id="of a gang, soon after"),
        pytest.param([an_end(1), an_end(62)], 3, [], ["w-1"], id="of a gang, later"),
        pytest.param([an_end(1), an_end(2)], 2, [], ["w-1"], id="without a gang"),
        pytest.param([an_end(1), an_end(90, line=LOST_PEER)], 2, ["w-1"], [], id="lost its peer"),
        pytest.param([an_end(1), an_end(None)], 3, ["w-1"], [], id="at an unknown time"),
    ],
)
def test_which_followed_and_which_failed_alone(
    ends: list[ContainerEnd], min_available: int, followed: list[str], independent: list[str]
) -> None:
    found = judged(*ends, job=a_job(min_available=min_available))
    assert (found.pod, names(found.followers), names(found.independent)) == ("w-0", followed, independent)


def test_a_rank_that_leaves_with_code_0_is_named() -> None:
    found = judged(an_end(1.0, 0, "done"), an_end(1.1, line=LOST_PEER), an_end(1.2, 7, LOST_PEER))
    assert (found.pod, found.code, found.line, found.left_early) == ("w-0", 0, "", True)
    assert (names(found.followers), found.independent) == (["w-1", "w-2"], ())
    assert [each.after for each in found.followers] == [pytest.approx(0.1), pytest.approx(0.2)]
    assert (found.exit_code, found.peers) == (1, 2)
    # One that was done before does not count, and one that a policy ended counts.
    assert judged(an_end(0.5, 0), an_end(1.0, 0), an_end(1.1, line=LOST_PEER)).peers == 1
    assert judged(an_end(1.0, 0), an_end(1.1, line=LOST_PEER)).peers == 2


@pytest.mark.parametrize(
    ("fields", "pod", "line"),
    [
        pytest.param({"reason": "OOMKilled"}, "w", "it used more than its memory limit, 1Gi (job.yaml:10)", id="limit"),
        pytest.param({"reason": "OOMKilled", "container": "other"}, "w", "this machine had no memory left", id="none"),
        pytest.param({"reason": "OOMKilled"}, "gone", "this machine had no memory left", id="a task that is gone"),
        pytest.param({"reason": "StartError"}, "w", "words", id="explained"),
        pytest.param({}, "w", "", id="the last line says it"),
    ],
)
def test_the_cause(fields: dict[str, Any], pod: str, line: str) -> None:
    failures = Failures()
    failures.record(a_pod(0, an_end(1, line="words", **fields), task=pod))
    verdict = judge(Evidence(job=a_job(), failures=failures.in_order()), lambda path: Position("job.yaml", len(path)))
    assert verdict is not None
    assert (verdict.cause, verdict.line) == (line, "words")


def test_the_limit_of_a_job_without_a_file() -> None:
    verdict = judge(evidence(an_end(1, reason="OOMKilled")))
    assert verdict is not None
    assert verdict.cause == "it used more than its memory limit, 1Gi"


@pytest.mark.parametrize(
    ("state", "cause", "message"),
    [
        pytest.param({}, "w-0 failed first", "", id="the failure says it"),
        pytest.param({"reason": "OOMKilled"}, "w-1 failed first", "", id="another pod, when the policy acted"),
        pytest.param({"reason": "RetriesExhausted"}, "all 3 attempts failed", "all 3 attempts failed", id="more"),
        pytest.param({"reason": "Deadline", "message": "too long"}, "", "too long", id="only the state is known"),
    ],
)
def test_why_the_job_ended(state: dict[str, str], cause: str, message: str) -> None:
    assert judged(an_end(1), job=a_job(**state), cause=cause).message == message


@pytest.mark.parametrize(
    ("job", "cause", "message"),
    [
        pytest.param(a_job(message="x; policy y"), "x", "j failed: x", id="a cause"),
        pytest.param(a_job(reason="Deadline"), "", "j failed: Deadline", id="a reason"),
        pytest.param(a_job(message="w-0 failed first: exit code 3"), "", "w-0 failed first: exit code 3", id="no pods"),
        pytest.param(a_job(reason=""), "", "j failed: no pod failed", id="nothing"),
        pytest.param(a_job(phase="Terminated"), "x", "j failed: x", id="terminated by a policy"),
        pytest.param(a_job(phase="Aborted"), "x", "j failed: x", id="aborted by a policy"),
        pytest.param(a_job(phase="Aborted", reason="Suspended"), "x", "j Aborted: x", id="suspended"),
        pytest.param(a_job(phase="Running"), "x", "j Running: x", id="not ended"),
    ],
)
def test_without_a_failure_the_state_is_the_verdict(job: Job, cause: str, message: str) -> None:
    found = judged(job=job, cause=cause)
    assert (found.message, found.first, found.blamed, found.exit_code) == (message, None, None, 1)


@pytest.mark.parametrize(
    ("policy", "most"),
    [
        pytest.param({}, 0, id="none"),
        pytest.param({"event": "PodFailed", "action": "TerminateJob"}, 0, id="ends the job"),
        pytest.param({"event": "PodEvicted", "action": "RestartJob"}, 0, id="after no failure"),
        pytest.param({"event": "*", "action": "RestartJob"}, 3, id="any"),
        pytest.param({"exit_code": 3, "action": "RestartPod"}, 3, id="an exit code"),
    ],
)
def test_attempts_count_where_a_policy_restarts(policy: dict[str, Any], most: int) -> None:
    job = a_job(policies=[LifecyclePolicy(**policy)] if policy else [])
    assert judged(an_end(1), job=job).max_attempts == most
    assert judged(an_end(1), job=job, max_attempts=5).max_attempts == (5 if most else 0)


def test_what_pods_did_counts_if_the_run_hung() -> None:
    hang = replace(HANG, doing=(PodActivity("w-0", "waits"), PodActivity("w-1", "a\nb")))
    assert judged(an_end(1, line=TIMED_OUT), hang=hang).doing == ("w-1: a; b",)
    assert judged(an_end(1), hang=hang).doing == ()


def test_a_stopped_run_names_what_failed_before() -> None:
    earlier = next(iter(evidence(an_end(1)).failures))
    found = judged(
        an_end(2, 4), stop=Reason("Interrupted"), earlier=earlier, policy=POLICY, directory="/run", hang=HANG
    )
    assert (found.message, found.reason, found.stopped) == ("j was stopped by Ctrl-C", "Interrupted", True)
    assert (found.attempt, found.policy, found.logs, found.doing) == (0, None, "/run/pods", ("w-1: a",))
    assert (found.pod, found.code, found.earlier) == ("w-0", 4, failed_pod(earlier))


def test_a_container_that_restarts_is_no_first_failure() -> None:
    failures = Failures()
    failures.record(a_pod(0, an_end(1, 3), phase=PodPhase.RUNNING, restarts=5))
    known = Evidence(job=a_job(), failures=failures.in_order(), restarted=failures.restarted())
    found = judge(msgspec.structs.replace(known, stop=Reason("Timeout", "too long")))
    assert found is not None
    assert (found.message, found.pod, names(found.restarted)) == ("too long", "", ["w-0"])
    assert found.blamed == found.restarted[0]


def test_the_user_knows_of_a_stop() -> None:
    found = judged(stop=Reason("Stopped"), directory="/run")
    assert (found.message, found.logs, found.stopped) == ("", "", True)


def test_a_failed_pod_in_words() -> None:
    plain = FailedPod(pod="w-0", container="w", code=1, signal=None, reason="", line="x", after=None)
    assert (plain.task, plain.exit, plain.how) == ("w", "exit code 1", "exit code 1")
    explained = replace(plain, container="init", code=127, reason="StartError")
    assert explained.how == "exit code 127, StartError in container init: x"


def test_a_policy_in_words() -> None:
    assert str(POLICY) == "PodFailed -> AbortJob (policies[0], job.yaml:3)"


def test_json_has_the_stable_fields_and_those_that_say_something() -> None:
    found = msgspec.to_builtins(msgspec.structs.replace(plain_verdict("Why", "words"), text="words"))
    stable = ("pod", "container", "code", "signal", "reason", "line", "followers", "policy", "attempt", "log", "text")
    assert list(found) == [*stable, "message"]
    assert str(msgspec.convert(found, Verdict)) == "words"
