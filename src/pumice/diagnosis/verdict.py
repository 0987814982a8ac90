"""The verdict about a run that did not complete: the pod that failed first, and why. One value, drawn everywhere.

`pumice why -o json` prints it; names of fields are stable, and more may follow.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from pumice.diagnosis.failures import Failure, left_early, only_followed
from pumice.diagnosis.hang import Hang, hang_groups
from pumice.diagnosis.outcome import is_asked, stop_sentence
from pumice.diagnosis.pod_ends import (
    EXPLAINED,
    NOT_UNPACKED,
    OOM_KILLED,
    POD_FAILED,
    READ_ONLY_CODE,
    Reason,
    how_it_ended,
    lacks_tools,
    one_line,
)
from pumice.model.findings import Path
from pumice.model.job import Job
from pumice.model.pod import all_containers, container_path
from pumice.model.problem import NOWHERE, Position
from pumice.model.snapshot import EVICTED, ContainerEnd, ObservedPod
from pumice.model.vocabulary import RESTARTS, Event, Phase

_FAILED: Final = frozenset((Phase.FAILED, Phase.TERMINATED, Phase.ABORTED))
_OF_PODS: Final = frozenset((POD_FAILED, OOM_KILLED, EVICTED))
_FAILURES: Final = frozenset((Event.ANY, Event.POD_FAILED, Event.TASK_FAILED))


class _Value(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The base of all values. JSON always has the fields without a default."""


class FailedPod(_Value, frozen=True, kw_only=True):
    """A pod that failed, or that left its peers with code 0."""

    pod: str
    container: str = ""
    code: int
    signal: int | None
    reason: str  # of the container, such as OOMKilled
    line: str = ""  # the last one that the container printed, or why it never ran
    after: float | None  # seconds after the first one; negative if it ended before
    age: float | None = None  # of the pod, in seconds, to a tenth
    attempt: int = 1
    restarts: int = 0  # of its containers

    @property
    def task(self) -> str:
        return self.pod.rpartition("-")[0]

    @property
    def exit(self) -> str:
        """`exit code 1`, or `signal 9 (SIGKILL), OOMKilled`."""
        return how_it_ended(ContainerEnd(self.container, self.code, self.reason, self.signal or 0))

    @property
    def how(self) -> str:
        """How it ended, in which container if that says something, and why if the last line is our explanation."""
        container = f" in container {self.container}" if self.container not in ("", self.task) else ""
        return f"{self.exit}{container}{f': {self.line}' if self.reason in EXPLAINED and self.line else ''}"


class ActedPolicy(_Value, frozen=True):
    """The policy that ended the run, or the attempt."""

    event: str
    action: str
    path: str  # spec.policies[0]
    where: str  # job.yaml:21
    line: int | None = None

    def __str__(self) -> str:
        """`TaskCompleted -> CompleteJob (tasks[0].policies[0], job.yaml:21)`."""
        positions = (self.path.removeprefix("spec."), self.where)
        return f"{self.event} -> {self.action} ({', '.join(filter(None, positions))})"


class Verdict(_Value, frozen=True):
    """Why a run did not complete. `pod` failed first; it is empty if none did. As text: what `pumice run` prints.

    Of a run that was stopped, `pod` is what had failed by then, and not the reason of its end.
    """

    pod: str
    container: str
    code: int | None  # 0 of a pod that left its peers, which failed because of that
    signal: int | None
    reason: str  # of the job, or of the stop
    line: str  # the last one that the container printed, or why it never ran
    followers: tuple[FailedPod, ...]  # that failed because of the first one
    policy: ActedPolicy | None
    attempt: int  # 0 if the run was stopped
    log: str  # the path of the container's log
    text: str  # in words; empty where it is stored
    independent: tuple[FailedPod, ...] = ()  # that failed on their own
    exit_reason: str = ""  # of the container, such as OOMKilled
    age: float | None = None  # of the pod when it failed, in seconds, to a tenth
    peers: int = 0  # pods that still ran when the first one left with code 0
    max_attempts: int = 0  # 0 if there is only one
    cause: str = ""  # where the last line does not say it, such as the memory limit of a container that exceeded it
    message: str = ""  # why the job ended, where no failure says it; of a stop, the words for it
    stopped: bool = False
    restarted: tuple[FailedPod, ...] = ()  # the last failures of containers that started again
    earlier: FailedPod | None = None  # the first of the attempt before
    doing: tuple[str, ...] = ()  # what the pods of a run that hung were doing
    logs: str = ""  # the directory of the logs
    next: str = ""  # a command

    def __str__(self) -> str:
        return self.text

    @property
    def first(self) -> FailedPod | None:
        """The pod that failed first; None if none did."""
        if self.code is None:
            return None
        return FailedPod(
            pod=self.pod,
            container=self.container,
            code=self.code,
            signal=self.signal,
            reason=self.exit_reason,
            line=self.line,
            after=None,
            age=self.age,
            attempt=self.attempt,
        )

    @property
    def blamed(self) -> FailedPod | None:
        """The pod that `log` belongs to: also one that did not end the run, and of the attempt before."""
        return next((each for each in (self.first, *self.restarted, self.earlier) if each is not None), None)

    @property
    def followed(self) -> tuple[FailedPod, ...]:
        return self.followers

    @property
    def left_early(self) -> bool:
        """Whether the first pod did not fail, but left its peers."""
        return self.code == 0

    @property
    def exit_code(self) -> int:
        """That of the first container that failed."""
        return next((each.code for each in (self.first, *self.followers) if each is not None and each.code), 1)


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a run when it is judged."""

    job: Job  # with its status
    failures: Sequence[Failure] = ()  # the one to blame first
    succeeded: Sequence[ObservedPod] = ()
    addresses: Mapping[str, str] = msgspec.field(default_factory=dict)  # of pods, by short name
    restarted: Sequence[Failure] = ()  # of containers that started again
    earlier: Failure | None = None  # the first of the attempt before
    policy: ActedPolicy | None = None  # that acted last
    cause: str = ""  # why the job entered its phase
    stop: Reason | None = None  # the run was stopped; the message is empty where the user knows why
    max_attempts: int = 0  # `maxRetry`, if it is not known
    hang: Hang | None = None  # what the pods did before they were asked to end
    directory: str = ""  # of the run


def plain_verdict(reason: str, message: str, attempt: int = 1) -> Verdict:
    """Return the verdict on a run about whose pods nothing is to say, such as one that never started."""
    return Verdict(
        pod="",
        container="",
        code=None,
        signal=None,
        reason=reason,
        line="",
        followers=(),
        policy=None,
        attempt=attempt,
        log="",
        text="",
        message=message,
    )


def advise(verdict: Verdict, command: str) -> Verdict:
    """Add what to type next; an image that cannot unpack the code of its Job needs another option."""
    blamed = verdict.blamed
    if blamed is not None and lacks_tools(blamed.container, blamed.code, blamed.reason):
        return replace(verdict, cause=NOT_UNPACKED, next=READ_ONLY_CODE)
    return replace(verdict, next=command)


def judge(evidence: Evidence, locate: Callable[[Path], Position] = lambda _path: NOWHERE) -> Verdict | None:
    """Return the verdict; None for a job that completed. `locate` returns where a path of the Job is in its file."""
    job, state, stop = evidence.job, evidence.job.status.state, evidence.stop
    if stop is None and state.phase == Phase.COMPLETED:
        return None
    failures = tuple(evidence.failures)
    if stop is not None and failures and failures[0] in evidence.restarted:
        failures = ()  # it has a row for its restarts
    verdict = plain_verdict(state.reason if stop is None else stop.reason, "", job.status.retry_count + 1)
    if evidence.hang is not None:
        waited = {each.pod.short_name for each in failures if each.waited_in_vain}
        verdict = replace(verdict, doing=tuple(map(one_line, hang_groups(evidence.hang, waited))))
    if failures:
        verdict = _blame(verdict, evidence, failures, locate)
    if stop is not None:
        return _stopped(verdict, evidence, stop)
    verdict = replace(verdict, policy=evidence.policy)
    why = evidence.cause or state.message or state.reason
    if not failures:
        if state.reason in _OF_PODS and state.message and not evidence.cause:
            # Its pods cannot be read, but the controller has named the first.
            return replace(verdict, message=state.message)
        # Whatever the controller did last, users call it a failure.
        failed = state.phase in _FAILED and not is_asked(state.reason)
        how = "failed" if failed else state.phase
        return replace(verdict, message=f"{job.name} {how}: {why or 'no pod failed'}")
    first = failures[0]
    if not first.waited_in_vain:
        verdict = replace(verdict, doing=())
    # Do not repeat what the failure of the first pod says.
    is_repeated = state.reason in ("", POD_FAILED, OOM_KILLED, first.end.reason, first.pod.reason)
    return verdict if is_repeated else replace(verdict, message=why)


def _blame(
    verdict: Verdict, evidence: Evidence, failures: tuple[Failure, ...], locate: Callable[[Path], Position]
) -> Verdict:
    """Name the pod that failed first, or that left its peers, and sort the others."""
    job = evidence.job
    leaver = None if evidence.stop else left_early(job, failures, evidence.succeeded, evidence.addresses)
    if leaver is not None:
        blamed, others = Failure(leaver, last_end(leaver)), failures
        left = leaver.ended_at
        gone = sum(1 for pod in evidence.succeeded if pod.ended_at and left and pod.ended_at <= left)
        verdict = replace(verdict, peers=job.total_replicas - gone)
    else:
        blamed, others = failures[0], failures[1:]
    begin = blamed.end.finished_at
    first = failed_pod(blamed)
    pods = [(only_followed(job, begin, each.end), failed_pod(each, begin)) for each in others]
    policies = (*job.spec.policies, *(policy for task in job.spec.tasks for policy in task.policies))
    restarts = any(
        policy.action in RESTARTS and (policy.all_exit_codes or _FAILURES & set(policy.all_events))
        for policy in policies
    )
    cause = ""
    if first.reason == OOM_KILLED:
        cause = _out_of_memory(job, blamed, locate)
    elif first.reason in EXPLAINED:
        cause = first.line
    return replace(
        verdict,
        pod=first.pod,
        container=first.container,
        code=first.code,
        signal=first.signal,
        line="" if leaver is not None else first.line,
        followers=tuple(pod for follows, pod in pods if follows),
        independent=tuple(pod for follows, pod in pods if not follows),
        exit_reason="" if leaver is not None else first.reason,
        age=first.age,
        attempt=first.attempt,
        max_attempts=(evidence.max_attempts or job.spec.max_retry) if first.attempt > 1 or restarts else 0,
        cause=cause,
    )


def _stopped(verdict: Verdict, evidence: Evidence, stop: Reason) -> Verdict:
    """Tell what had failed before the run was stopped."""
    restarted = tuple(failed_pod(each) for each in evidence.restarted)
    earlier = None if evidence.earlier is None else failed_pod(evidence.earlier)
    has_rows = bool(verdict.pod or restarted or earlier or verdict.doing)
    message = stop.message or (stop_sentence(evidence.job.name, stop.reason) if has_rows else "")
    return replace(
        verdict,
        attempt=0,
        max_attempts=0,
        cause="",
        message=message,
        stopped=True,
        restarted=restarted,
        earlier=earlier,
        logs=f"{evidence.directory}/pods" if evidence.directory and message else "",
    )


def failed_pod(failure: Failure, begin: dt.datetime | None = None) -> FailedPod:
    """Return the pod of a failure. `begin` is when the first one ended, unless it is that one."""
    pod, end = failure.pod, failure.end
    ended = end.finished_at
    return FailedPod(
        pod=pod.short_name,
        container=end.container,
        code=end.exit_code,
        signal=end.signal or None,
        reason=end.reason,
        line=one_line(end.last_line),
        after=None if begin is None or ended is None else (ended - begin).total_seconds(),
        age=None if ended is None else round((ended - pod.created_at).total_seconds(), 1),
        attempt=failure.attempt,
        restarts=pod.restarts,
    )


def last_end(pod: ObservedPod) -> ContainerEnd:
    """Return the end of the container with which a pod was done."""
    return next(end for end in pod.ends if end.finished_at == pod.ended_at)


def _out_of_memory(job: Job, failure: Failure, locate: Callable[[Path], Position]) -> str:
    """The program could print nothing about it: the kernel killed it."""
    task, name = job.task(failure.pod.task), failure.end.container
    for container in all_containers(task.pod_spec) if task is not None else []:
        limit = ((container.get("resources") or {}).get("limits") or {}).get("memory")
        if container.get("name") == name and limit:
            position = str(locate(container_path(job, failure.pod.task, name) / "resources" / "limits" / "memory"))
            return f"it used more than its memory limit, {limit}{f' ({position})' if position else ''}"
    return "this machine had no memory left"
