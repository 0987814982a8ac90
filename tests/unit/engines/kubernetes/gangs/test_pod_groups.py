from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web

from pumice.diagnosis.cluster.objects import Condition
from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.cache.cluster_cache import ClusterCache
from pumice.engines.kubernetes.cache.decode_pods import CachedPod
from pumice.engines.kubernetes.gangs.pod_groups import CachedGroup, PodGroupManager, check_membership
from pumice.model.snapshot import JobKey
from pumice.model.vocabulary import COSCHEDULING, NATIVE, VOLCANO, GangProvider
from pumice.runtime.kubernetes_types import kubernetes_types
from pumice.runtime.ports import EngineError
from tests.builders import UID, a_job, a_task, a_template
from tests.unit.engines.kubernetes.played_api import Handler, Script, client_of, play, refusing

JOB = a_job()
KEY = JobKey(JOB.namespace, JOB.name)
GROUP = CachedGroup(JOB.namespace, "g", "u1", "5", KEY, UID, {}, {}, "", (), is_deleting=False)


def a_manager(
    client: Client | None = None, provider: GangProvider = VOLCANO, enqueued: list[JobKey] | None = None
) -> PodGroupManager:
    server = cast(Client, client)
    cache = ClusterCache(server, kubernetes_types().types, (), (enqueued if enqueued is not None else []).append)
    return PodGroupManager(server, cache, resources.VOLCANO_POD_GROUPS, provider)


async def kept_by_finalizer(_request: web.BaseRequest) -> web.StreamResponse:
    """A finalizer keeps the object."""
    metadata = {"name": "g", "uid": "u1", "resourceVersion": "6", "deletionTimestamp": "2030-01-01T00:00:00Z"}
    return web.json_response({"kind": "PodGroup", "metadata": metadata})


async def gone(_request: web.BaseRequest) -> web.StreamResponse:
    return web.json_response({"kind": "Status", "metadata": {}, "status": "Success"})


@pytest.mark.parametrize(
    ("answer", "stays"),
    [
        pytest.param(kept_by_finalizer, True, id="until its pods are gone"),
        pytest.param(gone, False, id="at once"),
        pytest.param(refusing(404, "NotFound"), False, id="gone before"),
    ],
)
def test_a_job_is_enqueued_when_its_deleted_group_is_gone(answer: Handler, stays: bool) -> None:
    """The group of the next run has the same name, so it can only be created then."""

    async def story() -> None:
        enqueued: list[JobKey] = []
        async with client_of(answer) as client:
            groups = a_manager(client, NATIVE, enqueued)
            groups.watched.put(GROUP)
            await groups.remove(JOB, "g")
            assert groups.of(JOB, ["g"]) == []
            assert (groups.watched.get(JOB.namespace, "g") is not None) is stays
            enqueued.clear()
            groups.watched.remove(GROUP)
            assert enqueued == ([KEY] if stays else [])

    play(story())


def answering(code: int, document: dict[str, object]) -> Handler:
    async def handler(_request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(document, status=code)

    return handler


def test_an_update_is_retried_after_a_conflict() -> None:
    """The scheduler writes its progress to the group at the same time."""
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": UID, "controller": True}
    metadata = {"name": "g", "namespace": "lab", "uid": "u1", "resourceVersion": "6", "ownerReferences": [owner]}
    there = answering(200, {"metadata": metadata, "spec": {"minMember": 1}})
    script = Script(
        refusing(409, "AlreadyExists"), there, refusing(409, "Conflict"), there, answering(200, {"metadata": metadata})
    )

    async def story() -> None:
        async with client_of(script) as client:
            groups = a_manager(client)
            await groups.ensure(JOB, {"metadata": {"name": "g"}, "spec": {"minMember": 3}})

    play(story())
    assert [request.method for request in script.asked] == ["POST", "GET", "PUT", "GET", "PUT"]


def test_an_update_fails_after_too_many_conflicts() -> None:
    owner = {"uid": UID, "controller": True}
    there = answering(200, {"metadata": {"name": "g", "ownerReferences": [owner]}, "spec": {}})

    async def always(request: web.BaseRequest) -> web.StreamResponse:
        return await (there if request.method == "GET" else refusing(409, "Conflict"))(request)

    async def story() -> None:
        async with client_of(Script(refusing(409, "AlreadyExists"), always)) as client:
            groups = a_manager(client)
            with pytest.raises(EngineError, match="could not update PodGroup g"):
                await groups.ensure(JOB, {"metadata": {"name": "g"}, "spec": {"minMember": 3}})

    play(story())


def a_condition(type_: str, moment: str, message: str = "no room") -> Condition:
    return Condition(type=type_, status="True", message=message, last_transition_time=f"2030-01-01T00:00:{moment}Z")


@pytest.mark.parametrize(
    ("change", "is_enqueued"),
    [
        pytest.param({"conditions": (a_condition("A", "09"),)}, False, id="the same condition at a later time"),
        pytest.param({"conditions": (a_condition("A", "01", "no queue"),)}, True, id="another message"),
        pytest.param({"conditions": (a_condition("A", "01"), a_condition("B", "02"))}, True, id="one more condition"),
        pytest.param({"phase": "Running"}, True, id="phase"),
        pytest.param({"spec": {"minMember": 7}}, True, id="spec"),
        pytest.param({"annotations": {"a": "b"}}, True, id="annotation"),
        pytest.param({"is_deleting": True}, True, id="deletion"),
        pytest.param({}, False, id="only the resource version"),
    ],
)
def test_only_relevant_changes_enqueue_the_job(change: dict[str, Any], is_enqueued: bool) -> None:
    enqueued: list[JobKey] = []
    groups = a_manager(enqueued=enqueued)
    before = msgspec.structs.replace(GROUP, conditions=(a_condition("A", "01"),))
    groups.watched.put(before)
    enqueued.clear()
    groups.watched.put(msgspec.structs.replace(before, resource_version="6", **change))
    assert set(enqueued) == ({KEY} if is_enqueued else set())


def test_another_order_of_the_conditions_in_time_enqueues_the_job() -> None:
    """The newest condition counts."""
    enqueued: list[JobKey] = []
    groups = a_manager(enqueued=enqueued)
    for version, moments in enumerate((("01", "02"), ("03", "02"))):
        conditions = tuple(a_condition(type_, moment) for type_, moment in zip("AB", moments, strict=True))
        enqueued.clear()
        groups.watched.put(msgspec.structs.replace(GROUP, resource_version=str(5 + version), conditions=conditions))
    assert KEY in enqueued


def native(status: str, moment: str = "01") -> Condition:
    type_ = "PodGroupInitiallyScheduled"
    return Condition(type=type_, status=status, message="no node", last_transition_time=f"2030-01-01T00:00:{moment}Z")


MIXED = a_job(a_task("master", 1, a_template(priorityClassName="high")), a_task("worker"))


@pytest.mark.parametrize(
    ("provider", "names", "phase", "conditions", "expected"),
    [
        pytest.param(VOLCANO, [], "", (), None, id="volcano, nothing there"),
        pytest.param(VOLCANO, [""], "Pending", (a_condition("A", "01"),), ("Pending", "no room"), id="volcano, waits"),
        pytest.param(
            VOLCANO,
            [""],
            "Running",
            (a_condition("A", "01"), a_condition("Scheduled", "02")),
            ("Running", ""),
            id="volcano, scheduled",
        ),
        pytest.param(NATIVE, ["-0"], "", (), ("", ""), id="native, one of two"),
        pytest.param(NATIVE, ["-0", "-1"], "", (native("False"),), ("Inqueue", "no node"), id="native, waits"),
        pytest.param(
            NATIVE,
            ["-0", "-1"],
            "",
            (native("False"), native("True", "02"), a_condition("Other", "03")),
            ("Inqueue", ""),
            id="native, scheduled",
        ),
        pytest.param(COSCHEDULING, [""], "PreScheduling", (), ("Inqueue", ""), id="coscheduling"),
    ],
)
def test_observed_phase_and_message(
    provider: GangProvider,
    names: list[str],
    phase: str,
    conditions: tuple[Condition, ...],
    expected: tuple[str, str] | None,
) -> None:
    groups = [
        msgspec.structs.replace(GROUP, name=f"train-{UID}{ending}", phase=phase, conditions=conditions)
        for ending in names
    ]
    manager = a_manager(provider=provider)
    for group in groups:
        manager.watched.put(group)
    found = manager.observed(MIXED)
    assert (found and (found.phase, found.message)) == expected
    assert found is None or list(found.manifests) == [group.name for group in groups]


@pytest.mark.parametrize(("kept", "is_refused"), [("g", False), ("", True)], ids=["kept", "dropped"])
def test_a_pod_that_lost_its_native_group_is_refused(kept: str, is_refused: bool) -> None:
    # Only the two fields are read.
    created = cast(CachedPod, SimpleNamespace(name="train-worker-0", group=kept))
    check_membership({"spec": {}}, created)
    with pytest.raises(EngineError, match=r"dropped spec\.schedulingGroup") if is_refused else nullcontext():
        check_membership({"spec": {"schedulingGroup": {"podGroupName": "g"}}}, created)
