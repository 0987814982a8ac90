"""Everything that `pumice install` prints, in an order in which each thing finds what it needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pumice.engines.kubernetes.install import names, webhook_configurations, workload
from pumice.engines.kubernetes.install.crds import custom_resources
from pumice.engines.kubernetes.install.rbac import roles
from pumice.model.job import Manifest


@dataclass(frozen=True, slots=True)
class Wishes:
    image: str
    namespace: str = names.NAMESPACE
    gang: str = "auto"
    webhook: bool = True


def manifests(wishes: Wishes) -> Iterator[Manifest]:
    yield workload.namespace(wishes.namespace)
    yield from custom_resources(volcano=wishes.gang == "volcano")
    yield from roles(wishes.namespace, wishes.gang, webhook=wishes.webhook)
    yield from workload.controller(wishes.namespace, wishes.image, wishes.gang)
    if wishes.webhook:
        yield from workload.webhook(wishes.namespace, wishes.image, wishes.gang)
        yield from webhook_configurations.installed(wishes.namespace)
