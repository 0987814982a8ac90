from __future__ import annotations

import pytest

from pumice.engines.kubernetes.api.resources import COMMANDS, CRDS, JOBS, NATIVE_POD_GROUPS, PODS, Resource


@pytest.mark.parametrize(
    ("resource", "arguments", "path"),
    [
        pytest.param(PODS, ("a", "p", ""), "/api/v1/namespaces/a/pods/p", id="pod"),
        pytest.param(PODS, ("a", "p", "status"), "/api/v1/namespaces/a/pods/p/status", id="subresource"),
        pytest.param(PODS, ("a", None, ""), "/api/v1/namespaces/a/pods", id="namespace"),
        pytest.param(PODS, (None, None, ""), "/api/v1/pods", id="all namespaces"),
        pytest.param(JOBS, ("a", "j", ""), "/apis/batch.volcano.sh/v1alpha1/namespaces/a/jobs/j", id="group"),
        pytest.param(
            CRDS,
            ("a", "x.y", ""),
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/x.y",
            id="cluster-scoped",
        ),
        pytest.param(PODS, ("a", "../x?y#z", ""), "/api/v1/namespaces/a/pods/..%2Fx%3Fy%23z", id="hostile name"),
        pytest.param(PODS, ("a/b", "p", ""), "/api/v1/namespaces/a%2Fb/pods/p", id="hostile namespace"),
        pytest.param(
            Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False),
            (None, "system:node", ""),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
            id="colon",
        ),
    ],
)
def test_path(resource: Resource, arguments: tuple[str | None, str | None, str], path: str) -> None:
    assert resource.path(*arguments) == path


def test_names() -> None:
    assert (PODS.api_version, PODS.identity, PODS.full_name) == ("v1", "v1/pods", "pods")
    assert COMMANDS.api_version == "bus.volcano.sh/v1alpha1"
    assert COMMANDS.identity == "bus.volcano.sh/v1alpha1/commands"
    assert COMMANDS.full_name == "commands.bus.volcano.sh"
    assert [resource.version for resource in NATIVE_POD_GROUPS] == ["v1beta1", "v1alpha3", "v1alpha2"]
