"""One container of a pod: start, probes, restarts by the restart policy, graceful end."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field

from pumice.diagnosis.failure_lines import error_file_message
from pumice.engines.local.container_env import message_path
from pumice.engines.local.kubelet.container_logs import LogPump
from pumice.engines.local.kubelet.probes import Probe
from pumice.engines.local.kubelet.restart_policy import BackOff, restarts
from pumice.engines.local.sandbox import sandbox_errors
from pumice.engines.local.sandbox.entered import Entered, Program
from pumice.engines.local.sandbox.sandbox_errors import SandboxError, StartError
from pumice.engines.local.sandbox.sandbox_port import SandboxPort
from pumice.engines.local.sandbox.specs import ContainerSpec, Mount
from pumice.engines.local.sandbox.tree_stream import Copy
from pumice.model.job import Manifest
from pumice.model.snapshot import BACK_OFF, ContainerEnd
from pumice.model.text import escaped

DEFAULT_GRACE: Final = 30.0
STARTS_AT_ONCE: Final = 32
LONGEST_MESSAGE: Final = 4096
CANNOT_START: Final = 128
TERMINATED: Final = 143
_SIGNAL_BASE: Final = 128
# The exit codes of a shell for the same mistakes; all others get CANNOT_START.
_START_CODES: Final = {
    sandbox_errors.COMMAND_NOT_FOUND: 127,
    sandbox_errors.NOT_EXECUTABLE: 126,
    sandbox_errors.BAD_INTERPRETER: 126,
}


Now = Callable[[], dt.datetime]


class Container(Struct):
    """Runs a container, again and again as its restart policy says. Calls `changed` after each change of its state."""

    manifest: Manifest
    sandbox: SandboxPort
    make_spec: Callable[[int], ContainerSpec]  # number of restarts -> spec
    open_logs: Callable[[int], tuple[LogPump, LogPump]]
    changed: Callable[[], None]
    restarted: Callable[[ContainerEnd, int], None]  # how it ended, and the number of restarts
    now: Now
    warn: Callable[[str], None] = lambda _message: None  # a hook or a probe failed
    grace: float = DEFAULT_GRACE  # of the pod
    stop_signal: int = int(signal.SIGTERM)  # asks it to end
    # Shared by all containers of a job, to limit how many start at once: each start takes file descriptors.
    gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    restarts: int = 0
    running: bool = False
    started: bool = False
    ready: bool = False
    ends: list[ContainerEnd] = field(default_factory=list)
    waiting_for: str = ""  # CrashLoopBackOff, and the like
    changed_at: dt.datetime | None = None  # when it last started or ended
    _id: str = ""
    _stopping: bool = False
    _starting: bool = False
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)
    _over: asyncio.Event = field(default_factory=asyncio.Event)
    _env: dict[str, str] = field(default_factory=dict)
    _message_file: str = ""
    _why: tuple[str, str] = ("", "")  # why we ended it: reason and message

    @property
    def name(self) -> str:
        return str(self.manifest["name"])

    @property
    def is_sidecar(self) -> bool:
        """Whether this init container keeps running beside the containers."""
        return self.manifest.get("restartPolicy") == "Always"

    async def run(self, policy: str) -> ContainerEnd:
        """Run until the restart policy does not restart it; return how it ended last."""
        back_off = BackOff()
        while True:
            began = self.now()
            end = await self._run_once()
            self.ends.append(end)
            self.changed_at = end.finished_at
            if self._stopping or not restarts(self.manifest, policy, end.exit_code):
                self.changed()
                return end
            self.waiting_for = BACK_OFF
            self.changed()
            self.restarted(end, self.restarts + 1)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(back_off.after((self.now() - began).total_seconds())):
                    await self._stopped.wait()
            if self._is_stopping():
                return end
            self.restarts += 1
            self.waiting_for = ""

    async def stop(self, grace: float, why: tuple[str, str] = ("", "")) -> None:
        """End it, without a restart: the preStop hook, then its stop signal, and SIGKILL when the grace period is over.

        `why`, a reason and a message, is given where the end is a failure.
        """
        self._stopping = True
        self._stopped.set()
        while self._starting:  # noqa: ASYNC110 - for an instant
            await asyncio.sleep(0.01)
        self._why = why if why[0] else self._why
        await self._end(grace)

    # A method, because a type checker does not know that other tasks change the field while this one sleeps.
    def _is_stopping(self) -> bool:
        return self._stopping

    async def kill(self, number: int = int(signal.SIGKILL)) -> None:
        if self.running:
            await self._signal(number)

    async def exec(self, argv: list[str], timeout: float | None) -> tuple[int, bytes]:  # noqa: ASYNC109 - it is killed then
        return await self.sandbox.exec(self._id, argv, self._env, timeout)

    async def enter(self, argv: list[str], size: tuple[int, int] | None, terminal: str) -> Entered:
        """Run a command with streams, or on a terminal of this size; `terminal` is the value of TERM."""
        env = {**self._env, "TERM": terminal} if size is not None else self._env
        return await self.sandbox.enter(self._id, Program(argv, env), size)

    async def copy(self, copy: Copy) -> Entered:
        """Copy files into the container, or out of it."""
        return await self.sandbox.enter(self._id, copy)

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
            file = f"{error.filename}: " if error.filename else ""
            message = f"{self.name}: cannot be started: {file}{why}"
            return ContainerEnd(self.name, CANNOT_START, "StartError", 0, self.now(), message)
        finally:
            self._starting = False
        watching = asyncio.create_task(self._watch())
        try:
            ended = await self.sandbox.ended(self._id)
        finally:
            # Also if the sandbox has ended, and the container with it.
            self.running = self.started = self.ready = False
            self._over.set()
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
        for log in logs:
            await log.drained()
            log.file.close()
        reason, why = self._why
        code = ended.code if not ended.signal else _SIGNAL_BASE + ended.signal
        message, line = self._message(), logs[1].last_line(code) or logs[0].last_line(code)
        # Prefer the line of the log if it is the same message with the rank before it.
        last = why or (line if message and line.endswith(f": {message}") else message) or line
        return ContainerEnd(self.name, code, "OOMKilled" if ended.oom else reason, ended.signal, self.now(), last)

    async def _start(self, logs: tuple[LogPump, LogPump]) -> None:
        spec = self.make_spec(self.restarts)
        self._id, self._env = spec.id, dict(spec.env)
        path = message_path(self.manifest)
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
        self.changed_at = self.now()
        if not (self.manifest.get("lifecycle") or {}).get("postStart"):
            self._mark_started()
        self.changed()

    def _message(self) -> str:
        """Return the termination message of the container, in one line."""
        if not self._message_file:
            return ""
        try:
            with Path(self._message_file).open("rb") as file:
                # A hole of a sparse file reads as NUL characters.
                message = file.read(LONGEST_MESSAGE).decode("utf-8", "replace").replace("\0", " ")
        except OSError:
            # The container may have changed the mode of its file.
            return ""
        return error_file_message(" ".join(message.split()))

    def _mark_started(self) -> None:
        self.started = not self.manifest.get("startupProbe")
        self.ready = self.started and not self.manifest.get("readinessProbe")

    async def _watch(self) -> None:
        """Run the postStart hook, beside the command, then the probes; until cancelled at the end of the container."""
        began = self.now()
        if (self.manifest.get("lifecycle") or {}).get("postStart"):
            failure = await self._hook("postStart", None)
            if failure:
                await self._end_because("PostStartHookError", f"the postStart hook failed: {failure}", self.grace)
                return
            self._mark_started()
            self.changed()
        if await self._has_started():
            async with asyncio.TaskGroup() as tasks:
                for kind, on_result in (("readinessProbe", self._set_ready), ("livenessProbe", self._end_if_dead)):
                    probe = Probe.read(self.manifest.get(kind))
                    if probe is not None:
                        running = (self.now() - began).total_seconds()
                        tasks.create_task(probe.since(running).watch(self.manifest, self, on_result))

    async def _has_started(self) -> bool:
        """Wait for the startup probe, if there is one; whether it succeeded."""
        probe = Probe.read(self.manifest.get("startupProbe"))
        if probe is None:
            return True
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def on_result(failure: str) -> None:
            if not answer.done():
                answer.set_result(failure)

        watching = asyncio.create_task(probe.watch(self.manifest, self, on_result))
        try:
            failure = await answer
        finally:
            watching.cancel()
        if failure:
            await self._end_because("StartupProbeFailed", f"the startup probe failed: {failure}", self._grace_of(probe))
            return False
        self.started = True
        self.ready = not self.manifest.get("readinessProbe")
        self.changed()
        return True

    async def _set_ready(self, failure: str) -> None:
        self.ready = not failure
        self.changed()

    async def _end_if_dead(self, failure: str) -> None:
        if failure:
            grace = self._grace_of(Probe.read(self.manifest.get("livenessProbe")))
            await self._end_because("LivenessProbeFailed", f"the liveness probe failed: {failure}", grace)

    def _grace_of(self, probe: Probe | None) -> float:
        own = probe.handler.get("terminationGracePeriodSeconds") if probe is not None else None
        return self.grace if own is None else float(own)

    async def _end_because(self, reason: str, why: str, grace: float) -> None:
        """End the container; the restart policy decides whether it starts again."""
        self._why = (reason, why)
        self.warn(f"container {self.name}: {escaped(why)}; the container is stopped")
        await self._end(grace)

    async def _end(self, grace: float) -> None:
        if not self.running:
            return
        try:
            async with asyncio.timeout(grace):
                failure = await self._hook("preStop", grace) if grace else ""
                if failure:
                    self.warn(f"container {self.name}: the preStop hook failed: {escaped(failure)}")
                await self._signal(self.stop_signal)
                await self._over.wait()
        except TimeoutError:
            await self._signal(int(signal.SIGKILL))

    async def _hook(self, name: str, limit: float | None) -> str:
        """Run a lifecycle hook; return its failure, "" if it succeeds or there is none."""
        handler = (self.manifest.get("lifecycle") or {}).get(name)
        return await Probe(handler, timeout=limit).check(self.manifest, self) if handler else ""

    async def _signal(self, number: int) -> None:
        # A sandbox that has ended took the container with it.
        with contextlib.suppress(ProcessLookupError, SandboxError):
            await self.sandbox.signal(self._id, number)
