from __future__ import annotations

import pytest
from aiohttp import web

from pumice.engines.kubernetes.api.discovery import discover
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import COMMANDS, JOBS, PODS
from tests.unit.engines.kubernetes.played_api import Handler, client_of, play, refusing

AGGREGATED: dict[str, object] = {
    "/api": {
        "kind": "APIGroupDiscoveryList",
        "items": [
            {
                "metadata": {"creationTimestamp": None},
                "versions": [
                    {"version": "v1", "resources": [{"resource": "pods", "subresources": [{"subresource": "status"}]}]}
                ],
            }
        ],
    },
    "/apis": {
        "kind": "APIGroupDiscoveryList",
        "items": [
            {
                "metadata": {"name": "batch.volcano.sh"},
                "versions": [{"version": "v1alpha1", "resources": [{"resource": "jobs"}]}],
            },
            {"metadata": {"name": "metrics.k8s.io"}, "versions": [{"version": "v1beta1", "freshness": "Stale"}]},
        ],
    },
}
OLD: dict[str, object] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/api/v1": {"kind": "APIResourceList", "resources": [{"name": "pods"}, {"name": "pods/status"}]},
    "/apis": {
        "kind": "APIGroupList",
        "groups": [
            {
                "name": "batch.volcano.sh",
                "versions": [{"groupVersion": "batch.volcano.sh/v1alpha1", "version": "v1alpha1"}],
            },
            {"name": "metrics.k8s.io", "versions": [{"groupVersion": "metrics.k8s.io/v1beta1", "version": "v1beta1"}]},
        ],
    },
    "/apis/batch.volcano.sh/v1alpha1": {"kind": "APIResourceList", "resources": [{"name": "jobs"}]},
}
OFFERED = {
    "v1",
    "v1/pods",
    "v1/pods/status",
    "batch.volcano.sh/v1alpha1",
    "batch.volcano.sh/v1alpha1/jobs",
    "metrics.k8s.io/v1beta1",
}


def _answering(answers: dict[str, object], otherwise: int = 503) -> Handler:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        if request.path in answers:
            return web.json_response(answers[request.path])
        return await refusing(otherwise)(request)

    return handler


async def _discovered(handler: Handler) -> frozenset[str]:
    async with client_of(handler) as client:
        return await discover(client)


@pytest.mark.parametrize("answers", [pytest.param(AGGREGATED, id="aggregated"), pytest.param(OLD, id="old form")])
def test_discover(answers: dict[str, object]) -> None:
    offered = play(_discovered(_answering(answers)))
    assert offered == OFFERED
    assert PODS.identity in offered
    assert JOBS.identity in offered
    assert COMMANDS.identity not in offered


def test_a_forbidden_discovery_raises() -> None:
    with pytest.raises(ApiError) as caught:
        play(_discovered(refusing(403, "Forbidden")))
    assert caught.value.is_forbidden


def test_a_forbidden_group_raises() -> None:
    with pytest.raises(ApiError):
        play(_discovered(_answering(OLD, otherwise=403)))
