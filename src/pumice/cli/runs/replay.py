"""`pumice replay RUN`: shows a run again, from its journal, as `run` showed it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from pumice.cli.runs.arguments import RUN_HELP, add_namespace, chosen_run, client_of, guarded
from pumice.client.view.screen import Screen
from pumice.client.view.text_view import TextView
from pumice.engines.local.runs.event_codec import EventDecoder
from pumice.engines.local.runs.journal import Entry, read_journal
from pumice.engines.local.runs.run_store import StoredRun
from pumice.model.job import Job


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", nargs="?", metavar="RUN", help=f"{RUN_HELP}; default @last")
    add_namespace(parser)


def run(args: argparse.Namespace) -> int:
    return guarded(lambda: _replay(chosen_run(client_of(args), args.run)))


def _replay(stored: StoredRun) -> int:
    entries = read_journal(stored.directory)[0]
    clock = _RecordedClock(entries)
    view = TextView(Screen.of(sys.stdout, sys.stderr), stored.source, clock=clock.now)
    decoder = EventDecoder(Job())
    for entry in clock.entries():
        event = decoder.decode(entry)
        if event is not None:
            view(event)
    return 0


class _RecordedClock:
    """Shows the time at which the current entry was recorded."""

    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries
        self._now = entries[0].t if entries else 0.0

    def now(self) -> float:
        return self._now

    def entries(self) -> Iterator[Entry]:
        for entry in self._entries:
            self._now = entry.t
            yield entry
