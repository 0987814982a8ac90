from __future__ import annotations

import pytest

from pumice.admission.podtemplate.resources import container_resource_error
from tests.unit.admission.podtemplate.samples import container, hints, in_container, pod, rules

NAMES = "must be cpu, memory, ephemeral-storage, hugepages-<size>, or a device such as nvidia.com/gpu"
LABEL = "must be lower-case letters, digits or '-', and begin and end with a letter or digit"
TOGETHER = "must not be below what the containers ask for together, which is"
QUANTITY = "must be a quantity such as 500m, 2, 1.5 or 4Gi"
NAME = "must be letters, digits, '-', '_' or '.', and begin and end with a letter or digit"


def resources(
    limits: object = None, requests: object = None, claims: object = None, **spec: object
) -> dict[str, object]:
    return in_container(resources={"limits": limits, "requests": requests, "claims": claims}) | spec


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(resources({"cpu": "1", "memory": "1Gi"}, {"cpu": "500m", "memory": 5}), id="below the limits"),
        pytest.param(resources({"cpu": "1"}, {"cpu": "1000m"}), id="equal in another unit"),
        pytest.param(resources({"cpu": "1m"}, {"cpu": "0.1m"}), id="rounded up to a thousandth, then equal"),
        pytest.param(resources({"nvidia.com/gpu": 2}, {"nvidia.com/gpu": "2"}), id="a device"),
        pytest.param(resources({"nvidia.com/gpu": 2}), id="a device by its limit alone"),
        pytest.param(resources(requests={"ephemeral-storage": "1Gi", "kubernetes.io/x": "100m"}), id="without limits"),
        pytest.param(resources({"hugepages-2Mi": "4Mi", "memory": "1Gi"}), id="huge pages"),
        pytest.param(
            resources({"memory": 1, "hugepages-2Mi": "0"}, {"hugepages-2Mi": "0"}), id="no huge pages, but asked for"
        ),
        pytest.param(
            resources(claims=[{"name": "a", "request": "x"}, {"name": "a", "request": "y"}, {"name": "b"}])
            | {"resourceClaims": [{"name": "a", "resourceClaimName": "c"}, {"name": "b", "resourceClaimName": "d"}]},
            id="claims",
        ),
    ],
)
def test_valid(spec: dict[str, object]) -> None:
    assert rules(spec) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(resources({"gpu": 1}), [f"limits.gpu: {NAMES}"], id="a device without its domain"),
        pytest.param(resources({"-": 1}), [f"limits.-: {NAME}"], id="no name"),
        pytest.param(resources({"storage": 1}), [f"limits.storage: {NAMES}"], id="a resource of claims"),
        pytest.param(
            resources({"requests.a/b": 1}),
            ["limits[requests.a/b]: must not begin with 'requests.', and be short enough to put that before it"],
            id="a name as quotas have it",
        ),
        pytest.param(resources({"cpu": "abc"}), [f"limits.cpu: {QUANTITY}"], id="no quantity"),
        pytest.param(resources({"cpu": "-1"}), ["limits.cpu: must be 0 or more"], id="negative"),
        pytest.param(resources({"a/b": "1.5"}), ["limits[a/b]: must be a whole number"], id="half a device"),
        pytest.param(
            resources({"cpu": "1"}, {"cpu": "2"}),
            ["requests.cpu: must not be above the limit, which is 1"],
            id="above the limit",
        ),
        pytest.param(
            resources({"a/b": 2}, {"a/b": 1}), ["requests[a/b]: must equal the limit, which is 2"], id="a device shared"
        ),
        pytest.param(
            resources(requests={"a/b": 1}),
            ["limits[a/b]: is required, because a/b cannot be overcommitted"],
            id="a device without a limit",
        ),
        pytest.param(
            resources({"a/b": "x"}, {"a/b": 1}), [f"limits[a/b]: {QUANTITY}"], id="a device with a limit that is none"
        ),
        pytest.param(
            resources({"cpu": 1, "hugepages-2Mi": "3Mi"}),
            ["limits.hugepages-2Mi: must be a multiple of the page size in hugepages-2Mi"],
            id="half a page",
        ),
        pytest.param(
            resources({"cpu": 1, "hugepages-0": "3Mi", "hugepages-x": 1, "hugepages-1m": 1}),
            [
                f"limits.hugepages-{size}: must be a multiple of the page size in hugepages-{size}"
                for size in ("0", "x", "1m")
            ],
            id="pages of no size",
        ),
        pytest.param(resources(claims=[{}]), ["claims[0].name: is required"], id="a claim without a name"),
        pytest.param(
            resources(claims=[{"name": "a", "request": "X"}]),
            [f"claims[0].request: {LABEL}", "claims[0].name: must be a name in the pod's resourceClaims"],
            id="a claim that the pod has not",
        ),
    ],
)
def test_refused(spec: dict[str, object], expected: list[str]) -> None:
    assert rules(spec) == [f"spec.containers[0].resources.{text}" for text in expected]


def test_huge_pages_alone() -> None:
    message = "huge pages need a request or limit of cpu or memory beside them"
    assert rules(resources({"hugepages-2Mi": "2Mi"})) == [f"spec.containers[0].resources: {message}"]
    assert rules(pod(overhead={"hugepages-2Mi": "2Mi"})) == [f"spec.overhead: {message}"]


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        pytest.param([{"name": "a"}, {"name": "a"}], [1], id="the whole twice"),
        pytest.param([{"name": "a"}, {"name": "a", "request": "x"}], [1], id="the whole and a part"),
        pytest.param([{"name": "a", "request": "x"}, {"name": "a"}], [1], id="a part and the whole"),
        pytest.param([{"name": "a", "request": "x"}, {"name": "a", "request": "x"}], [1], id="a part twice"),
    ],
)
def test_a_claim_twice(claims: list[object], expected: list[int]) -> None:
    spec = resources(claims=claims, resourceClaims=[{"name": "a", "resourceClaimName": "c"}])
    assert rules(spec) == [f"spec.containers[0].resources.claims[{index}].name: is claimed twice" for index in expected]


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        pytest.param({"gpu": 1}, "did you mean nvidia.com/gpu?", id="gpu"),
        pytest.param({"memroy": 1}, "did you mean memory?", id="typo"),
        pytest.param({"memory": "8GB"}, "did you mean 8G?", id="GB"),
        pytest.param({"memory": "8 gib"}, "did you mean 8Gi?", id="gib with a space"),
        pytest.param({"memory": "8X"}, "", id="no such unit"),
        pytest.param({"memory": "much"}, "", id="no number"),
    ],
)
def test_hints(limits: object, expected: str) -> None:
    assert hints(resources(limits)) == [expected]


def test_a_name_too_long_for_quotas() -> None:
    assert container_resource_error(f"{'a' * 245}/b") != ""
    assert container_resource_error(f"{'a' * 244}/b") == ""


def whole(requests: object = None, limits: object = None, **spec: object) -> dict[str, object]:
    return pod(resources={"requests": requests, "limits": limits}, **spec)


def asking(name: str = "main", requests: object = None, limits: object = None, **fields: object) -> dict[str, object]:
    return container(name=name, resources={"requests": requests, "limits": limits}, **fields)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(
            whole({"cpu": 2}, {"cpu": 4, "memory": "1Gi"}, containers=[asking(requests={"cpu": 2})]), id="enough"
        ),
        pytest.param(whole({"memory": 1}, containers=[asking(requests={"cpu": 2})]), id="another resource"),
        pytest.param(
            whole({"cpu": 3}, containers=[asking(requests={"cpu": 2})], initContainers=[asking("i", {"cpu": 3})]),
            id="init containers run before the others",
        ),
        pytest.param(pod(overhead={"cpu": "10m"}), id="overhead"),
        pytest.param(
            whole({"hugepages-2Mi": "4Mi", "cpu": 1}, {"hugepages-2Mi": "4Mi"}, containers=[asking()]), id="huge pages"
        ),
    ],
)
def test_a_whole_pod_is_fine(spec: dict[str, object]) -> None:
    assert rules(spec) == []


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            pod(overhead={"gpu": "x"}), [f"overhead.gpu: {NAMES}", f"overhead.gpu: {QUANTITY}"], id="overhead"
        ),
        pytest.param(
            whole({"a/b": 1}, {"a/b": 1}),
            [
                f"resources.{key}[a/b]: must be cpu, memory or hugepages-<size> for a whole pod"
                for key in ("limits", "requests")
            ],
            id="a device",
        ),
        pytest.param(
            pod(resources={"claims": [{"name": "a"}]}),
            ["resources.claims: belong to a container, not to the whole pod"],
            id="claims",
        ),
        pytest.param(
            whole({"cpu": 3}, containers=[asking(requests={"cpu": 2}), asking("b", limits={"cpu": 2})]),
            [f"resources.requests.cpu: {TOGETHER} 4"],
            id="too little for all; a limit is a request too",
        ),
        pytest.param(
            whole({"cpu": 1}, initContainers=[asking("i", {"cpu": 2})]),
            [f"resources.requests.cpu: {TOGETHER} 2"],
            id="too little for an init container",
        ),
        pytest.param(
            whole(
                {"cpu": 3},
                containers=[asking(requests={"cpu": 1})],
                initContainers=[asking("s", {"cpu": 2}, restartPolicy="Always"), asking("i", {"cpu": 2})],
            ),
            [f"resources.requests.cpu: {TOGETHER} 4"],
            id="a sidecar runs beside the init containers after it",
        ),
        pytest.param(
            whole(None, {"cpu": 1}, containers=[asking(limits={"cpu": 2, "memory": 1})]),
            ["containers[0].resources.limits.cpu: must not be above the pod's limit, which is 1"],
            id="a container above the pod",
        ),
        pytest.param(
            whole(
                {"cpu": 1, "hugepages-2Mi": "4Mi"},
                {"hugepages-2Mi": "4Mi"},
                containers=[
                    asking(limits={"hugepages-2Mi": "4Mi", "cpu": "1m"}),
                    asking("b", limits={"hugepages-2Mi": "2Mi", "cpu": "1m"}),
                ],
            ),
            [
                f"resources.requests.hugepages-2Mi: {TOGETHER} 6Mi",
                "resources.limits.hugepages-2Mi: must not be below the containers' limits together, which are 6Mi",
            ],
            id="huge pages",
        ),
    ],
)
def test_a_whole_pod_is_refused(spec: dict[str, object], expected: list[str]) -> None:
    assert rules(spec) == [f"spec.{text}" for text in expected]
