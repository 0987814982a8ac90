"""`pumice webhook`: sets defaults and checks Jobs for an API server, inside or outside of the cluster."""

from __future__ import annotations

import argparse
import datetime as dt
import ssl
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pumice.cli.cluster.controller import (
    add_access_arguments,
    add_log_arguments,
    add_metrics_argument,
    address,
    env,
    in_foreground,
    lacks_packages,
    one_of,
    switched_on,
)
from pumice.engines.kubernetes.auth.access import AccessError, find_access
from pumice.engines.kubernetes.controller.logging import set_up
from pumice.engines.kubernetes.gangs.choice import CHOICES
from pumice.engines.kubernetes.install import names
from pumice.model.pumice_error import PumiceError

if TYPE_CHECKING:
    from pumice.engines.kubernetes.webhook.webhook_process import Settings

BAD_INPUT: Final = 2
DEFAULT_LISTEN: Final = f"127.0.0.1:{names.WEBHOOK_PORT}"
_NOT_PEM: Final = "must be a file of certificates in PEM"
_ALL_ADDRESSES: Final = ("0.0.0.0", "::")  # noqa: S104 - refused below


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "each flag can also be set in the environment: --log-level as PUMICE_LOG_LEVEL"
    add_access_arguments(parser)
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default=env("listen", DEFAULT_LISTEN),
        help=f"address to listen on; default {DEFAULT_LISTEN}",
    )
    add_metrics_argument(parser)
    parser.add_argument(
        "--client-ca",
        metavar="FILE",
        default=env("client-ca", ""),
        help="answer reviews only to clients with a certificate of this CA; health checks need none",
    )
    parser.add_argument(
        "--register",
        action="store_true",
        help="outside of the cluster: register by that address, and unregister at the end",
    )
    parser.add_argument(
        "--state", metavar="DIR", default=env("state", ""), help="outside: directory for the certificates"
    )
    parser.add_argument(
        "--service", metavar="NAME", default=env("service", ""), help="inside the cluster: Service of the webhook"
    )
    parser.add_argument(
        "--namespace",
        metavar="NS",
        default=env("namespace", names.NAMESPACE),
        help="inside: namespace of the Service",
    )
    parser.add_argument(
        "--gang",
        choices=CHOICES,
        type=one_of(CHOICES),
        default=env("gang", "auto"),
        help="gang provider; queues are checked with volcano only",
    )
    add_log_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Return 0 after a termination signal, 2 for bad input or an unreachable cluster."""
    if lacks_packages("webhook"):
        return BAD_INPUT
    from pumice.engines.kubernetes.webhook import webhook_process

    try:
        settings = _settings(args)
        set_up(args.log_level, args.log_format)
        in_foreground(lambda stop: webhook_process.run(settings, lambda: dt.datetime.now(dt.UTC), stop))
    except (AccessError, ValueError, webhook_process.WebhookError) as error:
        print(f"pumice webhook: {error}", file=sys.stderr)
        if isinstance(error, PumiceError) and error.hint:
            print(f"  hint: {error.hint}", file=sys.stderr)
        return BAD_INPUT
    return 0


def _settings(args: argparse.Namespace) -> Settings:
    from pumice.engines.kubernetes.webhook.webhook_process import Settings

    host, port = address(args.listen)
    register = args.register or switched_on("register")
    if register and args.service:
        raise ValueError(
            "--register is for a webhook outside of the cluster and --service for one inside; use one of them"
        )
    if args.state and args.service:
        raise ValueError(
            "--state is for a webhook outside of the cluster; with --service the certificates are in a Secret"
        )
    if register and host in _ALL_ADDRESSES:
        raise ValueError(
            f"--listen: {args.listen}: with --register it must be an address that the API server can reach"
        )
    return Settings(
        access=find_access(args.kubeconfig, args.context),
        host=host,
        port=port,
        gang=args.gang,
        register=register,
        state=Path(args.state) if args.state else None,
        namespace=args.namespace,
        service=args.service,
        client_ca=_authorities(args.client_ca) if args.client_ca else "",
        metrics_listen=address(args.metrics_listen, "--metrics-listen") if args.metrics_listen else None,
    )


def _authorities(file: str) -> str:
    """Return the certificates of a PEM file."""
    try:
        text = Path(file).read_text()
    except OSError as error:
        raise ValueError(f"--client-ca: {file}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"--client-ca: {file}: {_NOT_PEM}") from error
    try:
        ssl.create_default_context(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"--client-ca: {file}: {_NOT_PEM}") from error
    return text
