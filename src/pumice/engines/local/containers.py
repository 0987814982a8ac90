"""One container of a pod: started, watched by its probes, restarted as the pod's policy says, ended with grace."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from pumice.engines.local.logs import LogPump
from pumice.engines.local.probes import Probe
from pumice.engines.local.sandbox import problems
from pumice.engines.local.sandbox.problems import StartError
from pumice.engines.local.sandbox.specs import ContainerSpec
from pumice.model.job import Manifest
from pumice.model.snapshot import ContainerEnd

FIRST_BACK_OFF = 1.0
LONGEST_BACK_OFF = 300.0
# Who ran this long has recovered: the next failure starts from the first delay again.
RECOVERED_AFTER = 600.0
_SIGNAL_BASE = 128
CANNOT_START = 128
TERMINATED = 143
# What a shell would say for the same mistake; everything else is the runtime's own code.
_START_CODES = {problems.COMMAND_NOT_FOUND: 127, problems.NOT_EXECUTABLE: 126, problems.BAD_INTERPRETER: 126}


class Sandboxed(Protocol):
    """What a container needs of the sandbox."""

    async def start_container(self, spec: ContainerSpec, stdout: int, stderr: int) -> None: ...

    async def signal(self, container: str, number: int) -> None: ...

    async def ended(self, container: str) -> Any: ...

    async def exec(self, container: str, argv: Any, env: Any, timeout: float) -> tuple[int, bytes]: ...  # noqa: ASYNC109 - it is killed then

    async def connect(self, pod: str, port: int) -> Any: ...


Now = Callable[[], dt.datetime]


@dataclass(slots=True)
class Container:
    """A container's life, run after run. `changed` is called whenever something about it changes."""

    manifest: Manifest
    sandbox: Sandboxed
    make_spec: Callable[[int], ContainerSpec]  # attempt -> what to start
    open_logs: Callable[[int], tuple[LogPump, LogPump]]
    changed: Callable[[], None]
    restarted: Callable[[ContainerEnd, int], None]  # how it ended, and how often it has been started again
    now: Now
    restarts: int = 0
    running: bool = False
    started: bool = False
    ready: bool = False
    ends: list[ContainerEnd] = field(default_factory=list)
    waiting_for: str = ""  # CrashLoopBackOff, and the like
    _id: str = ""
    _stopping: bool = False
    _starting: bool = False
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)
    _env: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.manifest["name"])

    async def run(self, policy: str) -> ContainerEnd:
        """Run until the policy says that it is over; the last end."""
        delay = FIRST_BACK_OFF
        while True:
            began = self.now()
            end = await self._run_once()
            self.ends.append(end)
            again = policy == "Always" or (policy == "OnFailure" and end.exit_code != 0)
            self.changed()
            if not again or self._stopping:
                return end
            if (self.now() - began).total_seconds() > RECOVERED_AFTER:
                delay = FIRST_BACK_OFF
            self.waiting_for = "CrashLoopBackOff"
            self.changed()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._stopped.wait()
            if self._is_stopping():
                return end
            delay = min(delay * 2, LONGEST_BACK_OFF)
            self.restarts += 1
            self.waiting_for = ""
            self.restarted(end, self.restarts)

    async def stop(self, grace: float) -> None:
        """End it: the preStop hook, then SIGTERM, and SIGKILL for who is still there when the grace is over."""
        self._stopping = True
        self._stopped.set()
        while self._starting:  # noqa: ASYNC110 - for an instant
            await asyncio.sleep(0.01)
        if not self.running:
            return
        deadline = asyncio.get_running_loop().time() + grace
        await self._hook("preStop", grace)
        await self._signal(int(signal.SIGTERM))
        while self._is_running() and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110 - with a deadline
            await asyncio.sleep(min(0.02, grace))
        if self._is_running():
            await self._signal(int(signal.SIGKILL))

    # Asked for as methods because other tasks change them while this one sleeps, which a type checker cannot know.
    def _is_stopping(self) -> bool:
        return self._stopping

    def _is_running(self) -> bool:
        return self.running

    async def kill(self, number: int = int(signal.SIGKILL)) -> None:
        if self.running:
            await self._signal(number)

    async def exec(self, argv: list[str], timeout: float) -> int:  # noqa: ASYNC109 - it is killed then
        code, _ = await self.sandbox.exec(self._id, argv, self._env, timeout)
        return code

    async def connect(self, port: int) -> Any:
        return await self.sandbox.connect(self._id.rpartition("/")[0], port)

    async def _run_once(self) -> ContainerEnd:
        if self._stopping:
            return ContainerEnd(self.name, TERMINATED, "", int(signal.SIGTERM), self.now())
        self._starting = True
        try:
            logs = self.open_logs(self.restarts)
            await self._start(logs)
        except StartError as error:
            code = _START_CODES.get(error.kind, CANNOT_START)
            return ContainerEnd(self.name, code, "StartError", 0, self.now(), f"{self.name}: {error}")
        except OSError as error:
            told = f"{self.name}: cannot be started: {error}"
            return ContainerEnd(self.name, CANNOT_START, "StartError", 0, self.now(), told)
        finally:
            self._starting = False
        await self._hook("postStart", 30.0)
        probes = asyncio.create_task(self._probe())
        ended = await self.sandbox.ended(self._id)
        probes.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await probes
        self.running = self.started = self.ready = False
        for log in logs:
            await log.drained()
            log.file.close()
        last = logs[1].last_line or logs[0].last_line
        code = ended.code if not ended.signal else _SIGNAL_BASE + ended.signal
        return ContainerEnd(self.name, code, "OOMKilled" if ended.oom else "", ended.signal, self.now(), last)

    async def _start(self, logs: tuple[LogPump, LogPump]) -> None:
        spec = self.make_spec(self.restarts)
        self._id, self._env = spec.id, dict(spec.env)
        pipes = [log.open() for log in logs]
        try:
            await self.sandbox.start_container(spec, *pipes)
        finally:
            for pipe in pipes:
                os.close(pipe)
        self.running = True
        self.started = not self.manifest.get("startupProbe")
        self.ready = self.started and not self.manifest.get("readinessProbe")
        self.changed()

    async def _probe(self) -> None:
        """First whether it has started, then whether it is ready and alive, side by side."""
        startup = Probe.read(self.manifest.get("startupProbe"))
        if startup is not None:
            begun = asyncio.Event()

            async def has_started(good: bool) -> None:  # noqa: FBT001 - the answer of a probe
                if good:
                    begun.set()
                else:
                    await self._signal(int(signal.SIGKILL))

            watching = asyncio.create_task(startup.watch(self.manifest, self, has_started))
            try:
                await begun.wait()
            finally:
                watching.cancel()
            self.started = True
            self.ready = not self.manifest.get("readinessProbe")
            self.changed()
        async with asyncio.TaskGroup() as tasks:
            for kind, tell in (("readinessProbe", self._is_ready), ("livenessProbe", self._is_alive)):
                probe = Probe.read(self.manifest.get(kind))
                if probe is not None:
                    tasks.create_task(probe.watch(self.manifest, self, tell))

    async def _is_ready(self, good: bool) -> None:  # noqa: FBT001 - the answer of a probe
        self.ready = good
        self.changed()

    async def _is_alive(self, good: bool) -> None:  # noqa: FBT001 - the answer of a probe
        if not good:
            await self._signal(int(signal.SIGTERM))
            await asyncio.sleep(1)
            await self._signal(int(signal.SIGKILL))

    async def _hook(self, name: str, timeout: float) -> None:  # noqa: ASYNC109 - passed on
        """A lifecycle hook; one that fails does not stop what it accompanies."""
        handler = (self.manifest.get("lifecycle") or {}).get(name)
        if not handler:
            return
        if "sleep" in handler:
            await asyncio.sleep(min(handler["sleep"].get("seconds") or 0, timeout))
            return
        probe = Probe(handler, 0, 0, timeout, 1, 1)
        await probe.ask(self.manifest, self)

    async def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            await self.sandbox.signal(self._id, number)
