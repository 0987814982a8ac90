"""Commands that a client runs in the pods of a run, over its connection: they end when the connection ends."""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct, field

from pumice.engines.local.daemon.connections import Connection
from pumice.engines.local.local_run import LocalRun
from pumice.engines.local.rpc.async_wire import Reply
from pumice.engines.local.rpc.wire import Message
from pumice.engines.local.sandbox.entered import Entered
from pumice.engines.local.sandbox.sandbox_errors import SandboxError, StartError
from pumice.engines.local.sandbox.tree_stream import Copy
from pumice.model.pumice_error import PumiceError
from pumice.store.run_errors import WrongState

ENDED: Final = "ended"  # the announcement of a command's exit code
FAILED: Final = "failed"  # or of why it does not run
_TERMINAL: Final = re.compile(r"[\w.+-]{1,64}", re.ASCII)
_MOST_LINES: Final = 0xFFFF


class Entering(Struct):
    run: LocalRun
    connection: Connection
    _entered: list[Entered] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def enter(self, request: Message) -> Any:
        """Start a command, and send the client its ends of the streams, or of the terminal."""
        container = self.run.pod(str(request["pod"])).container(str(request.get("container") or ""))
        try:
            if "copy" in request:
                path, into, name = request["copy"]
                entered = await container.copy(Copy(str(path), bool(into), str(name)))
            else:
                entered = await container.enter([str(word) for word in request["argv"]], *_terminal(request))
        except StartError as error:
            return {FAILED: [error.kind, error.message]}
        self._entered.append(entered)
        task = asyncio.create_task(self._report(entered))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return Reply({}, entered.descriptors)

    async def _report(self, entered: Entered) -> None:
        """Send the client how the command ended."""
        try:
            message: Message = {ENDED: await entered.code}
        except StartError as error:
            message = {FAILED: [error.kind, error.message]}
        except SandboxError:
            message = {FAILED: ["", str(WrongState("the run has ended"))]}
        self._entered.remove(entered)
        self.connection.notify(message)

    async def close(self) -> None:
        """The client has gone: end what it started."""
        for entered in tuple(self._entered):
            with suppress(PumiceError):
                await entered.cancel()


async def connect(run: LocalRun, request: Message) -> Reply:
    """Send the client a connection to a port of a pod. Raises WrongState if nothing listens there."""
    pod, port = run.pod(str(request["pod"])), int(request["port"])
    try:
        connection = await run.session.sandbox.connect(pod.name, port)
    except (OSError, StartError, SandboxError) as error:
        raise WrongState(f"{pod.short_name}: nothing listens on port {port}") from error
    return Reply({}, [connection.detach()])


def _terminal(request: Message) -> tuple[tuple[int, int] | None, str]:
    """Return the size of the client's terminal, and its kind."""
    name, size = str(request.get("term") or ""), request.get("size")
    if size is None:
        return None, ""
    lines, columns = (min(max(int(each), 0), _MOST_LINES) for each in size)
    return (lines, columns), name if _TERMINAL.fullmatch(name) else "xterm"
