"""`pumice webhook`: fills in defaults and checks Jobs for an API server, inside a cluster or beside it."""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from pathlib import Path
from typing import Final

from pumice.cli.cluster.controller import (
    add_access_arguments,
    add_log_arguments,
    address,
    env,
    in_foreground,
    one_of,
    switched_on,
)
from pumice.engines.kubernetes.auth.access import AccessError, find_access
from pumice.engines.kubernetes.controller.logging import set_up
from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.webhook import webhook_process

BAD_INPUT: Final = 2
DEFAULT_LISTEN: Final = f"127.0.0.1:{names.WEBHOOK_PORT}"
_ANYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 - named to be refused


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "each flag can also be given by the environment: --log-level as PUMICE_LOG_LEVEL"
    add_access_arguments(parser)
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default=env("listen", DEFAULT_LISTEN),
        help=f"where to listen; default {DEFAULT_LISTEN}",
    )
    parser.add_argument(
        "--register",
        action="store_true",
        help="outside of a cluster: register at that address, and take it back at the end",
    )
    parser.add_argument(
        "--state", metavar="DIR", default=env("state", ""), help="outside: keep the certificates in this directory"
    )
    parser.add_argument(
        "--service", metavar="NAME", default=env("service", ""), help="inside of a cluster: the Service that leads here"
    )
    parser.add_argument(
        "--namespace",
        metavar="NS",
        default=env("namespace", names.NAMESPACE),
        help="inside: the namespace of the Service",
    )
    parser.add_argument(
        "--gang",
        choices=names.GANGS,
        type=one_of(names.GANGS),
        default=env("gang", "auto"),
        help="queues are checked with volcano only",
    )
    add_log_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """0 after a signal to end, 2 for bad input or a cluster that cannot be reached."""
    try:
        settings = _settings(args)
        set_up(args.log_level, args.log_format)
        in_foreground(lambda stop: webhook_process.run(settings, lambda: dt.datetime.now(dt.UTC), stop))
    except (AccessError, ValueError, webhook_process.WebhookError) as error:
        print(f"pumice webhook: {error}", file=sys.stderr)
        return BAD_INPUT
    return 0


def _settings(args: argparse.Namespace) -> webhook_process.Settings:
    host, port = address(args.listen)
    register = args.register or switched_on("register")
    if register and args.service:
        raise ValueError("--register is for outside of a cluster and --service for inside; take one of them")
    if args.state and args.service:
        raise ValueError("--state is for outside of a cluster; with --service the certificates are in a Secret")
    if register and host in _ANYWHERE:
        raise ValueError(
            f"--listen: {args.listen}: with --register it must be an address that the API server can reach"
        )
    return webhook_process.Settings(
        access=find_access(args.kubeconfig, args.context),
        host=host,
        port=port,
        gang=args.gang,
        register=register,
        state=Path(args.state) if args.state else None,
        namespace=args.namespace,
        service=args.service,
    )
