"""pytorch: sets the rendezvous address and the rank of each pod of a torch job.

Every container and init container gets MASTER_ADDR, MASTER_PORT and WORLD_SIZE, and every container opens the port.
Pods of the master and worker tasks also get RANK, and torchrun's own variables (PET_*). On request, workers wait in an
init container until the master answers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from pumice.model import naming
from pumice.model.findings import SPEC, Finding
from pumice.model.job import Job, Manifest, TaskSpec
from pumice.model.pod import Pod, add_env, env_values
from pumice.model.resources import gpu_limit
from pumice.model.slot import Slot
from pumice.model.suggestions import did_you_mean
from pumice.model.text import some
from pumice.plugins import ranks
from pumice.plugins.base import Base, option, port_option
from pumice.plugins.wait_for_master import NAME, waiting_container

PORT_NAME: Final = "pytorchjob-port"
WORKER: Final = "worker"  # the default: a job may have no such task


@dataclass(frozen=True, slots=True)
class PyTorch(Base):
    name: ClassVar[str] = "pytorch"
    summary: ClassVar[str] = "sets the rendezvous address and the rank of each pod of a torch job"
    # Pod names resolve only with the headless Service of svc.
    requires: ClassVar[tuple[str, ...]] = ("svc",)
    example: ClassVar[tuple[str, ...]] = ("--master=master", "--worker=worker", "--port=23456")

    master: str = option("master", "task that holds rank 0")
    worker: str = option(WORKER, "task that holds the other ranks")
    port: int = port_option(23456, "port that rank 0 listens on; opened in every container")
    wait_master_enabled: bool = option(False, "workers wait for the master in an init container")
    wait_master_timeout: int = option(300, "seconds; only with --wait-master-enabled=true", low=1)
    wait_master_image: str = option("busybox:1.36.1", "only with --wait-master-enabled=true")
    nproc_per_node: int | None = option(
        None, "for torchrun (PET_NPROC_PER_NODE); default: the GPU limit of the container", low=1
    )

    def check(self, job: Job) -> Iterator[Finding]:
        master = job.task(self.master)
        if master is None:
            # Volcano starts such a job without ranks, and its pods hang at the rendezvous.
            yield Finding(
                SPEC / "plugins" / self.name,
                f"no task is named {self.master!r}, so no pod would have rank 0",
                hint=f"name the task that holds rank 0 with --master=<{some(job.task_names, '|')}>",
            )
        elif master.replicas == 0 and ranks.replicas(job, self.worker) > 0:
            yield Finding(
                SPEC / "tasks" / job.spec.tasks.index(master) / "replicas",
                "must be 1 or more: the workers need rank 0",
                0,
                hint=f"or make their own first pod rank 0: pytorch: ['--master={self.worker}']",
            )
        if self.worker != WORKER and job.task(self.worker) is None:
            suggestion = did_you_mean(self.worker, job.task_names)
            yield Finding(
                SPEC / "plugins" / self.name,
                f"no task is named {self.worker!r}, so no pod would have the other ranks",
                f"--worker={self.worker}",
                hint=f"{suggestion} name the task of the workers with --worker=<{some(job.task_names, '|')}>".lstrip(),
            )

    def shape_pod(self, pod: Pod, slot: Slot) -> Pod:
        master = slot.job.task(self.master)
        if master is None:
            return pod
        env = env_values(self._variables(slot, master))
        ranked = self._rank(slot) is not None

        def with_variables(container: Manifest) -> Manifest:
            return add_env(container, [*env, *self._processes(container)] if ranked else env)

        pod = pod.with_port(PORT_NAME, self.port).edit_containers(with_variables, with_variables)
        if self.wait_master_enabled and slot.task.name == self.worker and self._rank(slot) != 0:
            host, timeout = naming.host(slot.job, master, 0), self.wait_master_timeout
            pull_policy = pod.containers[0].get("imagePullPolicy") if pod.containers else None
            waiting = waiting_container(host, self.port, timeout, self.wait_master_image, pull_policy)
            pod = pod.with_init_container(waiting)
        return pod

    def why(self, slot: Slot) -> Mapping[str, str]:
        job, rank = slot.job, self._rank(slot)
        group = dict.fromkeys((self.master, self.worker))
        sizes = " + ".join(f"{name} {ranks.replicas(job, name)}" for name in group if job.task(name) is not None)
        order = "masters come first" if slot.task.name == self.master else f"masters first, then {slot.short_name}"
        return {
            "env MASTER_ADDR": "where rank 0 listens",
            "env MASTER_PORT": "--port",
            "env WORLD_SIZE": sizes,
            "env RANK": order if rank is not None else "",
            "env PET_NNODES": "WORLD_SIZE, for torchrun",
            "env PET_NODE_RANK": "RANK, for torchrun",
            "env PET_MASTER_ADDR": "MASTER_ADDR, for torchrun",
            "env PET_MASTER_PORT": "MASTER_PORT, for torchrun",
            "env PET_NPROC_PER_NODE": "--nproc-per-node" if self.nproc_per_node else "GPU limit of the container",
            f"port {self.port}": "opened for rendezvous",
            f"init {NAME}": "--wait-master-enabled=true",
            "command": "waits until rank 0 listens",
        }

    def _variables(self, slot: Slot, master: TaskSpec) -> dict[str, str]:
        address, port = naming.host(slot.job, master, 0), str(self.port)
        size = str(ranks.world_size(slot.job, self.master, self.worker))
        variables = {"MASTER_ADDR": address, "MASTER_PORT": port, "WORLD_SIZE": size}
        rank = self._rank(slot)
        if rank is not None:
            variables |= {
                "RANK": str(rank),
                "PET_NNODES": size,
                "PET_NODE_RANK": str(rank),
                "PET_MASTER_ADDR": address,
                "PET_MASTER_PORT": port,
            }
        return variables

    def _processes(self, container: Manifest) -> list[dict[str, str]]:
        count = self.nproc_per_node or gpu_limit(container)
        return [{"name": "PET_NPROC_PER_NODE", "value": str(count)}] if count else []

    def _rank(self, slot: Slot) -> int | None:
        return ranks.rank(slot, self.master, self.worker)
