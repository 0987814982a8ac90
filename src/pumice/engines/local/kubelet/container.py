"""One container of a pod: started, watched by its probes, restarted as the pod's policy says, ended with grace."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from pumice.engines.local.kubelet.container_logs import LogPump
from pumice.engines.local.kubelet.probes import Probe
from pumice.engines.local.kubelet.restart_policy import BackOff, starts_again
from pumice.engines.local.sandbox import sandbox_errors
from pumice.engines.local.sandbox.sandbox_errors import SandboxError, StartError
from pumice.engines.local.sandbox.specs import ContainerSpec, Mount
from pumice.model.job import Manifest
from pumice.model.snapshot import ContainerEnd

DEFAULT_GRACE: Final = 30.0
STARTS_AT_ONCE: Final = 32
DEFAULT_MESSAGE_PATH: Final = "/dev/termination-log"
LONGEST_MESSAGE: Final = 4096
CANNOT_START: Final = 128
TERMINATED: Final = 143
_SIGNAL_BASE: Final = 128
# What a shell would say for the same mistake; everything else is the runtime's own code.
_START_CODES: Final = {
    sandbox_errors.COMMAND_NOT_FOUND: 127,
    sandbox_errors.NOT_EXECUTABLE: 126,
    sandbox_errors.BAD_INTERPRETER: 126,
}


class Sandboxed(Protocol):
    """What a container needs of the sandbox."""

    async def start_container(self, spec: ContainerSpec, stdout: int, stderr: int) -> None: ...

    async def signal(self, container: str, number: int) -> None: ...

    async def ended(self, container: str) -> Any: ...

    async def exec(self, container: str, argv: Any, env: Any, timeout: float | None) -> tuple[int, bytes]: ...  # noqa: ASYNC109 - it is killed then

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
    tell: Callable[[str], None] = lambda _message: None  # what a hook or a probe has found
    grace: float = DEFAULT_GRACE  # of the pod
    # Shared with others, so that not all of a large job start at once: a start takes descriptors.
    gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
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
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _env: dict[str, str] = field(default_factory=dict)
    _message_file: str = ""
    _why: tuple[str, str] = ("", "")  # why we ended it ourselves: a word, and words

    @property
    def name(self) -> str:
        return str(self.manifest["name"])

    @property
    def is_sidecar(self) -> bool:
        """Of an init container: whether it stays beside the others."""
        return self.manifest.get("restartPolicy") == "Always"

    async def run(self, policy: str) -> ContainerEnd:
        """Run until the policy says that it is over; the last end."""
        back_off = BackOff()
        while True:
            began = self.now()
            end = await self._run_once()
            self.ends.append(end)
            if self._stopping or not starts_again(self.manifest, policy, end.exit_code):
                self.changed()
                return end
            self.waiting_for = "CrashLoopBackOff"
            self.changed()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(back_off.after((self.now() - began).total_seconds())):
                    await self._stopped.wait()
            if self._is_stopping():
                return end
            self.restarts += 1
            self.waiting_for = ""
            self.restarted(end, self.restarts)

    async def stop(self, grace: float, why: tuple[str, str] = ("", "")) -> None:
        """End it for good: the preStop hook, then SIGTERM, and SIGKILL for who is there when the grace is over.

        `why`, a word and words, is given where its end is a failure.
        """
        self._stopping = True
        self._stopped.set()
        while self._starting:  # noqa: ASYNC110 - for an instant
            await asyncio.sleep(0.01)
        self._why = why if why[0] else self._why
        await self._end(grace)

    # Asked for as methods because other tasks change them while this one sleeps, which a type checker cannot know.
    def _is_stopping(self) -> bool:
        return self._stopping

    async def kill(self, number: int = int(signal.SIGKILL)) -> None:
        if self.running:
            await self._signal(number)

    async def exec(self, argv: list[str], timeout: float | None) -> tuple[int, bytes]:  # noqa: ASYNC109 - it is killed then
        return await self.sandbox.exec(self._id, argv, self._env, timeout)

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
            why = (error.strerror or str(error)).lower()
            place = f"{error.filename}: " if error.filename else ""
            told = f"{self.name}: cannot be started: {place}{why}"
            return ContainerEnd(self.name, CANNOT_START, "StartError", 0, self.now(), told)
        finally:
            self._starting = False
        attending = asyncio.create_task(self._attend())
        try:
            ended = await self.sandbox.ended(self._id)
        finally:
            # Also if the sandbox is gone, and the container with it: nobody need wait for it any longer.
            self.running = self.started = self.ready = False
            self._over.set()
            attending.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await attending
        for log in logs:
            await log.drained()
            log.file.close()
        reason, why = self._why
        last = why or self._message() or logs[1].last_line or logs[0].last_line
        code = ended.code if not ended.signal else _SIGNAL_BASE + ended.signal
        return ContainerEnd(self.name, code, "OOMKilled" if ended.oom else reason, ended.signal, self.now(), last)

    async def _start(self, logs: tuple[LogPump, LogPump]) -> None:
        spec = self.make_spec(self.restarts)
        self._id, self._env = spec.id, dict(spec.env)
        path = self.manifest.get("terminationMessagePath") or DEFAULT_MESSAGE_PATH
        own = (each.source for each in spec.mounts if isinstance(each, Mount) and each.target == path)
        self._message_file = next(own, "")
        self._over.clear()
        self._why = ("", "")
        async with self.gate:
            with contextlib.ExitStack() as ours:
                pipes = []
                for log in logs:
                    pipe = log.open()
                    ours.callback(os.close, pipe)
                    pipes.append(pipe)
                await self.sandbox.start_container(spec, *pipes)
        self.running = True
        if not (self.manifest.get("lifecycle") or {}).get("postStart"):
            self._has_begun()
        self.changed()

    def _message(self) -> str:
        """What the container left in its file for last words, in one line."""
        if not self._message_file:
            return ""
        try:
            with Path(self._message_file).open("rb") as file:
                words = file.read(LONGEST_MESSAGE).decode("utf-8", "replace")
        except OSError:
            # The container may do with its file as it likes, and close it to us.
            return ""
        return " ".join(words.split())

    def _has_begun(self) -> None:
        self.started = not self.manifest.get("startupProbe")
        self.ready = self.started and not self.manifest.get("readinessProbe")

    async def _attend(self) -> None:
        """The postStart hook, which runs beside the command; then the probes. Cancelled when the container ends."""
        began = self.now()
        if (self.manifest.get("lifecycle") or {}).get("postStart"):
            fault = await self._hook("postStart", None)
            if fault:
                await self._end_because("PostStartHookError", f"the postStart hook failed: {fault}", self.grace)
                return
            self._has_begun()
            self.changed()
        if await self._has_started():
            async with asyncio.TaskGroup() as tasks:
                for kind, tell in (("readinessProbe", self._is_ready), ("livenessProbe", self._is_alive)):
                    probe = Probe.read(self.manifest.get(kind))
                    if probe is not None:
                        running = (self.now() - began).total_seconds()
                        tasks.create_task(probe.since(running).watch(self.manifest, self, tell))

    async def _has_started(self) -> bool:
        """What the startup probe says, if there is one."""
        probe = Probe.read(self.manifest.get("startupProbe"))
        if probe is None:
            return True
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def tell(fault: str) -> None:
            if not answer.done():
                answer.set_result(fault)

        watching = asyncio.create_task(probe.watch(self.manifest, self, tell))
        try:
            fault = await answer
        finally:
            watching.cancel()
        if fault:
            await self._end_because("StartupProbeFailed", f"the startup probe failed: {fault}", self._grace_of(probe))
            return False
        self.started = True
        self.ready = not self.manifest.get("readinessProbe")
        self.changed()
        return True

    async def _is_ready(self, fault: str) -> None:
        self.ready = not fault
        self.changed()

    async def _is_alive(self, fault: str) -> None:
        if fault:
            grace = self._grace_of(Probe.read(self.manifest.get("livenessProbe")))
            await self._end_because("LivenessProbeFailed", f"the liveness probe failed: {fault}", grace)

    def _grace_of(self, probe: Probe | None) -> float:
        own = probe.handler.get("terminationGracePeriodSeconds") if probe is not None else None
        return self.grace if own is None else float(own)

    async def _end_because(self, reason: str, why: str, grace: float) -> None:
        """End this run. Whether there is another one, the policy says."""
        self._why = (reason, why)
        self.tell(f"container {self.name}: {why}; it is ended")
        await self._end(grace)

    async def _end(self, grace: float) -> None:
        if not self.running:
            return
        try:
            async with asyncio.timeout(grace):
                fault = await self._hook("preStop", grace) if grace else ""
                if fault:
                    self.tell(f"container {self.name}: the preStop hook failed: {fault}")
                await self._signal(self._stop_signal())
                await self._over.wait()
        except TimeoutError:
            await self._signal(int(signal.SIGKILL))

    def _stop_signal(self) -> int:
        name = str((self.manifest.get("lifecycle") or {}).get("stopSignal") or "SIGTERM")
        return int(getattr(signal, name, signal.SIGTERM))

    async def _hook(self, name: str, limit: float | None) -> str:
        """A hook of its life: what is wrong, "" if nothing is, or if there is no such hook."""
        handler = (self.manifest.get("lifecycle") or {}).get(name)
        return await Probe(handler, timeout=limit).ask(self.manifest, self) if handler else ""

    async def _signal(self, number: int) -> None:
        # A sandbox that is gone has taken the container with it.
        with contextlib.suppress(ProcessLookupError, SandboxError):
            await self.sandbox.signal(self._id, number)
