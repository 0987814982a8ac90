"""What is filled in, both as a Job and as a JSON patch of the raw object: the two must never disagree."""

from __future__ import annotations

import itertools
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.admission.defaults import patch, with_defaults, with_first_min_available
from pumice.model.codec import decode
from pumice.model.job import Job, JobStatus, Manifest
from pumice.plugins.registry import Registry
from pumice.runtime.kubernetes_types import kubernetes_types
from tests.builders import a_document, a_template

REGISTRY = Registry()


class LeftOut:
    """Not even null is written; the names of tests show it, so it needs one that is always the same."""

    def __repr__(self) -> str:
        return "left out"


LEFT_OUT = LeftOut()
# As the controller keeps it in status.controlledResources.
RECORDED = {"pumice/min-available": "4", "pumice/min-available/default0": "3"}


def job_of(document: Manifest) -> Job:
    decoded = decode(document, kubernetes_types().types)
    assert decoded.findings == ()
    return decoded.job


def filled(document: Manifest) -> Job:
    return with_defaults(job_of(document), REGISTRY)


def operations(document: Manifest) -> list[Manifest]:
    return patch(document, job_of(document), filled(document))


def applied(document: Manifest, steps: list[Manifest]) -> Manifest:
    """RFC 6902, as far as it is needed: `add` to members of objects."""
    # Not `deepcopy`, which would keep two tasks with one template sharing it.
    result: Manifest = json.loads(json.dumps(document))
    for step in steps:
        assert set(step) == {"op", "path", "value"}
        assert step["op"] == "add"
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
        target: Any = result
        for part in parents:
            target = target[int(part)] if isinstance(target, list) else target[part]
        assert isinstance(target, dict), "only members of objects are added"
        target[last] = step["value"]
    return result


def paths(steps: list[Manifest]) -> list[str]:
    return [step["path"] for step in steps]


def test_all_defaults_in_volcanos_order() -> None:
    document = a_document(
        plugins={"pytorch": []},
        tasks=[
            {"replicas": 2, "template": {"spec": {"hostNetwork": True, "containers": []}}},
            {"name": "worker", "replicas": 3},
        ],
    )
    assert operations(document) == [
        {"op": "add", "path": "/spec/queue", "value": "default"},
        {"op": "add", "path": "/spec/schedulerName", "value": "volcano"},
        {"op": "add", "path": "/spec/maxRetry", "value": 3},
        {"op": "add", "path": "/spec/tasks/0/name", "value": "default0"},
        {"op": "add", "path": "/spec/tasks/0/minAvailable", "value": 2},
        {"op": "add", "path": "/spec/tasks/0/maxRetry", "value": 3},
        {"op": "add", "path": "/spec/tasks/0/template/spec/dnsPolicy", "value": "ClusterFirstWithHostNet"},
        {"op": "add", "path": "/spec/tasks/1/minAvailable", "value": 3},
        {"op": "add", "path": "/spec/tasks/1/maxRetry", "value": 3},
        {"op": "add", "path": "/spec/minAvailable", "value": 5},
        {"op": "add", "path": "/spec/plugins/svc", "value": []},
    ]


# Each field either left out, written as nothing in one of the ways that there are, or set.
FIELDS: dict[str, list[object]] = {
    "queue": [LEFT_OUT, "", None, "fast"],
    "schedulerName": [LEFT_OUT, "", None, "other"],
    "maxRetry": [LEFT_OUT, 0, None, 7],
    "minAvailable": [LEFT_OUT, 0, None, 1],
}
DEFAULTS = {"queue": "default", "schedulerName": "volcano", "maxRetry": 3, "minAvailable": 1}


@pytest.mark.parametrize("values", list(itertools.product(*FIELDS.values())), ids=str)
def test_every_combination_of_a_jobs_own_fields(values: tuple[object, ...]) -> None:
    given_ = {name: value for name, value in zip(FIELDS, values, strict=True) if value is not LEFT_OUT}
    document = a_document(**given_)
    result = applied(document, operations(document))
    expected = {name: given_.get(name) or default for name, default in DEFAULTS.items()}
    assert {name: result["spec"][name] for name in DEFAULTS} == expected
    job = filled(document).spec
    assert (job.queue, job.scheduler_name, job.max_retry, job.min_available) == tuple(expected.values())


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        pytest.param({}, {"name": "default1", "minAvailable": 0, "maxRetry": 3}, id="nothing"),
        pytest.param({"replicas": 4}, {"name": "default1", "minAvailable": 4, "maxRetry": 3}, id="replicas"),
        pytest.param(
            {"name": None, "minAvailable": None, "maxRetry": None, "replicas": 4},
            {"name": "default1", "minAvailable": 4, "maxRetry": 3},
            id="nulls",
        ),
        pytest.param(
            {"name": "", "minAvailable": 0, "maxRetry": 0, "replicas": 4},
            {"name": "default1", "minAvailable": 0, "maxRetry": 3},
            id="a gang of none is kept",
        ),
        pytest.param(
            {"replicas": 6, "partitionPolicy": {"totalPartitions": 3, "partitionSize": 2, "minPartitions": 2}},
            {"name": "default1", "minAvailable": 4, "maxRetry": 3},
            id="partitions",
        ),
        pytest.param(
            {"replicas": 6, "partitionPolicy": {"totalPartitions": 3, "partitionSize": 2}},
            {"name": "default1", "minAvailable": 6, "maxRetry": 3},
            id="partitions without a least number",
        ),
        pytest.param(
            {"name": "a", "minAvailable": 2, "maxRetry": 5, "replicas": 4},
            {"name": "a", "minAvailable": 2, "maxRetry": 5},
            id="all set",
        ),
    ],
)
def test_fields_of_a_task(task: Manifest, expected: Manifest) -> None:
    document = a_document(tasks=[{"name": "first", "replicas": 1}, task])
    result = applied(document, operations(document))
    assert {name: result["spec"]["tasks"][1][name] for name in expected} == expected
    assert result["spec"]["minAvailable"] == 1 + expected["minAvailable"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"hostNetwork": True}, "ClusterFirstWithHostNet", id="left out"),
        pytest.param({"hostNetwork": True, "dnsPolicy": ""}, "ClusterFirstWithHostNet", id="empty"),
        pytest.param({"hostNetwork": True, "dnsPolicy": None}, "ClusterFirstWithHostNet", id="null"),
        pytest.param({"hostNetwork": True, "dnsPolicy": "Default"}, "Default", id="set"),
        pytest.param({"hostNetwork": False}, LEFT_OUT, id="no host network"),
        pytest.param({}, LEFT_OUT, id="nothing said"),
    ],
)
def test_names_of_the_cluster_on_the_hosts_network(spec: Manifest, expected: object) -> None:
    document = a_document(tasks=[{"name": "a", "template": {"spec": spec}}])
    result = applied(document, operations(document))
    assert result["spec"]["tasks"][0]["template"]["spec"].get("dnsPolicy", LEFT_OUT) == expected


@pytest.mark.parametrize("template", [LEFT_OUT, None, {}, {"spec": None}], ids=str)
def test_a_template_without_a_spec_is_left_alone(template: object) -> None:
    task = {"name": "a", "minAvailable": 1, "maxRetry": 1} | ({} if template is LEFT_OUT else {"template": template})
    document = a_document(tasks=[task])
    assert applied(document, operations(document))["spec"]["tasks"] == [task]


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        pytest.param({"pytorch": ["--port=1"]}, {"pytorch": ["--port=1"], "svc": []}, id="pytorch"),
        pytest.param({"tensorflow": []}, {"tensorflow": [], "svc": []}, id="tensorflow"),
        pytest.param({"mpi": []}, {"mpi": [], "svc": [], "ssh": []}, id="mpi"),
        pytest.param({"ray": []}, {"ray": [], "svc": []}, id="ray"),
        pytest.param({"svc": ["-x"], "mpi": []}, {"svc": ["-x"], "mpi": [], "ssh": []}, id="some of them there"),
        pytest.param({"env": None}, {"env": None}, id="null stays null"),
        pytest.param({"unheard/of~": []}, {"unheard/of~": []}, id="unknown"),
        pytest.param({}, {}, id="empty"),
        pytest.param(None, None, id="null"),
    ],
)
def test_plugins_that_others_need(plugins: object, expected: object) -> None:
    document = a_document(plugins=plugins)
    assert applied(document, operations(document))["spec"]["plugins"] == expected


def test_without_plugins_none_are_added() -> None:
    document = a_document()
    assert "plugins" not in applied(document, operations(document))["spec"]


def test_names_in_paths_are_escaped() -> None:
    class Needy(REGISTRY.plugins["svc"]):  # type: ignore[misc, name-defined]  # the class is looked up on purpose
        requires = ("a/b~c",)

    registry = Registry({"needy": Needy})
    document = a_document(plugins={"needy": []})
    steps = patch(document, job_of(document), with_defaults(job_of(document), registry))
    assert paths(steps)[-1] == "/spec/plugins/a~1b~0c"
    assert applied(document, steps)["spec"]["plugins"] == {"needy": [], "a/b~c": []}


def test_another_scheduler_may_be_the_default() -> None:
    assert with_defaults(job_of(a_document()), REGISTRY, "other").spec.scheduler_name == "other"


@pytest.mark.parametrize(
    ("spec", "entries", "expected"),
    [
        pytest.param({}, {}, {"": 5, "default0": 5, "b": 0}, id="nothing is recorded"),
        pytest.param({}, RECORDED, {"": 4, "default0": 3, "b": 0}, id="recorded"),
        pytest.param({"minAvailable": 2}, RECORDED, {"": 2, "default0": 3, "b": 0}, id="written for the job"),
        pytest.param(
            {"minAvailable": 2},
            {**RECORDED, "pumice/min-available/default0": "9"},
            {"": 2, "default0": 5, "b": 0},
            id="written for the job: fewer replicas are possible",
        ),
        pytest.param({"least": 1}, RECORDED, {"": 4, "default0": 1, "b": 0}, id="written for a task"),
    ],
)
def test_a_default_that_was_recorded_does_not_change(
    spec: Manifest, entries: dict[str, str], expected: dict[str, int]
) -> None:
    own = {key: value for key, value in spec.items() if key == "minAvailable"}
    first: Manifest = {"replicas": 5, "template": a_template()}
    first |= {"minAvailable": spec["least"]} if "least" in spec else {}
    second = {"name": "b", "replicas": 0, "template": a_template()}
    job = job_of(a_document(tasks=[first, second], **own))
    job = msgspec.structs.replace(job, status=JobStatus(controlled_resources=entries))
    assert with_defaults(with_first_min_available(job), REGISTRY).all_min_available == expected


def test_nothing_to_do() -> None:
    document = a_document(plugins={"pytorch": []}, tasks=[{"replicas": 2}])
    assert operations(applied(document, operations(document))) == []


MAYBE_TEXT = st.sampled_from([LEFT_OUT, None, "", "x"])
MAYBE_NUMBER = st.sampled_from([LEFT_OUT, None, 0, 2])


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Manifest]:
    """Objects in which any field may be left out."""
    return st.fixed_dictionaries(fields).map(
        lambda values: {name: value for name, value in values.items() if value is not LEFT_OUT}
    )


TEMPLATES = st.sampled_from(
    [LEFT_OUT, None, {}, {"spec": {"hostNetwork": True, "x": [1]}}, {"spec": {"hostNetwork": True, "dnsPolicy": ""}}]
)
TASKS = objects(
    name=MAYBE_TEXT, replicas=MAYBE_NUMBER, minAvailable=MAYBE_NUMBER, maxRetry=MAYBE_NUMBER, template=TEMPLATES
)
SPECS = objects(
    queue=MAYBE_TEXT,
    schedulerName=MAYBE_TEXT,
    maxRetry=MAYBE_NUMBER,
    minAvailable=MAYBE_NUMBER,
    plugins=st.sampled_from([LEFT_OUT, None, {}, {"mpi": ["--port=1"]}, {"svc": None}]),
    tasks=st.lists(TASKS, max_size=3),
)


@given(SPECS)
def test_the_patched_object_is_the_defaulted_job(spec: Manifest) -> None:
    document = a_document(**spec)
    assert filled(document) == job_of(applied(document, operations(document)))


@given(SPECS)
def test_the_patch_touches_nothing_else(spec: Manifest) -> None:
    document = {**a_document(**spec), "status": {"x": 1}, "unknown": None}
    steps = patch(document, job_of(a_document(**spec)), filled(a_document(**spec)))
    patched = applied(document, steps)
    for step in reversed(steps):
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
        was: Any = document
        now: Any = patched
        for part in parents:
            was, now = (side[int(part)] if isinstance(side, list) else side[part] for side in (was, now))
        if last in was:
            now[last] = was[last]
        else:
            del now[last]
    assert json.dumps(patched) == json.dumps(document)
