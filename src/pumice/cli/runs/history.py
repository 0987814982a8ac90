"""`pumice history [NAME|RUN]`: lists the runs of a Job, or the attempts of a run."""

from __future__ import annotations

import argparse

from pumice.cli.runs.arguments import add_namespace, add_output, age, chosen_run, client_of, guarded, lasted, print_data
from pumice.client.local_client import LocalClient
from pumice.client.run_history import attempts
from pumice.client.view.output import table
from pumice.engines.local.runs.journal import Entry, read_journal
from pumice.engines.local.runs.run_names import parse_run
from pumice.model.text import escaped


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME|RUN", help="a Job's name, or NAME:N for the attempts of a run")
    parser.add_argument("--events", action="store_true", help="everything that happened in the run")
    add_namespace(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    return guarded(lambda: _history(client_of(args), args))


def _history(client: LocalClient, args: argparse.Namespace) -> int:
    if not args.events and not _is_run(client, args.name):
        return _runs(client, args)
    stored = chosen_run(client, args.name)
    entries = read_journal(stored.directory)[0]
    if args.events:
        return _events(entries, args)
    found = attempts(stored)
    if args.output:
        print_data({"items": found}, args.output)
        return 0
    rows = [("ATTEMPT", "TOOK", "FIRST FAILURE", "POLICY")]
    for each in found:
        took = lasted(each.begin, each.end or client.now())
        rows.append((str(each.number), took, each.first_failure, each.policy))
    print("\n".join(table(rows)))
    return 0


def _is_run(client: LocalClient, text: str | None) -> bool:
    """Return whether the text names one run, not a Job: NAME:N, @last or a uid. Names win over uids."""
    name = None if text is None else parse_run(text)
    if name is None or name.is_last or name.number:
        return name is not None
    return name.may_be_uid and next(client.store.all_runs(client.namespace, name.name), None) is None


def _runs(client: LocalClient, args: argparse.Namespace) -> int:
    found = client.runs([args.name] if args.name else [], everything=True)
    if args.output:
        print_data({"items": found}, args.output)
        return 0
    now = client.now()
    rows = [("RUN", "PHASE", "TRY", "TOOK", "AGE", "NOTE")]
    for each in found:
        took = lasted(each.started or each.created, each.finished or now)
        rows.append((each.run, each.phase, str(each.attempt), took, age(each.created, now), each.note))
    print("\n".join(table(rows)))
    return 0


def _events(entries: list[Entry], args: argparse.Namespace) -> int:
    if args.output:
        print_data({"items": entries}, args.output)
    for entry in [] if args.output else entries:
        print(entry.time.isoformat(timespec="milliseconds"), entry.kind, escaped(_about(entry)))
    return 0


def _about(entry: Entry) -> str:
    """Return what an event is about, in a few words."""
    data = entry.data if isinstance(entry.data, dict) else {}
    pod = data.get("pod")
    status = data.get("status") or (data.get("job") or {}).get("status") or {}
    state = status.get("state") or {} if isinstance(status, dict) else {}
    words = [
        f"{pod['task']}-{pod['index']} {pod['phase']}" if isinstance(pod, dict) else str(pod or ""),
        str(state.get("phase") or ""),
        str(data.get("message") or ""),
    ]
    return " ".join(filter(None, words))
