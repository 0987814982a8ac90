r"""Shows a foreground run, and passes on what its user does: signals stop it, Ctrl-\ detaches it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pumice.client.view.text_view import TextView
from pumice.engines.local.events import Listener, RunEvent, RunPlanned, Tick
from pumice.engines.local.outcome import BROKEN_PIPE, HUNG_UP, INTERRUPTED, TERMINATED, Stop
from pumice.engines.local.run_errors import RunError
from pumice.engines.local.runs.run_request import RunRequest
from pumice.engines.local.supervisor.leased_run import LeasedRun, SupervisorLostError, leased
from pumice.engines.local.supervisor.supervisor_process import SupervisorProcess

_BUSY = 0.5  # seconds that a large job may keep the event loop busy
_TICK = 0.5


@dataclass(slots=True)
class Foreground:
    view: Listener
    close_lost: Callable[[str], None]  # closes the record of a run whose process was killed, in this directory
    _run: LeasedRun | None = None
    _unhandled: float | None = None  # since when a signal waits for the event loop
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def show(self, process: SupervisorProcess, request: RunRequest) -> int:
        """Run the job to its end; return its exit code. Raises RunError if it cannot start."""
        if not _is_ignored(signal.SIGINT):
            # Before the run begins there is nothing to stop.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            async with leased(process) as self._run:
                async for event in self._run.start(request):
                    self._show(event)
                if self._run.detached:
                    self._clear()
                    return _say_detached(self._run)
                return 1 if self._run.outcome is None else self._run.outcome.exit_code
        except SupervisorLostError as error:
            self._clear()
            print(error, file=sys.stderr)
            if self._run is not None and self._run.directory:
                self.close_lost(self._run.directory)
            return 1
        finally:
            for task in self._tasks:
                task.cancel()

    def _clear(self) -> None:
        """Remove the state of the job from the terminal."""
        if isinstance(self.view, TextView):
            self.view.screen.draw(())

    def _show(self, event: RunEvent) -> None:
        try:
            self.view(event)
        except OSError as error:
            self.view = lambda _event: None
            self._stop_run(_output_lost(error))
        if isinstance(event, RunPlanned):
            self._handle_signals()
            self._spawn(self._tick())

    def _stop_run(self, why: Stop, *, insist: bool = False) -> None:
        if self._run is not None:
            self._run.stop(why, insist=insist)

    async def _tick(self) -> None:
        """Update the elapsed time."""
        while True:
            await asyncio.sleep(_TICK)
            self._show(Tick())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _handle_signals(self) -> None:
        """Handle signals. An ignored one stays ignored: nohup ignores SIGHUP, a shell SIGINT in the background."""
        stops = {
            signal.SIGINT: Stop(INTERRUPTED, "Interrupted"),
            signal.SIGTERM: Stop(TERMINATED, "Terminated"),
            signal.SIGHUP: Stop(HUNG_UP, "HungUp"),
        }
        for number, stop in stops.items():
            if number == signal.SIGTERM or not _is_ignored(number):
                # Gracefully at the first signal, at once at the second: the run ends with this process.
                self._handle(number, partial(self._stop_run, stop, insist=True), partial(os._exit, stop.code))
        if not _is_ignored(signal.SIGQUIT) and self._run is not None:
            self._handle(signal.SIGQUIT, lambda: self._spawn(self._detach()), self._run.release)

    def _handle(self, number: signal.Signals, handle: Callable[[], None], at_once: Callable[[], None]) -> None:
        """Handle a signal in the event loop; a second one at once, because the loop may block on our output."""

        def notice(_number: int, _frame: object) -> None:
            if self._unhandled is None:
                self._unhandled = time.monotonic()
            elif time.monotonic() - self._unhandled > _BUSY:
                # The second signal.
                at_once()

        def handle_in_loop() -> None:
            self._unhandled = None
            handle()

        asyncio.get_running_loop().add_signal_handler(number, handle_in_loop)
        signal.signal(number, notice)

    async def _detach(self) -> None:
        if self._run is None:
            return
        try:
            await self._run.detach()
        except RunError as error:
            with suppress(OSError):
                print(error, file=sys.stderr)


def _say_detached(run: LeasedRun) -> int:
    """Print the name of the run, and how to come back to it."""
    from pumice.client.liveness import logout_warning

    name = run.detached
    if run.warning:
        print(f"warning: if its process is killed, it is not started again: {run.warning}", file=sys.stderr)
    if logout := logout_warning():
        print(logout, file=sys.stderr)
    print(f"{name} goes on: pumice attach {name}, pumice logs -f {name}, pumice stop {name}", file=sys.stderr)
    print(name)
    return 0


def _is_ignored(number: signal.Signals) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN


def _output_lost(error: OSError) -> Stop:
    """Return why to stop the job: the reader of our output has closed it, or the disk is full."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            # Python would report it again when it closes the stream.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if not isinstance(error, BrokenPipeError):
        with suppress(OSError):
            print(f"output: {(error.strerror or str(error)).lower()}; the job is stopped", file=sys.stderr)
    return Stop(BROKEN_PIPE if isinstance(error, BrokenPipeError) else 1, "OutputClosed")
