"""`pumice webhook` as a process of its own: registered from outside, or installed with exactly its permissions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.manifests import InstallOptions, manifests
from tests.cluster.api import Answer, Object, eventually, path_of
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import start_pumice
from tests.cluster.processes import Daemon

GROUP = "/apis/admissionregistration.k8s.io/v1"
KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")


@dataclass(slots=True)
class Webhooks:
    """Starts webhooks, and ends those that are left when the test is over."""

    cluster: Cluster
    folder: Path
    started: list[Daemon] = field(default_factory=list)

    def outside(self, *flags: str) -> Daemon:
        """As a user starts it, beside the cluster; ready when it returns."""
        daemon = self.begin(f"--kubeconfig={self.cluster.kubeconfig()}", "--register", *flags)
        daemon.wait_ready(lambda: port_of(daemon) > 0)
        return daemon

    def installed(self, *flags: str) -> Daemon:
        """As its pod starts it, with the permissions of its ServiceAccount."""
        token = self.cluster.service_account_token(names.NAMESPACE, names.WEBHOOK)
        config = self.cluster.kubeconfig(names.WEBHOOK, token=token)
        flags = (f"--service={names.WEBHOOK}", f"--namespace={names.NAMESPACE}", *flags)
        daemon = self.begin(f"--kubeconfig={config}", *flags)
        daemon.wait_ready(lambda: "serving a" in daemon.log.read_text())
        return daemon

    def begin(self, *flags: str) -> Daemon:
        if not any(flag.startswith("--listen") for flag in flags):
            flags = (*flags, "--listen=127.0.0.1:0")
        daemon = start_pumice(self.cluster, self.folder / f"webhook-{len(self.started)}.log", "webhook", *flags)
        self.started.append(daemon)
        return daemon

    def stop(self) -> None:
        for daemon in self.started:
            # An installed one waits for some seconds until the nodes have forgotten it; no node is here.
            is_installed = any(word.startswith("--service") for word in daemon.argv)
            (daemon.kill if is_installed else daemon.stop)()
            del self.cluster.daemons[daemon.name]
        api = self.cluster.api()
        for kind in KINDS:
            for name in (names.CONFIGURATION, names.OUTSIDE_CONFIGURATION):
                api.ask("DELETE", f"{GROUP}/{kind}/{name}")
        broken = [daemon.tail() for daemon in self.started if "Traceback" in daemon.log.read_text()]
        assert not broken, "\n".join(broken)


def port_of(daemon: Daemon) -> int:
    """Where it listens, as its log says; 0 before it does."""
    found = re.search(r"listening on https://\S+:(\d+)", daemon.log.read_text())
    return int(found[1]) if found else 0


def configurations(cluster: Cluster, name: str) -> list[Object]:
    """Those of both kinds that are there."""
    api = cluster.api()
    answers = [api.ask("GET", f"{GROUP}/{kind}/{name}") for kind in KINDS]
    return [answer.body for answer in answers if answer.status == 200]


def authorities(cluster: Cluster, name: str) -> set[str]:
    found = configurations(cluster, name)
    return {hook["clientConfig"].get("caBundle", "") for each in found for hook in each["webhooks"]}


def tried(cluster: Cluster, namespace: str, job: Object) -> Answer:
    """What the API server says of a Job, without keeping it."""
    return cluster.api().ask("POST", path_of("Job", namespace) + "?dryRun=All", job)


def until_asked(cluster: Cluster, namespace: str, bad: Object) -> None:
    """The API server reads changed configurations a moment later."""
    eventually("the webhook is asked", lambda: tried(cluster, namespace, bad).status == 422)


def install_webhook(cluster: Cluster, port: int) -> None:
    """Apply the webhook's part of `pumice install`. Its Service resolves to this machine, since no pod runs here."""
    objects = {(each["kind"], each["metadata"]["name"]): each for each in manifests(InstallOptions(image="pumice"))}
    secret = objects["Secret", names.certificates(names.WEBHOOK)]
    service = objects["Service", names.WEBHOOK]
    service["spec"] = {"type": "ExternalName", "externalName": "localhost", "ports": service["spec"]["ports"]}
    hooks = [objects[f"{kind}WebhookConfiguration", names.CONFIGURATION] for kind in ("Mutating", "Validating")]
    for each in hooks:
        each["webhooks"][0]["clientConfig"]["service"]["port"] = port
    documents = [msgspec.json.encode(each).decode() for each in (secret, service, *hooks)]
    cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin="\n---\n".join(documents))
