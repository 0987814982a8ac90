"""The port of a sandbox: everything the engine needs of namespaces or of plain processes."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from typing import Protocol

from pumice.engines.local.sandbox.client import Ended
from pumice.engines.local.sandbox.specs import ContainerSpec


class SandboxPort(Protocol):
    @property
    def pid(self) -> int:
        """A process in the network of the job."""

    @property
    def all_users(self) -> bool:
        """Whether a container can run as any user."""

    @property
    def only_user(self) -> str:
        """Without `all_users`: as whom all containers run, and why."""

    @property
    def limits(self) -> frozenset[str]:
        """The resources (memory, cpu, pids) whose limits the kernel enforces."""

    @property
    def own_network(self) -> bool:
        """Whether pods have addresses and ports of their own; if not, they share those of this machine."""

    async def create_pod(self, pod: str, address: str, hostname: str) -> None: ...

    async def remove_pod(self, pod: str) -> None: ...

    async def start_container(self, spec: ContainerSpec, stdout: int, stderr: int) -> None:
        """Return when the command runs. Raises StartError."""

    async def signal(self, container: str, number: int) -> None: ...

    async def ended(self, container: str) -> Ended:
        """Wait for the end of a container. Raises SandboxError if the sandbox ends first."""

    async def exec(
        self,
        container: str,
        argv: Sequence[str],
        env: Mapping[str, str],
        timeout: float | None = None,  # noqa: ASYNC109 - the command must be killed when the time is up
    ) -> tuple[int, bytes]:
        """Run a command in a container; return its exit code and its output."""

    async def connect(self, pod: str, port: int) -> socket.socket: ...

    async def listen(self, address: str, port: int) -> socket.socket: ...

    async def close(self) -> None:
        """Return when no process of the job is left."""
