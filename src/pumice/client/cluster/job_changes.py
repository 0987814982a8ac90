"""The methods of the port that change Jobs, or reach into their pods. Each loads what only it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from pumice.client.backend import Change, Exec, Leftovers, RunRef, silent
from pumice.client.cluster.connection import Connection
from pumice.client.cluster.job_submissions import JobSubmissions
from pumice.client.pod_access import LocalPort, PodCommand, PodPath, PodPort, Skipped
from pumice.store.run_errors import InvalidOption

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from pumice.client.cluster.cluster_backend import ClusterBackend
    from pumice.store.settings import Retention


class JobChanges(JobSubmissions):
    connection: Connection

    @property
    def _backend(self) -> ClusterBackend:
        return cast("ClusterBackend", self)

    def location(self, run: RunRef) -> str:
        return f"{self.name}/{run.namespace}"

    async def strangers(self, runs: Sequence[RunRef]) -> Mapping[str, str]:
        from pumice.client.cluster.control.people import strangers

        return await strangers(self.connection, runs)

    async def check_change(self, run: RunRef, change: Change) -> None:
        from pumice.client.cluster.control.changes import check_change

        await check_change(self._backend, run, change)

    async def change(self, run: RunRef, change: Change, tell: Callable[[str], None] = silent) -> Sequence[str]:
        from pumice.client.cluster.control.changes import make_change

        return await make_change(self._backend, run, change, tell)

    async def delete_submitted(self, archives: Path) -> None:
        from pumice.client.cluster.archive.export import archive_and_delete

        await archive_and_delete(self._backend, archives)

    async def leftovers(self, retention: Retention, *, claims: bool, images: bool) -> Leftovers:
        from pumice.client.cluster.control.unused_code import find_unused_code

        del retention
        if claims or images:
            hint = "leave out --claims and --images"
            raise InvalidOption(f"{self.name}: only code that no Job names is removed", hint)
        return await find_unused_code(self.connection)

    async def exec(self, run: RunRef, command: Exec) -> subprocess.CompletedProcess[bytes]:
        from pumice.client.cluster.pods.pod_commands import run_command

        return await run_command(self._backend, run, command)

    async def enter(self, run: RunRef, command: Exec) -> PodCommand:
        from pumice.client.cluster.pods.pod_commands import enter

        return await enter(self._backend, run, command)

    async def forward(self, run: RunRef, port: PodPort, tell: Callable[[str], None] = silent) -> LocalPort:
        from pumice.client.cluster.pods.port_forwarding import forward

        return await forward(self._backend, run, port, tell)

    async def copy_from(self, run: RunRef, source: PodPath, local: Path) -> list[Skipped]:
        from pumice.client.cluster.pods.copying import copy_from

        return await copy_from(self._backend, run, source, local)

    async def copy_to(self, run: RunRef, local: Path, target: PodPath) -> list[Skipped]:
        from pumice.client.cluster.pods.copying import copy_to

        return await copy_to(self._backend, run, local, target)
