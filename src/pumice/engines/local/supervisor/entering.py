"""Commands that a client runs in the pods of a run, over its connection: they end when the connection ends."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pumice.engines.local.daemon.line_protocol import Connection, Message
from pumice.engines.local.run_errors import WrongState
from pumice.engines.local.sandbox.entered import Entered
from pumice.engines.local.sandbox.sandbox_errors import SandboxError, StartError
from pumice.engines.local.sandbox.tree_stream import Copy
from pumice.engines.local.session import LocalSession
from pumice.model.pumice_error import PumiceError

ENDED: Final = "ended"  # the announcement of a command's exit code
FAILED: Final = "failed"  # or of why it does not run
_TERMINAL: Final = re.compile(r"[\w.+-]{1,64}", re.ASCII)
_MOST_LINES: Final = 0xFFFF


@dataclass(slots=True)
class Entering:
    session: LocalSession
    connection: Connection
    _entered: list[Entered] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def enter(self, request: Message) -> Any:
        """Start a command, and send the client its ends of the streams, or of the terminal."""
        container = self.session.pod(str(request["pod"])).container(str(request.get("container") or ""))
        try:
            if "copy" in request:
                path, into, name = request["copy"]
                entered = await container.copy(Copy(str(path), bool(into), str(name)))
            else:
                entered = await container.enter([str(word) for word in request["argv"]], *_terminal(request))
        except StartError as error:
            return {FAILED: [error.kind, error.message]}
        try:
            await self.connection.send_descriptors({"descriptors": len(entered.descriptors)}, entered.descriptors)
        except BaseException:
            await entered.cancel()
            raise
        finally:
            entered.close()
        self._entered.append(entered)
        task = asyncio.create_task(self._report(entered))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return {}

    async def _report(self, entered: Entered) -> None:
        """Send the client how the command ended."""
        try:
            message: Message = {ENDED: await entered.code}
        except StartError as error:
            message = {FAILED: [error.kind, error.message]}
        except SandboxError:
            message = {FAILED: ["", str(WrongState("the run has ended"))]}
        self._entered.remove(entered)
        with suppress(ConnectionError):
            await self.connection.send(message)

    async def close(self) -> None:
        """The client has gone: end what it started."""
        for entered in tuple(self._entered):
            with suppress(PumiceError):
                await entered.cancel()


def _terminal(request: Message) -> tuple[tuple[int, int] | None, str]:
    """Return the size of the client's terminal, and its kind."""
    name, size = str(request.get("term") or ""), request.get("size")
    if size is None:
        return None, ""
    lines, columns = (min(max(int(each), 0), _MOST_LINES) for each in size)
    return (lines, columns), name if _TERMINAL.fullmatch(name) else "xterm"
