"""Where a run is to be: on this machine, or on the cluster that a flag, PUMICE_ON or the user's config.toml names."""

from __future__ import annotations

import argparse
import os
import sys

from pumice.cli.runs.arguments import open_chosen
from pumice.client.backend import Backend
from pumice.model.problem import Position
from pumice.store.run_errors import InvalidOption


def chosen_backend(args: argparse.Namespace) -> Backend:
    """Return it; say so if nothing that was typed names it. Raises InvalidOption."""
    backend = open_chosen(args)
    if backend.waits and not args.on:
        source = "PUMICE_ON" if os.environ.get("PUMICE_ON") else "config.toml"
        print(f"on {backend.name}, as {source} says", file=sys.stderr)
    if args.namespace and not backend.waits:
        raise InvalidOption("is only for runs on a cluster", "write metadata.namespace", Position(option="namespace"))
    return backend
