"""The port of a sandbox: everything the engine needs of namespaces or of plain processes."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from pumice.engines.local.rpc.wire import Message
from pumice.engines.local.sandbox.client import Ended
from pumice.engines.local.sandbox.entered import Entered, Program
from pumice.engines.local.sandbox.specs import ContainerSpec
from pumice.engines.local.sandbox.tree_stream import Copy


class SandboxPort(Protocol):
    on_lost: Callable[[str], None]  # called when the sandbox ends by itself, before its pods are known to have ended

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

    async def enter(self, container: str, command: Program | Copy, size: tuple[int, int] | None = None) -> Entered:
        """Run a command in a container with streams; with the size of a terminal, lines and columns, on a terminal.

        Or copy files, as a stream of `tree_stream`.
        """

    async def usage(self) -> Mapping[str, tuple[float, int]]:
        """Return the CPU time in seconds and the memory in bytes of each running container, by its id."""

    async def connect(self, pod: str, port: int) -> socket.socket: ...

    async def listen(self, address: str, port: int) -> socket.socket: ...

    def start_tunnel(self, config: Message, streams: Sequence[int]) -> None:
        """Start a tunnel to the outside with these standard streams. Raises OSError."""

    async def close(self) -> None:
        """Return when no process of the job is left."""
