"""mpi: gives the master of an MPI job the list of its workers.

Containers and init containers of the master task get MPI_HOST; every pod has a hostfile with slots in /etc/volcano; the
ssh port is open in all containers. Requires svc for the names and ssh for the log-in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from pumice.model import naming
from pumice.model.findings import SPEC, Finding, warning
from pumice.model.job import Job, Manifest
from pumice.model.objects import owned
from pumice.model.pod import Pod, env_values
from pumice.model.resources import cpu_limit, gpu_limit
from pumice.model.slot import Slot
from pumice.model.text import some
from pumice.plugins.base import Base, option, port_option
from pumice.plugins.limits import too_long

VARIABLE: Final = "MPI_HOST"
PORT_NAME: Final = "mpijob-port"
HOSTFILE: Final = "mpi.hostfile"


@dataclass(frozen=True, slots=True)
class Mpi(Base):
    name: ClassVar[str] = "mpi"
    summary: ClassVar[str] = "gives the master of an MPI job the list of its workers"
    requires: ClassVar[tuple[str, ...]] = ("svc", "ssh")
    example: ClassVar[tuple[str, ...]] = ("--master=mpimaster", "--worker=mpiworker", "--port=22")

    master: str = option("master", "task that runs mpiexec")
    worker: str = option("worker", "task in whose pods mpiexec starts processes")
    port: int = port_option(22, "port of sshd, opened in every container")

    def check(self, job: Job) -> Iterator[Finding]:
        at = SPEC / "plugins" / self.name
        named = some(job.task_names, "|")
        if job.task(self.master) is None:
            yield Finding(
                at,
                f"no task is named {self.master!r}, so no pod would get the list of workers",
                hint=f"name the task that runs mpiexec with --master=<{named}>",
            )
        if job.task(self.worker) is None:
            yield warning(
                at,
                f"no task is named {self.worker!r}, so {VARIABLE} will be empty",
                hint=f"name the task of the workers with --worker=<{named}>",
            )
        yield from too_long(job, at, VARIABLE, lambda grown: len(",".join(self._hosts(grown))))

    def objects(self, job: Job) -> Iterator[Manifest]:
        slots = self._slots(job)
        lines = "".join(f"{host} slots={slots}\n" for host in self._hosts(job))
        yield owned(job, "v1", "ConfigMap", naming.hosts_config_map(job.name), {"data": {HOSTFILE: lines}})

    def shape_pod(self, pod: Pod, slot: Slot) -> Pod:
        if slot.task.name == self.master:
            hosts = slot.job.derived((self, "hosts"), lambda job: ",".join(self._hosts(job)))
            pod = pod.with_env(env_values({VARIABLE: hosts}))
        return pod.with_port(PORT_NAME, self.port, init=True)

    def why(self, slot: Slot) -> Mapping[str, str]:
        return {f"env {VARIABLE}": f"hosts of task {self.worker}", f"port {self.port}": "sshd"}

    def _hosts(self, job: Job) -> list[str]:
        task = job.task(self.worker)
        return [] if task is None else naming.hosts(job, task)

    def _slots(self, job: Job) -> int:
        """Return the processes per worker: its GPUs, else its whole CPUs, else 1."""
        task = job.task(self.worker)
        containers = (task.pod_spec.get("containers") if task is not None else None) or []
        gpus = sum(gpu_limit(container) or 0 for container in containers)
        return gpus or sum(cpu_limit(container) or 0 for container in containers) or 1
