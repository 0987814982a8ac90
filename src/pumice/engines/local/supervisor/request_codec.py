"""What a client and the process of its run send each other besides events: the request, and why it was refused."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

import msgspec

from pumice.admission.admit import admit
from pumice.engines.local.events import LogLine, LogOutput
from pumice.engines.local.host_access.consent import ConsentError
from pumice.engines.local.preparation.new_record import options_of, plain_options
from pumice.engines.local.run_errors import BY_NAME, DoesNotFit, RunError
from pumice.engines.local.runs.event_codec import plain_value, value_of
from pumice.engines.local.runs.job_source import JobSource
from pumice.engines.local.runs.run_request import RunRequest
from pumice.engines.local.state.settings import HostAccess
from pumice.engines.local.why import Shortage
from pumice.model.problem import Problem
from pumice.model.pumice_error import PumiceError
from pumice.runtime.offline_context import offline_context

START, STOP, DETACH = "start", "stop", "detach"  # requests of a client
OUTPUT: Final = "Output"  # the announcement of what pods printed
DETACHED: Final = "Detached"  # the announcement that the run continues without its client
_SOURCE: Final = attrgetter("pod", "container", "stream")
_KINDS: Final[Mapping[str, type[RunError]]] = {**BY_NAME, ConsentError.__name__: ConsentError}
# Errors that say that memory, threads or the disk run out.
_SYSTEM: Final[Mapping[str, type[Exception]]] = {
    each.__name__: each for each in (ImportError, MemoryError, OSError, RuntimeError)
}


def plain_request(request: RunRequest) -> dict[str, Any]:
    """Return a request as plain data, with all secrets."""
    env = request.options.settings.env
    return {
        "job": msgspec.to_builtins(request.job.written),
        "documents": list(request.documents),
        "options": plain_options(request.options, list(env)),
        # Values may contain any bytes, which are surrogates here and nothing that JSON has.
        "env": {name: os.fsencode(value).decode("latin-1") for name, value in env.items()},
        "file": request.source.file,
        "marks": request.source.plain(),
    }


def request_of(plain: Mapping[str, Any]) -> RunRequest:
    """Return the request of plain data."""
    env = {str(name): os.fsdecode(str(value).encode("latin-1")) for name, value in plain["env"].items()}
    return RunRequest(
        admit(plain["job"], offline_context()),
        options_of(plain["options"], env),
        plain["documents"],
        JobSource.of(str(plain["file"]), plain["marks"]),
    )


def plain_output(output: LogOutput) -> list[list[Any]]:
    """Return lines as plain data: those of one stream of a container as one text, and what has not ended yet."""
    plain: list[list[Any]] = []
    for source, lines in groupby(output.lines, _SOURCE):
        ended: list[str] = []
        unfinished: list[str] = []
        for line in lines:
            (unfinished if line.unfinished else ended).append(line.text)
        plain.append([*source, "\n".join(ended) if ended else None, unfinished])
    return plain


def output_of(plain: Sequence[Sequence[Any]]) -> LogOutput:
    """Return the lines of plain data."""
    lines: list[LogLine] = []
    for pod, container, stream, ended, unfinished in plain:
        lines += [LogLine(pod, container, stream, text) for text in (() if ended is None else ended.split("\n"))]
        lines += [LogLine(pod, container, stream, text, unfinished=True) for text in unfinished]
    return LogOutput(lines)


def plain_error(error: BaseException) -> dict[str, Any]:
    """Return an error as plain data. What is not the user's mistake carries its traceback."""
    if isinstance(error, BaseExceptionGroup):
        return plain_error(error.exceptions[0])
    if isinstance(error, PumiceError):
        return {
            "kind": type(error).__name__,
            "problems": [plain_value(problem) for problem in error.problems],
            "accesses": [plain_value(each) for each in error.accesses] if isinstance(error, ConsentError) else [],
            "fitHelps": isinstance(error, DoesNotFit) and error.fit_helps,
            "shortages": [plain_value(each) for each in error.shortages] if isinstance(error, DoesNotFit) else [],
        }
    trace = "".join(traceback.format_exception(error))
    kind = next((each.__name__ for each in _SYSTEM.values() if isinstance(error, each)), "")
    if isinstance(error, OSError):
        return {"kind": kind, "args": [error.errno, error.strerror, _text(error.filename)], "trace": trace}
    return {"kind": kind, "args": [str(error) if kind else f"{type(error).__name__}: {error}"], "trace": trace}


def error_of(plain: Mapping[str, Any]) -> Exception:
    """Return the error of plain data."""
    if "problems" not in plain:
        error = _SYSTEM.get(str(plain["kind"]), RuntimeError)(*plain["args"])
        error.add_note(str(plain["trace"]))
        return error
    found = _KINDS.get(str(plain["kind"]), RunError).of([value_of(each, Problem) for each in plain["problems"]])
    if isinstance(found, ConsentError):
        found.accesses = tuple(value_of(each, HostAccess) for each in plain["accesses"])
    if isinstance(found, DoesNotFit):
        found.fit_helps = bool(plain["fitHelps"])
        found.shortages = tuple(value_of(each, Shortage) for each in plain["shortages"])
    return found


def _text(name: object) -> str | None:
    """Return the name of a file, which may contain any bytes."""
    return None if name is None else str(name).encode(errors="replace").decode()
