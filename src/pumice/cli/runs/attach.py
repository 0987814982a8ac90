"""`pumice attach [RUN]`: shows a run as `run` does, until it ends. Ctrl-C leaves it running."""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import sys
from contextlib import suppress
from typing import Final

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
from pumice.model.text import escaped

_POLL: Final = 0.1
_WAKE: Final = 50  # looks, until the service is asked again to care for the run
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
        return asyncio.run(_show(client, stored, view))
    except KeyboardInterrupt:
        print(f"\n{stored.ref} goes on: `pumice attach {stored.ref}` shows it again", file=sys.stderr)
        return 0


async def _show(client: LocalClient, stored: StoredRun, view: Listener) -> int:
    """Show the run until it ends, in its next process too; while it waits, say why. Return its exit code."""
    said, looks = "", 0
    while True:
        if looks % _WAKE == 0:
            await client.revive_async([stored])
        looks += 1
        with suppress(WrongState):
            code = await _follow(client, stored, view)
            if code is not None:
                return code
        found = client.summary(stored)
        if found.is_over:
            return _show_end(stored, view)
        if found.note != said and not stored.is_owned:
            said = found.note
            print(f"{found.run} {found.phase}: {escaped(said)}", file=sys.stderr)
        await asyncio.sleep(_POLL)


async def _follow(client: LocalClient, stored: StoredRun, view: Listener) -> int | None:
    """Show what happens until the run ends; return its exit code, or None if only its process has ended.

    Raises WrongState if it has none.
    """
    async with client.connected(stored) as connection:
        await connection.call("events")
        decoder, planned, _ = _recorded(stored)
        if planned is not None:
            view(planned)
        while (message := await connection.receive()) is not None:
            if message.get("event") == LogOutput.__name__:
                view(LogOutput([LogLine(*line) for line in message["data"]]))
                continue
            event = decoder.decode(Entry(0, _UNUSED, 0, str(message.get("event")), message.get("data")))
            if event is not None:
                view(event)
            if isinstance(event, Outcome):
                return event.exit_code
    return None


def _show_end(stored: StoredRun, view: Listener) -> int:
    """A run that has ended, or is suspended: show its plan and its outcome. One that never began has neither."""
    _, planned, outcome = _recorded(stored)
    status = stored.status()
    for event in (planned, outcome):
        if event is not None:
            view(event)
    if outcome is None:
        lines = status.verdict or (f"{stored.ref} {status.phase}: {status.note}",)
        print(*map(escaped, lines), sep="\n", file=sys.stderr)
    return 1 if status.exit_code is None else status.exit_code


def _recorded(stored: StoredRun) -> tuple[EventDecoder, RunPlanned | None, Outcome | None]:
    """Return the newest plan of a run, and its outcome after that, if it has one."""
    decoder = EventDecoder(Job())
    planned: RunPlanned | None = None
    outcome: Outcome | None = None
    for entry in read_journal(stored.directory)[0]:
        match decoder.decode(entry):
            case RunPlanned() as event:
                planned, outcome = event, None
            case Outcome() as event:
                outcome = event
            case _:
                continue
    return decoder, planned, outcome
