"""ray: starts a Ray cluster in the pods of a job.

Head and worker containers without a command of their own get the `ray start` command that joins them to one cluster;
those with a command keep it and get RAY_ADDRESS. The head container opens its ports, and a Service `<job>-head-svc`
selects it. Other containers are unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from pumice.model import keys, naming
from pumice.model.findings import SPEC, Finding, Path, warning
from pumice.model.job import Job, Manifest, TaskSpec
from pumice.model.objects import owned
from pumice.model.pod import Pod, add_env, add_port, env_values
from pumice.model.slot import Slot
from pumice.model.text import some
from pumice.plugins.base import Base, option, port_option

ADDRESS: Final = "RAY_ADDRESS"


@dataclass(frozen=True, slots=True)
class Ray(Base):
    name: ClassVar[str] = "ray"
    summary: ClassVar[str] = "starts a Ray cluster in the pods of a job"
    requires: ClassVar[tuple[str, ...]] = ("svc",)
    example: ClassVar[tuple[str, ...]] = ("--head=head", "--worker=worker", "--port=6379")

    head: str = option("head", "task of the head")
    head_container: str = option("head", "container of the head", flag="headContainer")
    worker: str = option("worker", "task of the workers")
    worker_container: str = option("worker", "container of the workers", flag="workerContainer")
    port: int = port_option(6379, "port of the cluster's control service (GCS)")
    dashboard_port: int = port_option(8265, "port of the dashboard", flag="dashboardPort")
    client_port: int = port_option(10001, "port for Ray clients", flag="clientPort", aliases=("clientServerPort",))

    def check(self, job: Job) -> Iterator[Finding]:
        if job.task(self.head) is None:
            yield Finding(
                SPEC / "plugins" / self.name,
                f"no task is named {self.head!r}, so there would be no head",
                hint=f"name the task of the head with --head=<{some(job.task_names, '|')}>",
            )
        for position, task in enumerate(job.spec.tasks):
            wanted = self._container_of(task)
            if wanted is not None:
                at = SPEC / "tasks" / position / "template" / "spec" / "containers"
                yield from self._check_container(task, wanted, at)

    def objects(self, job: Job) -> Iterator[Manifest]:
        selector = {keys.JOB_NAME: job.name, keys.JOB_NAMESPACE: job.namespace, keys.TASK_SPEC: self.head}
        ports = [
            {"name": name, "protocol": "TCP", "port": number, "targetPort": self._target(job, name, number)}
            for name, number in self._ports.items()
        ]
        service = {"selector": selector, "ports": ports}
        yield owned(job, "v1", "Service", naming.ray_head_service(job.name), {"spec": service})

    def shape_pod(self, pod: Pod, slot: Slot) -> Pod:
        wanted, head = self._container_of(slot.task), slot.job.task(self.head)
        if wanted is None or head is None:
            return pod
        address = f"{naming.host(slot.job, head, 0)}:{self.port}"
        is_head = slot.task.name == self.head

        def edit(container: Manifest) -> Manifest:
            if container["name"] != wanted:
                return container
            if is_head:
                for name, number in self._ports.items():
                    container = add_port(container, name, number)
            if container.get("command"):
                return add_env(container, env_values({ADDRESS: address}))
            return {**container, "command": ["sh", "-c", self._start(None if is_head else address)]}

        return pod.edit_containers(edit, None)

    def why(self, slot: Slot) -> Mapping[str, str]:
        started = "starts the head" if slot.task.name == self.head else "joins the head"
        reasons = {f"port {number}": f"Ray's {name}" for name, number in self._ports.items()}
        return {**reasons, "command": started, f"env {ADDRESS}": "where the head is; your own command was kept"}

    @property
    def _ports(self) -> dict[str, int]:
        return {"gcs": self.port, "dashboard": self.dashboard_port, "client-server": self.client_port}

    def _container_of(self, task: TaskSpec) -> str | None:
        """Return the name of the task's Ray container, or None if the task is not part of the cluster."""
        return {self.worker: self.worker_container, self.head: self.head_container}.get(task.name)

    def _start(self, address: str | None) -> str:
        if address is not None:
            return f"ray start --block --address={address}"
        return (
            f"ray start --head --block --dashboard-host=0.0.0.0 --port={self.port} "
            f"--dashboard-port={self.dashboard_port} --ray-client-server-port={self.client_port}"
        )

    def _check_container(self, task: TaskSpec, wanted: str, at: Path) -> Iterator[Finding]:
        containers = task.pod_spec.get("containers") or []
        names = [container.get("name") for container in containers]
        if wanted not in names:
            flag = "headContainer" if task.name == self.head else "workerContainer"
            # Not an error: a container of another name may start Ray itself.
            yield warning(
                at,
                f"no container is named {wanted!r}, so Ray is not started in task {task.name} by the plugin",
                hint=f"name it with --{flag}=<{'|'.join(str(name) for name in names)}>",
            )
            return
        container = containers[names.index(wanted)]
        if container.get("command"):
            yield warning(
                at / names.index(wanted) / "command",
                f"is yours and is kept; Ray is not started by the plugin, {ADDRESS} says where the head is",
            )
        elif container.get("args"):
            yield warning(at / names.index(wanted) / "args", "has no effect: the ray plugin's command takes none")

    def _target(self, job: Job, name: str, number: int) -> str | int:
        """Return the port's name, or its number if the head container names that port differently."""
        head = job.task(self.head)
        for container in (head.pod_spec.get("containers") if head is not None else None) or []:
            if container.get("name") == self.head_container:
                opened = add_port(container, name, number)["ports"]
                return name if {"name": name, "containerPort": number} in [_bare(port) for port in opened] else number
        return name


def _bare(port: Manifest) -> Manifest:
    return {"name": port.get("name"), "containerPort": port["containerPort"]}
