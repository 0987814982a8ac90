"""Executes a command, or explains in words why it does not run.

The kernel answers ENOENT alike for a missing program, a missing interpreter in a script's first line and a missing
loader. That errno alone leads users to the wrong place.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from pumice.engines.local.sandbox.sandbox_errors import (
    BAD_INTERPRETER,
    COMMAND_NOT_FOUND,
    INTERNAL,
    NOT_EXECUTABLE,
    StartError,
)

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MAX_FIRST_LINE = 256
_HIGHEST_DESCRIPTOR = 1 << 30
_SIGNALS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})


def default_signals() -> None:
    """Reset blocked and ignored signals, which programs inherit across exec."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    default_actions()


def default_actions() -> None:
    """Reset ignored signals.

    Python ignores SIGPIPE and SIGXFSZ, nohup SIGHUP, and a shell SIGINT and SIGQUIT of what it runs in the background.
    """
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_DFL:
            signal.signal(number, signal.SIG_DFL)


def close_others(kept: Iterable[int]) -> None:
    """Close all descriptors but these and the standard streams."""
    first = 0
    for number in (*sorted({0, 1, 2, *kept}), _HIGHEST_DESCRIPTOR):
        if first < number:
            # An empty range that ends at 0 would close all of them.
            os.closerange(first, number)
        first = number + 1


def execute(argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Replace this process by the command; raises StartError if that fails."""
    if not argv or not argv[0]:
        raise StartError(COMMAND_NOT_FOUND, "the command is empty")
    program = find(argv[0], env.get("PATH", DEFAULT_PATH))
    if any(map(_is_this_program, (program, _interpreter(_first_line(program))))):
        raise StartError(
            NOT_EXECUTABLE, f"{program}: leads to the Python of this machine, not to a file of the container"
        )
    try:
        os.execve(program, list(argv), dict(env))  # noqa: S606 - a shell is there if the user wants one
    except OSError as error:
        raise explain(program, error) from error
    except ValueError as error:
        raise StartError(INTERNAL, f"the command or its environment cannot be passed on: {error}") from error


def find(name: str, path: str) -> str:
    """The program as a shell finds it: a name with a slash is a path, any other is looked up in PATH."""
    if "/" in name:
        if not os.path.lexists(name):
            raise StartError(COMMAND_NOT_FOUND, f"{name}: no such file")
        if not os.path.exists(name):
            raise StartError(COMMAND_NOT_FOUND, f"{name}: a link to {_missing_target(name)}, which does not exist here")
        return name
    refused = ""
    for directory in path.split(":"):
        candidate = os.path.join(directory or ".", name)
        if os.path.isfile(candidate):
            if os.access(candidate, os.X_OK):
                return candidate
            refused = refused or candidate
    if refused:
        raise StartError(NOT_EXECUTABLE, f"{refused}: not executable; chmod +x it, or name its interpreter first")
    raise StartError(COMMAND_NOT_FOUND, f"{name}: command not found in PATH={path}")


def _is_this_program(path: str) -> bool:
    """Return whether a path leads out of the container by /proc/PID/exe, to the mount that this process runs from."""
    try:
        return _mount_id(path) == _mount_id("/proc/self/exe")
    except OSError:
        return False


def _mount_id(path: str) -> str:
    opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        with open(f"/proc/self/fdinfo/{opened}") as lines:
            return next(line for line in lines if line.startswith("mnt_id:"))
    finally:
        os.close(opened)


def explain(program: str, error: OSError) -> StartError:
    if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
        return StartError(BAD_INTERPRETER, f"{program}: {_explain_missing(program)}")
    if error.errno in (errno.EACCES, errno.EPERM):
        return StartError(NOT_EXECUTABLE, f"{program}: {_explain_refused(program)}")
    if error.errno == errno.ENOEXEC:
        reason = "neither a program for this machine nor a script with an interpreter in its first line (#!/bin/sh)"
        return StartError(NOT_EXECUTABLE, f"{program}: {reason}")
    if error.errno == errno.E2BIG:
        return StartError(INTERNAL, f"{program}: the command and its environment together are too long for the kernel")
    return StartError(INTERNAL, f"{program}: {error.strerror}")


def _missing_target(link: str) -> str:
    """The end of a chain of links; in virtual environments the first link is rarely the broken one."""
    for _ in range(40):
        if not os.path.islink(link):
            break
        link = os.path.join(os.path.dirname(link), os.readlink(link))
    return os.path.normpath(link)


def _first_line(program: str) -> bytes:
    try:
        with open(program, "rb") as file:
            return file.readline(_MAX_FIRST_LINE)
    except OSError:
        return b""


def _interpreter(line: bytes) -> str:
    """Return the interpreter that the first line of a script names; empty if there is none."""
    words = line[2:].strip(b" \t\n").split(None, 1) if line.startswith(b"#!") else []
    return os.fsdecode(words[0].rstrip(b"\r")) if words else ""


def _explain_missing(program: str) -> str:
    line = _first_line(program)
    if not line.startswith(b"#!"):
        return "its loader (dynamic linker) does not exist here: it was built for another system"
    interpreter = _interpreter(line)
    if line.endswith(b"\r\n"):
        return f"the first line ends in CR LF, so the kernel looks for {interpreter} with a CR; use Unix line ends"
    return f"the interpreter {interpreter} of its first line does not exist here"


def _explain_refused(program: str) -> str:
    if os.path.isdir(program):
        return "a directory, not a program"
    if not os.access(program, os.X_OK):
        return "not executable; chmod +x it, or name its interpreter first"
    line = _first_line(program)
    if line.startswith(b"#!"):
        interpreter = os.fsdecode(line[2:].strip())
        return f"the interpreter {interpreter} of its first line may not be executed"
    return "may not be executed: its file system is mounted noexec"
