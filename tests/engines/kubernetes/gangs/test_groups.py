from __future__ import annotations

import pytest
from aiohttp import web

from pumice.engines.kubernetes import resources
from pumice.engines.kubernetes.gangs.groups import GroupKeeper, SeenGroup
from pumice.engines.kubernetes.view import ClusterView
from pumice.model.snapshot import JobKey
from pumice.runtime.kubernetes_types import kubernetes_types
from tests.builders import UID, a_job
from tests.engines.kubernetes.played_api import Handler, client_of, play, refusing

JOB = a_job()
KEY = JobKey(JOB.namespace, JOB.name)
GROUP = SeenGroup(JOB.namespace, "g", "u1", "5", KEY, UID, {}, {}, "", (), is_deleting=False)


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
            view = ClusterView(client, kubernetes_types().types, (), touched.append)
            groups = GroupKeeper(client, view, resources.NATIVE_POD_GROUPS[0])
            groups.watched.put(GROUP)
            await groups.remove(JOB, ["g"])
            assert groups.of(JOB, ["g"]) == []
            assert (groups.watched.get(JOB.namespace, "g") is not None) is stays
            touched.clear()
            groups.watched.removed(GROUP)
            assert touched == ([KEY] if stays else [])

    play(story())
