"""`pumice attach [RUN]`: shows a run as `run` does, until it ends. Ctrl-C leaves it running."""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import sys

from pumice.cli.runs.arguments import RUN_HELP, add_namespace, chosen_run, client_of, guarded
from pumice.client.local_client import LocalClient
from pumice.client.view.screen import Screen
from pumice.client.view.text_view import TextView
from pumice.engines.local.event_json import JsonView
from pumice.engines.local.events import Listener, LogLine, LogOutput, RunPlanned
from pumice.engines.local.outcome import Outcome
from pumice.engines.local.run_errors import WrongState
from pumice.engines.local.runs.event_codec import EventDecoder
from pumice.engines.local.runs.journal import Entry, read_journal
from pumice.engines.local.runs.run_store import StoredRun
from pumice.engines.local.verdict import verdict_lines
from pumice.model.job import Job

_UNUSED = dt.datetime.min.replace(tzinfo=dt.UTC)  # the time of an event is shown when it arrives


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help=f"{RUN_HELP}; default @last")
    parser.add_argument("--json", action="store_true", help="print one JSON object per event")
    parser.add_argument("--no-prefix", action="store_true", help="print log lines without the names of their pods")
    add_namespace(parser)


def run(args: argparse.Namespace) -> int:
    return guarded(lambda: _attach(client_of(args), args))


def _attach(client: LocalClient, args: argparse.Namespace) -> int:
    stored = chosen_run(client, args.run)
    source = stored.source
    view: Listener
    if args.json:
        view = JsonView(lambda text: print(text, end="", flush=True), lambda each: verdict_lines(each, source))
    else:
        view = TextView(Screen.of(sys.stdout, sys.stderr), source, prefix=not args.no_prefix)
    try:
        return asyncio.run(_follow(client, stored, view))
    except WrongState:
        return _show_end(stored, view)
    except KeyboardInterrupt:
        print(f"\n{stored.ref} goes on: `pumice attach {stored.ref}` shows it again", file=sys.stderr)
        return 0


async def _follow(client: LocalClient, stored: StoredRun, view: Listener) -> int:
    """Show what happens until the run ends; return its exit code."""
    decoder = EventDecoder(Job())
    async with client.connected(stored) as connection:
        await connection.call("events")
        for entry in read_journal(stored.directory)[0]:
            if isinstance(event := decoder.decode(entry), RunPlanned):
                view(event)
        while (message := await connection.receive()) is not None:
            if message.get("event") == LogOutput.__name__:
                view(LogOutput([LogLine(*line) for line in message["data"]]))
                continue
            event = decoder.decode(Entry(0, _UNUSED, 0, str(message.get("event")), message.get("data")))
            if event is not None:
                view(event)
            if isinstance(event, Outcome):
                return event.exit_code
    (found,) = client.wait([stored])
    return found.exit_code or 0


def _show_end(stored: StoredRun, view: Listener) -> int:
    """Show the plan and the outcome of a run that has ended."""
    decoder = EventDecoder(Job())
    for entry in read_journal(stored.directory)[0]:
        event = decoder.decode(entry)
        if isinstance(event, RunPlanned | Outcome):
            view(event)
    return stored.status().exit_code or 0
