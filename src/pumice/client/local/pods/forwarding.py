"""Forwards a port of this machine to a port of a pod: the process of the run opens each connection in its network."""

from __future__ import annotations

import socket

from msgspec import Struct

from pumice.client.history_values import pod_names
from pumice.client.local.connections import connected
from pumice.client.local.liveness import check_changeable, not_running
from pumice.client.pod_access import PodPort
from pumice.engines.local.network.published_ports import PortTakenError, PublishedPort, listen
from pumice.model.text import some
from pumice.store.files.run_store import StoredRun
from pumice.store.run_errors import InvalidOption, NoSuchPod


class RunConnector(Struct, frozen=True):
    """Each connection asks the process that the run has at that moment: another one may continue the run."""

    run: StoredRun

    async def connect(self, pod: str, port: int) -> socket.socket:
        """Raises RunError."""
        async with connected(self.run) as control:
            _, descriptors = await control.exchange("connect", (), pod=pod, port=port)
        connection = socket.socket(fileno=descriptors[0])
        connection.setblocking(False)
        return connection


async def forward(run: StoredRun, port: PodPort) -> PublishedPort:
    """Raises InvalidOption, NoSuchPod, WrongState and Unsupported."""
    check_changeable(run)
    if not run.is_owned:
        raise not_running(run)
    names = pod_names(run.history())
    if port.pod not in names:
        raise NoSuchPod(f"{run.ref}/{port.pod}: no such pod", f"it has {some(names)}")
    try:
        listener = listen(port.local)
    except PortTakenError as error:
        raise InvalidOption(error.why, error.hint) from error
    published = PublishedPort(RunConnector(run), port.pod, port.port, listener)
    await published.start()
    return published
