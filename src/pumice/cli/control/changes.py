"""The commands that change runs: stop, suspend, resume, restart, scale, detach and rm."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from pumice.cli.control.selecting import add_consent, add_selection, chosen_runs, confirm, said
from pumice.cli.errors import print_error
from pumice.cli.runs.arguments import FAILED, RUN_HELP, RUNS, add_namespace, argument, one_or_more, run_command, tell
from pumice.client.backend import (
    Backend,
    Change,
    DetachRun,
    RemoveRun,
    RestartRun,
    ResumeRun,
    RunRef,
    ScaleRun,
    StopRun,
    SuspendRun,
    wait,
)
from pumice.client.run_options.kinds import read_time
from pumice.client.values import Status
from pumice.diagnosis.outcome import Outcome
from pumice.model.job import Job, TaskSpec, scaled
from pumice.model.problem import Position
from pumice.model.text import escaped
from pumice.model.vocabulary import Phase
from pumice.store.run_errors import InvalidOption, RunError, WaitTimeout

_PROGRESS: Final = 10.0  # seconds between two lines about pods that end
_MOST_WAITED: Final = 600.0  # seconds, on a cluster: the pods of a lost node never end
_RESTARTED: Final = frozenset((Outcome.STARTING, Outcome.RUNNING, Outcome.RESTARTING))
_ENDED: Final[Mapping[str, str]] = {Phase.TERMINATED: "stopped", Phase.ABORTED: "suspended"}


@run_command(
    lambda parser: add_selection(parser, "have not finished"),
    argument("--grace", metavar="30s", help="how long pods have to end, instead of their grace periods"),
    argument("--force", action="store_true", help="end the pods at once, and a process that hangs"),
)
async def stop(backend: Backend, args: argparse.Namespace) -> int:
    grace = None if args.grace is None else read_time("grace", args.grace)
    runs = await chosen_runs(backend, args, "stop", lambda status: not status.is_finished)
    await confirm(backend, runs, args)
    changed = await _change_each(backend, runs, StopRun(args.force, grace))
    await _print_outcomes(backend, changed, args)
    await backend.wake()
    return 0 if len(changed) == len(runs) else FAILED


async def _change_each(backend: Backend, runs: Sequence[RunRef], change: Change) -> list[RunRef]:
    """Continue after a failure, which is printed; return the runs that were changed."""
    changed = []
    for run in runs:
        try:
            await backend.change(run, change, tell)
        except RunError as error:
            if len(runs) == 1:
                raise
            print_error(error)
        else:
            changed.append(run)
    return changed


async def _print_outcomes(backend: Backend, runs: list[RunRef], args: argparse.Namespace) -> None:
    if not runs:
        return
    found = await _ended(backend, runs) if backend.waits else await wait(backend, runs)
    for run, each in zip(runs, found, strict=True):
        if backend.location(run):
            print(said(backend, run, _ENDED.get(each.phase, each.outcome.lower()), args))
        else:
            print(f"{each.run} {each.outcome}")


async def _ended(backend: Backend, runs: list[RunRef]) -> Sequence[Status]:
    """Wait for the pods, and say now and then for what. Raises WaitTimeout."""
    waited = 0.0
    while True:
        try:
            return await wait(backend, runs, timeout=_PROGRESS)
        except WaitTimeout:
            waited += _PROGRESS
            if waited >= _MOST_WAITED:
                raise
        for status in [await backend.status(run) for run in runs]:
            if not status.is_over:
                pods = status.pods
                tell(f"{status.run}: {status.phase}, {pods.running + pods.pending or 'its'} pods have not ended")


@run_command(lambda parser: add_selection(parser, "run or wait"))
async def suspend(backend: Backend, args: argparse.Namespace) -> int:
    runs = await chosen_runs(backend, args, "suspend", lambda status: not status.is_over)
    await confirm(backend, runs, args)
    changed = await _change_each(backend, runs, SuspendRun())
    await _print_outcomes(backend, changed, args)
    return 0 if len(changed) == len(runs) else FAILED


@run_command(
    RUNS,
    argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME",
        help="pass on your variable again, which is not stored; NAME=VALUE sets it",
    ),
    argument(
        "--with", dest="documents", action="append", default=[], metavar="FILE", help="read Secrets again from a file"
    ),
    add_consent,
)
async def resume(backend: Backend, args: argparse.Namespace) -> int:
    from pumice.cli.jobfile import load_reported
    from pumice.client.run_options.table import read_values

    given = read_values({"env": args.env}, Path(), os.environ)["env"]
    env = {name: os.environ[name] if value is None else value for name, value in given.items()}
    documents = []
    for file in args.documents:
        found = load_reported(file)
        values = [each.value for each in found.extra_objects if isinstance(each.value, dict)]
        secrets = [value for value in values if value.get("kind") == "Secret"]
        if not found.is_good or not secrets:
            raise InvalidOption(f"{file}: contains no Secret that can be used", where=Position(option="with"))
        documents += secrets
    runs = await one_or_more(backend, args.runs)
    await confirm(backend, runs, args)
    for run in runs:
        await backend.change(run, ResumeRun(env, documents), tell)
        print(said(backend, run, "resumed", args) if backend.location(run) else run)
    return 0


@run_command(lambda parser: add_selection(parser, "run"))
async def restart(backend: Backend, args: argparse.Namespace) -> int:
    runs = await chosen_runs(backend, args, "restart", lambda status: status.outcome in _RESTARTED)
    await confirm(backend, runs, args)
    for run in runs:
        costs = await backend.change(run, RestartRun(), tell)
        what = f"all pods restart; {', '.join(costs) or 'it costs no retry'}"
        print(said(backend, run, what, args) if backend.location(run) else f"{run}: {what}")
    return 0


@run_command(
    argument("run", metavar="RUN", help=RUN_HELP),
    argument("replicas", nargs="+", metavar="TASK=N", help="the number of pods of a task"),
    add_consent,
)
async def scale(backend: Backend, args: argparse.Namespace) -> int:
    from pumice.client.run_options.kinds import REPLICAS, Source

    replicas = REPLICAS.read(args.replicas, Source(Position(option="scale")))
    run = await backend.find(args.run)
    await confirm(backend, [run], args)
    history = await backend.history(run)
    await backend.change(run, ScaleRun(replicas), tell)
    for task in history.job.spec.tasks:
        wanted = replicas.get(task.name)
        if wanted is not None:
            same = wanted == task.replicas
            what = f"{task.name} {f'has {wanted} already' if same else f'{task.replicas} -> {wanted}'}"
            print(said(backend, run, what, args) if backend.location(run) else f"{run}: {what}")
    if history.status.started is not None and (names := _changed_variables(history.job, replicas)):
        hint = f"`pumice restart {run}` starts all pods with the new values"
        print(f"warning: pods that run keep their {', '.join(names)}\n  hint: {hint}", file=sys.stderr)
    return 0


def _changed_variables(job: Job, replicas: Mapping[str, int]) -> list[str]:
    """Return what a change of sizes does not reach: variables that pods which start now have with other values."""
    from pumice.model.slot import Slot
    from pumice.plugins.shaping import shaped_pod
    from pumice.runtime.offline_context import offline_context

    def variables(job: Job, task: TaskSpec) -> dict[str, str]:
        pod = shaped_pod(Slot(job, task, 0), offline_context().registry.resolve(job.spec.plugins).plugins)
        variables = (each for container in pod.containers for each in container.get("env") or ())
        return {each["name"]: each["value"] for each in variables if "value" in each}

    larger = msgspec.structs.replace(job, spec=scaled(job.spec, replicas))
    changed: dict[str, None] = {}
    for task, wanted in zip(job.spec.tasks, larger.spec.tasks, strict=True):
        if task.replicas and wanted.replicas:
            before, after = variables(job, task), variables(larger, wanted)
            changed |= dict.fromkeys(name for name, value in after.items() if before.get(name) != value)
    return list(changed)


@run_command(RUNS, add_namespace)
async def detach(backend: Backend, args: argparse.Namespace) -> int:
    for run in await one_or_more(backend, args.runs):
        detached = await backend.change(run, DetachRun(), tell)
        if backend.location(run):
            print(said(backend, run, "needs no client: it runs on without one", args))
        else:
            print(*detached)
    return 0


@run_command(
    lambda parser: add_selection(parser, "have finished"),
    argument("--force", action="store_true", help="stop runs that have not finished"),
    argument(
        "--claims",
        "--delete-claims",
        action="store_true",
        help="also the data of their claims; prints what is removed. On a cluster, claims that a Job owns need it",
    ),
)
async def remove(backend: Backend, args: argparse.Namespace) -> int:
    runs = await chosen_runs(backend, args, "rm", lambda status: args.force or status.is_finished)
    change = RemoveRun(args.force, args.claims)
    await confirm(backend, runs, args)
    for run in runs:
        await backend.check_change(run, change)  # all of them, before any is removed
    for run in runs:
        others = await backend.change(run, change, tell)
        print(said(backend, run, "removed", args) if backend.location(run) else run, *map(escaped, others), sep="\n")
    await backend.wake()
    return 0
