from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pumice.model.job import Job, Manifest
from pumice.model.pod import Pod
from pumice.model.slot import Slot
from pumice.model.vocabulary import COSCHEDULING, GANG_PROVIDERS, NATIVE, NO_GANG, VOLCANO, GangProvider
from pumice.plugins.base import PluginError
from pumice.plugins.provenance import trace_pod
from pumice.plugins.shaping import shaped_pod
from pumice.reconcile.gangs import GangMembership, decisive_part, group_names, pod_group, pod_groups
from tests.builders import OWNER, UID, a_container, a_job, a_slot, a_task, a_template

KUBE_KEY, VOLCANO_KEY = "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"
LABEL = "scheduling.x-k8s.io/pod-group"
NAME = f"train-{UID}"


def with_priorities(tasks: dict[str, tuple[int, str]], **fields: Any) -> Job:
    """A job with tasks of so many pods of a priority class; without `min_available` all of them start together."""
    made = [
        a_task(name, count, a_template(**({"priorityClassName": priority} if priority else {})))
        for name, (count, priority) in tasks.items()
    ]
    return a_job(*made, **{"min_available": sum(count for count, _ in tasks.values()), **fields})


def specs(job: Job, provider: GangProvider, may_start: frozenset[str] | None = None) -> dict[str, Manifest]:
    groups = pod_groups(job, provider, may_start=may_start)
    return {group["metadata"]["name"].removeprefix(NAME): group["spec"] for group in groups}


def gang_of(count: int, priority: str = "") -> Manifest:
    named = {"priorityClassName": priority} if priority else {}
    return {"schedulingPolicy": {"gang": {"minCount": count}} if count else {"basic": {}}, **named}


MIXED = {"master": (2, "high"), "worker": (4, "low")}


@pytest.mark.parametrize(
    ("job", "may_start", "expected"),
    [
        pytest.param(
            with_priorities({"worker": (4, "")}, min_available=3), None, {"": gang_of(3)}, id="the job's minimum"
        ),
        pytest.param(
            with_priorities({"worker": (2, "")}, priority_class_name="high"),
            None,
            {"": gang_of(2, "high")},
            id="the job's priority class",
        ),
        pytest.param(
            with_priorities(MIXED),
            None,
            {"-0": gang_of(2, "high"), "-1": gang_of(4, "low")},
            id="each priority class has the minima of its tasks",
        ),
        pytest.param(
            with_priorities({"a": (1, "high"), "b": (1, ""), "c": (1, "high")}),
            None,
            {"-0": gang_of(2, "high"), "-1": gang_of(1)},
            id="tasks of the same priority class share a group",
        ),
        pytest.param(
            with_priorities(MIXED, min_available=3),
            None,
            {"-0": gang_of(2, "high"), "-1": gang_of(1, "low")},
            id="a smaller minimum is taken from the last",
        ),
        pytest.param(
            with_priorities(MIXED, min_available=2),
            None,
            {"-0": gang_of(2, "high"), "-1": gang_of(0, "low")},
            id="a group of 0 pods is no gang",
        ),
        pytest.param(
            with_priorities(MIXED),
            frozenset(("master",)),
            {"-0": gang_of(2, "high"), "-1": gang_of(0, "low")},
            id="a task that dependsOn holds back",
        ),
    ],
)
def test_native_groups(job: Job, may_start: frozenset[str] | None, expected: dict[str, Manifest]) -> None:
    assert specs(job, NATIVE, may_start) == expected


def test_a_coscheduling_group_holds_resources_of_nodes_only() -> None:
    resources = {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}, "limits": {"cpu": "1"}}
    job = a_job(a_task("worker", 2, a_template(a_container(resources=resources))), min_available=2)
    assert specs(job, COSCHEDULING) == {
        "": {"minMember": 2, "minResources": {"cpu": "2", "nvidia.com/gpu": "2"}},
    }


def test_a_coscheduling_group_has_at_least_one_member() -> None:
    assert specs(a_job(min_available=0), COSCHEDULING)[""]["minMember"] == 1


@pytest.mark.parametrize("provider", [NATIVE, COSCHEDULING], ids=lambda provider: provider.name)
def test_a_group_keeps_volcano_s_spec_in_an_annotation(provider: GangProvider) -> None:
    job = a_job(min_available=1, metadata={"labels": {"team": "a"}, "annotations": {"note": "b"}})
    [group] = pod_groups(job, provider)
    [note] = group["metadata"].pop("annotations").values()
    assert msgspec.json.decode(note) == pod_group(job)["spec"]
    assert {key: value for key, value in group.items() if key != "spec"} == {
        "apiVersion": provider.api_version,
        "kind": "PodGroup",
        "metadata": {"name": NAME, "namespace": job.namespace, "ownerReferences": [OWNER]},
    }


def test_volcano_s_group_is_the_core_s_own() -> None:
    job = a_job(min_available=1)
    assert pod_groups(job, VOLCANO) == [pod_group(job)]
    assert pod_groups(job, NO_GANG) == []


@pytest.mark.parametrize("provider", GANG_PROVIDERS.values(), ids=lambda provider: provider.name)
def test_the_names_are_those_of_the_groups(provider: GangProvider) -> None:
    job = with_priorities(MIXED)
    assert group_names(job, provider) == [group["metadata"]["name"] for group in pod_groups(job, provider)]


def test_a_name_that_is_too_long_for_a_label_is_the_uid() -> None:
    job = a_job(metadata={"name": "long" * 10, "uid": UID})
    assert group_names(job, COSCHEDULING) == [UID]
    assert group_names(job, VOLCANO) == [f"{'long' * 10}-{UID}"]
    assert pod_of(job, COSCHEDULING).manifest["metadata"]["labels"][LABEL] == UID


def pod_of(job: Job, provider: GangProvider, task: str = "worker") -> Pod:
    return shaped_pod(a_slot(job, task), [GangMembership(provider)])


@pytest.mark.parametrize(
    ("provider", "scheduler", "group", "label"),
    [
        pytest.param(VOLCANO, "volcano", None, None, id="volcano"),
        pytest.param(NATIVE, "default-scheduler", {"podGroupName": NAME}, None, id="native"),
        pytest.param(COSCHEDULING, "scheduler-plugins-scheduler", None, NAME, id="coscheduling"),
        pytest.param(NO_GANG, "default-scheduler", None, None, id="none"),
    ],
)
def test_pods_are_members(provider: GangProvider, scheduler: str, group: Manifest | None, label: str | None) -> None:
    pod = pod_of(a_job(), provider)
    assert pod.spec["schedulerName"] == scheduler
    assert pod.spec.get("schedulingGroup") == group
    assert pod.manifest["metadata"]["labels"].get(LABEL) == label
    own = pod_of(a_job(a_task("worker", 1, a_template(schedulerName="mine"))), provider)
    assert own.spec["schedulerName"] == "mine"


@pytest.mark.parametrize("provider", GANG_PROVIDERS.values(), ids=lambda provider: provider.name)
@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param({}, {KUBE_KEY: NAME}, id="neither"),
        pytest.param({KUBE_KEY: "other"}, {KUBE_KEY: NAME}, id="kubernetes"),
        pytest.param({VOLCANO_KEY: "other"}, {KUBE_KEY: NAME, VOLCANO_KEY: NAME}, id="volcano"),
        pytest.param({VOLCANO_KEY: ""}, {KUBE_KEY: NAME, VOLCANO_KEY: NAME}, id="empty"),
        pytest.param({KUBE_KEY: "a", VOLCANO_KEY: "b"}, {KUBE_KEY: NAME, VOLCANO_KEY: NAME}, id="both"),
    ],
)
def test_a_template_cannot_name_the_group_of_another_job(
    provider: GangProvider, written: dict[str, str], expected: dict[str, str]
) -> None:
    template = {**a_template(), "metadata": {"annotations": written}}
    annotations = pod_of(a_job(a_task("worker", 1, template)), provider).annotations
    assert {key: value for key, value in annotations.items() if key.endswith("/group-name")} == expected


def test_what_membership_adds_is_explained() -> None:
    traces = {trace.kind: trace for trace in trace_pod(a_slot(a_job(), "worker"), 0, [GangMembership(NATIVE)])}
    added = {
        kind: (traces[kind].value, traces[kind].by, traces[kind].why) for kind in ("schedulerName", "schedulingGroup")
    }
    assert added == {
        "schedulerName": ("default-scheduler", "gang", "--gang native, in place of volcano"),
        "schedulingGroup": (NAME, "gang", "the PodGroup that the pod starts with"),
    }


@pytest.mark.parametrize(
    ("priorities", "fields", "expected"),
    [
        pytest.param(("", ""), {}, ["", ""], id="one priority"),
        pytest.param(("high", "", "high"), {}, ["-0", "-1", "-0"], id="two priorities"),
        pytest.param(("high", ""), {"priority_class_name": "high"}, ["", ""], id="the job's own"),
    ],
)
def test_pods_name_the_native_group_of_their_priority(
    priorities: tuple[str, ...], fields: dict[str, str], expected: list[str]
) -> None:
    job = with_priorities({f"t{number}": (1, priority) for number, priority in enumerate(priorities)}, **fields)
    pods = [pod_of(job, NATIVE, task.name) for task in job.spec.tasks]
    assert [pod.spec["schedulingGroup"]["podGroupName"] for pod in pods] == [NAME + ending for ending in expected]


def test_a_priority_that_no_task_has_is_an_error_of_the_plugins() -> None:
    job = a_job(plugins={"mine": [], "svc": []})
    slot = Slot(job, job.spec.tasks[0], 0)
    pod = shaped_pod(slot, ())
    changed = Pod({**pod.manifest, "spec": {**pod.spec, "priorityClassName": "other"}})
    with pytest.raises(PluginError, match="plugin mine or svc failed: pod train-worker-0 has priorityClassName other"):
        GangMembership(NATIVE).shape_pod(changed, slot)


def test_fields_that_a_server_may_drop_are_not_compared() -> None:
    job = with_priorities({"worker": (2, "high")})
    [native], [coscheduling] = pod_groups(job, NATIVE), pod_groups(job, COSCHEDULING)
    assert decisive_part(native, NATIVE)["spec"] == {"schedulingPolicy": {"gang": {"minCount": 2}}}
    assert decisive_part(coscheduling, COSCHEDULING) == {
        "metadata": {"annotations": coscheduling["metadata"]["annotations"]},
        "spec": {"minMember": 2},
    }
    assert decisive_part(pod_group(job), VOLCANO) == {"spec": pod_group(job)["spec"]}
