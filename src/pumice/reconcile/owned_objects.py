"""The objects that a job owns beside its pods: created, corrected, and removed when the job no longer needs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pumice.model.job import Manifest
from pumice.model.objects import Once, claim_names, claims, missing_claims_of_others
from pumice.model.vocabulary import VOLCANO
from pumice.plugins.base import Base
from pumice.plugins.shaping import manifest_of, owned_objects
from pumice.reconcile.decision import EngineCommand, Ensure, JobEvent, Remove, Severity
from pumice.reconcile.dependencies import may_start
from pumice.reconcile.gangs import decisive_part, pod_groups
from pumice.reconcile.phases import FINAL
from pumice.reconcile.state import WANTS_PODS, State

_OF_PLUGIN: Final = "plugin-"
_OF_CLAIM: Final = "volume-pvc-"


def reconcile_owned_objects(state: State, plugins: Sequence[Base]) -> Iterator[EngineCommand]:
    """Claims, the objects of plugins and the PodGroup, each as the job's phase needs it."""
    job, snapshot = state.job, state.snapshot
    if state.phase in WANTS_PODS:
        yield from (Ensure(claim) for claim in claims(job) if claim["metadata"]["name"] not in snapshot.claims)
    yield from _plugin_objects(state, plugins)
    yield from _groups(state)


def volcano_markers(state: State, plugins: Sequence[Base]) -> dict[str, str]:
    """What Volcano records in `controlledResources` about plugins and claims, for tools that read it."""
    others = state.ledger.others.items()
    markers = {key: value for key, value in others if not key.startswith((_OF_PLUGIN, _OF_CLAIM))}
    markers |= {_OF_CLAIM + name: name for name in claim_names(state.job)}
    if state.phase not in FINAL:
        markers |= {_OF_PLUGIN + plugin.name: plugin.name for plugin in plugins}
    return markers


def replaced_secrets(state: State, plugins: Sequence[Base]) -> Iterator[JobEvent]:
    """A deleted Secret is created again with new keys, which running pods do not get."""
    snapshot = state.snapshot
    if state.phase in FINAL or not any(pod.is_live for pod in snapshot.pods):
        return
    for owned in owned_objects(state.job, plugins):
        name = manifest_of(owned)["metadata"]["name"]
        # A failure to create it was reported already.
        failed = any(name == failure.name for failure in snapshot.failures)
        if isinstance(owned, Once) and ("Secret", name) not in snapshot.owned_objects and not failed:
            message = f"Secret {name} was deleted and is created again with new keys; running pods keep the old ones"
            yield JobEvent("SecretReplaced", message, Severity.WARNING)


def _plugin_objects(state: State, plugins: Sequence[Base]) -> Iterator[EngineCommand]:
    existing, wanted = state.snapshot.owned_objects, owned_objects(state.job, plugins)
    if state.phase in FINAL:
        # Pods use them until the last one is gone.
        if not state.pods.counts.alive:
            keys = [_key(manifest_of(owned)) for owned in wanted]
            yield from (Remove(*key) for key in keys if key in existing)
        return
    for owned in wanted:
        manifest = manifest_of(owned)
        there = existing.get(_key(manifest))
        # A Secret of `Once` is never written again: kubelet would empty its mount in running pods.
        if there is None or not (isinstance(owned, Once) or _is_as_wanted(there, manifest)):
            yield Ensure(owned)


def _groups(state: State) -> Iterator[EngineCommand]:
    snapshot = state.snapshot
    known = snapshot.group.manifests if snapshot.group is not None else {}
    if not known and missing_claims_of_others(snapshot.job, snapshot.claims):
        # A gang that cannot start takes no place in its queue.
        return
    if not state.keeps_group:
        yield from (Remove("PodGroup", name) for name in known)
        return
    for wanted in pod_groups(state.job, snapshot.gang, snapshot.priorities, may_start(state)):
        there = known.get(wanted["metadata"]["name"], {})
        if snapshot.gang.name == VOLCANO.name and (there.get("spec") or {}).get("priorityClassName"):
            # Updates leave a field that they do not name, and the job may have lost its priority class.
            wanted["spec"].setdefault("priorityClassName", "")
        if not _covers(there, decisive_part(wanted, snapshot.gang)):
            yield Ensure(wanted)


def _key(manifest: Manifest) -> tuple[str, str]:
    return manifest["kind"], manifest["metadata"]["name"]


def _is_as_wanted(there: Manifest, wanted: Manifest) -> bool:
    """Whether every field that we write has its value; fields that an API server or a scheduler adds do not matter."""
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
