"""What a client and the process of its run send each other besides events: the request, and what pods print."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

import msgspec

from pumice.model import VERSION
from pumice.runtime.offline_context import restore_admitted
from pumice.store.events import LogLine, LogOutput
from pumice.store.job_source import JobSource
from pumice.store.options import decode_options, encode_options
from pumice.store.run_request import RunRequest

START, STOP, DETACH = "start", "stop", "detach"  # requests of a client
OUTPUT: Final = "Output"  # the announcement of what pods printed
DETACHED: Final = "Detached"  # the announcement that the run continues without its client
_SOURCE: Final = attrgetter("pod", "container", "stream")


def encode_request(request: RunRequest) -> dict[str, Any]:
    """Return a request as plain data, with all secrets."""
    env = request.options.settings.env
    return {
        "job": msgspec.to_builtins(request.job.written),
        "admittedBy": VERSION,
        "documents": list(request.documents),
        "options": encode_options(request.options, list(env)),
        # Values may contain any bytes, which are surrogates here and nothing that JSON has.
        "env": {name: os.fsencode(value).decode("latin-1") for name, value in env.items()},
        "file": request.source.file,
        "marks": request.source.plain(),
    }


def decode_request(plain: Mapping[str, Any]) -> RunRequest:
    """Return the request of plain data."""
    env = {str(name): os.fsdecode(str(value).encode("latin-1")) for name, value in plain["env"].items()}
    return RunRequest(
        restore_admitted(plain["job"], plain["admittedBy"]),
        decode_options(plain["options"], env),
        plain["documents"],
        JobSource.of(str(plain["file"]), plain["marks"]),
    )


def encode_output(output: LogOutput) -> list[list[Any]]:
    """Return lines as plain data: those of one stream of a container as one text, and what has not ended yet."""
    plain: list[list[Any]] = []
    for source, lines in groupby(output.lines, _SOURCE):
        ended: list[str] = []
        unfinished: list[str] = []
        for line in lines:
            (unfinished if line.unfinished else ended).append(line.text)
        plain.append([*source, "\n".join(ended) if ended else None, unfinished])
    return plain


def decode_output(plain: Sequence[Sequence[Any]]) -> LogOutput:
    """Return the lines of plain data."""
    lines: list[LogLine] = []
    for pod, container, stream, ended, unfinished in plain:
        lines += [LogLine(pod, container, stream, text) for text in (() if ended is None else ended.split("\n"))]
        lines += [LogLine(pod, container, stream, text, unfinished=True) for text in unfinished]
    return LogOutput(lines)
