"""Writes docs/states.md from the table of phases: what leads where, a diagram, and the rules. A test compares it."""

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

A job is in one of ten phases. Each pass of the controller looks at the whole job, makes at most one move, and writes
the new phase before anything else is done. What follows is the table that the controller itself uses.

"""
ABOUT = {
    Phase.PENDING: "waits for its gang: PodGroup, claims and pods are made, and fewer pods than `minAvailable` run",
    Phase.RUNNING: "the gang is there",
    Phase.RESTARTING: "pods of the old attempt are deleted; none is created",
    Phase.ABORTING: "stopped: the pods are ending",
    Phase.ABORTED: "stopped: finished pods, claims, Service, ConfigMap and Secret are kept for a resume",
    Phase.COMPLETING: "completed early: the other pods are ending",
    Phase.COMPLETED: "over, and good",
    Phase.TERMINATING: "terminated: the pods are ending",
    Phase.TERMINATED: "ended by a Command or a policy",
    Phase.FAILED: "over, and not good: `status.state.reason` and `.message` say why",
}
LEGEND = (
    "*new version*: all pods so far belong to an earlier run. *Some pods*: only those that the event named (the pod, "
    "its task or its partition) are meant; the others, the PodGroup and the owned objects stay. *Retry*: if a "
    "policy asked for it, `status.retryCount` goes up, and so does what is spent of `maxRetry`, except for "
)


def states_page() -> str:
    parts = [NOTE + INTRODUCTION, _about(), _diagram(), _asked(), _facts(), _rules()]
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
    return "## In a picture\n\nArrows without words follow from the facts.\n\n" + fenced("mermaid", "\n".join(lines))


def _asked() -> str:
    """By phase, what each action leads to."""
    rows = [
        (before, ", ".join(map(code, actions)), after, costs)
        for before, row in TABLE.items()
        for (after, costs), actions in _alike(row).items()
    ]
    free = " and ".join(sorted(code(event) for event in FREE_OF_CHARGE))
    return (
        "## What is asked for\n\nBy a policy, a Command, `spec.suspend` or `spec.activeDeadlineSeconds`.\n\n"
        + table(["In", "asked for", "leads to", "with"], rows)
        + f"\n{LEGEND}{free}.\n\nAny other action in any other phase changes nothing: the next table decides.\n"
    )


def _alike(row: phases.Row) -> dict[tuple[str, str], list[str]]:
    """The actions of a row, those with one answer together."""
    found: dict[tuple[str, str], list[str]] = {}
    for action, move in row.items():
        if action is not ELSE:
            (after,) = _outcomes(move)  # who asks for something is not answered by a rule
            found.setdefault((after, _costs(move)), []).append(str(action))
    return found


def _facts() -> str:
    rows = []
    for before, row in TABLE.items():
        rule = row[ELSE].to
        rows.append((before, rule.words if isinstance(rule, Rule) else "nothing: it stays"))
    return "## What follows from the facts\n\nWhen nothing is asked for.\n\n" + table(["In", "what happens"], rows)


def _rules() -> str:
    rules = [line.partition(": ")[2] for line in (phases.__doc__ or "").splitlines() if line.startswith("Rule ")]
    lines = [f"{number}. {rule[:1].upper()}{rule[1:]}" for number, rule in enumerate(rules, start=1)]
    return "## The rules\n\n" + "\n".join(lines) + "\n"


def _costs(move: Move) -> str:
    named = (("new version", move.new_version), ("some pods", move.targeted), ("retry", move.retry))
    return ", ".join(name for name, true in named if true)


def _outcomes(move: Move) -> Iterator[Phase]:
    return iter((move.to,) if isinstance(move.to, Phase) else move.to.outcomes)


if __name__ == "__main__":
    sys.exit(main())
