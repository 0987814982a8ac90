"""Registers the webhook with the API server and publishes its CA bundle.

For an installed webhook the configurations exist, and server-side apply sets only the CA bundle, so that applying the
manifests again does not undo it. A webhook outside of the cluster creates the configurations at its start, replacing
those of an earlier run, and deletes them at its end unless another webhook has replaced them in the meantime.
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
class ServiceRegistration:
    """For a webhook behind a Service, with the configurations of `pumice install`."""

    client: Client
    namespace: str
    service: str
    _warnings: Once = field(default_factory=Once)

    async def publish(self, authority: bytes) -> bool:
        ca_bundle = base64.b64encode(authority).decode()
        manifests = webhook_configurations.by_service(self.namespace, self.service)
        patches = [webhook_configurations.ca_bundle_patch(manifest, ca_bundle) for manifest in manifests]
        return all([await self._apply(patch) for patch in patches])

    async def _apply(self, manifest: Manifest) -> bool:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        try:
            await _apply(self.client, manifest)
        except ApiError as error:
            # Without an installed configuration, apply means create, which is forbidden or invalid without the rest.
            missing = error.not_found or error.is_invalid or error.is_forbidden
            if not missing:
                raise
            if self._warnings.first(kind):
                _log.warning("%s %s: %s; apply the output of pumice install", kind, name, error)
            return False
        self._warnings.forget(kind)
        return True


@dataclass(slots=True)
class UrlRegistration:
    """For a webhook at a URL; with `failurePolicy: Ignore`, so that the cluster does not depend on it."""

    client: Client
    url: str
    _ca_bundle: str = ""

    async def publish(self, authority: bytes) -> bool:
        self._ca_bundle = base64.b64encode(authority).decode()
        for manifest in self._manifests():
            await _apply(self.client, manifest)
        return True

    async def withdraw(self) -> None:
        """Delete the configurations of this webhook, but not those that another one has put in their place."""
        for manifest in self._manifests() if self._ca_bundle else ():
            resource, name = _RESOURCES[manifest["kind"]], manifest["metadata"]["name"]
            try:
                existing = msgspec.json.decode(await self.client.get(resource, None, name, attempts=_ATTEMPTS))
                if _ca_bundles(existing) != [self._ca_bundle]:
                    _log.warning("%s %s now belongs to another webhook and is kept", resource.kind, name)
                    continue
                meta = existing["metadata"]
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
        return webhook_configurations.by_url(self.url, self._ca_bundle)


async def _apply(client: Client, manifest: Manifest) -> None:
    body = msgspec.json.encode(manifest)
    resource = _RESOURCES[manifest["kind"]]
    await client.apply(resource, None, manifest["metadata"]["name"], body=body, attempts=_ATTEMPTS)


def _ca_bundles(configuration: Manifest) -> list[str]:
    return [hook.get("clientConfig", {}).get("caBundle", "") for hook in configuration.get("webhooks") or []]
