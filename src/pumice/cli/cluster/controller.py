"""`pumice controller`: serves the Jobs of a Kubernetes cluster, in the foreground until a signal."""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import importlib.util
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from pumice.cli.errors import BAD_INPUT, refuse
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.auth.access import AccessError, find_access
from pumice.engines.kubernetes.controller.logging import FORMATS, LEVELS, set_up
from pumice.engines.kubernetes.gangs.choice import CHOICES, GangError
from pumice.model.syntax import dns_label_error
from pumice.model.vocabulary import COSCHEDULING
from pumice.runtime.discovery import discover
from pumice.runtime.kubernetes_types import kubernetes_types

EPILOG: Final = "each flag can also be set in the environment: --log-level as PUMICE_LOG_LEVEL"
DEFAULT_LISTEN: Final = "127.0.0.1:8081"
MAX_PORT: Final = 65535
# The packages of the extra `controller`, by the name of their module.
_EXTRA: Final = {"uvloop": "uvloop", "prometheus_client": "prometheus-client"}
_BOOLEANS: Final = {"": False, "0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_access_arguments(parser)
    gang = "gang provider, which starts pods together; default: the one that the cluster has"
    add_choice(parser, "--gang", CHOICES, "auto", gang)
    parser.add_argument("--namespace", metavar="NS", action="append", help="serve this namespace only; may be repeated")
    parser.add_argument(
        "--no-leader-elect", action="store_true", help="no leader election: there must be no other controller"
    )
    add_option(
        parser, "--listen", "HOST:PORT", "", f"address of /metrics, /healthz and /readyz; default {DEFAULT_LISTEN}"
    )
    add_metrics_argument(parser)
    add_option(parser, "--workers", "N", "32", "jobs reconciled at once; default 32")
    add_option(parser, "--parallel-writes", "N", "64", "concurrent writes to the API server; default 64")
    scheduler = COSCHEDULING.scheduler
    about = f"scheduler of the gang provider coscheduling; default {scheduler}"
    add_option(parser, "--scheduler-name", "NAME", scheduler, about)
    parser.add_argument(
        "--keep-log-tails",
        action="store_true",
        help="keep the last lines of the first failed pod of each attempt in a Secret; needs the right to read logs",
    )
    add_log_arguments(parser)


def add_access_arguments(parser: argparse.ArgumentParser) -> None:
    about = "kubeconfig of the cluster; default: as kubectl, or the service account of the pod"
    add_option(parser, "--kubeconfig", "FILE", None, about)
    add_option(parser, "--context", "NAME", None, "context of the kubeconfig")


def add_metrics_argument(parser: argparse.ArgumentParser) -> None:
    about = "address of its own for /metrics, by HTTP; default: that of --listen"
    add_option(parser, "--metrics-listen", "HOST:PORT", "", about)


def add_log_arguments(parser: argparse.ArgumentParser) -> None:
    form = "text" if sys.stderr is not None and sys.stderr.isatty() else "json"
    add_choice(parser, "--log-format", FORMATS, form, "default: text on a terminal, else json")
    add_choice(parser, "--log-level", LEVELS, "info", "default info")


def add_option(parser: argparse.ArgumentParser, flag: str, metavar: str, default: str | None, about: str) -> None:
    """Add a flag whose value the environment may set, too."""
    parser.add_argument(flag, metavar=metavar, default=env(flag) or default, help=about)


def add_choice(parser: argparse.ArgumentParser, flag: str, choices: Sequence[str], default: str, about: str) -> None:
    """Add a flag with a choice, which is checked in the environment, too: argparse checks only the command line."""

    def check(value: str) -> str:
        if value not in choices:
            raise argparse.ArgumentTypeError(f"{value}: must be one of {', '.join(choices)}")
        return value

    parser.add_argument(flag, choices=choices, type=check, default=env(flag) or default, help=about)


def env(flag: str) -> str:
    """Return the value of a flag in the environment."""
    return os.environ.get("PUMICE_" + flag.removeprefix("--").upper().replace("-", "_")) or ""


def switched_on(flag: str) -> bool:
    """Return whether the environment sets a flag without a value."""
    value = env(flag).lower()
    if value not in _BOOLEANS:
        raise ValueError(f"--{flag}: {value}: in the environment it must be true or false")
    return _BOOLEANS[value]


def namespaces(given: Sequence[str]) -> tuple[str, ...]:
    names = [name.strip() for value in given for name in value.split(",") if name.strip()]
    for name in names:
        if error := dns_label_error(name):
            raise ValueError(f"--namespace: {name}: {error}")
    return tuple(dict.fromkeys(names))


def lacks_packages(command: str) -> bool:
    """Whether packages of the extra `controller` are not installed; says which, and how to install them."""
    missing = [package for module, package in _EXTRA.items() if importlib.util.find_spec(module) is None]
    if missing:
        refuse(f"pumice {command}: not installed: {', '.join(missing)}", "pip install 'pumice[controller]'")
    return bool(missing)


def run(args: argparse.Namespace) -> int:
    """Return 0 after a signal, 1 if the cluster refuses, 2 for bad input."""
    if lacks_packages("controller"):
        return BAD_INPUT
    from pumice.engines.kubernetes.controller.process import Controller, Settings

    async def control(stop: asyncio.Event) -> None:
        async with Client(access, parallel_writes=settings.parallel_writes) as client:
            types, now = kubernetes_types().types, lambda: dt.datetime.now(tz=dt.UTC)
            await Controller(client, settings, discover(), types, now).run(stop)

    try:
        settings = Settings(
            gang=args.gang,
            namespaces=namespaces(args.namespace or [env("--namespace")]),
            leader_elect=not (args.no_leader_elect or switched_on("no-leader-elect")),
            listen=address(args.listen or DEFAULT_LISTEN),
            any_port=not args.listen,
            metrics_listen=address(args.metrics_listen, "--metrics-listen") if args.metrics_listen else None,
            workers=at_least_one("--workers", args.workers),
            parallel_writes=at_least_one("--parallel-writes", args.parallel_writes),
            scheduler=args.scheduler_name,
            keep_log_tails=args.keep_log_tails or switched_on("keep-log-tails"),
        )
        access = find_access(args.kubeconfig, args.context)
    except (AccessError, ValueError) as error:
        return refuse(f"pumice controller: {error}")
    set_up(args.log_level, args.log_format)
    try:
        in_foreground(control)
    except GangError as error:
        return refuse(f"pumice controller: {error.problem.text}")
    except OSError as error:
        apart = f" or --metrics-listen: {args.metrics_listen}" if args.metrics_listen else ""
        return refuse(f"pumice controller: --listen: {args.listen or DEFAULT_LISTEN}{apart}: {error.strerror}")
    except ApiError as error:
        print(f"pumice controller: {access.server}: {error}", file=sys.stderr)
        return 1
    return 0


def in_foreground(work: Callable[[asyncio.Event], Coroutine[Any, Any, None]]) -> None:
    """Run until a signal, which sets the event that `work` receives."""
    import uvloop

    async def until_signal() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await work(stop)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(until_signal())


def address(text: str, flag: str = "--listen") -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > MAX_PORT:
        raise ValueError(f"{flag}: {text}: must be HOST:PORT, such as {DEFAULT_LISTEN}")
    return host.strip("[]"), int(port)


def at_least_one(flag: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{flag}: {text}: must be a number, 1 or more")
    return int(text)
