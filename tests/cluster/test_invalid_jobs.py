"""Invalid Jobs that were created without the webhook: the controller reports the findings and does nothing else."""

from __future__ import annotations

import json
import re
from functools import partial

from tests.cluster.api import Api, Object, eventually, path_of
from tests.cluster.controllers import Controllers
from tests.cluster.fake_kubelet import FakeKubelet
from tests.cluster.jobs import a_job, reasons, state, status, until_phase


def _with_task(**fields: object) -> Object:
    job = a_job("bad")
    job["spec"]["tasks"][0] |= fields
    return job


def _with_metadata(**fields: object) -> Object:
    job = a_job("bad")
    job["metadata"] |= fields
    return job


INVALID = {
    "unknown plugin": a_job("bad", plugins={"pytorhc": []}),
    "invalid argument": a_job("bad", plugins={"svc": ["--publish-not-ready-addresses=maybe"]}),
    "shell code in an argument": a_job("bad", plugins={"pytorch": ["--master=$(reboot)", "--port=-1"]}),
    "missing master": a_job("bad", plugins={"pytorch": ["--master=boss"]}),
    "two policies for one event": a_job("bad", policies=[{"event": "PodFailed", "action": "RestartJob"}] * 2),
    "task that depends on itself": _with_task(dependsOn={"name": ["worker"]}),
    "minAvailable above replicas": a_job("bad", minAvailable=99),
    "no containers": _with_task(template={"spec": {"containers": []}}),
    "a million pods": _with_task(replicas=1_000_000),
    "name too long for pods": {**a_job("b" * 63)},
}


def _create_all(api: Api, namespace: str, jobs: dict[str, Object]) -> dict[str, str]:
    """Create the jobs with names of their own, and return the names."""
    names = {}
    for number, (what, job) in enumerate(jobs.items()):
        names[what] = f"{job['metadata']['name']}-{number}"[-63:]
        api.create("Job", namespace, {**job, "metadata": {**job["metadata"], "name": names[what]}})
    return names


def _with_pod(**fields: object) -> Object:
    job = a_job("bad")
    job["spec"]["tasks"][0]["template"]["spec"] |= fields
    return job


def _with_volume(**source: object) -> Object:
    return _with_pod(volumes=[{"name": "v", **source}])


_NODE = {"key": "metadata.name", "operator": "Exists"}
_BY_FIELD = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [_NODE]}]}}
# Pods that admission does not check, with the field that the API server names.
LEFT_TO_THE_SERVER = {
    "spec.hostPID": _with_pod(os={"name": "windows"}, hostPID=True),
    "gmsaCredentialSpecName": _with_pod(securityContext={"windowsOptions": {"gmsaCredentialSpecName": "A"}}),
    "spec.volumes[0].iscsi.iqn": _with_volume(iscsi={"targetPortal": "1.2.3.4", "iqn": "", "lun": 0}),
    "spec.volumes[0].fc.targetWWNs": _with_volume(fc={}),
    "spec.volumes[0].azureDisk": _with_volume(azureDisk={"diskName": "d", "diskURI": "x", "kind": "Managed"}),
    "spec.volumes[0].flexVolume": _with_volume(flexVolume={"driver": "a/b", "options": {"kubernetes.io/a": "b"}}),
    "matchFields[0].operator": _with_pod(affinity={"nodeAffinity": _BY_FIELD}),
}


def test_the_status_has_the_words_of_the_api_server_about_pods_that_only_it_refuses(
    controllers: Controllers, api: Api, namespace: str
) -> None:
    controllers.start(namespace)
    for field, name in _create_all(api, namespace, LEFT_TO_THE_SERVER).items():
        eventually(f"the status names {field}", partial(_says, api, namespace, name, field))
        found = state(api, namespace, name)
        assert (found["phase"], found["reason"]) == ("Pending", "FailedCreate"), field
        assert f'Pod "{name}-worker-0" is invalid' in found["message"]


def _says(api: Api, namespace: str, name: str, words: str) -> bool:
    return words in state(api, namespace, name).get("message", "")


def test_an_invalid_job_gets_findings_in_its_status_and_no_pods(
    controllers: Controllers, api: Api, namespace: str
) -> None:
    with FakeKubelet(controllers.cluster, namespace):
        controllers.start(namespace)
        for what, name in _create_all(api, namespace, INVALID).items():
            is_invalid = partial(_is_invalid, api, namespace, name)
            eventually(f"the status says InvalidJob: {what}", is_invalid)
            found = state(api, namespace, name)
            assert found["phase"] == "Pending", what
            assert "spec." in found["message"] or "metadata." in found["message"], what
            has_one_event = partial(_has_one_event, api, namespace, name)
            eventually(f"there is one event: {what}", has_one_event)
        # Other jobs are still served.
        api.create("Job", namespace, a_job("good"))
        until_phase(api, namespace, "Running", "good")
        assert {pod["metadata"]["labels"]["volcano.sh/job-name"] for pod in api.list("Pod", namespace)} == {"good"}


def _is_invalid(api: Api, namespace: str, name: str) -> bool:
    return bool(state(api, namespace, name).get("reason") == "InvalidJob")


def _has_one_event(api: Api, namespace: str, name: str) -> bool:
    return reasons(api, namespace, name) == ["InvalidJob"]


def test_the_status_has_all_findings_and_a_corrected_job_runs(
    controllers: Controllers, api: Api, namespace: str
) -> None:
    with FakeKubelet(controllers.cluster, namespace):
        controllers.start(namespace)
        job = a_job(minAvailable=7, plugins={"env": [], "sv": []})
        api.create("Job", namespace, job)
        eventually("the status says InvalidJob", lambda: state(api, namespace).get("reason") == "InvalidJob")
        message = state(api, namespace)["message"]
        assert "spec.minAvailable" in message
        assert "spec.plugins.sv" in message
        api.patch("Job", namespace, "train", {"spec": {"minAvailable": 2, "plugins": {"sv": None}}})
        until_phase(api, namespace, "Running")
        assert state(api, namespace).get("reason", "") == ""


def test_a_running_job_that_becomes_invalid_keeps_its_phase_and_pods(
    controllers: Controllers, api: Api, namespace: str
) -> None:
    with FakeKubelet(controllers.cluster, namespace) as kubelet:
        controllers.run_job(namespace, a_job())
        api.patch("Job", namespace, "train", {"spec": {"plugins": {"nonsense": []}}})
        eventually("the status says InvalidJob", lambda: state(api, namespace).get("reason") == "InvalidJob")
        assert state(api, namespace)["phase"] == "Running"
        assert len(api.list("Pod", namespace)) == 2
        assert kubelet.created == 2


def test_a_default_does_not_change_with_the_replicas(controllers: Controllers, api: Api, namespace: str) -> None:
    """No webhook fills in minAvailable: the controller remembers what it stood for, also after a restart."""

    def scale(replicas: int) -> None:
        operation = {"op": "replace", "path": "/spec/tasks/0/replicas", "value": replicas}
        path = path_of("Job", namespace, "train")
        api.call("PATCH", path, [operation], "application/json-patch+json")

    with FakeKubelet(controllers.cluster, namespace) as kubelet:
        first = controllers.start(namespace)
        api.create("Job", namespace, a_job(replicas=3))
        until_phase(api, namespace, "Running")
        scale(5)
        eventually("five pods run", lambda: status(api, namespace).get("running") == 5)
        assert status(api, namespace)["minAvailable"] == 3
        first.stop()
        scale(2)
        controllers.start(namespace)
        eventually("the status says InvalidJob", lambda: state(api, namespace).get("reason") == "InvalidJob")
        message = state(api, namespace)["message"]
        assert "spec.tasks[0].minAvailable: 3: must be at most 2, the replicas of the task" in message
        assert len(api.list("Pod", namespace)) == 5
        # What the message says to do.
        command = re.search(r"to lower it: kubectl -n (\S+) patch vcjob train --type=json -p '(.*)'", message)
        assert command is not None
        assert command[1] == namespace
        patch = json.loads(command[2])
        api.call("PATCH", path_of("Job", namespace, "train"), patch, "application/json-patch+json")
        eventually("two pods run", lambda: status(api, namespace).get("running") == 2)
        assert (status(api, namespace)["minAvailable"], state(api, namespace).get("reason", "")) == (2, "")
        assert kubelet.created == 5


HOSTILE = {
    "200 KB of annotations": _with_metadata(annotations={"noise": "x" * (200 * 1024)}),
    "labels with all valid characters": _with_metadata(
        labels={"a.b/c-d_e.f": "A_b.c-9", "volcano.sh/job-name": "other"}
    ),
    "labels and annotations of another job": _with_task(
        template={
            "metadata": {
                "labels": {"volcano.sh/job-name": "victim", "volcano.sh/task-index": "7"},
                "annotations": {"volcano.sh/job-version": "9" * 40, "volcano.sh/task-index": "-1"},
            },
            "spec": a_job()["spec"]["tasks"][0]["template"]["spec"],
        }
    ),
    "status in the manifest": {**a_job("bad"), "status": {"state": {"phase": "Completed"}, "version": 7}},
    "malformed annotation of Pumice": _with_metadata(annotations={"pumice/pod-group": "{"}),
}


def test_a_hostile_job_affects_no_other_job(controllers: Controllers, api: Api, namespace: str) -> None:
    with FakeKubelet(controllers.cluster, namespace):
        controllers.start(namespace)
        api.create("Job", namespace, a_job("victim"))
        names = _create_all(api, namespace, HOSTILE)
        until_phase(api, namespace, "Running", "victim")
        for what, name in names.items():
            runs = partial(_runs, api, namespace, name)
            eventually(f"the hostile job runs: {what}", runs)
        assert status(api, namespace, "victim")["running"] == 2
        pods = api.list("Pod", namespace, "volcano.sh/job-name=victim")
        assert [pod["metadata"]["name"] for pod in pods] == ["victim-worker-0", "victim-worker-1"]


def _runs(api: Api, namespace: str, name: str) -> bool:
    return bool(status(api, namespace, name).get("running") == 2)


def test_pods_without_an_owner_are_ignored(controllers: Controllers, api: Api, namespace: str) -> None:
    with FakeKubelet(controllers.cluster, namespace):
        controllers.run_job(namespace, a_job())
        pod = {
            "metadata": {
                "name": "stranger",
                "labels": {"volcano.sh/job-name": "train"},
                "annotations": {"volcano.sh/task-spec": "worker", "volcano.sh/task-index": "1" * 5000},
            },
            "spec": {"containers": [{"name": "main", "image": "busybox"}]},
        }
        api.create("Pod", namespace, pod)
        eventually("the pod runs", lambda: api.get("Pod", namespace, "stranger")["status"]["phase"] == "Running")
        assert status(api, namespace)["running"] == 2
        api.create("Job", namespace, a_job("next"))
        until_phase(api, namespace, "Running", "next")
        assert api.get("Pod", namespace, "stranger")["status"]["phase"] == "Running"
