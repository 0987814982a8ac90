"""The process of the service: one per user, machine and state directory.

It takes turns in the queue, watches the supervisors of detached runs, recovers those that are lost, and removes old
runs every hour. After five minutes without queued runs, running detached runs and clients it ends.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from pumice.engines.local.clock import elapsed, wall_clock
from pumice.engines.local.daemon.background import RotatedLog, allowed_environment, report_ready, start_process
from pumice.engines.local.daemon.connections import Connection, Listener, own_hello, unknown_request
from pumice.engines.local.daemon.runtime_files import remove_runtime_files, sweep_runtime_files
from pumice.engines.local.rpc.wire import Message
from pumice.engines.local.runs import settle_lost_runs
from pumice.engines.local.scheduling.reservations import reservations_directory
from pumice.engines.local.scheduling.run_queue import active_runs, is_waiting
from pumice.engines.local.service.queue_turn import QueueTurn
from pumice.engines.local.service.queued_runs import recover, submit
from pumice.engines.local.service.service_paths import ServicePaths
from pumice.store.files.owner_lock import OwnerLock, read_owner
from pumice.store.files.retention import prune, removal_text
from pumice.store.files.run_store import SUPERVISOR_LOG, RunStore, StoredRun
from pumice.store.run_errors import InvalidOption, RefusedError, RunError, StoreError
from pumice.store.run_record import FOREGROUND, RunRecord
from pumice.store.settings import Retention

IDLE: Final = 300.0  # seconds until a service without work ends
_TICK: Final = 1.0  # between two looks at what other processes change
_LOOK_AGAIN: Final = 30.0  # for changes that no file shows: memory, programs on GPUs, a removed socket
_HOUR: Final = 3600.0
_FIRST_LOOK: Final = 2.0  # for runs that lost their process before the service began


def supervisor_command(run: StoredRun, lock: int) -> list[str]:
    """Return the command of a supervisor: the Python that submitted the run, if it is still there."""
    python = run.record.python if os.access(run.record.python, os.X_OK) else sys.executable
    return [python, "-I", "-X", "utf8", "-m", "pumice.engines.local.supervisor", str(run.directory), str(lock)]


@dataclass(slots=True)
class Supervisors:
    """`ended` is called with the uid of a run whose supervisor is gone, however it ended."""

    environ: Mapping[str, str]
    ended: Callable[[str], None]
    command: Callable[[StoredRun, int], list[str]] = supervisor_command
    _watched: dict[str, int] = field(default_factory=dict)  # descriptors of processes, by the uid of the run
    _children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def watched(self) -> frozenset[str]:
        return frozenset(self._watched)

    def start(self, run: StoredRun, lock: OwnerLock) -> None:
        """Start a supervisor, which gets the lock, so that it is never free in between. Raises OSError."""
        environ = allowed_environment(self.environ)
        if run.record.gpus is not None:
            environ["CUDA_VISIBLE_DEVICES"] = ",".join(run.record.gpus)
        log = run.directory / SUPERVISOR_LOG
        child = start_process(self.command(run, lock.descriptor), environ, log, lock.descriptor)
        self._children[run.record.uid] = child
        self._watch(run.record.uid, child.pid, child)

    def adopt(self, run: StoredRun) -> None:
        """Watch a supervisor that another service started, or a client."""
        owner = read_owner(run.directory)
        if run.record.uid not in self._watched and owner.is_alive:
            self._watch(run.record.uid, owner.pid)

    def forget(self, uid: str) -> None:
        descriptor = self._watched.pop(uid, None)
        if descriptor is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)

    def close(self) -> None:
        for uid in list(self._watched):
            self.forget(uid)
        for child in self._children.values():
            # It goes on; the interpreter would warn that it was not waited for.
            child.returncode = child.poll() or 0
        self._children.clear()

    def _watch(self, uid: str, pid: int, child: subprocess.Popen[bytes] | None = None) -> None:
        with suppress(OSError):
            # It may have ended already, which its free lock says.
            self._watched[uid] = descriptor = os.pidfd_open(pid)
            asyncio.get_running_loop().add_reader(descriptor, self._fired, uid, descriptor, child)

    def _fired(self, uid: str, descriptor: int, child: subprocess.Popen[bytes] | None) -> None:
        """Handle the end of one process: a run that was suspended and resumed has another one by now."""
        if child is not None:
            child.wait()
        if self._watched.get(uid) != descriptor:
            asyncio.get_running_loop().remove_reader(descriptor)
            os.close(descriptor)
            return
        self.forget(uid)
        self._children.pop(uid, None)
        self.ended(uid)


@dataclass(slots=True)
class Service:
    paths: ServicePaths
    environ: Mapping[str, str]
    log: RotatedLog
    idle: float = IDLE
    store: RunStore = field(init=False)
    supervisors: Supervisors = field(init=False)
    queue: QueueTurn = field(init=False)
    _listener: Listener = field(init=False)
    _clients: int = 0
    _waiting: int = 0  # runs in the queue at the last turn
    _retired: bool = False
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _recovering: set[asyncio.Task[None]] = field(default_factory=set)
    _failed: dict[str, str] = field(default_factory=dict)  # the last message about a run that cannot be recovered
    _seen: object = None  # of the runs at the last turn

    def __post_init__(self) -> None:
        self.store = RunStore(self.paths.state)
        self.supervisors = Supervisors(self.environ, self._supervisor_ended)
        self.queue = QueueTurn(self.store, self._launch, wall_clock)
        self._listener = Listener(lambda: self.paths.socket(self.environ), self._serve, str(self.paths.state))

    async def run(self, ready: int) -> None:
        """Serve until there is nothing to do, or a client asks the service to end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._retire)
        loop.add_signal_handler(signal.SIGUSR1, self._changed.set)
        await self._keep_socket()
        self.log.write(f"service {own_hello().version} started, pid {os.getpid()}, state {self.paths.state}")
        await asyncio.to_thread(settle_lost_runs, self.store)
        for run, _ in active_runs(self.store):
            self._recover(run)
        if self._recovering:
            # The command that started the service says which runs were interrupted.
            await asyncio.wait(tuple(self._recovering), timeout=_FIRST_LOOK)
        report_ready(ready)
        busy, looked, pruned = elapsed(), 0.0, 0.0
        while not self._retired:
            now = elapsed()
            if now - looked >= _LOOK_AGAIN or self._changed.is_set():
                looked, self._seen = now, None
                await self._keep_socket()
            self._changed.clear()
            if now - pruned >= _HOUR:
                pruned = now
                await asyncio.to_thread(self._prune)
            if self._take_turn():
                busy = now
            elif now - busy >= self.idle:
                break
            with suppress(TimeoutError):
                async with asyncio.timeout(min(_TICK, self.idle)):
                    await self._changed.wait()
        self.log.write("service ends")
        self._listener.close()
        self.supervisors.close()

    def _take_turn(self) -> bool:
        """Start what can start. Return whether there is anything to wait for."""
        # What changes when runs arrive, end or change what they hold. It is cheap to read.
        seen: list[tuple[str, int]] = []
        for directory in (self.store.active, reservations_directory(self.store.state)):
            with suppress(OSError), os.scandir(directory) as entries:
                seen += [(entry.name, entry.stat(follow_symlinks=False).st_mtime_ns) for entry in entries]
        seen.sort()
        if seen == self._seen and not any(wall_clock() >= moment for moment in self.queue.again_at):
            return self._is_busy
        self._seen = seen
        try:
            runs = active_runs(self.store)
            self.queue.take(runs)
        except OSError as error:
            self.log.write(f"the queue waits: {error}")
            return True
        for run, status in runs:
            # One that was killed while it was suspended still has its resources, and is recovered.
            suspended = status.needs_resume and status.started is None
            if is_waiting(status) or suspended or run.record.uid in self.supervisors.watched:
                continue
            if not run.is_owned:
                self._recover(run)
            elif run.record.mode != FOREGROUND:
                self.supervisors.adopt(run)
        self._waiting = sum(is_waiting(status) for _, status in runs)
        return self._is_busy

    @property
    def _is_busy(self) -> bool:
        return bool(self._waiting or self.supervisors.watched or self._clients or self._recovering)

    def _launch(self, run: StoredRun, lock: OwnerLock) -> None:
        self.log.write(f"starts {run.ref}")
        try:
            self.supervisors.start(run, lock)
        except OSError as error:
            self.log.write(f"{run.ref} cannot be started: {error}")
            asyncio.get_running_loop().call_soon(self._supervisor_ended, run.record.uid)

    def _supervisor_ended(self, uid: str) -> None:
        run = self.store.load(self.store.active / uid)
        if run is not None:
            self._recover(StoredRun((self.store.active / uid).resolve(), run.record))
        else:
            remove_runtime_files(uid)
        self._changed.set()

    def _recover(self, run: StoredRun) -> None:
        async def recovered() -> None:
            try:
                line = await asyncio.to_thread(recover, self.store, run)
            except (OSError, RunError) as error:
                line = f"{run.ref} cannot be recovered: {error}"
                if self._failed.get(run.record.uid) == line:
                    return
                self._failed[run.record.uid] = line
            if line:
                self.log.write(line)
                self.paths.add_notice(line)
            self._changed.set()

        task = asyncio.get_running_loop().create_task(recovered())
        self._recovering.add(task)
        task.add_done_callback(self._recovering.discard)

    def _prune(self) -> None:
        sweep_runtime_files(self.store.active)
        newest = max(self.store.all_runs(), key=lambda run: run.record.created, default=None)
        stored = {} if newest is None else newest.record.options.get("settings", {}).get("retention", {})
        try:
            removed = prune(self.store, msgspec.convert(stored, Retention), wall_clock())
        except (OSError, msgspec.ValidationError) as error:
            self.log.write(f"no runs removed: {error}")
            return
        if removed:
            self.log.write(removal_text(removed))
            self.paths.add_notice(removal_text(removed))

    async def _keep_socket(self) -> None:
        try:
            await self._listener.keep()
        except (OSError, RefusedError) as error:
            self.log.write(f"no socket: {error}")
            if not self._listener.is_open:
                raise

    async def _serve(self, connection: Connection) -> None:
        self._clients += 1
        try:
            await connection.serve_requests(self._answer)
        finally:
            self._clients -= 1

    async def _answer(self, request: Message) -> Any:
        match request.get("do"):
            case "submit":
                return await self._submit(request)
            case "wake":
                # Take a turn at once: a client changed a run.
                self._changed.set()
                return True
            case "status":
                return {
                    "pid": os.getpid(),
                    "version": own_hello().version,
                    "state": str(self.paths.state),
                    "queued": sum(is_waiting(status) for _, status in active_runs(self.store)),
                    "running": len(self.supervisors.watched),
                    "log": str(self.paths.log),
                }
            case "retire":
                # The answer goes out before the process ends.
                asyncio.get_running_loop().call_soon(self._retire)
                return True
        raise unknown_request(request)

    async def _submit(self, request: Message) -> Any:
        try:
            record = msgspec.convert(request.get("record"), RunRecord)
            run = await asyncio.to_thread(submit, self.store, record)
        except msgspec.ValidationError as error:
            raise InvalidOption(f"not a run: {error}") from error
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            why = where + (error.strerror or str(error)).lower()
            raise StoreError(f"the run cannot be stored: {why}", f"make room in {self.paths.state}") from error
        self._changed.set()
        return {"run": run.ref, "uid": run.record.uid, "directory": str(run.directory)}

    def _retire(self) -> None:
        self._retired = True
        self._changed.set()


def main(state: str, ready: int) -> None:
    """Run the service, unless another process holds its lock."""
    # A client may send it as soon as the lock is signed.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    paths = ServicePaths(Path(state))
    lock = paths.take_lock()
    if lock is None:
        report_ready(ready)
        return
    service = Service(paths, dict(os.environ), RotatedLog(paths.log))
    asyncio.run(service.run(ready))
    os.close(lock)
