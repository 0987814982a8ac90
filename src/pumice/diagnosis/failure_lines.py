"""Reads the end of a log: the line that says why a process ended, and whether it only followed another process."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from typing import Final

from pumice.model.snapshot import ContainerEnd

# How many lines of a log to keep: the report of torchrun alone has 40.
LOOKED_AT: Final = 120
LONGEST: Final = 1000
_LINES_AFTER_EXCEPTION: Final = 5
_LINES_OF_FATAL: Final = 60
# Patterns, compiled when they are first used: few runs fail.
_RANK: Final = r"(?:\[rank\d+\]:\s?)?"
_EXCEPTION: Final = _RANK + r"\s*(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)(?:: .*)?"
_TRACEBACK: Final = _RANK + r"Traceback \(most recent call last\):"
_ELASTIC: Final = r"(?:\w+\.)*ChildFailedError:.*"
_ROOT_RANK: Final = r"rank\s*: (\d+) "
_ROOT_TRACE: Final = r"traceback : (.*)"
_ROOT_CODE: Final = r"exitcode\s*: (-?\d+)"
_ERROR_FILE: Final = r'\{"message": (?:\{"message": )?"((?:[^"\\]|\\.)*)'
_MPI_ABORT: Final = r"MPI_ABORT was invoked on rank (\d+)"
_MPI_CODE: Final = r"(?:with errorcode|Errorcode:) (-?\d+)"
_MPI_ENDED: Final = r".*noticed that process rank \d+ .*exited on signal.*"
_MPI_DETECTED: Final = r".*one or more processes exited with non-zero status.*"
_MPI_PROCESS: Final = r"Process name: \[\[.*\],(\d+)\]"
_MPI_EXIT: Final = r"Exit code: +(\d+)"
# The runtime of C++ prints this before it aborts a process that still has threads; and what it means. torch
# has such threads until its process group is destroyed, and DistributedDataParallel keeps the group (torch 2.15).
_THREADS_LEFT: Final = "terminate called without an active exception"
_THREADS_LEFT_WORDS: Final = (
    f"{_THREADS_LEFT}: threads still ran when the process ended, maybe after its work was done; "
    "a torch program ends with torch.distributed.destroy_process_group(), "
    "and after DistributedDataParallel with os._exit(0)"
)
# Of programs without a traceback. Lines that follow repeat it, or list the frames of C++.
_FATAL: Final = (
    r"Watchdog caught collective operation timeout|No space left on device|what\(\): +\S|CUDA out of memory"
    r"|CUDA error: |^gave up on \S+: no answer in \d+s$"
    rf"|^{_THREADS_LEFT}$"
)
_TIMEOUT: Final = (
    r"Watchdog caught collective operation timeout|Timed out waiting \d+ms|client socket has timed out"
    r"|(?:wait|Wait) timeout after \d+ms|Socket Timeout|timed out after \d+ .*rendezvous"
    r"|^gave up on \S+: no answer in \d+s$|Timed out waiting for clients|[Rr]endezvous.*[Tt]imeout"
)
_LOST_PEER: Final = (
    r"Connection (?:closed|reset) by (?:remote )?peer|Broken pipe|Connection refused|failed to recv, got 0 bytes"
    r"|ncclRemoteError|NCCL communicator was aborted|connectFullMesh failed|RendezvousConnectionError"
    r"|RendezvousClosedError|SignalException: Process \d+ got signal|BrokenPipeError|ConnectionResetError"
    r"|lost (?:communication|connection) with|A process or daemon was unable to complete a TCP connection"
    r"|remote process exited or there was a network error"
)
# Sent by launchers to the other ranks, and by the kernel to writers without a reader.
_SENT_TO_PEERS: Final = frozenset((signal.SIGTERM, signal.SIGPIPE, signal.SIGHUP))
_SIGNAL_BASE: Final = 128
_MISSING: Final = r"No module named '?([A-Za-z0-9_]+)|\b(python[0-9.]*): (?:command )?not found"


def cause_line(lines: Sequence[str]) -> str:
    """Return the line that says why the process ended: of the last lines of its log, without empty ones."""
    for found in (_of_torchrun(lines), _exception(lines), _of_mpi(lines)):
        if found:
            return found
    fatal = (line.strip() for line in lines[-_LINES_OF_FATAL:] if re.search(_FATAL, line))
    found = next(fatal, lines[-1].strip() if lines else "")
    return _THREADS_LEFT_WORDS if found == _THREADS_LEFT else found


def error_file_message(text: str) -> str:
    """Return the message of a file as torch's elastic agent writes it (TORCHELASTIC_ERROR_FILE); else the text."""
    found = re.match(_ERROR_FILE, text)
    return re.sub(r"\\n.*", "", found[1], flags=re.DOTALL).replace('\\"', '"') if found else text


def waited_in_vain(line: str) -> bool:
    """Whether a process ended because its peers did not come: another one, that did not end, is to blame."""
    return re.search(_TIMEOUT, line) is not None


def lacks_peer(line: str) -> bool:
    """Whether a process ended because it lost a peer, or because its peers did not come."""
    return waited_in_vain(line) or re.search(_LOST_PEER, line) is not None


def is_collateral(end: ContainerEnd) -> bool:
    """Whether the process ended because of another one: it lost its peer, waited in vain, or was told to end."""
    if lacks_peer(end.last_line):
        return True
    number = end.signal or end.exit_code - _SIGNAL_BASE
    return number in _SENT_TO_PEERS and not end.reason and not re.fullmatch(_EXCEPTION, end.last_line)


def missing_module(line: str) -> str:
    """Return the module or the Python that a program did not find, if that is what its last line says."""
    found = re.search(_MISSING, line)
    return found[1] or found[2] if found else ""


def _exceptions(lines: Sequence[str]) -> list[tuple[int, str]]:
    """The last lines of tracebacks, with their positions. Ranks of one pod may print theirs at the same time."""
    found = []
    for start, line in enumerate(lines):
        if not re.fullmatch(_TRACEBACK, line):
            continue
        mark = line.partition("Traceback")[0]
        for index in range(start + 1, len(lines)):
            if lines[index].startswith(mark) and not lines[index].removeprefix(mark)[:1].isspace():
                found.append((index, lines[index].strip()))
                break
    return found


def _exception(lines: Sequence[str]) -> str:
    """The last exception of a process. If several of one pod raised, the first that did not follow another one."""
    raised = [each for _, each in _exceptions(lines)]
    bare = [line.strip() for line in lines[-_LINES_AFTER_EXCEPTION - 1 :] if re.fullmatch(_EXCEPTION, line)]
    of_ranks = {line.partition(":")[0] for line in raised if line.startswith("[rank")}
    if len(of_ranks) > 1:
        return next((line for line in raised if not lacks_peer(line)), raised[0])
    return bare[-1] if bare else raised[-1] if raised else ""


def _of_torchrun(lines: Sequence[str]) -> str:
    """What torchrun calls the root cause, with what that rank printed."""
    report = next((index for index, line in enumerate(lines) if re.fullmatch(_ELASTIC, line)), None)
    root = next((index for index, line in enumerate(lines) if line.startswith("Root Cause")), None)
    if report is None or root is None:
        return ""
    block = "\n".join(lines[root:])
    rank, trace, code = (
        found[1] if (found := re.search(each, block)) else "" for each in (_ROOT_RANK, _ROOT_TRACE, _ROOT_CODE)
    )
    inside = _exceptions([line.removeprefix("  ").removeprefix("traceback : ") for line in lines[root:]])
    before = [line for _, line in _exceptions(lines[:report])]
    own = [line for line in before if line.startswith(f"[rank{rank}]")] or [
        line for line in before if not line.startswith("[rank") and not lacks_peer(line)
    ]
    if inside:
        why = inside[-1][1]
    elif own:
        why = re.sub(r"^\[rank\d+\]:\s*", "", own[0])
    elif _THREADS_LEFT in lines[:report]:
        why = _THREADS_LEFT_WORDS
    else:
        why = trace if trace.startswith("Signal") else f"exit code {code}"
    return f"rank {rank}: {why}"


def _of_mpi(lines: Sequence[str]) -> str:
    """What mpirun says about the rank that ended first."""
    text = "\n".join(lines)
    if abort := re.search(_MPI_ABORT, text):
        code = re.search(_MPI_CODE, text[abort.end() :])
        return f"MPI_ABORT was invoked on rank {abort[1]}{f' with errorcode {code[1]}' if code else ''}"
    if ended := re.search(_MPI_ENDED, text):
        return ended[0].strip()
    if detected := re.search(_MPI_DETECTED, text):
        report = text[detected.end() :]
        process, code = re.search(_MPI_PROCESS, report), re.search(_MPI_EXIT, report)
        if process and code:
            return f"rank {process[1]} ended with exit code {code[1]}"
    return ""
