"""The guides for users of a cluster, typed line by line: a real controller, and pods that are real processes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path

import pytest

from pumice.engines.local.kubelet.container_logs import LogPump
from pumice.engines.local.preparation.default_settings import active_python
from pumice.store.events import LogLine
from pumice.store.settings import Settings
from scripts.terminal_pictures import comparable
from tests.cluster.api import Object, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import Controllers
from tests.cluster.log_server import ContainerOutput, LogServer
from tests.cluster.pod_status import timestamp
from tests.cluster.sandbox_kubelet import SandboxKubelet
from tests.docs import console
from tests.docs.markdown import blocks
from tests.local.sandbox.boxes import need_namespaces
from tests.meta.tree import ROOT

GUIDE = ROOT / "docs" / "guides" / "from-the-laptop-to-the-cluster.md"
ROLES = ROOT / "examples" / "roles" / "cluster-user.yaml"
NAMESPACE = "ml"


class PodLogs(LogServer):
    """Serves what the processes of pods print."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.of_containers: dict[tuple[str, str], ContainerOutput] = {}

    def output(self, pod: str, container: str, *, is_previous: bool) -> ContainerOutput | None:
        return None if is_previous else self.of_containers.get((pod, container))


class LoggedKubelet(SandboxKubelet):
    def __init__(self, logs: PodLogs, settings: Settings) -> None:
        super().__init__(logs.cluster, NAMESPACE, settings)
        self._logs = logs
        self._drained: list[asyncio.Task[None]] = []

    def _open_logs(self, pod: Object, container: str, attempt: int) -> tuple[LogPump, LogPump]:
        output = ContainerOutput(ended=False)
        self._logs.of_containers[pod["metadata"]["name"], container] = output

        def keep(lines: Sequence[LogLine]) -> None:
            output.lines += [(timestamp(), line.text) for line in lines if not line.unfinished]

        async def end() -> None:
            for pump in pumps:
                await pump.drained()
            output.ended = True

        pumps = super()._open_logs(pod, container, attempt)
        for pump in pumps:
            pump.watch = keep
        self._drained.append(asyncio.create_task(end()))
        return pumps


@pytest.fixture
def reader(controllers: Controllers, tmp_path: Path) -> Iterator[tuple[Path, Mapping[str, str]]]:
    """A reader's directory and environment: the context `prod` is a cluster whose namespace `ml` is theirs."""
    need_namespaces()
    folder = tmp_path / "train"
    folder.mkdir()
    cluster = controllers.cluster
    python = active_python({"PATH": console.PATH})
    settings = Settings(workdir=tmp_path / "work", state=tmp_path / "state", python=python.directories, path=python.bin)
    settings.workdir.mkdir()
    cluster.make_namespace(NAMESPACE)
    _grant(cluster)
    cluster.make_node("node-of-ml")
    try:
        with PodLogs(cluster) as logs, LoggedKubelet(logs, settings):
            controllers.start(NAMESPACE)
            config = json.loads(cluster.kubeconfig("plain", server=logs.server, namespace=NAMESPACE).read_text())
            config["current-context"] = config["contexts"][0]["name"] = "prod"
            (tmp_path / "config").write_text(json.dumps(config))
            yield folder, {"KUBECONFIG": str(tmp_path / "config"), "PYTHONPATH": ""}
    finally:
        cluster.api().delete("Namespace", "", NAMESPACE)
        cluster.kubectl("delete", "clusterrolebinding", NAMESPACE)
        cluster.kubectl("delete", "-f", str(ROLES))
        cluster.api().delete("Node", "", "node-of-ml")


def _grant(cluster: Cluster) -> None:
    """Bind the roles of the examples to the reader, who has no other rights."""
    cluster.kubectl("apply", "-f", str(ROLES))
    for name in ("pumice-viewer", "pumice-runner"):
        cluster.kubectl("-n", NAMESPACE, "create", "rolebinding", name, f"--clusterrole={name}", "--user=plain")
    cluster.kubectl("create", "clusterrolebinding", NAMESPACE, "--clusterrole=pumice-cluster-viewer", "--user=plain")
    plain = cluster.api("plain-token")
    eventually("the rights are in force", lambda: plain.ask("GET", "/api/v1/nodes").status == HTTPStatus.OK)


@pytest.mark.soak
def test_the_commands_print_the_output_shown(reader: tuple[Path, Mapping[str, str]]) -> None:
    folder, environ = reader
    story = [block for block in blocks(GUIDE) if block.language == "console"]
    console.provide(story[0], folder)
    for block in story:
        outputs = console.outputs(block, folder, environ)
        for exchange, actual in zip(console.exchanges(block), outputs, strict=True):
            printed = [console.as_shown(line, folder).replace(str(folder), "/home/me/train") for line in actual]
            assert _comparable(printed) == _comparable(exchange.expected), f"{block.position}: {exchange.command}"


def _comparable(lines: Sequence[str]) -> list[str]:
    """What pods a deleted Job still has is a matter of time; compressed code has another size with another zlib."""
    stays = [line for line in lines if "waiting for the end of" not in line]
    assert len({*lines}) - len({*stays}) == len(lines) - len(stays), "it says twice that it waits"
    return comparable(
        [re.sub(r"\b\d+ B\b", "N B", re.sub(r"\b(code[ -])[0-9a-f]{12}", r"\1ID", line)) for line in stays]
    )
