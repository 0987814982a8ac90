"""How each pod stands to its job: which belong to the present run, and which must go in which phase."""

from __future__ import annotations

from typing import Final

from pumice.model.job import Job
from pumice.model.slot import NONE
from pumice.model.snapshot import ObservedPod, PodPhase
from pumice.model.vocabulary import Phase
from pumice.reconcile.ledger import Ledger, RestartKind

# In these phases the job wants its pods; in all others but Restarting it wants none that is alive.
WANTED: Final = frozenset((Phase.PENDING, Phase.RUNNING))


def is_current(pod: ObservedPod, job: Job, ledger: Ledger) -> bool:
    """Whether the pod takes part in the present run."""
    return pod.version == job.status.version and has_slot(pod, job) and not is_target(pod, ledger)


def has_slot(pod: ObservedPod, job: Job) -> bool:
    """Whether the job (still) has a place for the pod."""
    task = job.task(pod.task)
    return task is not None and pod.index < task.replicas


def is_target(pod: ObservedPod, ledger: Ledger) -> bool:
    """Whether a targeted restart means this pod, rather than the one made in its place."""
    restart = ledger.restart
    if restart is None or restart.kind is not RestartKind.TARGETS:
        return False
    return pod.retry < restart.retry and pod.index in restart.targets.get(pod.task, NONE)


def keeps_group(phase: Phase, ledger: Ledger) -> bool:
    """Whether the PodGroup is one of the present run: it goes with every full kill, and a targeted restart keeps it."""
    targeted = ledger.restart is not None and ledger.restart.kind is RestartKind.TARGETS
    return phase in WANTED or (phase is Phase.RESTARTING and targeted)


def must_go(pod: ObservedPod, job: Job, ledger: Ledger, *, exhausted: bool) -> bool:
    """Whether the pod must be removed, given the phase and version that the job is in (or is about to enter)."""
    if pod.is_deleting:
        return False
    phase = job.status.state.phase  # as it is written: this is asked for every pod, several times a pass
    if phase == Phase.RESTARTING:
        return _must_go_for_restart(pod, job, ledger, exhausted=exhausted)
    if phase not in WANTED:
        return not pod.is_finished
    if not has_slot(pod, job) or is_target(pod, ledger):
        return True
    # What succeeded before the job was suspended has succeeded.
    return pod.version < job.status.version and not _is_kept_success(pod, ledger)


def _must_go_for_restart(pod: ObservedPod, job: Job, ledger: Ledger, *, exhausted: bool) -> bool:
    """On the last attempt finished pods stay, so that somebody can look at them."""
    restart = ledger.restart
    meant = is_target(pod, ledger) or (pod.version < job.status.version and not _is_kept_success(pod, ledger))
    if restart is not None and restart.kind is RestartKind.ALL:
        meant = pod.version < job.status.version
    return meant and not (exhausted and pod.is_finished)


def _is_kept_success(pod: ObservedPod, ledger: Ledger) -> bool:
    return pod.phase is PodPhase.SUCCEEDED and ledger.has_succeeded(pod.task, pod.index)
