"""What must be true of a job once nothing more happens by itself and no appointment is left."""

from __future__ import annotations

from collections import Counter

import msgspec

from pumice.admission.admit import Admitted, admit
from pumice.model.job import Job, LifecyclePolicy
from pumice.model.objects import claim_names
from pumice.model.snapshot import ObservedPod, PodPhase, Snapshot
from pumice.plugins.shaping import manifest_of, owned_objects
from pumice.reconcile.dependencies import may_start
from pumice.reconcile.state import State
from tests.scenarios.driver import CONTEXT, Driver
from tests.scenarios.watched import FINAL


def check_rest(driver: Driver) -> None:
    driver.check_nothing_more()
    if not driver.is_there:
        assert not driver.pods
        return
    assert driver.job.spec.ttl_seconds_after_finished is None or driver.phase not in FINAL, "its time is up"
    admitted = admit(msgspec.to_builtins(driver.job), CONTEXT)
    if not admitted.is_good:
        assert driver.status.state.reason == "InvalidJob" or driver.phase in FINAL
        return
    _check_counts(driver)
    _check_objects(driver, admitted)
    assert not driver.world.commands.get(driver.key), "a Command was not obeyed"
    if driver.phase in {"Pending", "Running"}:
        job = msgspec.structs.replace(driver.job, spec=admitted.job.spec)
        _check_nobody_lost(driver, job)
        _check_phase(driver, job)
        _check_failures(driver, job)
    else:
        assert driver.phase in {*FINAL, "Aborted"}, driver.shown()
        assert all(stored.seen.is_finished for stored in driver.pods), driver.shown()


def _check_counts(driver: Driver) -> None:
    """Counts equal the pods and the remembered successes."""
    status, there = driver.status, Counter(str(stored.seen.phase) for stored in driver.pods)
    present = {
        (stored.seen.task, stored.seen.index)
        for stored in driver.pods
        if stored.seen.phase is PodPhase.SUCCEEDED and not stored.seen.is_deleting
    }
    remembered = {(task, index) for task, indexes in driver.ledger.succeeded.items() for index in indexes}
    there["Succeeded"] += len(remembered - present)
    assert status.terminating == 0
    counts = (status.pending, status.running, status.succeeded, status.failed, status.unknown)
    assert counts == tuple(there[name] for name in ("Pending", "Running", "Succeeded", "Failed", "Unknown"))


def _check_objects(driver: Driver, admitted: Admitted) -> None:
    """Companions for as long as the job is not over, a PodGroup for as long as it wants pods.

    While it waits for the claim of another it keeps the PodGroup that it had, and makes none.
    """
    job = msgspec.structs.replace(driver.job, spec=admitted.job.spec)
    manifests = [manifest_of(extra_object) for extra_object in owned_objects(job, admitted.plugins)]
    wanted = {(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests}
    assert set(driver.world.objects.get(driver.key, {})) == (set() if driver.phase in FINAL else wanted)
    is_grouped, is_wanted = driver.key in driver.world.groups, driver.gang and driver.phase in {"Pending", "Running"}
    if driver.world.claims.issuperset(claim_names(job)) or not is_wanted:
        assert is_grouped == is_wanted


def _check_nobody_lost(driver: Driver, job: Job) -> None:
    """Every index has a pod, has succeeded, or is held back for a reason that has a name."""
    there = {(stored.seen.task, stored.seen.index) for stored in driver.pods}
    pods = tuple(stored.seen for stored in driver.pods)
    free = may_start(State.of(Snapshot(job, pods), driver.ledger))
    group = driver.world.groups.get(driver.key)
    waits_for_group = driver.gang and (group is None or group.phase in {"", "Pending"})
    waits_for_claim = driver.status.state.reason == "ClaimMissing"
    for task in job.spec.tasks:
        for index in range(task.replicas):
            is_held = task.name not in free or waits_for_group or waits_for_claim
            known = (task.name, index) in there or index in driver.ledger.succeeded.get(task.name, ())
            assert known or is_held, f"{task.name}-{index} is lost: {driver.shown()}"


def _check_phase(driver: Driver, job: Job) -> None:
    """A job that rests in a phase has no reason to leave it."""
    status, total = driver.status, job.total_replicas
    assert not job.spec.suspend
    assert job.spec.active_deadline_seconds is None or driver.ledger.first_running is None, "its time is up"
    there = status.running + status.succeeded + status.failed
    if status.state.phase == "Pending":
        assert there < job.spec.min_available
    elif total:
        assert status.succeeded + status.failed < total, "all pods are finished"
        assert job.spec.min_success is None or status.succeeded < job.spec.min_success
        assert status.pending <= total - job.spec.min_available


def _check_failures(driver: Driver, job: Job) -> None:
    """No failure stands there that a policy should have dealt with, however it came about."""
    for stored in driver.pods:
        pod = stored.seen
        if pod.phase is PodPhase.FAILED and pod.version == driver.status.version:
            action = _action_for(job, pod)
            assert action in {"", "ResumeJob"}, f"{pod.short_name} failed and {action} was not done: {driver.shown()}"


def _action_for(job: Job, pod: ObservedPod) -> str:
    """The first policy that matches, those of the task before those of the job."""
    task = job.task(pod.task)
    assert task is not None
    code = pod.ends[-1].exit_code if pod.ends else None
    policies: list[LifecyclePolicy] = [*task.policies, *job.spec.policies]
    for policy in policies:
        if code in policy.all_exit_codes or {"*", "PodFailed"}.intersection(policy.all_events):
            return policy.action
    return ""
