"""svc: lets the pods of a job find each other by name.

Creates a headless Service (so that `<pod>.<job>` resolves), a ConfigMap with the hosts of every task and, on request, a
NetworkPolicy that admits only pods of the job. Every container and init container gets the hosts as files in
/etc/volcano and as VC_<TASK>_HOSTS and VC_<TASK>_NUM; every pod gets the host name and subdomain of its DNS name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from pumice.model import keys, naming
from pumice.model.findings import SPEC, Finding, warning
from pumice.model.job import Job, Manifest, TaskSpec
from pumice.model.objects import owned
from pumice.model.pod import EnvVar, Pod
from pumice.model.slot import Slot
from pumice.plugins.base import Base, option
from pumice.plugins.limits import LONGEST_VARIABLE

MOUNT_PATH: Final = "/etc/volcano"


@dataclass(frozen=True, slots=True)
class Svc(Base):
    name: ClassVar[str] = "svc"
    summary: ClassVar[str] = "lets the pods of a job find each other by name"
    example: ClassVar[tuple[str, ...]] = ("--disable-network-policy=false",)

    publish_not_ready_addresses: bool = option(True, "names resolve before the pods are ready")
    disable_network_policy: bool = option(True, "false: only pods of this job may connect to its pods")
    inject_hosts_env: bool = option(True, "give the hosts as variables, besides the files in /etc/volcano")

    def check(self, job: Job) -> Iterator[Finding]:
        for position, task in enumerate(job.spec.tasks):
            if self.inject_hosts_env and not _fits_a_variable(job, task):
                yield warning(
                    SPEC / "tasks" / position / "replicas",
                    f"{_variable(task, 'HOSTS')} would be longer than {LONGEST_VARIABLE // 1000} KB and is left out; "
                    f"the hosts are in {MOUNT_PATH}/{naming.task_key(task.name)}.host",
                    task.replicas,
                )

    def objects(self, job: Job) -> Iterator[Manifest]:
        selector = {keys.JOB_NAME: job.name, keys.JOB_NAMESPACE: job.namespace}
        headless = {
            "clusterIP": "None",
            "selector": selector,
            "publishNotReadyAddresses": self.publish_not_ready_addresses,
        }
        yield owned(job, "v1", "Service", naming.service(job.name), {"spec": headless})
        yield owned(job, "v1", "ConfigMap", naming.hosts_config_map(job.name), {"data": _host_files(job)})
        if not self.disable_network_policy:
            pods = {"matchLabels": selector}
            policy = {"podSelector": pods, "ingress": [{"from": [{"podSelector": pods}]}], "policyTypes": ["Ingress"]}
            name = naming.network_policy(job.name)
            yield owned(job, "networking.k8s.io/v1", "NetworkPolicy", name, {"spec": policy})

    def shape_pod(self, pod: Pod, slot: Slot) -> Pod:
        name = naming.hosts_config_map(slot.job.name)
        if self.inject_hosts_env:
            pod = pod.with_env(slot.job.derived("svc env", _host_variables))
        pod = pod.with_defaults({"hostname": slot.hostname, "subdomain": slot.subdomain})
        return pod.with_volume({"name": name, "configMap": {"name": name}}, [{"name": name, "mountPath": MOUNT_PATH}])

    def why(self, slot: Slot) -> Mapping[str, str]:
        name = naming.hosts_config_map(slot.job.name)
        reasons = {
            "hostname": "so that the pod's name resolves",
            "subdomain": f"the headless Service {naming.service(slot.job.name)}",
            f"volume {name}": "host files, one a task",
            f"mount {MOUNT_PATH}": "host files, one a task",
        }
        for task in slot.job.spec.tasks:
            reasons[f"env {_variable(task, 'HOSTS')}"] = f"from ConfigMap {name}"
            reasons[f"env {_variable(task, 'NUM')}"] = f"from ConfigMap {name}"
        return reasons


def _variable(task: TaskSpec, what: str) -> str:
    return f"VC_{naming.task_key(task.name).upper()}_{what}"


def _host_files(job: Job) -> dict[str, str]:
    data = {}
    for task in job.spec.tasks:
        hosts = naming.hosts(job, task)
        data[f"{naming.task_key(task.name)}.host"] = "\n".join(hosts)
        data[_variable(task, "HOSTS")] = ",".join(hosts)
        data[_variable(task, "NUM")] = str(len(hosts))
    return data


def _host_variables(job: Job) -> list[EnvVar]:
    config_map = naming.hosts_config_map(job.name)
    names = []
    for task in job.spec.tasks:
        if _fits_a_variable(job, task):
            names.append(_variable(task, "HOSTS"))
        names.append(_variable(task, "NUM"))
    return [{"name": name, "valueFrom": {"configMapKeyRef": {"name": config_map, "key": name}}} for name in names]


def _fits_a_variable(job: Job, task: TaskSpec) -> bool:
    return len(",".join(naming.hosts(job, task))) <= LONGEST_VARIABLE
