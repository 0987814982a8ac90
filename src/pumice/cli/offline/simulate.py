"""`pumice simulate JOB [-s SCENARIO]`: simulates a job in virtual time, to see what its policies do."""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from pumice.admission.admit import Admitted
from pumice.cli.errors import BAD_INPUT, refuse
from pumice.cli.jobfile import load_valid, print_reports
from pumice.client.job_files import JobDocument, Report, in_order
from pumice.client.view.output import fit, table
from pumice.diagnosis.verdict_lines import verdict_lines
from pumice.engines.memory.event_log import Line, texts
from pumice.engines.memory.expectations import Outcome
from pumice.engines.memory.scenario import MOST_PODS, PODS, RUN, Scenario, Step
from pumice.engines.memory.scenario_reader import ScenarioReader
from pumice.engines.memory.simulation import Simulation
from pumice.model.findings import ROOT, Finding
from pumice.model.problem import Position
from pumice.plugins.base import PluginError
from pumice.runtime.offline_context import offline_context
from pumice.yaml.documents import read

# Without a scenario file: the flags, their form and their help.
_INCIDENTS: Final = (
    ("fail", "TASK-INDEX@TIME[:CODE]", "a pod fails at this time, with this exit code; default 1"),
    ("evict", "TASK-INDEX@TIME", "a pod is evicted at this time"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="JOB", help="a Job file, or - for standard input")
    about = "a scenario file; default: every pod succeeds"
    parser.add_argument("-s", "--scenario", metavar="FILE", default="", help=about)
    for flag, form, text in _INCIDENTS:
        parser.add_argument(f"--{flag}", metavar=form, action="append", default=[], help=text)
    parser.add_argument("--json", action="store_true", help="print one JSON object per event")


def run(args: argparse.Namespace) -> int:
    """Return 0; 1 if an expectation of the scenario is missed; 2 for bad input."""
    if args.scenario and (args.fail or args.evict):
        return refuse("--fail and --evict: not with a scenario file, whose steps say the same")
    loaded = _read_job(args.file)
    if loaded is None:
        return BAD_INPUT
    admitted, document = loaded.admitted, loaded.document
    try:
        scenario = _read_scenario(args.scenario, admitted) if args.scenario else _incidents(args, admitted)
        if scenario is None:
            return BAD_INPUT
        simulation = Simulation(admitted, scenario, offline_context())
        outcomes = asyncio.run(simulation.run())
    except PluginError as error:
        return refuse(f"{args.file}: {error}")
    lines = simulation.story.lines
    expected = table([_row(outcome, name) for outcome in outcomes for name in outcome.expectation.parts])
    for text in _as_json(lines, outcomes) if args.json else (*texts(lines), *expected):
        print(text if args.json else fit(text, sys.stdout))
    verdict = simulation.story.verdict(lambda path: Position(document.file, document.position(path)[0]))
    if verdict is not None and not args.json:
        # As `pumice run` ends. It is talk: the story has its own line for each event.
        print("", *verdict_lines(verdict), sep="\n", file=sys.stderr)
    return 0 if all(outcome.met_at is not None for outcome in outcomes) else 1


def _incidents(args: argparse.Namespace, admitted: Admitted) -> Scenario | None:
    """The default story with what `--fail` and `--evict` add; None, with the reasons on stderr, if one is wrong."""
    problems: list[str] = []
    steps: list[Step] = []
    for flag, form, _ in _INCIDENTS:
        for text in getattr(args, flag):
            found = re.fullmatch(r"([^@]+)@([^:]+)(?::([0-9]{1,3}))?", text, re.ASCII)
            if found is None or (flag == "evict" and found[3]):
                problems.append(f"--{flag}: {text}: must be {form}, such as worker-1@30s")
                continue
            moment = int(found[2]) if re.fullmatch("[0-9]{1,9}", found[2]) else found[2]
            what = {"evict": True} if flag == "evict" else {"exit": int(found[3] or 1)}
            reader = ScenarioReader(admitted.job, admitted.plugins)
            steps += reader.read({"steps": [{"at": moment, "pod": found[1], **what}]}).steps
            for finding in reader.findings:
                hint = f"\n  hint: {finding.hint}" if finding.hint else ""
                problems.append(f"--{flag}: {text}: {finding.message}{hint}")
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return None
    last = max((step.at for step in steps), default=dt.timedelta())
    if last >= RUN.shortest:
        # The pods must still run then.
        run = f"{(last + RUN.shortest).total_seconds():g}s"
        steps += ScenarioReader(admitted.job).read({"steps": [{"at": "0s", "pods": "*", "run": run}]}).steps
    return Scenario(steps=tuple(sorted(steps, key=lambda step: step.at)))


def _read_job(file: str) -> JobDocument | None:
    loaded = load_valid(file)
    if loaded is None:
        return None
    if len(loaded.jobs) != 1:
        print(f"{file}: {len(loaded.jobs)} Jobs: simulate accepts one at a time", file=sys.stderr)
        return None
    admitted = loaded.jobs[0].admitted
    if admitted.job.total_replicas > MOST_PODS:
        pods = admitted.job.total_replicas
        print(f"{file}: {pods} pods: simulate accepts at most {MOST_PODS}\n  hint: lower replicas", file=sys.stderr)
        return None
    return loaded.jobs[0]


def _read_scenario(file: str, admitted: Admitted) -> Scenario | None:
    documents, problems = read(file)
    if not documents:
        # The hint of the reader is about a Job file.
        problems = [replace(one, advice="a scenario has steps:") if one.where.line == 1 else one for one in problems]
    reports = [Report.of_problem(problem) for problem in problems]
    scenario = None
    for document in documents[:1]:
        reader = ScenarioReader(admitted.job, admitted.plugins)
        scenario = reader.read(document.value)
        reports += [Report.of_finding(finding, document) for finding in reader.findings]
    second = Finding(ROOT, "only one scenario may be in a file, and this is the second")
    reports += [Report.of_finding(second, document) for document in documents[1:2]]
    print_reports(in_order(reports))
    return None if reports else scenario


def _as_json(lines: Sequence[Line], outcomes: Sequence[Outcome]) -> Iterator[str]:
    for line in lines:
        same = {name: getattr(line, name) for name in ("phase", "event", "pod", "policy", "action", "message")}
        yield json.dumps({"at": round(line.at, 3), **same}, ensure_ascii=False)
    for outcome in outcomes:
        for name, wanted in outcome.expectation.parts.items():
            met = _is_met(outcome, name)
            fields = {
                "at": round(outcome.looked_at, 3),
                "phase": outcome.phase,
                "event": "ExpectationMet" if met else "ExpectationMissed",
                "pod": name.removeprefix(PODS) if name.startswith(PODS) else "",
                "policy": "",
                "action": "",
                "message": " ".join(_row(outcome, name)),
                "expect": name,
                "wanted": wanted,
                "found": outcome.found[name],
            }
            yield json.dumps(fields, ensure_ascii=False)


def _row(outcome: Outcome, name: str) -> tuple[str, str]:
    """An expectation, and when it was met or what was found instead."""
    expectation = outcome.expectation
    at, by = expectation.at, expectation.by
    if at is not None and by is not None:
        when = f" from {_seconds(at)} to {_seconds(by)}"
    else:
        when = "".join(f" {word} {_seconds(each)}" for word, each in (("at", at), ("by", by)) if each is not None)
    expected = f"expect {name.removeprefix(PODS)} {_shown(expectation.parts[name])}{when}"
    if outcome.met_at is not None:
        return expected, f"ok ({outcome.met_at:.1f}s)"
    if _is_met(outcome, name):
        return expected, "ok"
    return expected, f"missed: was {_shown(outcome.found[name])} ({outcome.looked_at:.1f}s)"


def _shown(value: object) -> str:
    return "empty" if value == "" else str(value)


def _is_met(outcome: Outcome, name: str) -> bool:
    """Whether this part of an expectation is met; others of its parts may be missed."""
    return outcome.met_at is not None or outcome.found[name] == outcome.expectation.parts[name]


def _seconds(moment: dt.timedelta) -> str:
    return f"{moment.total_seconds():.3f}".rstrip("0").rstrip(".") + "s"
