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

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.auth.access import AccessError, find_access
from pumice.engines.kubernetes.controller.logging import FORMATS, LEVELS, set_up
from pumice.engines.kubernetes.gangs.choice import CHOICES, GangError
from pumice.model.snapshot import COSCHEDULING
from pumice.model.syntax import dns_label_error
from pumice.runtime.discovery import discover
from pumice.runtime.kubernetes_types import kubernetes_types

BAD_INPUT: Final = 2
DEFAULT_LISTEN: Final = "127.0.0.1:8081"
MAX_PORT: Final = 65535
# The packages of the extra `controller`, by the name of their module.
_EXTRA: Final = {"uvloop": "uvloop", "prometheus_client": "prometheus-client"}
_BOOLEANS: Final = {"": False, "0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "each flag can also be set in the environment: --log-level as PUMICE_LOG_LEVEL"
    add_access_arguments(parser)
    parser.add_argument(
        "--gang",
        choices=CHOICES,
        type=one_of(CHOICES),
        default=env("gang", "auto"),
        help="gang provider, which starts pods together; default: the one that the cluster has",
    )
    parser.add_argument(
        "--namespace", metavar="NS", action="append", default=None, help="serve this namespace only; may be repeated"
    )
    parser.add_argument(
        "--no-leader-elect",
        action="store_true",
        help="no leader election: there must be no other controller",
    )
    parser.add_argument(
        "--listen",
        metavar="HOST:PORT",
        default=env("listen", ""),
        help=f"address of /metrics, /healthz and /readyz; default {DEFAULT_LISTEN}",
    )
    add_metrics_argument(parser)
    parser.add_argument(
        "--workers", metavar="N", default=env("workers", "32"), help="jobs reconciled at once; default 32"
    )
    parser.add_argument(
        "--parallel-writes",
        metavar="N",
        default=env("parallel-writes", "64"),
        help="concurrent writes to the API server; default 64",
    )
    parser.add_argument(
        "--scheduler-name",
        metavar="NAME",
        default=env("scheduler-name", COSCHEDULING.scheduler),
        help=f"scheduler of the gang provider coscheduling; default {COSCHEDULING.scheduler}",
    )
    parser.add_argument(
        "--keep-log-tails",
        action="store_true",
        help="keep the last lines of the first failed pod of each attempt in a Secret; needs the right to read logs",
    )
    add_log_arguments(parser)


def add_access_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--kubeconfig",
        metavar="FILE",
        default=env("kubeconfig", "") or None,
        help="kubeconfig of the cluster; default: as kubectl, or the service account of the pod",
    )
    parser.add_argument(
        "--context", metavar="NAME", default=env("context", "") or None, help="context of the kubeconfig"
    )


def add_metrics_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--metrics-listen",
        metavar="HOST:PORT",
        default=env("metrics-listen", ""),
        help="address of its own for /metrics, by HTTP; default: that of --listen",
    )


def add_log_arguments(parser: argparse.ArgumentParser) -> None:
    form = "text" if sys.stderr is not None and sys.stderr.isatty() else "json"
    parser.add_argument(
        "--log-format",
        choices=FORMATS,
        type=one_of(FORMATS),
        default=env("log-format", form),
        help="default: text on a terminal, else json",
    )
    parser.add_argument(
        "--log-level", choices=LEVELS, type=one_of(LEVELS), default=env("log-level", "info"), help="default info"
    )


def env(flag: str, default: str) -> str:
    """Return the value of a flag in the environment."""
    return os.environ.get("PUMICE_" + flag.upper().replace("-", "_")) or default


def one_of(choices: Sequence[str]) -> Callable[[str], str]:
    """Check a choice, also from the environment: argparse checks only the command line."""

    def check(value: str) -> str:
        if value not in choices:
            raise argparse.ArgumentTypeError(f"{value}: must be one of {', '.join(choices)}")
        return value

    return check


def switched_on(flag: str) -> bool:
    """Return whether the environment sets a flag without a value."""
    value = env(flag, "").lower()
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
        print(f"pumice {command}: not installed: {', '.join(missing)}", file=sys.stderr)
        print("  hint: pip install 'pumice[controller]'", file=sys.stderr)
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
            namespaces=namespaces(args.namespace or [env("namespace", "")]),
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
        print(f"pumice controller: {error}", file=sys.stderr)
        return BAD_INPUT
    set_up(args.log_level, args.log_format)
    try:
        in_foreground(control)
    except GangError as error:
        print(f"pumice controller: {error.problem.text}", file=sys.stderr)
        return BAD_INPUT
    except OSError as error:
        apart = f" or --metrics-listen: {args.metrics_listen}" if args.metrics_listen else ""
        flags = f"--listen: {args.listen or DEFAULT_LISTEN}{apart}"
        print(f"pumice controller: {flags}: {error.strerror}", file=sys.stderr)
        return BAD_INPUT
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
