r"""What signals do to a run that goes on without its client: stop it, or leave it. On a terminal, Ctrl-C asks."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from pumice.client.lease import Lease
from pumice.diagnosis.outcome import StopReason
from pumice.store.options import Interrupt
from pumice.store.run_end import HUNG_UP, INTERRUPTED, TERMINATED, Stop

_QUESTION = "stop, detach or continue? [s/d/c] "
_BY_INTERRUPT = Stop(INTERRUPTED, StopReason.INTERRUPTED)
_BY_TERMINATION = Stop(TERMINATED, StopReason.TERMINATED)


class Leaving(Struct):
    """`code` is that with which this process ends when it leaves the run; `answered` is called after a question."""

    lease: Lease
    on_interrupt: Interrupt | None = None
    answered: Callable[[], None] = lambda: None
    code: int = 0
    is_asking: bool = False
    _stopped: bool = False

    def handle_signals(self) -> None:
        """An ignored signal stays ignored: nohup ignores SIGHUP, a shell SIGINT in the background."""
        handlers = {
            signal.SIGINT: self._interrupted,
            signal.SIGTERM: self._terminated,
            signal.SIGHUP: lambda: self.leave(HUNG_UP),
            signal.SIGQUIT: lambda: self.leave(0),
        }
        for number, handle in handlers.items():
            if signal.getsignal(number) is not signal.SIG_IGN:
                asyncio.get_running_loop().add_signal_handler(number, handle)

    def leave(self, code: int) -> None:
        self._end_question()
        self.code = code
        self.lease.release()

    def _stop(self, why: Stop) -> None:
        """A second signal leaves the run to its end."""
        if self._stopped:
            self.leave(why.code)
        else:
            self._stopped = True
            self.lease.stop(why)

    def _interrupted(self) -> None:
        if self.on_interrupt is Interrupt.DETACH:
            self.leave(INTERRUPTED)
        elif self._stopped or self.on_interrupt is not None or not (sys.stdin.isatty() and sys.stderr.isatty()):
            self._stop(_BY_INTERRUPT)
        elif self.is_asking:
            self.leave(INTERRUPTED)
        else:
            self.is_asking = True
            print(f"\n{_QUESTION}", end="", file=sys.stderr, flush=True)
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._read_answer)

    def _terminated(self) -> None:
        default = Interrupt.STOP if os.environ.get("CI") == "true" else Interrupt.DETACH
        if (self.on_interrupt or default) is Interrupt.STOP:
            self._stop(_BY_TERMINATION)
        else:
            self.leave(TERMINATED)

    def _read_answer(self) -> None:
        line = ""
        with suppress(OSError):  # the terminal is gone
            line = sys.stdin.readline()
        answer = line.strip().lower()
        if not line:
            self.leave(INTERRUPTED)
        elif answer in ("s", "stop"):
            self._end_question()
            self._stop(_BY_INTERRUPT)
        elif answer in ("d", "detach"):
            self.leave(0)
        elif answer in ("c", "continue"):
            self._end_question()
        else:
            print(_QUESTION, end="", file=sys.stderr, flush=True)

    def _end_question(self) -> None:
        if self.is_asking:
            self.is_asking = False
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
            self.answered()
