"""What holds for every job: nothing is lost or changed in place, nothing raises, the same in gives the same out."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings

from pumice.admission.admit import Admitted, admit
from pumice.model.bare_pod import bare_pod
from pumice.model.codec import decode
from pumice.model.job import Job, Manifest
from pumice.model.objects import KeyPair, Once, claims
from pumice.model.slot import slots
from pumice.plugins.registry import Registry
from pumice.plugins.shaping import owned_objects, pods, shaped_pod
from pumice.reconcile.gangs import pod_group
from tests.builders import NAMESPACE, UID, a_context
from tests.strategies import any_documents, good_documents, wild_documents

CONTEXT = a_context()


def placed(job: Job) -> Job:
    """The job as an API server would have stored it."""
    return msgspec.structs.replace(job, metadata=msgspec.structs.replace(job.metadata, namespace=NAMESPACE, uid=UID))


def rendered(admitted: Admitted) -> list[Manifest]:
    job = placed(admitted.job)
    made = owned_objects(job, admitted.plugins)
    objects = [
        extra_object.created_with(lambda kind: KeyPair(kind, kind)) if isinstance(extra_object, Once) else extra_object
        for extra_object in made
    ]
    return [*objects, *claims(job), pod_group(job), *(pod.manifest for pod in pods(job, admitted.plugins))]


def all_containers(manifest: Manifest) -> Iterator[Manifest]:
    for field in ("containers", "initContainers"):
        yield from manifest["spec"].get(field) or []


@given(good_documents())
def test_plugins_change_nothing_in_place(document: Manifest) -> None:
    admitted = admit(document, CONTEXT)
    job = placed(admitted.job)
    before = copy.deepcopy(msgspec.to_builtins(job))
    for slot in slots(job):
        pod = bare_pod(slot)
        for plugin in admitted.plugins:
            was = copy.deepcopy(pod.manifest)
            after = plugin.shape_pod(pod, slot)
            assert pod.manifest == was
            pod = after
    list(owned_objects(job, admitted.plugins))
    assert msgspec.to_builtins(job) == before


@given(good_documents())
def test_the_same_job_gives_the_same_bytes(document: Manifest) -> None:
    first, second = (rendered(admit(copy.deepcopy(document), CONTEXT)) for _ in range(2))
    assert json.dumps(first) == json.dumps(second)


@given(good_documents())
def test_nothing_is_duplicated_in_a_container(document: Manifest) -> None:
    admitted = admit(document, CONTEXT)
    for pod in pods(placed(admitted.job), admitted.plugins):
        for container in all_containers(pod.manifest):
            for field, key in (("env", "name"), ("volumeMounts", "mountPath"), ("ports", "containerPort")):
                found = [entry[key] for entry in container.get(field) or []]
                assert len(found) == len(set(found))
            names = [port["name"] for port in container.get("ports") or [] if "name" in port]
            assert len(names) == len(set(names))
        for field in ("volumes", "containers", "initContainers"):
            found = [entry["name"] for entry in pod.spec.get(field) or []]
            assert len(found) == len(set(found))


@given(good_documents())
def test_what_the_user_wrote_stays_where_it_was(document: Manifest) -> None:
    admitted = admit(document, CONTEXT)
    job = placed(admitted.job)
    for slot in slots(job):
        pod = shaped_pod(slot, admitted.plugins)
        written = slot.task.template["spec"]
        for field in ("containers", "initContainers"):
            for own, made in zip(written.get(field) or [], pod.spec.get(field) or [], strict=False):
                assert_kept(own, made)
        assert pod.spec["volumes"][: len(written["volumes"])] == written["volumes"]
        for field in ("hostname", "subdomain", "restartPolicy"):
            assert pod.spec.get(field) == written.get(field) or field not in written
        metadata: Any = slot.task.template.get("metadata") or {}
        for field, values in metadata.items():
            assert {**pod.manifest["metadata"][field], **values} == pod.manifest["metadata"][field]


def assert_kept(own: Manifest, made: Manifest) -> None:
    """Lists begin with what the user wrote; everything else is as it was."""
    for field, value in own.items():
        if isinstance(value, list):
            assert made[field][: len(value)] == value
        else:
            assert made[field] == value


@given(good_documents())
def test_a_valid_job_has_only_errors_of_its_plugins(document: Manifest) -> None:
    """Whatever the strategy builds is good, unless a plugin misses a task or its first pod, or two ports clash."""
    for finding in admit(document, CONTEXT).findings:
        of_plugin = ("as the plugins make it", "the workers need rank 0")
        assert (
            not finding.is_error or finding.path[1] == "plugins" or any(text in finding.message for text in of_plugin)
        )


def assert_admits(document: Any) -> None:
    admitted = admit(document, CONTEXT)
    for finding in admitted.findings:
        assert finding.path
        assert finding.message
    if admitted.is_good:
        json.dumps(rendered(admitted))


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(wild_documents())
def test_a_random_job_is_checked_and_rendered_if_valid(document: Manifest) -> None:
    assert_admits(document)


@given(any_documents)
def test_any_document_is_judged(document: Any) -> None:
    assert_admits(document)


@given(wild_documents())
def test_decoding_never_raises(document: Manifest) -> None:
    before = copy.deepcopy(document)
    decoded = decode(document, CONTEXT.kubernetes)
    assert document == before
    assert decoded.complete or decoded.findings


@pytest.mark.parametrize("name", list(Registry().plugins))
def test_a_plugin_s_example_is_accepted(name: str) -> None:
    kind = Registry().plugins[name]
    assert kind.parse(kind.example)[1] == []
    assert kind.summary
    assert all(option.help for option in kind.options())
