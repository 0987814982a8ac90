"""Starts `pumice webhook` as a process: registered from outside, or installed with exactly its permissions."""

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
    """Starts webhooks and stops them after the test."""

    cluster: Cluster
    folder: Path
    started: list[Daemon] = field(default_factory=list)

    def start_outside(self, *flags: str, quickly: bool = True) -> Daemon:
        """Start one outside of the cluster, as a user would, and wait until it is ready."""
        daemon = self.start(f"--kubeconfig={self.cluster.kubeconfig()}", "--register", *flags, quickly=quickly)
        daemon.wait_ready(lambda: port_of(daemon) > 0)
        return daemon

    def start_installed(self, *flags: str, wait: bool = True) -> Daemon:
        """Start one as its pod would, with the permissions of its ServiceAccount."""
        token = self.cluster.service_account_token(names.NAMESPACE, names.WEBHOOK)
        config = self.cluster.kubeconfig(names.WEBHOOK, token=token)
        flags = (f"--service={names.WEBHOOK}", f"--namespace={names.NAMESPACE}", *flags)
        daemon = self.start(f"--kubeconfig={config}", *flags)
        if wait:
            wait_until_serving(daemon)
        return daemon

    def start(self, *flags: str, quickly: bool = True) -> Daemon:
        if not any(flag.startswith("--listen") for flag in flags):
            flags = (*flags, "--listen=127.0.0.1:0")
        log = self.folder / f"webhook-{len(self.started)}.log"
        daemon = start_pumice(self.cluster, log, "webhook", *flags, quickly=quickly)
        self.started.append(daemon)
        return daemon

    def stop(self) -> None:
        for daemon in self.started:
            # An installed webhook drains for some seconds before it ends; nothing here needs that.
            is_installed = any(word.startswith("--service") for word in daemon.argv)
            (daemon.kill if is_installed else daemon.stop)()
            del self.cluster.daemons[daemon.name]
        delete_configurations(self.cluster, names.CONFIGURATION)
        delete_configurations(self.cluster, names.OUTSIDE_CONFIGURATION)
        broken = [daemon.tail() for daemon in self.started if "Traceback" in daemon.log.read_text()]
        assert not broken, "\n".join(broken)


def wait_until_serving(daemon: Daemon) -> None:
    daemon.wait_ready(lambda: "serving a" in daemon.log.read_text())


def port_of(daemon: Daemon) -> int:
    """Return the port from the log; 0 before it listens."""
    found = re.search(r"listening on https://\S+:(\d+)", daemon.log.read_text())
    return int(found[1]) if found else 0


def configurations(cluster: Cluster, name: str) -> list[Object]:
    """Return the existing webhook configurations of both kinds."""
    api = cluster.api()
    answers = [api.ask("GET", f"{GROUP}/{kind}/{name}") for kind in KINDS]
    return [answer.body for answer in answers if answer.status == 200]


def delete_configurations(cluster: Cluster, name: str) -> None:
    for kind in KINDS:
        cluster.api().ask("DELETE", f"{GROUP}/{kind}/{name}")


def ca_bundles(cluster: Cluster, name: str) -> set[str]:
    found = configurations(cluster, name)
    return {hook["clientConfig"].get("caBundle", "") for each in found for hook in each["webhooks"]}


def dry_run(cluster: Cluster, namespace: str, job: Object) -> Answer:
    """Return the response of the API server to the creation of a Job, as a dry run."""
    return cluster.api().ask("POST", path_of("Job", namespace) + "?dryRun=All", job)


def wait_until_called(cluster: Cluster, namespace: str, invalid: Object) -> None:
    """Wait until the API server has loaded the webhook configuration."""
    eventually("the webhook is called", lambda: dry_run(cluster, namespace, invalid).status == 422)


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
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin="\n---\n".join(documents))


def uninstall_webhook(cluster: Cluster) -> None:
    delete_configurations(cluster, names.CONFIGURATION)
    cluster.api().delete("Secret", names.NAMESPACE, names.certificates(names.WEBHOOK))
    cluster.api().delete("Service", names.NAMESPACE, names.WEBHOOK)
