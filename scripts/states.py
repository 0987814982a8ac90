"""Builds docs/states.md from the table of phases: the transitions, a diagram, and the rules. A test compares it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from pumice.model.vocabulary import Phase
from pumice.reconcile import phases
from pumice.reconcile.phases import ELSE, FINAL, TABLE, Move, Rule
from pumice.reconcile.requested_action import FREE_OF_CHARGE
from scripts.docs_text import code, fenced, table

PAGE = Path(__file__).resolve().parents[1] / "docs" / "states.md"
NOTE = "<!-- Made by `make docs` from the table of phases. Changes made here are lost. -->\n\n"

INTRODUCTION = """# The phases of a job

A job is in one of ten phases. Each reconcile pass reads the whole state of the job, makes at most one transition, and
writes the new phase before it does anything else. This page is generated from the table that the controller uses.

"""
ABOUT = {
    Phase.PENDING: "PodGroup, claims and pods are being created, and fewer than `minAvailable` pods run",
    Phase.RUNNING: "at least `minAvailable` pods run",
    Phase.RESTARTING: "pods of the old attempt are deleted; none is created",
    Phase.ABORTING: "the job is being stopped: its pods are terminating",
    Phase.ABORTED: "stopped: finished pods, claims, Service, ConfigMap and Secret are kept for a resume",
    Phase.COMPLETING: "the job completes early: the remaining pods are terminating",
    Phase.COMPLETED: "finished with success",
    Phase.TERMINATING: "the job is being terminated: its pods are terminating",
    Phase.TERMINATED: "finished by a Command or a policy",
    Phase.FAILED: "finished without success: `status.state.reason` and `.message` say why",
}
LEGEND = (
    "*new version*: all existing pods belong to an earlier attempt. *Some pods*: applies only to the pod, task or "
    "partition of the event; the other pods, the PodGroup and the owned objects are kept. *Retry*: if a policy "
    "requested the action, `status.retryCount` increases; it also counts against `maxRetry`, except for "
)


def states_page() -> str:
    parts = [NOTE + INTRODUCTION, _about(), _diagram(), _requested(), _facts(), _rules()]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def main() -> int:
    PAGE.write_text(states_page(), encoding="utf-8")
    print(f"wrote {PAGE.name}")
    return 0


def _about() -> str:
    rows = [(f"**{phase}**" if phase in FINAL else phase, ABOUT[phase]) for phase in Phase]
    return table(["Phase", "What it means"], rows) + "\nPhases in bold are final: they have no transitions.\n"


def _diagram() -> str:
    lines = ["stateDiagram-v2", "  [*] --> Pending"]
    for before, row in TABLE.items():
        for after in Phase:
            actions = [str(action) for action, move in row.items() if action is not ELSE and after in _outcomes(move)]
            if before is not after and after in _outcomes(row[ELSE]):
                lines.append(f"  {before} --> {after}")
            if before is not after and actions:
                lines.append(f"  {before} --> {after}: {', '.join(actions)}")
    lines += [f"  {phase} --> [*]" for phase in Phase if phase in FINAL]
    heading = "## Diagram\n\nArrows without a label depend on the state of the pods.\n\n"
    return heading + fenced("mermaid", "\n".join(lines))


def _requested() -> str:
    """Return the table of transitions by phase and requested action."""
    rows = [
        (before, ", ".join(map(code, actions)), after, costs)
        for before, row in TABLE.items()
        for (after, costs), actions in _alike(row).items()
    ]
    free = " and ".join(sorted(code(event) for event in FREE_OF_CHARGE))
    free += " of a pod that was deleted"
    return (
        "## Requested actions\n\nRequested by a policy, a Command, `spec.suspend` or `spec.activeDeadlineSeconds`.\n\n"
        + table(["Phase", "Requested action", "Next phase", "Effects"], rows)
        + f"\n{LEGEND}{free}.\n\nOther actions have no effect in a phase: the next table applies.\n"
    )


def _alike(row: phases.Row) -> dict[tuple[str, str], list[str]]:
    """Group the actions of a row by next phase and effects."""
    found: dict[tuple[str, str], list[str]] = {}
    for action, move in row.items():
        if action is not ELSE:
            (after,) = _outcomes(move)  # a requested action has exactly one next phase
            found.setdefault((after, _costs(move)), []).append(str(action))
    return found


def _facts() -> str:
    rows = []
    for before, row in TABLE.items():
        rule = row[ELSE].to
        rows.append((before, rule.words if isinstance(rule, Rule) else "no transition"))
    return "## Transitions without a requested action\n\n" + table(["Phase", "Transition"], rows)


def _rules() -> str:
    rules = [line.partition(": ")[2] for line in (phases.__doc__ or "").splitlines() if line.startswith("Rule ")]
    lines = [f"{number}. {rule[:1].upper()}{rule[1:]}" for number, rule in enumerate(rules, start=1)]
    return "## Rules\n\n" + "\n".join(lines) + "\n"


def _costs(move: Move) -> str:
    named = (("new version", move.new_version), ("some pods", move.targeted), ("retry", move.retry))
    return ", ".join(name for name, true in named if true)


def _outcomes(move: Move) -> Iterator[Phase]:
    return iter((move.to,) if isinstance(move.to, Phase) else move.to.outcomes)


if __name__ == "__main__":
    sys.exit(main())
