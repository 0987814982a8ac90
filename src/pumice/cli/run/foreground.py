r"""Shows a foreground run, and passes on what its user does: signals stop it, Ctrl-\ detaches it."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import aclosing, suppress
from functools import partial

from msgspec import Struct, field

from pumice.cli.errors import print_error
from pumice.cli.run.leaving import Leaving
from pumice.client.backend import Backend
from pumice.client.lease import Lease, start_task
from pumice.client.view.text_view import TextView
from pumice.diagnosis.outcome import StopReason
from pumice.store.events import Listener, RunEvent, RunPlanned
from pumice.store.options import Interrupt
from pumice.store.run_end import BROKEN_PIPE, HUNG_UP, INTERRUPTED, TERMINATED, RunEnded, Stop
from pumice.store.run_errors import RunError, RunLostError

_BUSY = 0.5  # seconds that a large job may keep the event loop busy


class Foreground(Struct):
    backend: Backend
    lease: Lease
    view: Listener
    on_interrupt: Interrupt | None = None
    _leaving: Leaving | None = None  # of a run that goes on without this process
    _held: list[RunEvent] = field(default_factory=list)  # while its user is asked something
    _code: int = 1  # with which the run ended
    _unhandled: float | None = None  # since when a signal waits for the event loop
    _signalled: bool = False  # a signal has stopped the run
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def show(self) -> int:
        """Run the job to its end; return its exit code. Raises RunError if it cannot start."""
        if not _is_ignored(signal.SIGINT):
            # Before the run begins there is nothing to stop.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            async with aclosing(self.lease.events()) as events:
                async for event in events:
                    self._show(event)
        except RunLostError as error:
            self._clear()
            print_error(error)
            return 1
        except (RunError, asyncio.CancelledError) as error:
            if not (self.lease.outlives_client and self.lease.has_begun):
                raise
            self._clear()
            if isinstance(error, RunError):
                print_error(error)
            print(self._keeps_running, file=sys.stderr)
            if isinstance(error, RunError):
                return error.exit_code
            raise
        finally:
            for task in self._tasks:
                task.cancel()
        if self.lease.is_detached:
            self._clear()
            return self._say_detached()
        return self._code

    def _clear(self) -> None:
        """Remove the state of the job from the terminal."""
        if isinstance(self.view, TextView):
            self.view.screen.draw(())

    def _show(self, event: RunEvent) -> None:
        if self._leaving is not None and self._leaving.is_asking:
            self._held.append(event)
            return
        try:
            self.view(event)
        except OSError as error:
            self.view = lambda _event: None
            why = _output_lost(error)
            if self._leaving is None:
                self.lease.stop(why)
            else:
                self._leaving.leave(why.code)
        if isinstance(event, RunPlanned):
            self._handle_signals()
        elif isinstance(event, RunEnded):
            self._code = event.exit_code

    def _show_held(self) -> None:
        events, self._held = self._held, []
        for event in events:
            self._show(event)

    def _stop_by_signal(self, why: Stop) -> None:
        """Stop the run gracefully at the first signal, at once at the second.

        Output that failed before counts as none: a terminal that closes fails the output and sends SIGHUP.
        """
        self.lease.stop(why, insist=self._signalled)
        self._signalled = True

    def _handle_signals(self) -> None:
        """Handle signals. An ignored one stays ignored: nohup ignores SIGHUP, a shell SIGINT in the background."""
        if self.lease.outlives_client:
            self._leaving = Leaving(self.lease, self.on_interrupt, self._show_held)
            self._leaving.handle_signals()
            return
        stops = {
            signal.SIGINT: Stop(INTERRUPTED, StopReason.INTERRUPTED),
            signal.SIGTERM: Stop(TERMINATED, StopReason.TERMINATED),
            signal.SIGHUP: Stop(HUNG_UP, StopReason.HUNG_UP),
        }
        for number, stop in stops.items():
            if number == signal.SIGTERM or not _is_ignored(number):
                # At the second, if the loop has not handled the first: the run ends with this process.
                self._handle(number, partial(self._stop_by_signal, stop), partial(os._exit, stop.code))
        if not _is_ignored(signal.SIGQUIT):
            self._handle(signal.SIGQUIT, self._detach, self.lease.release)

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

    def _detach(self) -> None:
        async def detach() -> None:
            try:
                await self.lease.detach()
            except RunError as error:
                with suppress(OSError):
                    print_error(error)

        self._tasks.append(start_task(detach()))

    def _say_detached(self) -> int:
        """Print the name of the run, and how to come back to it."""
        if lost := self.lease.warning:
            print(f"warning: if its process is killed, it is not started again: {lost}", file=sys.stderr)
        for line in self.backend.warnings(submitted=True):
            print(line, file=sys.stderr)
        with suppress(OSError):
            print(self._keeps_running, file=sys.stderr)
            print(self.lease.ref)
        return 0 if self._leaving is None else self._leaving.code

    @property
    def _keeps_running(self) -> str:
        run = " ".join(filter(None, (str(self.lease.ref), self.lease.flags)))
        return f"{self.lease.ref} keeps running; reattach with pumice attach {run}, end it with pumice stop {run}"


def _is_ignored(number: signal.Signals) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN


def _output_lost(error: OSError) -> Stop:
    """Return why to stop the job: the reader of our output or the terminal is gone, or the disk is full."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            # Python would report it again when it closes the stream.
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    if error.errno == errno.EIO:
        return Stop(HUNG_UP, StopReason.HUNG_UP)
    if isinstance(error, BrokenPipeError):
        return Stop(BROKEN_PIPE, StopReason.OUTPUT_CLOSED)
    about = (error.strerror or str(error)).lower()
    with suppress(OSError):
        print(f"output: {about}; the job is stopped", file=sys.stderr)
    # Nobody asked for it: the run fails.
    return Stop(1, "OutputFailed", f"its output could not be written: {about}")
