"""What is installed on a cluster, read off the Deployments of controller and webhook.

`pumice install --upgrade` prints manifests that keep it, and `--check` compares the cluster with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.resources import Resource
from pumice.engines.kubernetes.gangs.choice import CHOICES
from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.manifests import REPLICAS, ComponentOptions, InstallOptions
from pumice.engines.kubernetes.install.permissions import ACCOUNTS, Component
from pumice.model.pumice_error import PumiceError

DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
# Flags that the manifests set themselves; all others are an operator's.
_OWN_FLAGS: Final[Mapping[Component, frozenset[str]]] = {
    "controller": frozenset({"--gang", "--listen", "--metrics-listen", "--keep-log-tails"}),
    "webhook": frozenset({"--gang", "--listen", "--metrics-listen", "--namespace", "--service"}),
}


class InstallationError(PumiceError):
    """There is no installation, or more than one."""


class Installation(Struct, frozen=True):
    namespace: str
    deployments: Mapping[Component, Mapping[str, Any]]

    @property
    def gang(self) -> str:
        gang = self._flag("gang", "auto")
        return gang if gang in CHOICES else "auto"

    @property
    def keeps_log_tails(self) -> bool:
        return self._flag("keep-log-tails", "false").lower() in ("", "1", "true", "yes")

    def _flag(self, name: str, default: str) -> str:
        """Return the value of a flag of the controller, which may be in its environment."""
        container = self._container("controller")
        env = {str(one.get("name")): str(one.get("value")) for one in container.get("env") or []}
        return dict(_flags(container)).get(f"--{name}", env.get("PUMICE_" + name.upper().replace("-", "_"), default))

    @property
    def has_webhook(self) -> bool:
        return "webhook" in self.deployments

    def options(self, image: str = "", gang: str = "") -> InstallOptions:
        """Return the options whose manifests keep this installation, but for what is given."""
        kept: dict[Component, ComponentOptions] = {}
        for component, deployment in self.deployments.items():
            container, own = self._container(component), _OWN_FLAGS[component]
            replicas = (deployment.get("spec") or {}).get("replicas", REPLICAS)
            flags = tuple(f"{flag}={value}" if value else flag for flag, value in _flags(container) if flag not in own)
            kept[component] = ComponentOptions(
                image or str(container.get("image", "")), replicas, flags, container.get("resources") or {}
            )
        return InstallOptions(
            image or kept["controller"].image,
            self.namespace,
            gang or self.gang,
            webhook=self.has_webhook,
            keep_log_tails=self.keeps_log_tails,
            kept=kept,
        )

    def _container(self, component: Component) -> Mapping[str, Any]:
        """Return the container of Pumice, which may have others beside it."""
        found = containers(self.deployments[component])
        return next((one for one in found if one.get("name") == component), found[0] if found else {})


async def find_installation(client: Client, namespace: str = "") -> Installation | None:
    """Return the installation of a cluster; with a namespace, only one there. Raises InstallationError for several."""
    found: dict[str, dict[Component, Mapping[str, Any]]] = {}
    for deployment in await _deployments(client, namespace):
        meta = deployment["metadata"]
        for component, name in ACCOUNTS.items():
            if meta["name"] == name:
                found.setdefault(meta["namespace"], {})[component] = deployment
    complete = [Installation(where, parts) for where, parts in found.items() if "controller" in parts]
    if len(complete) > 1:
        listed = ", ".join(one.namespace for one in complete)
        raise InstallationError(f"Pumice is installed in several namespaces: {listed}", "choose one with --namespace")
    return complete[0] if complete else None


async def _deployments(client: Client, namespace: str) -> list[Mapping[str, Any]]:
    async def listed(where: str | None) -> list[Mapping[str, Any]]:
        pages = client.list_pages(DEPLOYMENTS, where, label_selector=names.selector())
        return [msgspec.json.decode(item) for items, _ in [page async for page in pages] for item in items]

    try:
        return await listed(namespace or None)
    except ApiError as error:
        if namespace or not error.is_forbidden:
            raise
        return await listed(names.NAMESPACE)


def containers(deployment: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    template = (deployment.get("spec") or {}).get("template") or {}
    return (template.get("spec") or {}).get("containers") or []


def command_line(container: Mapping[str, Any]) -> list[str]:
    return [*(container.get("command") or []), *(container.get("args") or [])]


def _flags(container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the flags of a container with their values, which may be words of their own."""
    words = command_line(container)
    for word, following in zip(words, [*words[1:], "--"], strict=True):
        flag, has_value, value = word.partition("=")
        if flag.startswith("--"):
            yield flag, value if has_value or following.startswith("-") else following
