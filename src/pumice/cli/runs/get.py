"""`pumice get RUN`: prints the Job of a run with its status, and how it ended."""

from __future__ import annotations

import argparse
from typing import Any, Final

import msgspec

from pumice.cli.runs.arguments import (
    NO_SUCH_RUN,
    NOT_FINISHED,
    NOT_SUCCESSFUL,
    RUN_HELP,
    STOPPED,
    add_namespace,
    add_output,
    chosen_run,
    client_of,
    guarded,
    print_data,
)
from pumice.client.values import Status
from pumice.engines.local.runs.event_codec import EventDecoder
from pumice.engines.local.runs.journal import read_journal
from pumice.engines.local.runs.run_store import StoredRun
from pumice.model.job import Job

_OF_LIVE_PODS: Final = ("running", "pending", "terminating", "unknown", "taskStatusCount")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help=f"{RUN_HELP}; default @last")
    parser.add_argument("--exit-code", action="store_true", help="report by the exit code how the run ended")
    add_namespace(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    return guarded(lambda: _get(args), NO_SUCH_RUN if args.exit_code else 2)


def _get(args: argparse.Namespace) -> int:
    client = client_of(args)
    stored = chosen_run(client, args.run)
    found = client.summary(stored)
    print_data(job_with_status(stored, found), args.output or "yaml")
    return exit_code(found) if args.exit_code else 0


def job_with_status(stored: StoredRun, found: Status) -> dict[str, Any]:
    """Return the Job as the API of a cluster would, with the run beside it."""
    decoder = EventDecoder(Job())
    for entry in read_journal(stored.directory)[0]:
        decoder.decode(entry)
    job: dict[str, Any] = msgspec.to_builtins(decoder.job) if decoder.job.name else dict(stored.record.job)
    status = job.get("status") or {}
    state = status.get("state") or {}
    if found.is_over and state.get("phase") != found.phase:
        # Its process was killed, or stopped, before the job could note it. No pod is left.
        ended = {"phase": found.phase, "reason": found.reason, "message": found.note}
        rest = {name: value for name, value in status.items() if name not in _OF_LIVE_PODS}
        job = {**job, "status": {**rest, "state": {**state, **ended}}}
    return {**job, "run": msgspec.to_builtins(found)}


def exit_code(found: Status) -> int:
    """Return 0 for a run that completed."""
    if found.stopped:
        return STOPPED
    if not found.is_finished:
        return NOT_FINISHED
    return 0 if found.succeeded else NOT_SUCCESSFUL
