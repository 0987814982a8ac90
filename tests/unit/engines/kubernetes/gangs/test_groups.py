from __future__ import annotations

import dataclasses
from typing import Any, cast

import pytest
from aiohttp import web

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.cache.cluster_cache import ClusterCache
from pumice.engines.kubernetes.gangs.groups import CachedGroup, Condition, PodGroupManager
from pumice.model.snapshot import JobKey
from pumice.runtime.kubernetes_types import kubernetes_types
from pumice.runtime.ports import EngineError
from tests.builders import UID, a_job
from tests.unit.engines.kubernetes.played_api import Handler, Script, client_of, play, refusing

JOB = a_job()
KEY = JobKey(JOB.namespace, JOB.name)
GROUP = CachedGroup(JOB.namespace, "g", "u1", "5", KEY, UID, {}, {}, "", (), is_deleting=False)


async def protected(_request: web.BaseRequest) -> web.StreamResponse:
    """A finalizer keeps it."""
    metadata = {"name": "g", "uid": "u1", "resourceVersion": "6", "deletionTimestamp": "2030-01-01T00:00:00Z"}
    return web.json_response({"kind": "PodGroup", "metadata": metadata})


async def gone(_request: web.BaseRequest) -> web.StreamResponse:
    return web.json_response({"kind": "Status", "metadata": {}, "status": "Success"})


@pytest.mark.parametrize(
    ("answer", "stays"),
    [
        pytest.param(protected, True, id="until its pods are gone"),
        pytest.param(gone, False, id="at once"),
        pytest.param(refusing(404, "NotFound"), False, id="gone before"),
    ],
)
def test_when_a_removed_group_is_gone_its_job_hears_of_it(answer: Handler, stays: bool) -> None:
    """The group of the next run has the same name, so it cannot be made before."""

    async def story() -> None:
        touched: list[JobKey] = []
        async with client_of(answer) as client:
            cache = ClusterCache(client, kubernetes_types().types, (), touched.append)
            groups = PodGroupManager(client, cache, resources.NATIVE_POD_GROUPS[0])
            groups.watched.put(GROUP)
            await groups.remove(JOB, ["g"])
            assert groups.of(JOB, ["g"]) == []
            assert (groups.watched.get(JOB.namespace, "g") is not None) is stays
            touched.clear()
            groups.watched.removed(GROUP)
            assert touched == ([KEY] if stays else [])

    play(story())


def answering(code: int, document: dict[str, object]) -> Handler:
    async def handler(_request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(document, status=code)

    return handler


def test_a_group_that_its_scheduler_writes_at_the_same_time_is_put_right_all_the_same() -> None:
    """A scheduler notes its progress in the group, again and again."""
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": UID, "controller": True}
    metadata = {"name": "g", "namespace": "lab", "uid": "u1", "resourceVersion": "6", "ownerReferences": [owner]}
    there = answering(200, {"metadata": metadata, "spec": {"minMember": 1}})
    script = Script(
        refusing(409, "AlreadyExists"), there, refusing(409, "Conflict"), there, answering(200, {"metadata": metadata})
    )

    async def story() -> None:
        async with client_of(script) as client:
            cache = ClusterCache(client, kubernetes_types().types, (), lambda _key: None)
            groups = PodGroupManager(client, cache, resources.VOLCANO_POD_GROUPS)
            await groups.ensure(JOB, {"metadata": {"name": "g"}, "spec": {"minMember": 3}})

    play(story())
    assert [request.method for request in script.asked] == ["POST", "GET", "PUT", "GET", "PUT"]


def test_a_group_that_is_never_left_alone_is_a_trouble() -> None:
    owner = {"uid": UID, "controller": True}
    there = answering(200, {"metadata": {"name": "g", "ownerReferences": [owner]}, "spec": {}})

    async def always(request: web.BaseRequest) -> web.StreamResponse:
        return await (there if request.method == "GET" else refusing(409, "Conflict"))(request)

    async def story() -> None:
        async with client_of(Script(refusing(409, "AlreadyExists"), always)) as client:
            cache = ClusterCache(client, kubernetes_types().types, (), lambda _key: None)
            groups = PodGroupManager(client, cache, resources.VOLCANO_POD_GROUPS)
            with pytest.raises(EngineError, match="could not update PodGroup g"):
                await groups.ensure(JOB, {"metadata": {"name": "g"}, "spec": {"minMember": 3}})

    play(story())


def a_condition(type_: str, moment: str, message: str = "no room") -> Condition:
    return Condition(type=type_, status="True", message=message, last_transition_time=f"2030-01-01T00:00:{moment}Z")


@pytest.mark.parametrize(
    ("change", "is_told"),
    [
        pytest.param({"conditions": (a_condition("A", "09"),)}, False, id="said again"),
        pytest.param({"conditions": (a_condition("A", "01", "no queue"),)}, True, id="another reason"),
        pytest.param({"conditions": (a_condition("A", "01"), a_condition("B", "02"))}, True, id="one more"),
        pytest.param({"phase": "Running"}, True, id="a phase"),
        pytest.param({"spec": {"minMember": 7}}, True, id="an edit"),
        pytest.param({"annotations": {"a": "b"}}, True, id="an annotation"),
        pytest.param({"is_deleting": True}, True, id="on its way out"),
        pytest.param({}, False, id="nothing that anybody looks at"),
    ],
)
def test_a_scheduler_that_says_the_same_again_wakes_nobody(change: dict[str, Any], is_told: bool) -> None:
    touched: list[JobKey] = []
    cache = ClusterCache(cast(Client, None), kubernetes_types().types, (), touched.append)
    groups = PodGroupManager(cache.client, cache, resources.VOLCANO_POD_GROUPS)
    before = dataclasses.replace(GROUP, conditions=(a_condition("A", "01"),))
    groups.watched.put(before)
    touched.clear()
    groups.watched.put(dataclasses.replace(before, resource_version="6", **change))
    assert set(touched) == ({KEY} if is_told else set())


def test_the_same_conditions_in_another_order_of_time_are_another_story() -> None:
    """The newest one is what counts."""
    touched: list[JobKey] = []
    cache = ClusterCache(cast(Client, None), kubernetes_types().types, (), touched.append)
    groups = PodGroupManager(cache.client, cache, resources.VOLCANO_POD_GROUPS)
    for version, moments in enumerate((("01", "02"), ("03", "02"))):
        conditions = tuple(a_condition(type_, moment) for type_, moment in zip("AB", moments, strict=True))
        touched.clear()
        groups.watched.put(dataclasses.replace(GROUP, resource_version=str(5 + version), conditions=conditions))
    assert KEY in touched
