"""`pumice simulate JOB [-s SCENARIO]`: rehearse what a job's policies do, in virtual time."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys

from pumice.cli.documents import read
from pumice.cli.findings import Report, counted, in_order, write_reports
from pumice.cli.jobfile import offline_context
from pumice.cli.output import style_for
from pumice.cli.render import load_good
from pumice.engines.memory.expectations import Outcome
from pumice.engines.memory.scenario import Scenario, ScenarioReader
from pumice.engines.memory.simulation import Simulation
from pumice.engines.memory.story import Line
from pumice.model.job import Job


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="JOB", help="a Job file, or - for standard input")
    parser.add_argument("-s", "--scenario", metavar="FILE", default="", help="what happens; default: all goes well")
    parser.add_argument("--json", action="store_true", help="one JSON object an event")


def run(args: argparse.Namespace) -> int:
    loaded = load_good(args.file)
    if loaded is None:
        return 2
    if len(loaded.jobs) != 1:
        print(f"{args.file}: has {len(loaded.jobs)} Jobs; one can be simulated at a time", file=sys.stderr)
        return 2
    admitted = loaded.jobs[0].admitted
    scenario = _read_scenario(args.scenario, admitted.job) if args.scenario else Scenario()
    if scenario is None:
        return 2
    simulation = Simulation(admitted.written, scenario, offline_context())
    outcomes = asyncio.run(simulation.run())
    for line in simulation.story.lines:
        print(_json(line) if args.json else line.text())
    return _tell(outcomes, as_json=args.json)


def _read_scenario(file: str, job: Job) -> Scenario | None:
    documents, problems = read(file)
    reports = [Report.of_problem(problem) for problem in problems]
    scenario = None
    if documents:
        reader = ScenarioReader(job)
        scenario = reader.read(documents[0].value)
        reports += [Report.of_finding(finding, documents[0]) for finding in reader.findings]
    write_reports(in_order(reports), sys.stderr, style_for(sys.stderr))
    if reports:
        print(counted(reports), file=sys.stderr)
    return None if reports else scenario


def _json(line: Line) -> str:
    fields = {
        "at": round(line.at, 3),
        "phase": line.phase,
        "event": line.event,
        "pod": line.pod,
        "policy": line.policy,
        "action": line.action,
        "message": line.message,
    }
    return json.dumps(fields, ensure_ascii=False)


def _tell(outcomes: list[Outcome], *, as_json: bool) -> int:
    """Each expectation: met, or what was there instead. A scenario with a missed one fails."""
    missed = False
    for outcome in outcomes:
        expectation, met = outcome.expectation, outcome.met_at
        by = f"by {expectation.by.total_seconds():g}s" if expectation.by is not None else "at the end"
        for name, wanted in expectation.what.items():
            found = outcome.found[name]
            # Of an expectation that was missed, tell only the parts that made it so.
            good = met is not None or found == wanted
            if as_json:
                print(json.dumps({"expect": name, "wanted": wanted, "found": found, "met": good, "at": met}))
            else:
                moment = f" ({met:.1f}s)" if met is not None else ""
                verdict = f"ok{moment}" if good else f"missed: was {_shown(found)}"
                print(f"expect {name} {_shown(wanted)} {by}".ljust(40), verdict)
        missed = missed or met is None
    return 1 if missed else 0


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {part}" for name, part in value.items())
    return str(value)
