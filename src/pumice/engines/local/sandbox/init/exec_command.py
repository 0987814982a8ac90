"""From a command to a running program, or to the reason why it does not run, in words.

The kernel says "no such file" for a missing program, for a missing interpreter in a script's first line and for a
missing loader alike. Who has only that message looks in the wrong place.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from typing import NoReturn

from pumice.engines.local.sandbox.sandbox_errors import (
    BAD_INTERPRETER,
    COMMAND_NOT_FOUND,
    INTERNAL,
    NOT_EXECUTABLE,
    StartError,
)

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LONGEST_FIRST_LINE = 256


def execute(argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Become the command; returns only by StartError."""
    if not argv or not argv[0]:
        raise StartError(COMMAND_NOT_FOUND, "the command is empty")
    program = find(argv[0], env.get("PATH", DEFAULT_PATH))
    try:
        os.execve(program, list(argv), dict(env))  # noqa: S606 - a shell is there if the user wants one
    except OSError as error:
        raise explain(program, error) from error
    except ValueError as error:
        raise StartError(INTERNAL, f"the command or its environment cannot be passed on: {error}") from error


def find(name: str, path: str) -> str:
    """As a shell does it: a name with a slash as it is, any other in the directories of PATH."""
    if "/" in name:
        if not os.path.lexists(name):
            raise StartError(COMMAND_NOT_FOUND, f"{name}: no such file")
        if not os.path.exists(name):
            raise StartError(COMMAND_NOT_FOUND, f"{name}: {_dangling(name)}")
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


def explain(program: str, error: OSError) -> StartError:
    if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
        return StartError(BAD_INTERPRETER, f"{program}: {_missing_helper(program)}")
    if error.errno in (errno.EACCES, errno.EPERM):
        return StartError(NOT_EXECUTABLE, f"{program}: {_refused(program)}")
    if error.errno == errno.ENOEXEC:
        why = "neither a program for this machine nor a script with an interpreter in its first line (#!/bin/sh)"
        return StartError(NOT_EXECUTABLE, f"{program}: {why}")
    if error.errno == errno.E2BIG:
        return StartError(INTERNAL, f"{program}: the command and its environment together are too long for the kernel")
    return StartError(INTERNAL, f"{program}: {error.strerror}")


def _dangling(name: str) -> str:
    """Which link of the chain leads nowhere: with virtual environments it is rarely the first."""
    for _ in range(40):
        if not os.path.islink(name):
            break
        name = os.path.join(os.path.dirname(name), os.readlink(name))
    return f"a link to {os.path.normpath(name)}, which does not exist here"


def _first_line(program: str) -> bytes:
    try:
        with open(program, "rb") as file:
            return file.readline(_LONGEST_FIRST_LINE)
    except OSError:
        return b""


def _missing_helper(program: str) -> str:
    line = _first_line(program)
    if not line.startswith(b"#!"):
        return "its loader (dynamic linker) does not exist here: it was built for another system"
    words = line[2:].strip(b" \t\n").split(None, 1)
    interpreter = os.fsdecode(words[0].rstrip(b"\r")) if words else ""
    if line.endswith(b"\r\n"):
        return f"the first line ends in CR LF, so that {interpreter} with a CR is looked for; use Unix line ends"
    return f"the interpreter {interpreter} of its first line does not exist here"


def _refused(program: str) -> str:
    if os.path.isdir(program):
        return "a directory, not a program"
    if not os.access(program, os.X_OK):
        return "not executable; chmod +x it, or name its interpreter first"
    line = _first_line(program)
    if line.startswith(b"#!"):
        interpreter = os.fsdecode(line[2:].strip())
        return f"the interpreter {interpreter} of its first line may not be executed"
    return "may not be executed: its file system is mounted noexec"
