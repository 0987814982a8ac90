from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from pumice.engines.kubernetes.install.checks.check_result import CheckResult
from pumice.engines.kubernetes.install.checks.cluster_checks import rollout
from pumice.engines.kubernetes.install.manifests import InstallOptions, manifests
from tests.unit.engines.kubernetes.played_api import client_of

DONE = {"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2}
# One new pod beside the two old ones.
STUCK = DONE | {"replicas": 3, "updatedReplicas": 1}
PULL = {"reason": "ErrImagePull", "message": 'no "a":\n  not found'}
CREATING = {"reason": "ContainerCreating"}
UNSCHEDULED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes fit"}
FORBIDDEN = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota"}


def pod(waiting: dict[str, str], *conditions: dict[str, str]) -> dict[str, Any]:
    status = {"containerStatuses": [{"state": {"waiting": waiting}}], "conditions": conditions}
    return {"metadata": {"name": "pumice-webhook-1"}, "status": status}


def check(status: dict[str, Any], *pods: dict[str, Any], replicas: int = 2) -> CheckResult:
    (deployment,) = [one for one in manifests(InstallOptions("a")) if _is_webhook(one)]
    deployment |= {"metadata": {**deployment["metadata"], "generation": 2}, "status": status}
    deployment["spec"]["replicas"] = replicas

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.json_response({"metadata": {}, "items": pods})

    async def checked() -> CheckResult:
        async with client_of(answer) as client:
            return await rollout(client, "webhook", deployment)

    return asyncio.run(checked())


def _is_webhook(manifest: dict[str, Any]) -> bool:
    return (manifest["kind"], manifest["metadata"]["name"]) == ("Deployment", "pumice-webhook")


def test_a_complete_roll_out() -> None:
    result = check(DONE)
    assert (result.is_ok, result.found) == (True, "2 of 2 ready, image a")


@pytest.mark.parametrize(
    ("status", "pods", "found", "hint"),
    [
        pytest.param(
            STUCK,
            [pod(PULL)],
            '1 of 2 updated, 2 ready, 2 old, image a; pumice-webhook-1 waits: ErrImagePull: no "a": not found',
            "push that image, or choose another: pumice install --upgrade --image NAME | kubectl apply",
            id="image",
        ),
        pytest.param(
            {"observedGeneration": 2},
            [pod({"reason": "CrashLoopBackOff"})],
            "0 of 2 updated, 0 ready, image a; pumice-webhook-1 waits: CrashLoopBackOff",
            "kubectl -n pumice-system logs pumice-webhook-1 --previous",
            id="crashes",
        ),
        pytest.param(
            STUCK,
            [pod(CREATING, UNSCHEDULED)],
            "1 of 2 updated, 2 ready, 2 old, image a; pumice-webhook-1 waits: Unschedulable: 0/3 nodes fit",
            "kubectl -n pumice-system describe pod pumice-webhook-1",
            id="no room",
        ),
        pytest.param(
            STUCK | {"conditions": [FORBIDDEN]},
            [pod(CREATING)],
            "1 of 2 updated, 2 ready, 2 old, image a; FailedCreate: exceeded quota",
            "kubectl -n pumice-system describe deployment pumice-webhook",
            id="no pod",
        ),
        pytest.param(
            DONE | {"observedGeneration": 1},
            [],
            "0 of 2 updated, 2 ready, image a",
            "kubectl -n pumice-system rollout status deployment/pumice-webhook",
            id="not seen yet",
        ),
    ],
)
def test_an_incomplete_roll_out(status: dict[str, Any], pods: list[Any], found: str, hint: str) -> None:
    result = check(status, *pods)
    assert (result.is_ok, result.found) == (False, found)
    assert result.hint.startswith(hint)


def test_a_deployment_without_replicas() -> None:
    result = check({"observedGeneration": 2}, replicas=0)
    assert (result.is_ok, result.found) == (False, "Deployment pumice-system/pumice-webhook is scaled to 0")
    assert result.hint == "kubectl -n pumice-system scale deployment/pumice-webhook --replicas=2"
