"""Asks whether a finished Job of a cluster is to be replaced, or says what to type."""

from __future__ import annotations

import argparse
import sys

import msgspec

from pumice.cli.run.options import typed_again
from pumice.model.problem import Option
from pumice.model.text import escaped
from pumice.store.options import ClusterOptions
from pumice.store.run_errors import NameTakenError
from pumice.store.run_request import RunRequest


def ask_replacement(error: NameTakenError, args: argparse.Namespace) -> bool:
    """Return the answer. Without a terminal, and while that Job runs, the last lines are commands to type."""
    print(escaped(error.problem.message), file=sys.stderr)
    if error.needed and args.file != "-" and not args.json and sys.stdin.isatty() and sys.stderr.isatty():
        print("Delete that Job and create this one? [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return True
    if error.needed:
        print("to replace it:", typed_again(args, *error.needed, whole=True), sep="\n", file=sys.stderr)
    if error.free:
        print(
            "under another name:", typed_again(args, Option("name", error.free), whole=True), sep="\n", file=sys.stderr
        )
    return False


def replaced(request: RunRequest, uid: str) -> RunRequest:
    """Return a request that replaces this finished Job, whatever it owns and whoever submitted it, and no other."""
    cluster = request.options.cluster or ClusterOptions()
    cluster = msgspec.structs.replace(cluster, replace=True, replaced_uid=uid, delete_claims=True, yes=True)
    return msgspec.structs.replace(request, options=msgspec.structs.replace(request.options, cluster=cluster))
