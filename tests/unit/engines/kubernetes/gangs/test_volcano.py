from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from aiohttp import web

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.cache.cluster_cache import ClusterCache
from pumice.engines.kubernetes.gangs.groups import CachedGroup, PodGroupManager
from pumice.engines.kubernetes.gangs.volcano import VolcanoGang
from pumice.model.snapshot import JobKey
from pumice.runtime.kubernetes_types import kubernetes_types
from tests.builders import UID, a_job
from tests.unit.engines.kubernetes.played_api import Script, client_of, play

JOB = a_job()
SEEN = CachedGroup(
    JOB.namespace, "g", "u1", "5", JobKey(JOB.namespace, JOB.name), UID, {"minMember": 1}, {}, "", (), is_deleting=False
)


@pytest.mark.parametrize(
    ("there", "wanted", "sent"),
    [
        pytest.param({}, {}, {}, id="none"),
        pytest.param({}, {"priorityClassName": "low"}, {"priorityClassName": "low"}, id="given"),
        pytest.param(
            {"priorityClassName": "high"}, {"priorityClassName": "low"}, {"priorityClassName": "low"}, id="new"
        ),
        pytest.param({"priorityClassName": "high"}, {}, {"priorityClassName": ""}, id="lost"),
    ],
)
def test_the_priority_of_a_group(there: dict[str, Any], wanted: dict[str, Any], sent: dict[str, Any]) -> None:
    bodies = []

    async def made(request: web.BaseRequest) -> web.StreamResponse:
        bodies.append(await request.json())
        return web.json_response({"metadata": {"name": "g", "uid": "u1"}})

    async def story() -> None:
        async with client_of(Script(made)) as client:
            cache = ClusterCache(client, kubernetes_types().types, (), lambda _key: None)
            groups = PodGroupManager(client, cache, resources.VOLCANO_POD_GROUPS)
            groups.watched.put(dataclasses.replace(SEEN, spec={"minMember": 1, **there}))
            await VolcanoGang(groups).ensure(JOB, {"metadata": {"name": "g"}, "spec": {"minMember": 2, **wanted}})

    play(story())
    assert [body["spec"] for body in bodies] == [{"minMember": 2, **sent}]
