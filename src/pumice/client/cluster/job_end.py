"""How a Job on a cluster has ended, in the words of this machine."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from pumice.client.cluster.job_facts import JobFacts
from pumice.diagnosis.failures import Failures
from pumice.diagnosis.outcome import is_asked
from pumice.diagnosis.pod_ends import in_words
from pumice.diagnosis.verdict import Evidence, FailedPod, advise, judge
from pumice.model.job import Job
from pumice.model.vocabulary import COMMAND, Action, Phase
from pumice.reconcile.ledger import most_attempts
from pumice.reconcile.phases import FINAL
from pumice.store.run_end import RunEnded, Stop, stop_reason, suspension

# The actions of the Commands that lead to these phases.
_ACTIONS: Final = {Phase.ABORTED: Action.ABORT_JOB, Phase.TERMINATED: Action.TERMINATE_JOB}
COMMAND_ISSUED: Final = "CommandIssued"
_BY_A_PERSON: Final = "a person stopped it"


def job_end(facts: JobFacts, job: Job) -> RunEnded | None:
    """Return how a Job ended, or that it was suspended; None while it goes on."""
    state = job.status.state
    if state.phase not in FINAL and state.phase != Phase.ABORTED:
        return None
    stop: Stop | None = None
    if state.phase in _ACTIONS and (is_asked(state.reason) or _was_commanded(facts)):
        # A person asked. A policy that terminates or aborts a Job lets it fail.
        stop = Stop(reason=state.reason or COMMAND, message=state.message or _BY_A_PERSON)
        if state.phase == Phase.ABORTED:
            stop = replace(suspension(job.name), message=state.message or suspension(job.name).message)
    failures = Failures()
    attempt = max((each.observed.retry for each in facts.pods), default=0)
    for pod in facts.pods:
        if pod.observed.retry == attempt:
            failures.record(pod.observed)
    verdict = judge(
        Evidence(
            job=job,
            failures=failures.in_order(),
            succeeded=failures.succeeded(),
            max_attempts=most_attempts(job.spec.max_retry, job.status),
            stop=stop_reason(stop),
        )
    )
    if verdict is not None and (blamed := verdict.blamed) is not None:
        verdict = advise(verdict, _last_lines(facts, blamed))
        seen = next((each.observed for each in facts.pods if each.observed.short_name == blamed.pod), None)
        if seen is not None and seen.retry == attempt and seen.reason:
            # Its kubelet ended it, such as for lack of a resource.
            verdict = replace(verdict, cause=in_words(seen.reason, seen.message))
    return RunEnded(job, verdict, stop)


def _last_lines(facts: JobFacts, blamed: FailedPod) -> str:
    container = f" -c {blamed.container}" if blamed.container not in ("", blamed.task) else ""
    where = f"{facts.opened or facts.job.name}/{blamed.pod}{container}"
    return f"pumice logs {where}{'' if facts.opened else f' {facts.where}'} --tail 30"


def _was_commanded(facts: JobFacts) -> bool:
    """Whether the last Command led to this phase: Volcano's controller says so in an event, and nowhere else."""
    state = facts.job.status.state
    issued = [each for each in facts.events if each.reason == COMMAND_ISSUED]
    return not state.reason and bool(issued) and _ACTIONS[Phase(state.phase)] in issued[-1].message
