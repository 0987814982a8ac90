"""Tells the API server whom to ask and whose certificate to trust.

Installed, the configurations are there and only their authority is filled in, by server-side apply: whoever applies the
manifests again does not undo it. Outside of a cluster they are made at the start, whatever an earlier run left behind,
and removed at the end, unless somebody else has put their own in the meantime.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.install import webhook_configurations
from pumice.model.job import Manifest
from pumice.runtime.once import Once

_log = logging.getLogger(__name__)

_RESOURCES: Final = {
    resource.kind: resource for resource in (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS)
}
_ATTEMPTS: Final = 3


@dataclass(slots=True)
class Installed:
    """The webhook behind a Service, with the configurations that `pumice install` printed."""

    client: Client
    namespace: str
    service: str
    _warnings: Once = field(default_factory=Once)

    async def announce(self, authority: bytes) -> bool:
        text = base64.b64encode(authority).decode()
        manifests = webhook_configurations.installed(self.namespace, self.service)
        return all([await self._apply(webhook_configurations.with_authority(manifest, text)) for manifest in manifests])

    async def _apply(self, manifest: Manifest) -> bool:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        try:
            await _apply(self.client, manifest)
        except ApiError as error:
            # Where there is nothing to fill in, an apply is a create, which is forbidden or lacks most of its fields.
            missing = error.not_found or error.is_invalid or error.is_forbidden
            if not missing:
                raise
            if self._warnings.first(kind):
                _log.warning("%s %s: %s; apply the output of pumice install", kind, name, error)
            return False
        self._warnings.forget(kind)
        return True


@dataclass(slots=True)
class Outside:
    """The webhook at an address of its own; `Ignore`, so that a cluster does not depend on it."""

    client: Client
    address: str
    _authority: str = ""

    async def announce(self, authority: bytes) -> bool:
        self._authority = base64.b64encode(authority).decode()
        for manifest in self._manifests():
            await _apply(self.client, manifest)
        return True

    async def withdraw(self) -> None:
        """What is ours goes; what somebody else has put in its place stays."""
        for manifest in self._manifests() if self._authority else ():
            resource, name = _RESOURCES[manifest["kind"]], manifest["metadata"]["name"]
            try:
                there = msgspec.json.decode(await self.client.get(resource, None, name, attempts=_ATTEMPTS))
                if _authorities(there) != [self._authority]:
                    _log.warning("%s %s is somebody else's now, and stays", resource.kind, name)
                    continue
                meta = there["metadata"]
                await self.client.delete(
                    resource,
                    None,
                    name,
                    uid=meta["uid"],
                    resource_version=meta["resourceVersion"],
                    attempts=_ATTEMPTS,
                )
            except ApiError as error:
                if not error.not_found:
                    _log.warning("%s %s could not be removed: %s", resource.kind, name, error)

    def _manifests(self) -> Sequence[Manifest]:
        return webhook_configurations.outside(self.address, self._authority)


async def _apply(client: Client, manifest: Manifest) -> None:
    body = msgspec.json.encode(manifest)
    resource = _RESOURCES[manifest["kind"]]
    await client.apply(resource, None, manifest["metadata"]["name"], body=body, attempts=_ATTEMPTS)


def _authorities(configuration: Manifest) -> list[str]:
    return [hook.get("clientConfig", {}).get("caBundle", "") for hook in configuration.get("webhooks") or []]
