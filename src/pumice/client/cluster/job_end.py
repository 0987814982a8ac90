"""How a Job on a cluster has ended, in the words of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from pumice.client.cluster.job_facts import JobFacts
from pumice.diagnosis.failures import Failure, Failures
from pumice.diagnosis.outcome import is_asked
from pumice.diagnosis.pod_ends import RETRIES_EXHAUSTED, in_words
from pumice.diagnosis.verdict import ActedPolicy, Evidence, advise, judge
from pumice.model import keys
from pumice.model.job import Job
from pumice.model.vocabulary import COMMAND, MAX_RETRY, TARGETED_ACTIONS, Action, Event, Phase
from pumice.reconcile.events import EXECUTE_ACTION
from pumice.reconcile.ledger import most_attempts
from pumice.reconcile.occurrences import Occurrence
from pumice.reconcile.phases import FINAL
from pumice.reconcile.policies import all_policies, match_policies
from pumice.store.run_end import TIMED_OUT, TIMEOUT, RunEnded, Stop, stop_reason, suspension

# The actions of the Commands that lead to these phases.
_ACTIONS: Final = {Phase.ABORTED: Action.ABORT_JOB, Phase.TERMINATED: Action.TERMINATE_JOB}
_COMMAND_ISSUED: Final = "CommandIssued"
COMMANDS_OF_JOBS: Final = f"reason={_COMMAND_ISSUED},involvedObject.kind=Job"  # selects events
_RESTARTS: Final = (Action.RESTART_JOB, *TARGETED_ACTIONS)
# The actions of policies that lead to these phases: a restart to Failed, if no attempt is left.
_ENDINGS: Final[Mapping[str, Sequence[Action]]] = {
    Phase.ABORTED: (Action.ABORT_JOB,),
    Phase.TERMINATED: (Action.TERMINATE_JOB,),
    Phase.FAILED: _RESTARTS,
}
_BY_A_PERSON: Final = "a person stopped it"


def job_end(facts: JobFacts, job: Job) -> RunEnded | None:
    """Return how a Job ended, or that it was suspended; None while it goes on."""
    state = job.status.state
    if state.phase not in FINAL and state.phase != Phase.ABORTED:
        return None
    stop: Stop | None = None
    annotations = facts.manifest.get("metadata", {}).get("annotations") or {}
    if state.phase == Phase.TERMINATED and (timeout := annotations.get(keys.TIMED_OUT)):
        stop = Stop(TIMED_OUT, TIMEOUT, str(timeout))
    elif state.phase in _ACTIONS and (is_asked(state.reason) or _was_commanded(facts)):
        # A person asked. A policy that terminates or aborts a Job lets it fail.
        stop = Stop(reason=state.reason or COMMAND, message=state.message or _BY_A_PERSON)
        if state.phase == Phase.ABORTED:
            stop = replace(suspension(job.name), message=state.message or suspension(job.name).message)
    failures = Failures()
    attempt = max((each.observed.retry for each in facts.pods), default=0)
    for pod in facts.pods:
        if pod.observed.retry == attempt:
            failures.record(pod.observed)
    policy = None if stop is not None else ending_policy(job, failures.in_order())
    is_silent = not state.reason and not state.message
    verdict = judge(
        Evidence(
            job=job,
            failures=failures.in_order(),
            succeeded=failures.succeeded(),
            max_attempts=most_attempts(job.spec.max_retry, job.status),
            policy=policy,
            # Volcano's controller writes no reason.
            cause=_given_up(facts, job) or (str(policy or "") if is_silent and not failures.in_order() else ""),
            stop=stop_reason(stop),
        )
    )
    if verdict is not None and (blamed := verdict.blamed) is not None:
        container = f" -c {blamed.container}" if blamed.container not in ("", blamed.task) else ""
        where = f"{facts.opened or facts.job.name}/{blamed.pod}{container}"
        verdict = advise(verdict, f"pumice logs {where}{'' if facts.opened else f' {facts.where}'} --tail 30")
        seen = next((each.observed for each in facts.pods if each.observed.short_name == blamed.pod), None)
        if seen is not None and seen.retry == attempt and seen.reason:
            # Its kubelet ended it, such as for lack of a resource.
            verdict = replace(verdict, cause=in_words(seen.reason, seen.message))
    return RunEnded(job, verdict, stop)


def ending_policy(job: Job, failures: Sequence[Failure]) -> ActedPolicy | None:
    """Return the policy that ended the Job: no status names it, but the phase and the first failure show which it was.

    Without a failure that matches, it is the only one that leads to this phase; None if there are several, or none.
    """
    state, actions = job.status.state, _ENDINGS.get(job.status.state.phase, ())
    is_last = job.status.retry_count >= (job.spec.max_retry or MAX_RETRY) - 1
    if state.phase == Phase.FAILED and not (is_last and state.reason in ("", RETRIES_EXHAUSTED)):
        return None
    for failure in failures:
        pod, code = failure.pod, failure.end.exit_code
        since = pod.ended_at or pod.created_at
        matches = match_policies(job, [Occurrence(Event.POD_FAILED, since, pod.task, pod.index, pod, code)])
        if matches and matches[0].action in actions:
            match = matches[0]
            return ActedPolicy(match.occurrence.event, match.action, str(match.path), "")
    if state.phase == Phase.FAILED:
        return None
    found = [(path, policy) for path, policy in all_policies(job) if policy.action in actions]
    if len(found) != 1:
        return None
    path, policy = found[0]
    events = policy.all_events or [f"exit code {code}" for code in policy.all_exit_codes]
    return ActedPolicy(" or ".join(events), policy.action, str(path), "")


def _given_up(facts: JobFacts, job: Job) -> str:
    """Return why Volcano's controller has terminated a Job that it could not serve; only an event says so."""
    state = job.status.state
    if state.phase != Phase.TERMINATED or state.reason or state.message:
        return ""
    asks = Action.TERMINATE_JOB in {policy.action for _, policy in all_policies(job)}
    acted = [each for each in facts.events if each.reason == EXECUTE_ACTION]
    return "" if asks or _was_commanded(facts) or not acted else acted[-1].message


def _was_commanded(facts: JobFacts) -> bool:
    """Whether the last Command led to this phase: Volcano's controller says so in an event, and nowhere else."""
    state = facts.job.status.state
    issued = [each for each in facts.events if each.reason == _COMMAND_ISSUED]
    return not state.reason and bool(issued) and _ACTIONS[Phase(state.phase)] in issued[-1].message
