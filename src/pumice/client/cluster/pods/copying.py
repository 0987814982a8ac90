"""Copies files into containers of a cluster and out of them, by `tar` in the image, else by Python there."""

from __future__ import annotations

import asyncio
import os
import posixpath
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from pumice.client.backend import RunRef
from pumice.client.cluster.connection import Connection
from pumice.client.cluster.pods.pod_commands import Target, find_target, output_of
from pumice.client.cluster.pods.pod_streams import NOT_FOUND, PodStreams
from pumice.client.cluster.pods.tar_trees import (
    RootIsLinkError,
    StreamError,
    TarSource,
    TarTree,
    is_denied,
    reason_of,
    target_of,
)
from pumice.client.pod_access import CopyReport, NotStartedError, PodPath, Skipped
from pumice.model.problem import Command
from pumice.model.text import escaped
from pumice.store.run_errors import ConnectionFailed, Denied, InvalidOption, RunError, Unsupported

_MOST_SAID: Final = 1 << 16  # bytes of errors
_BUFFER: Final = 1 << 18
_NAMELESS: Final = ("", ".", "..", "/")
_SEND: Final = """import os, sys, tarfile
with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.GNU_FORMAT) as out:
    out.add(os.path.realpath(sys.argv[1]), arcname=sys.argv[2])
"""
_RECEIVE: Final = """import sys, tarfile
with tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as found:
    found.extractall(sys.argv[1], **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
"""
_IS_DIRECTORY: Final = "import os, sys; sys.exit(not os.path.isdir(sys.argv[1]))"
# An older protocol cannot say that the input ends, so that its length is said instead.
_LIMITED: Final = 'head -c "$0" | "$@"'
_SIGNALLED: Final = 128  # exit codes above it
# Said about every error, or about nothing that is missing.
_NOISE: Final = ("Exiting with failure status", "Removing leading", "Error is not recoverable", "error exit delayed")


class _Way(NamedTuple):
    """A command that sends a tree, and the name that the tree has in the stream."""

    argv: Sequence[str]
    root: str


async def copy_from(connection: Connection, run: RunRef, source: PodPath, local: Path) -> list[Skipped]:
    """Copy a file or a directory of a container to `local`, or into it if it is a directory. Raises RunError.

    Nothing is written elsewhere, whatever the container sends.
    """
    target = await find_target(connection, run, source.pod, source.container)
    for ways in (_tar_ways(source.path), [_Way(["python3", "-c", _SEND, source.path, "."], ".")]):
        for number, way in enumerate(ways):
            report = CopyReport()
            try:
                await _fetch(target, way, source.path, local, report)
            except NotStartedError:
                break
            except RootIsLinkError:
                continue
            except InvalidOption:
                if number in (0, len(ways) - 1):
                    raise
                continue
            return report.skipped
    raise _no_program(target, source.path)


def _tar_ways(path: str) -> list[_Way]:
    """Return how tar sends a path: as it is; if it is a link, the directory that it leads to, or the file."""
    plain = posixpath.normpath(path)
    parent, name = posixpath.split(plain)
    directory = _Way(["tar", "-C", _word(path), "-cf", "-", "."], ".")
    if name in _NAMELESS:
        return [directory]
    into = ["-C", _word(parent)] if parent else []
    return [
        _Way(["tar", *into, "-cf", "-", f"./{name}"], name),
        directory,
        _Way(["tar", *into, "-chf", "-", f"./{name}"], name),
    ]


def _word(path: str) -> str:
    """Return a path that is not taken for an option."""
    return f"./{path}" if path.startswith("-") else path or "."


async def _fetch(target: Target, way: _Way, path: str, local: Path, report: CopyReport) -> None:
    """Raises RunError; NotStartedError if the container lacks the program, RootIsLinkError."""
    streams = PodStreams(
        await target.open(way.argv, stdin=False), str(target), asyncio.get_running_loop(), on_terminal=False
    )
    stdin, stdout, stderr = streams.take_descriptors()
    os.close(stdin)
    said = asyncio.create_task(asyncio.to_thread(_read_some, stderr))
    reading = asyncio.create_task(asyncio.to_thread(_receive, stdout, way, path, local, report))
    try:
        failure: Exception | None = None
        try:
            has_root = await reading
        except (StreamError, OSError) as error:
            has_root, failure = True, error
        if isinstance(failure, RootIsLinkError):
            raise failure
        if isinstance(failure, OSError):
            raise _local_error(local, failure) from failure
        code, text = await _end(streams, target, path, way.argv[0]), await said
        if code and (failure is not None or not has_root):
            raise _pod_error(target, path, text)
        if failure is not None:
            raise _ended_early(target, path, escaped(str(failure))) from failure
        _add_complaints(report, text)
    finally:
        streams.close()
        await asyncio.gather(reading, said, return_exceptions=True)


def _receive(stream: int, way: _Way, path: str, local: Path, report: CopyReport) -> bool:
    """Write a tree; return whether the stream had one. Raises OSError and StreamError."""
    with open(stream, "rb", buffering=_BUFFER) as source:
        directory, name = target_of(str(local), path)
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            tree = TarTree(source, opened, name, report.add, way.root)
            tree.read()
        finally:
            os.close(opened)
        while source.read(_BUFFER):
            # The rest of the last record.
            continue
    return tree.has_root


async def copy_to(connection: Connection, run: RunRef, local: Path, target: PodPath) -> list[Skipped]:
    """Copy a local file or directory to a path of a container, or into it if it is a directory. Raises RunError."""
    found, report = await find_target(connection, run, target.pod, target.container), CopyReport()
    is_directory = False
    for argv in (["test", "-d"], ["sh", "-c", 'test -d "$0"'], ["python3", "-c", _IS_DIRECTORY]):
        with suppress(NotStartedError):
            is_directory = (await output_of(found, [*argv, target.path]))[0] == 0
            break
    if is_directory:
        directory, name = target.path, await asyncio.to_thread(lambda: local.resolve().name)
    elif target.path.endswith("/"):
        raise InvalidOption(f"{found}:{target.path}: no such directory", _look(found, target.path.rstrip("/")))
    else:
        directory, name = posixpath.split(posixpath.normpath(target.path))
    try:
        source = await asyncio.to_thread(TarSource, local, name, report.add)
    except OSError as error:
        raise _local_error(local, error) from error
    try:
        into = _word(directory)
        for argv in (["tar", "-C", into, "-xof", "-"], ["python3", "-c", _RECEIVE, into]):
            with suppress(NotStartedError):
                await _send(found, argv, source, target.path, report)
                return report.skipped
    finally:
        source.close()
    raise _no_program(found, target.path)


async def _send(target: Target, argv: Sequence[str], source: TarSource, path: str, report: CopyReport) -> None:
    """Raises RunError; NotStartedError if the container lacks the program."""
    opened = await target.open(argv)
    if not opened.says_ends:
        await opened.close()
        opened = await target.open(["sh", "-c", _LIMITED, str(source.length), *argv])
    streams = PodStreams(opened, str(target), asyncio.get_running_loop(), on_terminal=False)
    stdin, stdout, stderr = streams.take_descriptors()
    os.close(stdout)
    said = asyncio.create_task(asyncio.to_thread(_read_some, stderr))
    writing = asyncio.create_task(asyncio.to_thread(_write, stdin, source))
    try:
        await writing
        code, text = await _end(streams, target, path, argv[0]), await said
        if code == NOT_FOUND and not opened.says_ends:
            raise NotStartedError(f"{target}: {text}")
        if code and not source.is_directory:
            raise _pod_error(target, path, text)
        if code:
            _add_complaints(report, text or f"{argv[0]} ended with {code}")
    finally:
        streams.close()
        await asyncio.gather(writing, said, return_exceptions=True)


def _write(stdin: int, source: TarSource) -> None:
    # The container may have closed its input; then its answer says why.
    with suppress(ConnectionError), open(stdin, "wb", buffering=_BUFFER) as out:
        source.write(out)


def _read_some(descriptor: int) -> str:
    found = bytearray()
    with open(descriptor, "rb", buffering=0) as source:
        while chunk := source.read(_BUFFER):
            found += chunk[: max(0, _MOST_SAID - len(found))]
    return found.decode("utf-8", "replace").strip()


def _add_complaints(report: CopyReport, text: str) -> None:
    for line in _complaints(text):
        path, _, why = line.rpartition(": ")
        report.add(path, why, error=True)


def _complaints(text: str) -> list[str]:
    """Return the lines in which a program of the container complains."""
    lines = [line.removeprefix("tar: ").strip() for line in text.splitlines()]
    return [line for line in lines if line and not any(each in line for each in _NOISE)]


def _pod_error(target: Target, path: str, text: str) -> RunError:
    lines = _complaints(text)
    # Python's last line says what a traceback is about.
    said = (lines[-1] if text.startswith("Traceback") else lines[0]) if lines else "it cannot be copied"
    said = said.removeprefix("can't open '").removeprefix(f"{path}: ")
    if "no such file or directory" in said.lower():
        said = "no such file or directory"
    is_refused = "permission denied" in said.lower()
    return (Denied if is_refused else InvalidOption)(f"{target}:{path}: {escaped(said)}", _look(target, path))


async def _end(streams: PodStreams, target: Target, path: str, program: str) -> int:
    """Return the exit code of a program that ended by itself. Raises RunError, NotStartedError."""
    code = await asyncio.to_thread(streams.end_code)
    if code is None:
        raise _ended_early(target, path, "the connection was lost")
    if code > _SIGNALLED:
        raise _ended_early(target, path, f"{program} was killed there, perhaps with its pod")
    return code


def _ended_early(target: Target, path: str, why: str) -> ConnectionFailed:
    hint = "copy again: what has come is whole, but for a file that was there before"
    return ConnectionFailed(f"{target}:{path}: the copy ended too early: {why}", hint)


def _look(target: Target, path: str) -> tuple[Command, str]:
    listed = ("ls", "-la", posixpath.dirname(path) or ".")
    return Command("exec", str(target.run), target.pod, listed), " shows what is there"


def _local_error(local: Path, error: OSError) -> RunError:
    return (Denied if is_denied(error) else InvalidOption)(f"{local}: {reason_of(error)}")


def _no_program(target: Target, path: str) -> Unsupported:
    message = f"{target}: container {target.container} has neither tar nor python3, one of which copies files"
    return Unsupported(message, f"a small text file is copied by `pumice exec {target} -- cat {path} > FILE`")
