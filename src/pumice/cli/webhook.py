"""`pumice webhook`: fills in defaults and checks Jobs for an API server, inside a cluster or beside it."""

from __future__ import annotations

import argparse
import datetime as dt
import sys

from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.logs import FORMATS, LEVELS

ANYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - named to be refused


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kubeconfig", metavar="FILE", help="how to reach the cluster; default $KUBECONFIG, ~/.kube/config"
    )
    parser.add_argument("--context", metavar="NAME", help="the context of the kubeconfig to use")
    parser.add_argument(
        "--listen", metavar="HOST:PORT", default=f"127.0.0.1:{names.WEBHOOK_PORT}", help="where to listen"
    )
    parser.add_argument("--register", action="store_true", help="outside of a cluster: register at that address")
    parser.add_argument("--state", metavar="DIR", help="outside of a cluster: keep the certificates here")
    parser.add_argument("--service", metavar="NAME", help="inside: the Service that leads here")
    parser.add_argument(
        "--namespace", metavar="NS", default=names.NAMESPACE, help="inside: the namespace of the Service"
    )
    parser.add_argument("--gang", choices=names.GANGS, default="auto", help="queues are checked with volcano only")
    parser.add_argument("--log-level", choices=LEVELS, default="info", help="how much to tell")
    parser.add_argument("--log-format", choices=FORMATS, default="text", help="how to tell it")


def run(args: argparse.Namespace) -> int:
    host, _, port = args.listen.rpartition(":")
    if problem := _problem(args, host, port):
        print(f"pumice webhook: {problem}", file=sys.stderr)
        return 2
    import asyncio
    from pathlib import Path

    from pumice.engines.kubernetes.access import AccessError, find_access
    from pumice.engines.kubernetes.logs import set_up
    from pumice.engines.kubernetes.webhook import program

    set_up(args.log_level, args.log_format)
    try:
        settings = program.Settings(
            access=find_access(args.kubeconfig, args.context),
            host=host.strip("[]"),
            port=int(port),
            gang=args.gang,
            register=args.register,
            state=Path(args.state) if args.state else None,
            namespace=args.namespace,
            service=args.service or "",
        )
        asyncio.run(program.run(settings, lambda: dt.datetime.now(dt.UTC)))
    except (AccessError, program.WebhookError) as error:
        print(f"pumice webhook: {error}", file=sys.stderr)
        return 2
    return 0


def _problem(args: argparse.Namespace, host: str, port: str) -> str:
    if not port.isdigit() or int(port) > 65535:  # noqa: PLR2004 - the highest port there is
        return f"--listen {args.listen}: must be HOST:PORT, such as 127.0.0.1:{names.WEBHOOK_PORT}"
    if args.register and args.service:
        return "--register is for outside of a cluster and --service for inside; take one of them"
    if args.state and args.service:
        return "--state is for outside of a cluster; with --service the certificates are in a Secret"
    if args.register and host.strip("[]") in ANYWHERE:
        return f"--listen {args.listen}: with --register it must be an address that the API server can reach"
    return ""
