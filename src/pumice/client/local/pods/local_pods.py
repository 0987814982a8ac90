"""The methods of the port that reach into the pods of runs of this machine. Each loads what only it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.client.backend import Exec, RunRef
from pumice.client.local.run_reader import RunReader, beside_loop
from pumice.client.pod_access import PodPath, Skipped

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from pumice.client.local.pods.entering import EnteredCommand


class LocalPods(RunReader):
    """`forward` is one of `RunReader`, because it needs no process but this one."""

    __slots__ = ()

    async def exec(self, run: RunRef, command: Exec) -> subprocess.CompletedProcess[bytes]:
        from pumice.client.local.pods.entering import run_command

        return await run_command(self.stored(run), command)

    async def enter(self, run: RunRef, command: Exec) -> EnteredCommand:
        from pumice.client.local.pods.entering import enter

        return await beside_loop(enter, self.stored(run), command)

    async def copy_from(self, run: RunRef, source: PodPath, local: Path) -> list[Skipped]:
        from pumice.client.local.pods.copying import copy_from

        return await beside_loop(copy_from, self.stored(run), source, local)

    async def copy_to(self, run: RunRef, local: Path, target: PodPath) -> list[Skipped]:
        from pumice.client.local.pods.copying import copy_to

        return await beside_loop(copy_to, self.stored(run), local, target)
