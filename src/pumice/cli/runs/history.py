"""`pumice history [NAME|RUN]`: lists the runs of a Job, or the attempts of a run."""

from __future__ import annotations

import argparse
import os
from typing import Any

from pumice.cli.runs.arguments import add_namespace, add_output, argument, chosen_run, print_data, run_command
from pumice.client.backend import Backend, Selection
from pumice.client.history_values import attempts
from pumice.client.values import changed_code
from pumice.client.view.output import table
from pumice.diagnosis.code_change import code_change_text
from pumice.diagnosis.hang import hang_text
from pumice.model.text import escaped
from pumice.model.units import age_text, elapsed_text
from pumice.store.events import CodeChanged, RunHangs
from pumice.store.history.entries import decode_entry
from pumice.store.journal import Entry
from pumice.store.run_names import parse_run


@run_command(
    argument("name", nargs="?", metavar="NAME|RUN", help="a Job's name, or NAME:N for the attempts of a run"),
    argument("--here", action="store_true", help="only runs that were submitted in this directory"),
    argument("--events", action="store_true", help="everything that happened in the run"),
    add_namespace,
    add_output,
    waits=False,
)
async def history(backend: Backend, args: argparse.Namespace) -> int:
    if not args.events and not await _is_run(backend, args.name):
        return await _runs(backend, args)
    run = await chosen_run(backend, args.name)
    if args.events:
        entries = [entry async for part in backend.journal(run) for entry in part]
        if args.output:
            print_data({"items": [_plain(entry) for entry in entries]}, args.output)
        else:
            for entry in entries:
                print(entry.time.isoformat(timespec="milliseconds"), entry.kind, escaped(_about(entry)))
        return 0
    run_history = await backend.history(run)
    found = attempts(run_history)
    if args.output:
        status = await backend.status(run)
        about = {"run": status.run, "outcome": status.outcome, "phase": status.phase}
        print_data({**about, "items": found}, args.output)
        return 0
    rows = [("ATTEMPT", "TOOK", "FIRST FAILURE", "POLICY")]
    for each in found:
        took = _took(run_history.seconds_active(each.end or backend.now(), each.begin))
        rows.append((str(each.number), took, each.first_failure, each.policy))
    print("\n".join(table(rows)))
    return 0


async def _is_run(backend: Backend, text: str | None) -> bool:
    """Return whether the text names one run, not a Job: NAME:N, @last, a uid, or a Job on a cluster. Names win."""
    name = None if text is None else parse_run(text)
    if name is None and text is not None and "@" in text:
        # NAME@UID is one Job of a cluster.
        await backend.find(text)
        return True
    if name is None or name.is_last or name.number:
        return name is not None
    run = await backend.find(name.text)
    return not run.number or (name.may_be_uid and run.name != name.name)


async def _runs(backend: Backend, args: argparse.Namespace) -> int:
    found = (await backend.runs(Selection([args.name] if args.name else [], everything=True))).runs
    if args.here:
        here = os.getcwd()
        found = [each for each in found if each.workdir == here]
    if args.output:
        print_data({"items": found}, args.output)
        return 0
    now = backend.now()
    rows = [("RUN", "STATUS", "TRY", "TOOK", "AGE", "NOTE")]
    for each in found:
        note = " · ".join(filter(None, (each.identity, changed_code(each), each.message)))
        took = _took(each.seconds_active(now))
        rows.append(
            (each.run, each.outcome, str(each.attempt), took, age_text((now - each.created).total_seconds()), note)
        )
    print("\n".join(table(rows)))
    return 0


def _took(seconds: float | None) -> str:
    return "-" if seconds is None else elapsed_text(seconds)


def _plain(entry: Entry) -> dict[str, Any]:
    fields = {"seq": entry.seq, "time": entry.time, "t": entry.t, "kind": entry.kind}
    return fields if (data := entry.plain()) is None else {**fields, "data": data}


def _about(entry: Entry) -> str:
    """Return what an event is about, in a few words."""
    has_words = entry.kind in (RunHangs.__name__, CodeChanged.__name__)
    match decode_entry(entry.kind, entry.data) if has_words else None:
        case RunHangs(hang):
            return hang_text(hang)
        case CodeChanged(change) if change is not None:
            return code_change_text(change)
    data = plain if isinstance(plain := entry.plain(), dict) else {}
    pod = data.get("pod")
    status = data.get("status") or (data.get("job") or {}).get("status") or {}
    state = status.get("state") or {} if isinstance(status, dict) else {}
    words = [
        f"{pod['task']}-{pod['index']} {pod['phase']}" if isinstance(pod, dict) else str(pod or ""),
        str(state.get("phase") or ""),
        str(data.get("message") or ""),
    ]
    return " ".join(filter(None, words))
