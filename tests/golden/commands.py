"""Which commands the goldens have: of each run, of all runs, and of the examples."""

from __future__ import annotations

from typing import Final

# Of each run, whether it has ended or not.
EVERY_RUN: Final = (
    "why {run}",
    "why {run} -o json",
    "get {run}",
    "history {run}",
    "history {run} -o json",
    "history {run} --events",
    "logs {run} --tail 12",
)
# Of each run that has ended: of others, these wait for a process.
ENDED_RUN: Final = ("attach {run}", "replay {run}", "wait {run}", "top {run}")
EVERY_POD: Final = ("why {run}/{pod}",)
MOST_PODS: Final = 3  # of a run
# Runs whose process would be asked, or that cannot be read.
NOT_ENDED: Final = frozenset(
    {
        "running",
        "hang",
        "published",
        "depends",
        "crash-loop",
        "second-attempt",
        "holder",
        "queued",
        "behind",
        "held",
        "suspended",
        "secrets",
        "lost",
        "elsewhere",
    }
)
LISTS: Final = (
    "ps",
    "ps -a",
    "ps -a -o wide",
    "ps -a -o name",
    "ps --active",
    "ps --active --json",
    "ps -n research",
    "ps done waited:2",
    "ps -a -o json",
    "ps running -o yaml",
    "history",
    "history done",
    "history waited -o json",
    "completion --names runs",
    "completion --names pods",
    "service status",
)
LOGS: Final = (
    "logs done:1",
    "logs done:1 -t",
    "logs done:1 --no-prefix",
    "logs done:1 --json",
    "logs done:1 --task worker --tail 2",
    "logs done:1/worker-1 done:2/master-0",
    "logs done:1 done:2 --tail 3",
    "logs done:1 --since 29h59m59s",
    "logs done:1 -c master",
    "logs restarts",
    "logs restarts -f",
    "logs restarts --attempt 2",
    "logs restarts --json --attempt 3",
    "logs restart-pod",
    "logs recovered",
    "logs back-off",
    "logs back-off --previous",
    "logs crash-loop --tail 4 -t",
    "logs hostile",
    "logs long-log --grep warning|Error",
    "logs long-log --tail 0",
    "logs many --task trial --grep 40",
    "logs init-container -c fetch",
)
OPTIONS: Final = (
    "get exception -o json",
    "get exception --exit-code",
    "get stopped --exit-code -o json",
    "get running --exit-code",
    "get done:1 --exit-code",
    "why oom -o yaml",
    "why",
    "history restarts:1 --events -o json",
    "history many -o yaml",
    "attach exception --json",
    "attach done --json",
    "attach done --no-prefix",
    "wait done:1 exception stopped --json",
    "wait done:1 exception stopped --any",
    "wait exception --for Terminated",
    "wait done:1 --for running",
    "wait suspended",
    "wait abort-policy",
    "top done:1 -o json",
    "top done:1 --json",
    "export exception:1 -o exception.tar.gz",
    "export restarts:1 -o restarts.tar.gz --no-logs",
)
MISTAKES: Final = (
    "ps nope",
    "ps -a --active",
    "ps -w -o json",
    "why nope",
    "why done:1/nope-0",
    "why newer",
    "why unreadable",
    "get newer",
    "logs unreadable",
    "replay nope",
    "attach nope",
    "wait nope",
    "wait done:1 --for bogus",
    "wait done:1 --timeout soon",
    "top nope",
    "logs done:1 --attempt 7",
    "logs done:1 --task nope",
    "logs done:1 -c nope",
    "logs done:1 --grep (",
    "logs done:1 --previous --attempt 1",
    "logs nope-0",
    "history nope",
    "export nope",
    "stop nope",
    "stop",
)
# Commands that change runs: what they say about runs that they do not change.
REFUSED: Final = (
    "suspend done:1",
    "resume done:1",
    "restart done:1",
    "scale done:1 worker=3",
    "exec done:1/master-0 -- true",
    "cp done:1/master-0:/x .",
    "detach done:1",
    "rm running:1",
    "clean --older-than 1d --dry-run",
)
# What commands that show no runs are left out for.
LEFT_OUT: Final = {
    "init": "it writes a file",
    "explain": "docs/ and unit tests show it",
    "plugins": "docs/ show it",
    "run": "it starts a run; `replay` shows the same lines",
    "submit": "it starts a run",
    "ui": "the goldens of the page",
    "image": "images are no runs",
    "webhook": "a server",
    "install": "manifests of a cluster",
    "controller": "a server",
    "schema": "docs/ show it",
}
