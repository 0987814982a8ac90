"""Names for completion: of contexts, of namespaces and of Jobs. A person waits: what does not come soon is left out."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Final

from pumice.client.cluster.connection import Connection, known_contexts
from pumice.engines.kubernetes.api.errors import AccessError, ApiError
from pumice.engines.kubernetes.api.object_metadata import read_metadata
from pumice.engines.kubernetes.api.resources import JOBS, NAMESPACES
from pumice.engines.kubernetes.auth.access import find_kubeconfig
from pumice.store.run_errors import RunError

_LIMIT: Final = 0.3  # seconds since the program was started
_LEAST: Final = 0.1  # where loading it took longer
_GRACE: Final = 0.05


def context_names(kubeconfig: str = "") -> list[str]:
    """Return the contexts of the kubeconfig; none if it cannot be read."""
    try:
        config = find_kubeconfig(kubeconfig or None)
    except AccessError:
        return []
    return known_contexts(config)


def names_on_cluster(what: str, on: str, namespace: str, kubeconfig: str, *, everywhere: bool = False) -> list[str]:
    """Return the names of `jobs` or `namespaces`; none unless the cluster answers in time. The process may end here."""
    left = max(_LEAST, _LIMIT - _age())
    # The resolver of names cannot be interrupted.
    before = signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    # A credential plugin must not ask for anything.
    stdin, sys.stdin = sys.stdin, None  # as in a program that was started without one
    signal.setitimer(signal.ITIMER_REAL, left + _GRACE)
    try:
        return asyncio.run(_names(what, Connection.open(on, namespace, kubeconfig, everywhere=everywhere), left))
    except (RunError, ApiError, OSError, TimeoutError):
        return []
    finally:
        sys.stdin = stdin
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


async def _names(what: str, connection: Connection, seconds: float) -> list[str]:
    resource, namespace = (NAMESPACES, "") if what == "namespaces" else (JOBS, connection.namespace)
    found: list[str] = []
    try:
        async with asyncio.timeout(seconds):
            pages = connection.client.list_pages(resource, namespace or None, metadata_only=True)
            async with aclosing(pages):
                async for items, _ in pages:
                    found += [read_metadata(raw).name for raw in items]
    finally:
        await connection.close()
    return found


def _age() -> float:
    """Return for how many seconds this process has run; 0 where the system does not say it."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        uptime = float(Path("/proc/uptime").read_text().split()[0])
        return max(0.0, uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK"))
    except (OSError, ValueError, IndexError):
        return 0.0
