"""Jobs that got in without the webhook: the controller tells what is wrong with them and touches nothing else."""

from __future__ import annotations

import pytest

from tests.cluster.api import Api, Object, eventually
from tests.cluster.controllers import Controllers
from tests.cluster.jobs import a_job, reasons, state, status, until_phase
from tests.cluster.played_kubelet import PlayedKubelet


def _with_task(**fields: object) -> Object:
    job = a_job("bad")
    job["spec"]["tasks"][0] |= fields
    return job


def _with_metadata(**fields: object) -> Object:
    job = a_job("bad")
    job["metadata"] |= fields
    return job


BAD = {
    "an unknown plugin": a_job("bad", plugins={"pytorhc": []}),
    "a bad argument": a_job("bad", plugins={"svc": ["--publish-not-ready-addresses=maybe"]}),
    "an argument that is a script": a_job("bad", plugins={"pytorch": ["--master=$(reboot)", "--port=-1"]}),
    "a missing master": a_job("bad", plugins={"pytorch": ["--master=boss"]}),
    "two policies for one event": a_job("bad", policies=[{"event": "PodFailed", "action": "RestartJob"}] * 2),
    "a circle of tasks": _with_task(dependsOn={"name": ["worker"]}),
    "more than all must run": a_job("bad", minAvailable=99),
    "no containers": _with_task(template={"spec": {"containers": []}}),
    "a million pods": _with_task(replicas=1_000_000),
    "a name that is too long for pods": {**a_job("b" * 63)},
}


@pytest.mark.parametrize("job", [pytest.param(job, id=what) for what, job in BAD.items()])
def test_an_invalid_job_is_told_what_is_wrong_and_nothing_is_made(
    controllers: Controllers, api: Api, namespace: str, job: Object
) -> None:
    name = job["metadata"]["name"]
    with PlayedKubelet(controllers.cluster, namespace):
        controllers.start(namespace)
        api.create("Job", namespace, job)
        eventually("it is told", lambda: state(api, namespace, name).get("reason") == "InvalidJob")
        assert state(api, namespace, name)["phase"] == "Pending"
        assert (
            "spec." in state(api, namespace, name)["message"] or "metadata." in state(api, namespace, name)["message"]
        )
        # Others are served meanwhile.
        api.create("Job", namespace, a_job("good"))
        until_phase(api, namespace, "Running", "good")
        assert {pod["metadata"]["labels"]["volcano.sh/job-name"] for pod in api.list("Pod", namespace)} == {"good"}
        eventually("it is told once", lambda: reasons(api, namespace, name) == ["InvalidJob"])


def test_all_findings_are_told_at_once_and_a_job_that_is_put_right_runs(
    controllers: Controllers, api: Api, namespace: str
) -> None:
    with PlayedKubelet(controllers.cluster, namespace):
        controllers.start(namespace)
        job = a_job(minAvailable=7, plugins={"env": [], "sv": []})
        api.create("Job", namespace, job)
        eventually("it is told", lambda: state(api, namespace).get("reason") == "InvalidJob")
        message = state(api, namespace)["message"]
        assert "spec.minAvailable" in message
        assert "spec.plugins.sv" in message
        api.patch("Job", namespace, "train", {"spec": {"minAvailable": 2, "plugins": {"sv": None}}})
        until_phase(api, namespace, "Running")
        assert state(api, namespace).get("reason", "") == ""


def test_a_running_job_that_is_made_invalid_keeps_its_phase_and_pods(
    controllers: Controllers, api: Api, namespace: str
) -> None:
    with PlayedKubelet(controllers.cluster, namespace) as kubelet:
        controllers.start(namespace)
        api.create("Job", namespace, a_job())
        until_phase(api, namespace, "Running")
        api.patch("Job", namespace, "train", {"spec": {"plugins": {"nonsense": []}}})
        eventually("it is told", lambda: state(api, namespace).get("reason") == "InvalidJob")
        assert state(api, namespace)["phase"] == "Running"
        assert len(api.list("Pod", namespace)) == 2
        assert kubelet.created == 2


HOSTILE = {
    "200 KB of annotations": _with_metadata(annotations={"noise": "x" * (200 * 1024)}),
    "labels with every sign": _with_metadata(labels={"a.b/c-d_e.f": "A_b.c-9", "volcano.sh/job-name": "other"}),
    "a label that pretends": _with_task(
        template={
            "metadata": {
                "labels": {"volcano.sh/job-name": "victim", "volcano.sh/task-index": "7"},
                "annotations": {"volcano.sh/job-version": "9" * 40, "volcano.sh/task-index": "-1"},
            },
            "spec": a_job()["spec"]["tasks"][0]["template"]["spec"],
        }
    ),
    "a status of its own": {**a_job("bad"), "status": {"state": {"phase": "Completed"}, "version": 7}},
    "an annotation as Pumice would write it": _with_metadata(annotations={"pumice/pod-group": "{"}),
}


@pytest.mark.parametrize("job", [pytest.param(job, id=what) for what, job in HOSTILE.items()])
def test_a_hostile_job_harms_nobody(controllers: Controllers, api: Api, namespace: str, job: Object) -> None:
    with PlayedKubelet(controllers.cluster, namespace):
        controllers.start(namespace)
        api.create("Job", namespace, a_job("victim"))
        api.create("Job", namespace, job)
        until_phase(api, namespace, "Running", "victim")
        eventually("it runs, too", lambda: status(api, namespace, "bad").get("running") == 2)
        assert status(api, namespace, "victim")["running"] == 2
        pods = api.list("Pod", namespace, "volcano.sh/job-name=victim")
        assert [pod["metadata"]["name"] for pod in pods] == ["victim-worker-0", "victim-worker-1"]


def test_pods_that_pretend_to_belong_to_a_job_are_nobody_s(controllers: Controllers, api: Api, namespace: str) -> None:
    with PlayedKubelet(controllers.cluster, namespace):
        controllers.start(namespace)
        api.create("Job", namespace, a_job())
        until_phase(api, namespace, "Running")
        pod = {
            "metadata": {
                "name": "stranger",
                "labels": {"volcano.sh/job-name": "train"},
                "annotations": {"volcano.sh/task-spec": "worker", "volcano.sh/task-index": "1" * 5000},
            },
            "spec": {"containers": [{"name": "main", "image": "busybox"}]},
        }
        api.create("Pod", namespace, pod)
        eventually("it runs", lambda: api.get("Pod", namespace, "stranger")["status"]["phase"] == "Running")
        assert status(api, namespace)["running"] == 2
        api.create("Job", namespace, a_job("next"))
        until_phase(api, namespace, "Running", "next")
        assert api.get("Pod", namespace, "stranger")["status"]["phase"] == "Running"
