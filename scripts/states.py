"""Builds docs/states.md from the table of phases: the transitions, a diagram, and the rules. A test compares it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from pumice.diagnosis.pod_waits import LOST_SECONDS
from pumice.model.vocabulary import Phase
from pumice.reconcile import phases
from pumice.reconcile.phases import ELSE, FINAL, TABLE, Move, Rule
from pumice.reconcile.requested_action import FREE_OF_CHARGE
from pumice.reconcile.waiting_pods import SETTLING_SECONDS
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

WAITS_FOR = [
    (
        "`ErrImagePull`, `ImagePullBackOff`, `InvalidImageName`, `CreateContainerConfigError`, `CrashLoopBackOff`, ...",
        (
            'a container, in the words of kubelet: `worker-0 waits: ImagePullBackOff: Back-off pulling image "x:1"`; '
            "the first waiting container of the first such pod, init containers included"
        ),
    ),
    (
        "`Unschedulable`",
        "a node for a pod, or for the whole gang, in the words of its scheduler; also claims that are not bound",
    ),
    ("`ClaimMissing`", "a claim that does not exist"),
    ("`FailedCreate` and other failures of the API", "a quota, a webhook or an API server that refuses pods"),
    (
        "`NodeLost`",
        (
            "a node that does not answer: nothing is known of its pods, and they cannot be ended; see "
            "[Operations](guides/operations.md#when-a-part-is-down)"
        ),
    ),
    ("`Restarting`", "the pods of the previous attempt, which still terminate"),
    ("`InvalidJob`", "a correction of the Job; the message lists the findings"),
]
FAILED_FOR = [
    (
        "`Evicted`, `DeadlineExceeded`, `Preempting`, `NodeShutdown`, `OutOfcpu`, `UnexpectedAdmissionError`, ...",
        "the reason of the pod that failed first: its kubelet ended or refused it; the message quotes the kubelet",
    ),
    ("`OOMKilled`", "a container of it used more memory than its limit"),
    ("`PodFailed`", "a container of it failed by itself: exit code, signal, or why it could not be started"),
    ("`MinAvailableNotMet`", "the job tolerates some failures, but there were too many"),
    ("`RetriesExhausted`", "`maxRetry` or `maxRestarts` ended it; the message names the last cause"),
    ("`DeadlineExceeded`", "the job ran longer than `spec.activeDeadlineSeconds`"),
]
REASONS = """## Reasons

`status.state.reason` is a word for programs, `.message` is for people. `kubectl describe vcjob NAME` shows both, and
the Events of the Job.

"""
SETTLING = f"""
What is said of a container stays until its pod is ready or, after a restart, has run for {SETTLING_SECONDS} seconds, so
that a crash loop does not alternate between two states; there is one Event. A `PodPending` policy repeats it in its
message. A node counts as lost when the cluster has marked its pods, or when a pod still exists {LOST_SECONDS} seconds
after its grace period.

"""
EVICTIONS = """
The message names the pod that failed first, its exit code or signal, how many others followed, and a pod that had left
them with exit code 0 within the minute before.

### Evictions

A pod that someone deletes (`kubectl drain`, a preemption, a taint) meets `PodEvicted` when it is gone, which does not
count against `maxRetry`. A pod that its kubelet turns Failed with reason `Evicted`, because it used more than its limit
or its node ran short of memory or disk, meets the first `PodEvicted` policy, else the first `PodFailed` policy, and
counts against `maxRetry`.
"""


def states_page() -> str:
    parts = [NOTE + INTRODUCTION, _about(), _diagram(), _requested(), _facts(), _reasons(), _rules()]
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


def _reasons() -> str:
    waits = "### While a job waits\n\n" + table(["Reason", "What the job waits for"], WAITS_FOR)
    return (
        REASONS
        + waits
        + SETTLING
        + "### When a job has failed\n\n"
        + table(["Reason", "Meaning"], FAILED_FOR)
        + EVICTIONS
    )


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
