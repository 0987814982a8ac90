"""`pumice webhook`: sets defaults and checks Jobs for an API server, inside or outside of the cluster."""

from __future__ import annotations

import argparse
import datetime as dt
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pumice.cli.cluster.controller import (
    EPILOG,
    add_access_arguments,
    add_choice,
    add_log_arguments,
    add_metrics_argument,
    add_option,
    address,
    in_foreground,
    lacks_packages,
    switched_on,
)
from pumice.cli.errors import BAD_INPUT, refuse
from pumice.engines.kubernetes.auth.access import AccessError, find_access
from pumice.engines.kubernetes.controller.logging import set_up
from pumice.engines.kubernetes.gangs.choice import CHOICES
from pumice.engines.kubernetes.install import names
from pumice.model.pumice_error import PumiceError

if TYPE_CHECKING:
    from pumice.engines.kubernetes.webhook.webhook_process import Settings

DEFAULT_LISTEN: Final = f"127.0.0.1:{names.WEBHOOK_PORT}"
_NOT_PEM: Final = "must be a file of certificates in PEM"
_ALL_ADDRESSES: Final = ("0.0.0.0", "::")  # noqa: S104 - refused below


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_access_arguments(parser)
    add_option(parser, "--listen", "HOST:PORT", DEFAULT_LISTEN, f"address to listen on; default {DEFAULT_LISTEN}")
    add_metrics_argument(parser)
    about = "answer reviews only to clients with a certificate of this CA; health checks need none"
    add_option(parser, "--client-ca", "FILE", "", about)
    parser.add_argument(
        "--register",
        action="store_true",
        help="outside of the cluster: register by that address, and unregister at the end",
    )
    add_option(parser, "--state", "DIR", "", "outside: directory for the certificates")
    add_option(parser, "--service", "NAME", "", "inside the cluster: Service of the webhook")
    add_option(parser, "--namespace", "NS", names.NAMESPACE, "inside: namespace of the Service")
    add_choice(parser, "--gang", CHOICES, "auto", "gang provider; queues are checked with volcano only")
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
        return refuse(f"pumice webhook: {error}", error.hint if isinstance(error, PumiceError) else "")
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
