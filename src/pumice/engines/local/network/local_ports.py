"""The ports of 127.0.0.1: which are free, who holds one that is not, and which this user may open."""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pumice.model.problem import Position, Problem
from pumice.model.text import escaped
from pumice.store.options import Publish
from pumice.store.run_errors import InvalidOption

LOOPBACK: Final = "127.0.0.1"
_NOT_FREE: Final = (errno.EADDRINUSE, errno.EACCES)
_LISTENS: Final = "0A"  # the state of a socket
_SOCKET: Final = re.compile(r"socket:\[([0-9]+)\]")


class PortTakenError(Exception):
    """A port of this machine is taken, or this user may not open it."""

    def __init__(self, port: int, error: OSError) -> None:
        super().__init__(port, error)
        self.port = port
        self.is_denied = error.errno == errno.EACCES

    @property
    def why(self) -> str:
        """Return who has the port, which is looked for now."""
        if self.is_denied:
            return f"port {self.port} needs a right that this user does not have"
        return f"port {self.port} is taken by {_holder(self.port) or 'another process'}"

    @property
    def hint(self) -> str:
        return f"choose {_first_port()} or more" if self.is_denied else "choose another one"


def listen(port: int) -> socket.socket:
    """Listen on a port of 127.0.0.1; 0 is any free one. Raises PortTakenError."""
    # Unlike create_server, do not set SO_REUSEADDR, so that a port in use on another address counts as taken.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen()
    except OSError as error:
        listener.close()
        if error.errno not in _NOT_FREE:
            raise
        raise PortTakenError(port, error) from error
    return listener


def listen_near(port: int) -> socket.socket:
    """Listen on a port of 127.0.0.1 or, if it is taken, on any other."""
    try:
        return listen(port)
    except PortTakenError:
        return listen(0)


def check_ports(ports: Sequence[Publish]) -> None:
    """Raises InvalidOption for ports of this machine that are taken, or that this user may not open."""
    problems = []
    for each in ports:
        try:
            if each.local:
                listen(each.local).close()
        except PortTakenError as error:
            problems.append(Problem(f"{each}: {error.why}", error.hint, Position(option="publish")))
    if problems:
        raise InvalidOption.of(problems)


def _first_port() -> int:
    """Return the first port that every user may open."""
    with suppress(OSError, ValueError):
        return int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text(encoding="ascii"))
    return 1024


def _holder(port: int) -> str:
    """Return the process that listens on a port: `python3 (pid 123)`; empty if it cannot be known."""
    sockets = set()
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path("/proc/net", table).read_text(encoding="ascii").splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTENS and int(words[1].rpartition(":")[2], 16) == port:
                    sockets.add(words[9])  # its inode
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if sockets & set(_sockets(process)):
                name = (process / "comm").read_text("utf-8", "backslashreplace").strip()
                return f"{escaped(name)} (pid {process.name})"
    return ""


def _sockets(process: Path) -> Iterator[str]:
    """Yield the inodes of the sockets of a process. Raises OSError for one of another user."""
    with os.scandir(process / "fd") as descriptors:
        for each in descriptors:
            with suppress(OSError):
                if match := _SOCKET.fullmatch(str(Path(each.path).readlink())):
                    yield match[1]
