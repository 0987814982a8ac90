"""Reads the end of a log: the line that says why a process ended, and whether it only followed another process."""

from __future__ import annotations

import datetime as dt
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
_RANK: Final = r"(?:\[rank\d+\]:\s?)?"
_EXCEPTION: Final = re.compile(_RANK + r"\s*(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit)(?:: .*)?")
_TRACEBACK: Final = re.compile(_RANK + r"Traceback \(most recent call last\):")
_ELASTIC: Final = re.compile(r"(?:\w+\.)*ChildFailedError:.*")
_ROOT_RANK: Final = re.compile(r"rank\s*: (\d+) ")
_ROOT_TRACE: Final = re.compile(r"traceback : (.*)")
_ROOT_CODE: Final = re.compile(r"exitcode\s*: (-?\d+)")
_ERROR_FILE: Final = re.compile(r'\{"message": (?:\{"message": )?"((?:[^"\\]|\\.)*)')
_MPI_ABORT: Final = re.compile(r"MPI_ABORT was invoked on rank (\d+)")
_MPI_CODE: Final = re.compile(r"(?:with errorcode|Errorcode:) (-?\d+)")
_MPI_ENDED: Final = re.compile(r".*noticed that process rank \d+ .*exited on signal.*")
_MPI_DETECTED: Final = re.compile(r".*one or more processes exited with non-zero status.*")
_MPI_PROCESS: Final = re.compile(r"Process name: \[\[.*\],(\d+)\]")
_MPI_EXIT: Final = re.compile(r"Exit code: +(\d+)")
# Of programs without a traceback. Lines that follow repeat it, or list the frames of C++.
_FATAL: Final = re.compile(
    r"Watchdog caught collective operation timeout|No space left on device|what\(\): +\S|CUDA out of memory"
    r"|CUDA error: |^gave up on \S+: no answer in \d+s$"
)
_TIMEOUT: Final = re.compile(
    r"Watchdog caught collective operation timeout|Timed out waiting \d+ms|client socket has timed out"
    r"|(?:wait|Wait) timeout after \d+ms|Socket Timeout|timed out after \d+ .*rendezvous"
    r"|^gave up on \S+: no answer in \d+s$|Timed out waiting for clients|[Rr]endezvous.*[Tt]imeout"
)
_LOST_PEER: Final = re.compile(
    r"Connection (?:closed|reset) by (?:remote )?peer|Broken pipe|Connection refused|failed to recv, got 0 bytes"
    r"|ncclRemoteError|NCCL communicator was aborted|connectFullMesh failed|RendezvousConnectionError"
    r"|RendezvousClosedError|SignalException: Process \d+ got signal|BrokenPipeError|ConnectionResetError"
    r"|lost (?:communication|connection) with|A process or daemon was unable to complete a TCP connection"
    r"|remote process exited or there was a network error"
)
# Sent by launchers to the other ranks, and by the kernel to writers without a reader.
_SENT_TO_PEERS: Final = frozenset((signal.SIGTERM, signal.SIGPIPE, signal.SIGHUP))
_SIGNAL_BASE: Final = 128
# What failed at most this long after the first failure may be its cause.
_TOGETHER: Final = dt.timedelta(seconds=60)


def cause_line(lines: Sequence[str]) -> str:
    """Return the line that says why the process ended: of the last lines of its log, without empty ones."""
    for found in (_of_torchrun(lines), _exception(lines), _of_mpi(lines)):
        if found:
            return found
    fatal = (line.strip() for line in lines[-_LINES_OF_FATAL:] if _FATAL.search(line))
    return next(fatal, lines[-1].strip() if lines else "")


def error_file_message(text: str) -> str:
    """Return the message of a file as torch's elastic agent writes it (TORCHELASTIC_ERROR_FILE); else the text."""
    found = _ERROR_FILE.match(text)
    return re.sub(r"\\n.*", "", found[1], flags=re.DOTALL).replace('\\"', '"') if found else text


def waited_in_vain(line: str) -> bool:
    """Whether a process ended because its peers did not come: another one, that did not end, is to blame."""
    return _TIMEOUT.search(line) is not None


def is_collateral(end: ContainerEnd) -> bool:
    """Whether the process ended because of another one: it lost its peer, waited in vain, or was told to end."""
    if waited_in_vain(end.last_line) or _LOST_PEER.search(end.last_line):
        return True
    number = end.signal or end.exit_code - _SIGNAL_BASE
    return number in _SENT_TO_PEERS and not end.reason and not _EXCEPTION.fullmatch(end.last_line)


def first_to_blame(ends: Sequence[ContainerEnd | None]) -> int:
    """Return which of these failures, in the order of time, is the cause: the first, unless that only followed."""
    first = ends[0]
    if first is None or first.finished_at is None or not is_collateral(first):
        return 0
    for index, end in enumerate(ends):
        if end is not None and end.finished_at is not None and not is_collateral(end):
            return index if end.finished_at - first.finished_at <= _TOGETHER else 0
    return 0


def _exceptions(lines: Sequence[str]) -> list[tuple[int, str]]:
    """The last lines of tracebacks, with their positions. Ranks of one pod may print theirs at the same time."""
    found = []
    for start, line in enumerate(lines):
        if not _TRACEBACK.fullmatch(line):
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
    bare = [line.strip() for line in lines[-_LINES_AFTER_EXCEPTION - 1 :] if _EXCEPTION.fullmatch(line)]
    of_ranks = {line.partition(":")[0] for line in raised if line.startswith("[rank")}
    if len(of_ranks) > 1:
        return next((line for line in raised if not _follows(line)), raised[0])
    return bare[-1] if bare else raised[-1] if raised else ""


def _of_torchrun(lines: Sequence[str]) -> str:
    """What torchrun calls the root cause, with what that rank printed."""
    report = next((index for index, line in enumerate(lines) if _ELASTIC.fullmatch(line)), None)
    root = next((index for index, line in enumerate(lines) if line.startswith("Root Cause")), None)
    if report is None or root is None:
        return ""
    block = "\n".join(lines[root:])
    rank, trace, code = (
        found[1] if (found := each.search(block)) else "" for each in (_ROOT_RANK, _ROOT_TRACE, _ROOT_CODE)
    )
    inside = _exceptions([line.removeprefix("  ").removeprefix("traceback : ") for line in lines[root:]])
    before = [line for _, line in _exceptions(lines[:report])]
    own = [line for line in before if line.startswith(f"[rank{rank}]")] or [
        line for line in before if not line.startswith("[rank") and not _follows(line)
    ]
    if inside:
        why = inside[-1][1]
    elif own:
        why = re.sub(r"^\[rank\d+\]:\s*", "", own[0])
    else:
        why = trace if trace.startswith("Signal") else f"exit code {code}"
    return f"rank {rank}: {why}"


def _of_mpi(lines: Sequence[str]) -> str:
    """What mpirun says about the rank that ended first."""
    text = "\n".join(lines)
    if abort := _MPI_ABORT.search(text):
        code = _MPI_CODE.search(text, abort.end())
        return f"MPI_ABORT was invoked on rank {abort[1]}{f' with errorcode {code[1]}' if code else ''}"
    if ended := _MPI_ENDED.search(text):
        return ended[0].strip()
    if detected := _MPI_DETECTED.search(text):
        process, code = _MPI_PROCESS.search(text, detected.end()), _MPI_EXIT.search(text, detected.end())
        if process and code:
            return f"rank {process[1]} ended with exit code {code[1]}"
    return ""


def _follows(line: str) -> bool:
    return waited_in_vain(line) or _LOST_PEER.search(line) is not None
