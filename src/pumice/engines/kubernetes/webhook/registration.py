"""Registers the webhook with the API server and publishes its CA bundle.

For an installed webhook the configurations exist. Server-side apply sets only the CA bundle, so that applying the
manifests again does not undo it, and `failurePolicy: Fail` once the API server has reached the webhook. A webhook
outside of the cluster creates the configurations at its start, replacing those of an earlier run, and deletes them at
its end unless another webhook has replaced them in the meantime.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import Struct

from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.install import webhook_configurations
from pumice.engines.kubernetes.webhook.certificates import count, merged
from pumice.model.job import Manifest
from pumice.runtime.once import Once

_log = logging.getLogger(__name__)

_RESOURCES: Final = {
    resource.kind: resource for resource in (resources.MUTATING_WEBHOOKS, resources.VALIDATING_WEBHOOKS)
}
_ATTEMPTS: Final = 3


class Publication(Struct, frozen=True):
    """What the API server trusts after a CA bundle was published."""

    trusted: bool = True  # the bundle is in force
    replaced: bool = False  # another bundle was in its place, which the API server may use for some more seconds
    is_sole: bool = True  # the bundle has one authority only


@dataclass(slots=True)
class ServiceRegistration:
    """For a webhook behind a Service, with the configurations of `pumice install`.

    `answered` is whether the API server has called this webhook through its Service. From then on the configurations
    have `failurePolicy: Fail`.
    """

    client: Client
    namespace: str
    service: str
    answered: Callable[[], bool]
    _warnings: Once = field(default_factory=Once)

    async def publish(self, bundle: bytes, keep: bool) -> Publication:  # noqa: FBT001 - the only flag
        """Publish a bundle; with `keep`, together with the authorities that are published already."""
        manifests = webhook_configurations.by_service(self.namespace, self.service)
        done = [await self._publish(manifest, bundle, keep=keep) for manifest in manifests]
        return Publication(
            all(one.trusted for one in done), any(one.replaced for one in done), all(one.is_sole for one in done)
        )

    async def _publish(self, manifest: Manifest, bundle: bytes, *, keep: bool) -> Publication:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        try:
            publication = await self._update(manifest, bundle, keep=keep)
        except ApiError as error:
            # Without an installed configuration, apply means create, which is forbidden or invalid without the rest.
            missing = error.not_found or error.is_invalid or error.is_forbidden
            if not missing:
                raise
            if self._warnings.first(kind):
                _log.warning("%s %s: %s; apply the output of pumice install", kind, name, error)
            return Publication(trusted=False)
        if publication.trusted:
            self._warnings.forget(kind)
        return publication

    async def _update(self, manifest: Manifest, bundle: bytes, *, keep: bool) -> Publication:
        """Change what is different, by compare-and-set: replicas must not undo each other's changes."""
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        for _ in range(_ATTEMPTS):
            # A patch that changes nothing reads it, and needs no other permission than the real one.
            raw = await self.client.merge_patch(_RESOURCES[kind], None, name, b"{}", dry_run=True, attempts=_ATTEMPTS)
            existing = msgspec.json.decode(raw, type=Manifest)
            hooks, version = existing.get("webhooks") or [], existing["metadata"]["resourceVersion"]
            called = (str((hook["clientConfig"].get("service") or {}).get("namespace", "")) for hook in hooks)
            if other := next((namespace for namespace in called if namespace not in ("", self.namespace)), ""):
                # After a move to another namespace. With this CA and Fail, no Job could be created there.
                if self._warnings.first(kind):
                    _log.warning("%s %s now calls the webhook in namespace %s and is left to it", kind, name, other)
                return Publication(trusted=False)
            published = [base64.b64decode(one) for one in _ca_bundles(existing)]
            after = merged(bundle, *(published if keep else ()))
            is_same = bool(hooks) and all(one == after for one in published)
            enforce = self.answered() and any(hook.get("failurePolicy") != "Fail" for hook in hooks)
            patch = webhook_configurations.ca_bundle_patch(manifest, base64.b64encode(after).decode())
            try:
                if enforce:
                    enforced = [{**hook, "failurePolicy": "Fail"} for hook in patch["webhooks"]]
                    await _apply(self.client, _at_version({**patch, "webhooks": enforced}, version))
                    # Without the field, which stays as its default, Fail: an owner of it would conflict with
                    # `kubectl apply --server-side` of the manifests, which sets Ignore again until the next pass.
                    await _apply(self.client, patch)
                    _log.info("%s %s: failurePolicy is now Fail", kind, name)
                elif not is_same:
                    await _apply(self.client, _at_version(patch, version))
            except ApiError as error:
                if not error.is_conflict:
                    raise
            else:
                return Publication(replaced=not is_same and any(published), is_sole=count(after) == 1)
        raise OSError(f"another writer changed {kind} {name} {_ATTEMPTS} times in a row")


@dataclass(slots=True)
class UrlRegistration:
    """For a webhook at a URL; with `failurePolicy: Ignore`, so that the cluster does not depend on it."""

    client: Client
    url: str
    _ca_bundle: str = ""

    async def publish(self, bundle: bytes, _keep: bool) -> Publication:  # noqa: FBT001 - as of the other registration
        before, self._ca_bundle = self._ca_bundle, base64.b64encode(bundle).decode()
        for manifest in self._manifests():
            await _apply(self.client, manifest)
        return Publication(replaced=before not in ("", self._ca_bundle), is_sole=count(bundle) == 1)

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


def _at_version(patch: Manifest, version: str) -> Manifest:
    return {**patch, "metadata": {**patch["metadata"], "resourceVersion": version}}
