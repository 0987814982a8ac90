"""`pumice contexts` lists where runs can be; `pumice nodes` what is free there."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Final

from pumice.cli.runs.arguments import add_context, add_output, finish, guarded, print_data, print_lines, run_command
from pumice.client import backends
from pumice.client.backend import Backend
from pumice.client.run_options.default_context import default_context
from pumice.client.view.output import clipped_table
from pumice.model.text import escaped
from pumice.model.units import amount_text

_FIRST: Final = ("cpu", "memory")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kubeconfig", default="", metavar="FILE", help="default $KUBECONFIG, as for kubectl")
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    return guarded(lambda: _contexts(args))


def _contexts(args: argparse.Namespace) -> int:
    found = finish(backends.contexts(args.kubeconfig, default_context(os.environ)), waits=True)
    if args.output:
        print_data({"items": found}, args.output)
        return 0
    rows: list[tuple[str, ...]] = [("", "CONTEXT", "CONTROLLER", "NAMESPACE", "SERVER")]
    for each in found:
        said = f"not reachable: {each.problem}" if each.problem else each.controller or "this machine"
        cells = (each.name, said, each.namespace or "-", each.server or "-")
        rows.append(("*" if each.is_default else "", *(escaped(cell) for cell in cells)))
    print("\n".join(clipped_table(rows)))
    return 0


@run_command(
    add_context,
    add_output,
    # Nodes have no namespace.
    lambda parser: parser.set_defaults(namespace="", all_namespaces=False),
)
async def nodes(backend: Backend, args: argparse.Namespace) -> int:
    found = await backend.nodes()
    if args.output:
        print_data({"items": found.nodes}, args.output)
    else:
        names = dict.fromkeys((*_FIRST, *(name for node in found.nodes for name in node.total)))
        rows = [("NODE", "STATUS", *(f"{name.upper()} FREE/TOTAL" for name in names))]
        for node in found.nodes:
            state = ("Ready" if node.ready else "NotReady") + ("" if node.schedulable else ",SchedulingDisabled")
            amounts = (f"{_amount(node.free, name)}/{_amount(node.total, name)}" for name in names)
            rows.append((escaped(node.name), state, *amounts))
        print("\n".join(clipped_table(rows)))
    print_lines(found.warnings)
    return 0


def _amount(amounts: Mapping[str, str] | None, name: str) -> str:
    return "?" if amounts is None else amount_text(name, amounts[name]) if name in amounts else "-"
