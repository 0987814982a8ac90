"""`pumice attach [RUN]` shows a run as `run` does, until it ends; `pumice replay [RUN]` shows one from its journal."""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from contextlib import aclosing

from pumice.cli.runs.arguments import RUN_OR_LAST, add_namespace, argument, chosen_run, run_command
from pumice.client.backend import Backend, RunRef
from pumice.client.values import Status
from pumice.client.view.screen import Screen
from pumice.client.view.text_view import TextView
from pumice.diagnosis.verdict_lines import verdict_lines
from pumice.model.text import escaped
from pumice.store.event_json import JsonView
from pumice.store.events import Listener, PortPublished, PortTaken, RunEvent, RunHangs, WarningIssued
from pumice.store.history.entries import Lost
from pumice.store.history.event_log import loss_text
from pumice.store.history.run_history import RunHistory
from pumice.store.run_end import RunEnded


@run_command(
    RUN_OR_LAST,
    argument("--json", action="store_true", help="print one JSON object per event"),
    argument("--no-prefix", action="store_true", help="print log lines without the names of their pods"),
    add_namespace,
)
async def attach(backend: Backend, args: argparse.Namespace) -> int:
    import asyncio

    run = await chosen_run(backend, args.run)
    view: Listener
    history: RunHistory | None = None
    if args.json:
        view = JsonView(lambda text: print(text, end="", flush=True))
    else:
        history = await backend.history(run)
        view = TextView(Screen.of(sys.stdout, sys.stderr), history.source, prefix=not args.no_prefix)
    task = asyncio.current_task()
    if task is not None and signal.getsignal(signal.SIGQUIT) is signal.SIG_DFL:
        # Ctrl-\ detaches a foreground run; here, too, it leaves the run alone.
        asyncio.get_running_loop().add_signal_handler(signal.SIGQUIT, task.cancel)
    try:
        return await _show(backend, run, view, history)
    except asyncio.CancelledError:
        again = ["pumice", "attach", str(run)]
        for flag, value in (("--on", args.on), ("-n", args.namespace), ("--kubeconfig", args.kubeconfig)):
            again += [flag, value] if value else []
        print(f"\n{run} keeps running; reattach with `{shlex.join(again)}`", file=sys.stderr)
        return 0


async def _show(backend: Backend, run: RunRef, view: Listener, before: RunHistory | None) -> int:
    """Show the run until it ends; while it waits, say why. Return its exit code. `before` is what was known of it."""
    async with aclosing(backend.watch(run)) as updates:
        async for update in updates:
            match update:
                case RunHistory():
                    _catch_up(backend, update, view)
                case Status(is_over=True):
                    # A long journal takes seconds to read.
                    is_known = before is not None and before.status.finished == update.finished is not None
                    return _show_end(before if before and is_known else await backend.history(run), view)
                case Status():
                    print(f"{update.run} {update.outcome}: {escaped(update.message)}", file=sys.stderr)
                case RunEnded():
                    view(update)
                    return update.exit_code
                case _:
                    view(update)
    return 1


def _catch_up(backend: Backend, history: RunHistory, view: Listener) -> None:
    """Show what was reported before and still holds."""
    now, status = backend.now(), history.status
    if isinstance(view, TextView):
        began = history.active[-1].start if history.active else now
        view.catch_up(history, (now - began).total_seconds())
    elif history.plan is not None:
        view(history.plan)
    for each in status.published:
        where = (each.pod, each.port, each.address)
        view(PortTaken(*where, each.taken) if each.taken else PortPublished(*where))
    if status.hang is not None:
        view(RunHangs(status.hang.at(now)))


def _show_end(history: RunHistory, view: Listener) -> int:
    """A run that has ended, or is suspended: show its plan and its outcome. One that never began has neither."""
    status = history.status
    for event in (history.plan, history.outcome):
        if event is not None:
            view(event)
    if history.outcome is None:
        known = () if status.verdict is None else verdict_lines(status.verdict)
        lines = known or (f"{history.record.ref} {status.outcome}: {status.text}",)
        print(*map(escaped, lines), sep="\n", file=sys.stderr)
    return 1 if status.exit_code is None else status.exit_code


@run_command(RUN_OR_LAST, add_namespace, waits=False)
async def replay(backend: Backend, args: argparse.Namespace) -> int:
    run = await chosen_run(backend, args.run)
    record = (await backend.history(run)).record
    history, entries = RunHistory(record), [each async for part in backend.journal(run) for each in part]
    moment = [entry.t for entry in entries[:1]] or [0.0]
    # What is replayed is data: all of it goes to stdout.
    view = TextView(Screen(sys.stdout, sys.stdout), history.source, clock=lambda: moment[0], live=False)
    for entry in entries:
        # The view shows the time at which the entry was recorded.
        moment[0] = entry.t
        event = history.add(entry)
        if isinstance(event, Lost):
            view(WarningIssued(loss_text(event)))
        elif isinstance(event, RunEvent):
            view(event)
    return 0
