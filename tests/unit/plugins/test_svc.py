from __future__ import annotations

from itertools import accumulate

import msgspec
import pytest

from pumice.model.job import Job
from pumice.plugins.svc import Svc
from tests.builders import NAMESPACE, OWNER, a_container, a_job, a_slot, a_task, a_template, literal, rows, shaped

METADATA = {"namespace": NAMESPACE, "ownerReferences": [OWNER]}
SELECTOR = {"volcano.sh/job-name": "train", "volcano.sh/job-namespace": NAMESPACE}
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "train", **METADATA},
    "spec": {"clusterIP": "None", "selector": SELECTOR, "publishNotReadyAddresses": True},
}
MOUNT = {"name": "train-svc", "mountPath": "/etc/volcano"}
VOLUME = {"name": "train-svc", "configMap": {"name": "train-svc"}}


def config_map(data: dict[str, str]) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "train-svc", **METADATA}, "data": data}


def reference(name: str) -> dict[str, object]:
    return {"name": name, "valueFrom": {"configMapKeyRef": {"name": "train-svc", "key": name}}}


@pytest.mark.parametrize(
    ("job", "data"),
    [
        pytest.param(
            a_job(a_task("ps"), a_task("big-worker", 2)),
            {
                "ps.host": "train-ps-0.train",
                "VC_PS_HOSTS": "train-ps-0.train",
                "VC_PS_NUM": "1",
                "big_worker.host": "train-big-worker-0.train\ntrain-big-worker-1.train",
                "VC_BIG_WORKER_HOSTS": "train-big-worker-0.train,train-big-worker-1.train",
                "VC_BIG_WORKER_NUM": "2",
            },
            id="by task, dashes become underscores",
        ),
        pytest.param(
            a_job(a_task("a", 0)), {"a.host": "", "VC_A_HOSTS": "", "VC_A_NUM": "0"}, id="a task without pods"
        ),
        pytest.param(
            a_job(a_task("a", 3, a_template(hostname="box", subdomain="net"))),
            {"a.host": "box.net", "VC_A_HOSTS": "box.net", "VC_A_NUM": "1"},
            id="a fixed host name is one host",
        ),
        pytest.param(
            a_job(a_task("a", 0, a_template(hostname="box"))),
            {"a.host": "", "VC_A_HOSTS": "", "VC_A_NUM": "0"},
            id="a fixed host name without pods",
        ),
    ],
)
def test_service_and_hosts(job: Job, data: dict[str, str]) -> None:
    assert list(Svc().objects(job)) == [SERVICE, config_map(data)]


def test_arguments_reach_the_objects() -> None:
    svc, findings = Svc.parse(["--publish-not-ready-addresses=false", "--disable-network-policy=false"])
    service, _, policy = svc.objects(a_job())
    assert findings == []
    assert service["spec"]["publishNotReadyAddresses"] is False
    assert policy == {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "train", **METADATA},
        "spec": {
            "podSelector": {"matchLabels": SELECTOR},
            "ingress": [{"from": [{"podSelector": {"matchLabels": SELECTOR}}]}],
            "policyTypes": ["Ingress"],
        },
    }


def test_defect_23_no_network_policy_unless_asked_for() -> None:
    """Volcano makes one by default, which shuts out the clients of the ray plugin's own Service."""
    assert [made["kind"] for made in Svc.parse([])[0].objects(a_job())] == ["Service", "ConfigMap"]


def test_defect_24_the_hosts_follow_the_replicas() -> None:
    """Volcano writes the ConfigMap once while a job is pending: a third worker is missing from it."""
    job = a_job(a_task("worker", 2))
    task = msgspec.structs.replace(job.spec.tasks[0], replicas=3)
    grown = msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, tasks=[task]))
    before, after = (list(Svc().objects(version))[1]["data"]["VC_WORKER_NUM"] for version in (job, grown))
    assert (before, after) == ("2", "3")


def test_every_container_gets_names_hosts_and_files() -> None:
    own = {"name": "data", "mountPath": "/data"}
    template = a_template(
        a_container(env=literal(A="1"), volumeMounts=[own]), a_container("other"), initContainers=[a_container("init")]
    )
    pod = shaped(Svc(), a_job(a_task("ps"), a_task("worker", 2, template)), index=1)
    variables = [reference(name) for name in ("VC_PS_HOSTS", "VC_PS_NUM", "VC_WORKER_HOSTS", "VC_WORKER_NUM")]
    assert pod.spec == {
        "schedulerName": "volcano",
        "hostname": "train-worker-1",
        "subdomain": "train",
        "volumes": [VOLUME],
        "containers": [
            a_container(env=[*literal(A="1"), *variables], volumeMounts=[own, MOUNT]),
            a_container("other", env=variables, volumeMounts=[MOUNT]),
        ],
        "initContainers": [a_container("init", env=variables, volumeMounts=[MOUNT])],
    }


def test_without_variables_the_files_stay() -> None:
    pod = shaped(Svc(inject_hosts_env=False), a_job())
    assert pod.containers == [a_container(volumeMounts=[MOUNT])]


def test_names_of_the_template_stay() -> None:
    template = a_template(hostname="box", subdomain="net", volumes=[{"name": "train-svc", "emptyDir": {}}])
    pod = shaped(Svc(), a_job(a_task(template=template)))
    assert (pod.spec["hostname"], pod.spec["subdomain"]) == ("box", "net")
    assert pod.spec["volumes"] == [{"name": "train-svc", "emptyDir": {}}]


def test_hosts_that_no_variable_can_hold_are_left_out() -> None:
    job = a_job(a_task("ps"), a_task("worker", 5000))
    names = [variable["name"] for variable in shaped(Svc(), job).containers[0]["env"]]
    assert names == ["VC_PS_HOSTS", "VC_PS_NUM", "VC_WORKER_NUM"]
    assert rows(Svc().check(job)) == [
        (
            "warning",
            "spec.tasks[1].replicas",
            "VC_WORKER_HOSTS would be longer than 100 KB and is left out; the hosts are in /etc/volcano/worker.host",
        )
    ]
    assert list(Svc(inject_hosts_env=False).check(job)) == []
    assert list(Svc().check(a_job())) == []


def test_the_longest_hosts_that_fit_are_given() -> None:
    lengths = accumulate(len(f"train-worker-{index}.train,") for index in range(5000))
    most = max(replicas for replicas, length in enumerate(lengths, start=1) if length - 1 <= 100_000)
    assert list(Svc().check(a_job(a_task("worker", most)))) == []
    assert len(list(Svc().check(a_job(a_task("worker", most + 1))))) == 1


def test_why() -> None:
    assert Svc().why(a_slot(a_job())) == {
        "hostname": "so that the pod's name resolves",
        "subdomain": "the headless Service train",
        "volume train-svc": "host files, one a task",
        "mount /etc/volcano": "host files, one a task",
        "env VC_WORKER_HOSTS": "from ConfigMap train-svc",
        "env VC_WORKER_NUM": "from ConfigMap train-svc",
    }
