"""Connects a command in a pod with the streams of this process, or with its terminal.

Bytes pass as they are in both directions: what a program writes, escape sequences too, is for the terminal.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from pumice.client.pod_access import PodCommand

_BLOCK: Final = 1 << 16
# Milliseconds without output after the end of the command: a process in the background may keep its streams open.
_QUIET: Final = 200
_DEADLY: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


def terminal_size(descriptor: int) -> tuple[int, int]:
    """Return lines and columns."""
    try:
        size = os.get_terminal_size(descriptor)
    except OSError:
        return 24, 80
    return size.lines, size.columns


def relay(entered: PodCommand, *, on_terminal: bool) -> int:
    """Pass input and output on until the command has ended; return its exit code. Raises RunError."""
    # The command ends with this process. A handler, so that the terminal is restored; an ignored signal stays ignored.
    handled = [number for number in _DEADLY if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda number, _frame: sys.exit(128 + number)) for number in handled}
    sys.stdout.flush()
    try:
        if not on_terminal:
            stdin, stdout, stderr = entered.descriptors
            return _Relay(entered, stdin, {stdout: 1, stderr: 2}).run()
        (terminal,) = entered.descriptors
        with _own_terminal(entered):
            return _Relay(entered, terminal, {terminal: 1}).run()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _own_terminal(entered: PodCommand) -> Iterator[None]:
    """Send every key to the pod, and keep its terminal as large as this one.

    The kernel signals the programs in its foreground. Input that was not read is discarded at the end: it was meant for
    the pod.
    """

    def follow(*_: object) -> None:
        entered.resize(terminal_size(1))

    state = termios.tcgetattr(0)
    tty.setraw(0, termios.TCSADRAIN)
    try:
        before = signal.signal(signal.SIGWINCH, follow)
        try:
            follow()
            yield
        finally:
            signal.signal(signal.SIGWINCH, before)
    finally:
        termios.tcsetattr(0, termios.TCSAFLUSH, state)


@dataclass(slots=True)
class _Relay:
    """`outputs` maps descriptors of the command to those of this process."""

    entered: PodCommand
    sink: int  # the command's input
    outputs: dict[int, int]
    _pending: bytearray = field(default_factory=bytearray)  # input that the command has not read
    _input: bool = True  # there may be more of it
    _writable: bool = True
    _ended: bool = False

    def run(self) -> int:
        self._ended = self.entered.has_ended
        os.set_blocking(self.sink, False)
        for source in self.outputs:
            os.set_blocking(source, False)
        while self.outputs or not self._ended:
            ready = self._poll()
            if not ready and self._ended:
                break
            for descriptor, events in ready:
                self._handle(descriptor, events)
        return self.entered.code()

    def _poll(self) -> list[tuple[int, int]]:
        poll = select.poll()
        wanted: dict[int, int] = dict.fromkeys(self.outputs, select.POLLIN)
        if self._pending and self._writable:
            wanted[self.sink] = wanted.get(self.sink, 0) | select.POLLOUT
        if self._input and self._writable and len(self._pending) < _BLOCK:
            wanted[0] = select.POLLIN
        if not self._ended:
            wanted[self.entered.fileno()] = select.POLLIN
        for descriptor, events in wanted.items():
            poll.register(descriptor, events)
        return poll.poll(_QUIET if self._ended else None)

    def _handle(self, descriptor: int, events: int) -> None:
        if descriptor == self.entered.fileno():
            self._ended = True
            return
        if descriptor == 0:
            self._read_input()
        if descriptor == self.sink and events & (select.POLLOUT | select.POLLERR):
            self._write_input()
        if descriptor in self.outputs and events & (select.POLLIN | select.POLLHUP | select.POLLERR):
            self._pass_on(descriptor)

    def _read_input(self) -> None:
        try:
            data = os.read(0, _BLOCK)
        except BlockingIOError:
            return
        except OSError:
            # The terminal is gone, or the caller closed the input.
            data = b""
        self._pending += data
        if not data:
            self._input = False
            self._close_input()

    def _write_input(self) -> None:
        try:
            del self._pending[: os.write(self.sink, self._pending)]
        except BlockingIOError:
            return
        except OSError:
            # The command has closed its input, or has ended.
            self._pending.clear()
            self._input = False
        self._close_input()

    def _close_input(self) -> None:
        """Close the input of the command once all of it was passed on. A terminal stays open for the output."""
        if not self._input and not self._pending and self._writable and self.sink not in self.outputs:
            self.entered.close_stream(self.sink)
            self._writable = False

    def _pass_on(self, source: int) -> None:
        try:
            data = os.read(source, _BLOCK)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno not in (errno.EIO, errno.ECONNRESET):
                raise
            # No process has the terminal open any more.
            data = b""
        if not data or not _write(self.outputs[source], data):
            # The end of the output; or its reader has gone, which the command learns when it writes again.
            del self.outputs[source]
            if source != self.sink:
                self.entered.close_stream(source)
            elif not self._ended:
                self._input = self._writable = False


def _write(target: int, data: bytes) -> bool:
    """Write all of it; False if the reader has gone."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(target, view) :]
        except BlockingIOError:
            # The caller shares the descriptor with a program that does not wait.
            select.select([], [target], [])
        except OSError:
            return False
    return True
