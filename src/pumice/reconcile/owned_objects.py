"""The objects beside the pods: made, put right, and removed when nobody needs them any more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pumice.model.gang import VOLCANO
from pumice.model.job import Manifest
from pumice.model.objects import Once, claim_names, claims
from pumice.model.snapshot import Snapshot
from pumice.model.vocabulary import Phase
from pumice.plugins.base import Base
from pumice.plugins.owned_objects import manifest_of, owned_objects
from pumice.reconcile.decision import EngineCommand, Ensure, JobEvent, Remove, Severity
from pumice.reconcile.dependencies import may_start
from pumice.reconcile.gangs import decisive_part, pod_groups
from pumice.reconcile.ledger import Ledger
from pumice.reconcile.phases import FINAL
from pumice.reconcile.pod_creation import claims_of_others
from pumice.reconcile.pod_membership import WANTED, keeps_group

_OF_PLUGIN: Final = "plugin-"
_OF_CLAIM: Final = "volume-pvc-"


def objects_to_keep(snapshot: Snapshot, ledger: Ledger, plugins: Sequence[Base]) -> Iterator[EngineCommand]:
    """Claims, companions and the PodGroup, each brought to where the job's phase wants it."""
    phase = Phase(snapshot.job.status.state.phase)
    if phase in WANTED:
        yield from (Ensure(claim) for claim in claims(snapshot.job) if claim["metadata"]["name"] not in snapshot.claims)
    yield from _companions(snapshot, plugins, phase)
    yield from _group(snapshot, ledger, phase)


def markers(snapshot: Snapshot, plugins: Sequence[Base], others: Mapping[str, str]) -> dict[str, str]:
    """What Volcano notes in `controlledResources` about plugins and claims; some tools read it. Other notes stay."""
    noted = {key: value for key, value in others.items() if not key.startswith((_OF_PLUGIN, _OF_CLAIM))}
    noted |= {_OF_CLAIM + name: name for name in claim_names(snapshot.job)}
    if Phase(snapshot.job.status.state.phase) not in FINAL:
        noted |= {_OF_PLUGIN + plugin.name: plugin.name for plugin in plugins}
    return noted


def lost_keys(snapshot: Snapshot, plugins: Sequence[Base]) -> Iterator[JobEvent]:
    """A Secret that somebody removed comes back with new keys, which pods that run do not get."""
    if Phase(snapshot.job.status.state.phase) in FINAL or not any(pod.is_live for pod in snapshot.pods):
        return
    for companion in owned_objects(snapshot.job, plugins):
        name = manifest_of(companion)["metadata"]["name"]
        # Where it could not be made last time, that was told.
        failed = any(name in trouble.message for trouble in snapshot.troubles)
        if isinstance(companion, Once) and ("Secret", name) not in snapshot.companions and not failed:
            message = f"Secret {name} was gone and is made anew with new keys; pods that run keep the old ones"
            yield JobEvent("SecretReplaced", message, Severity.WARNING)


def _companions(snapshot: Snapshot, plugins: Sequence[Base], phase: Phase) -> Iterator[EngineCommand]:
    wanted = owned_objects(snapshot.job, plugins)
    if phase in FINAL:
        # They serve the pods, so they stay until the last one is gone.
        if not any(not pod.is_finished or pod.is_deleting for pod in snapshot.pods):
            yield from (
                Remove(*_key(manifest_of(one))) for one in wanted if _key(manifest_of(one)) in snapshot.companions
            )
        return
    for companion in wanted:
        manifest = manifest_of(companion)
        there = snapshot.companions.get(_key(manifest))
        if there is None or not _is_as_wanted(there, manifest):
            yield Ensure(companion)


def _group(snapshot: Snapshot, ledger: Ledger, phase: Phase) -> Iterator[EngineCommand]:
    known = snapshot.group.manifests if snapshot.group is not None else {}
    if not known and claims_of_others(snapshot):
        # A gang that could not start takes no place in its queue.
        return
    if not keeps_group(phase, ledger):
        yield from (Remove("PodGroup", name) for name in known)
        return
    free = may_start(snapshot.job, snapshot.pods, ledger)
    for wanted in pod_groups(snapshot.job, snapshot.gang, snapshot.priorities, free):
        there = known.get(wanted["metadata"]["name"], {})
        if snapshot.gang.name == VOLCANO.name and (there.get("spec") or {}).get("priorityClassName"):
            # Updates leave a field that they do not name, and the job may have lost its priority class.
            wanted["spec"].setdefault("priorityClassName", "")
        if not _covers(there, decisive_part(wanted, snapshot.gang)):
            yield Ensure(wanted)


def _key(manifest: Manifest) -> tuple[str, str]:
    return manifest["kind"], manifest["metadata"]["name"]


def _is_as_wanted(there: Manifest, wanted: Manifest) -> bool:
    """Whether everything that we would write is there; what an API server or a scheduler added does not matter."""
    for part in ("data", "spec", "stringData"):
        if part == "data" and there.get(part) != wanted.get(part) and part in wanted:
            return False
        if not _covers(there.get(part), wanted.get(part)):
            return False
    return True


def _covers(there: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(there, Mapping) and all(_covers(there.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list):
        return (
            isinstance(there, list)
            and len(there) == len(wanted)
            and all(_covers(one, other) for one, other in zip(there, wanted, strict=True))
        )
    return wanted is None or bool(there == wanted)
