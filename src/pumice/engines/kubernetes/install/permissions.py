"""The permissions of controller and webhook, each with its reason, and the RBAC objects that grant them.

The roles, docs/guides/permissions.md and `--check` are all derived from GRANTS, which has nothing that no code needs.
Secrets deserve a look: the controller creates and deletes key pairs, but never lists or reads Secrets; it finds out
whether one exists by a patch that changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, Literal

from msgspec import Struct

from pumice.engines.kubernetes.install import names
from pumice.model.job import Manifest

Component = Literal["controller", "webhook"]

ACCOUNTS: Final[dict[Component, str]] = {"controller": names.CONTROLLER, "webhook": names.WEBHOOK}
_RBAC: Final = "rbac.authorization.k8s.io"
_WATCH: Final = ("list", "watch")
_MANAGE: Final = ("get", *_WATCH, "create", "update", "delete")


class Grant(Struct, frozen=True):
    component: Component
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    reason: str
    # Only objects with these names; RBAC cannot restrict `create` by name, and `watch` only of a single object.
    resource_names: tuple[str, ...] = ()
    # Only in the namespace of the installation, instead of all namespaces.
    own_namespace: bool = False
    # Only in this namespace.
    namespace: str = ""
    # Only with these gang providers; empty: with every provider.
    gangs: tuple[str, ...] = ()
    # Only with --keep-log-tails.
    log_tails: bool = False

    @property
    def is_cluster_wide(self) -> bool:
        return not self.own_namespace and not self.namespace


_controller, _webhook = partial(Grant, "controller"), partial(Grant, "webhook")
GRANTS: Final = (
    _controller(
        "batch.volcano.sh",
        ("jobs",),
        (*_WATCH, "delete"),
        "watches jobs; deletes a job when ttlSecondsAfterFinished has passed",
    ),
    _controller("batch.volcano.sh", ("jobs/status",), ("patch",), "writes the status of jobs"),
    _controller(
        "batch.volcano.sh",
        ("jobs/finalizers",),
        ("update",),
        "sets jobs as owners of pods and other objects, also where OwnerReferencesPermissionEnforcement is on",
    ),
    _controller("bus.volcano.sh", ("commands",), (*_WATCH, "delete"), "executes Commands, then deletes them"),
    _controller("", ("pods",), ("get", *_WATCH, "create", "delete"), "runs the pods of jobs"),
    _controller(
        "",
        ("pods/log",),
        ("get",),
        "keeps the last lines of the first failed pod of each attempt in a Secret of the job",
        log_tails=True,
    ),
    _controller("", ("services", "configmaps"), _MANAGE, "manages host names and host lists of jobs"),
    _controller(
        "networking.k8s.io", ("networkpolicies",), _MANAGE, "manages the NetworkPolicy of jobs that request one"
    ),
    _controller(
        "",
        ("secrets",),
        ("create", "patch", "delete"),
        "creates and deletes the key pair of jobs that use ssh; never lists or reads Secrets",
    ),
    _controller("", ("persistentvolumeclaims",), ("get", *_WATCH, "create"), "creates the claims that a job describes"),
    _controller("", ("events",), ("create",), "records events of jobs"),
    _controller("scheduling.k8s.io", ("priorityclasses",), _WATCH, "orders the tasks of a job by priority"),
    _controller(
        "scheduling.volcano.sh",
        ("podgroups",),
        _MANAGE,
        "informs Volcano's scheduler which pods start together",
        gangs=("auto", "volcano"),
    ),
    _controller(
        "scheduling.k8s.io",
        ("podgroups",),
        _MANAGE,
        "informs Kubernetes' own scheduler which pods start together",
        gangs=("auto", "native"),
    ),
    _controller(
        "scheduling.x-k8s.io",
        ("podgroups",),
        _MANAGE,
        "informs the coscheduling plugin which pods start together",
        gangs=("auto", "coscheduling"),
    ),
    _controller(
        "coordination.k8s.io",
        ("leases",),
        ("get", "update"),
        "leader election",
        resource_names=(names.LEASE,),
        namespace=names.LEASE_NAMESPACE,
    ),
    _controller(
        "coordination.k8s.io",
        ("leases",),
        ("list", "create"),
        "creates this Lease; finds the Leases of controllers that serve single namespaces",
        namespace=names.LEASE_NAMESPACE,
    ),
    _webhook(
        "",
        ("secrets",),
        ("get", "update", "watch"),
        "shares its certificates between its replicas, and renews them when they are removed",
        resource_names=(names.certificates(names.WEBHOOK),),
        own_namespace=True,
    ),
    _webhook(
        "admissionregistration.k8s.io",
        ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
        ("patch",),
        "publishes its certificate authority to the API server, and sets failurePolicy",
        resource_names=(names.CONFIGURATION,),
    ),
    _webhook(
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        ("get",),
        "warns of fields that the cluster's definition of Job drops",
        resource_names=(names.JOBS_CRD,),
    ),
    _webhook(
        "scheduling.volcano.sh",
        ("queues",),
        _WATCH,
        "checks that the queue of a job exists and is open",
        gangs=("auto", "volcano"),
    ),
)


def granted(gang: str, *, webhook: bool = True, log_tails: bool = False) -> Iterator[Grant]:
    """Return the grants of an installation with this gang provider."""
    for grant in GRANTS:
        is_for_gang = not grant.gangs or gang in grant.gangs
        if is_for_gang and (webhook or grant.component != "webhook") and (log_tails or not grant.log_tails):
            yield grant


def rbac_objects(namespace: str, gang: str, *, webhook: bool, log_tails: bool = False) -> Iterator[Manifest]:
    """Return the ServiceAccounts, roles and bindings of controller and webhook."""
    for component, account in ACCOUNTS.items():
        grants = [
            grant for grant in granted(gang, webhook=webhook, log_tails=log_tails) if grant.component == component
        ]
        if not grants:
            continue
        labels = names.labels(component)
        metadata = {"name": account, "namespace": namespace, "labels": labels}
        yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}
        cluster_wide = [grant for grant in grants if grant.is_cluster_wide]
        yield from _role("ClusterRole", {"name": account, "labels": labels}, namespace, cluster_wide)
        yield from _role("Role", metadata, namespace, [grant for grant in grants if grant.own_namespace])
        for other in dict.fromkeys(grant.namespace for grant in grants if grant.namespace):
            there = [grant for grant in grants if grant.namespace == other]
            yield from _role("Role", {**metadata, "namespace": other}, namespace, there)


def rule(grant: Grant) -> Manifest:
    limit = {"resourceNames": list(grant.resource_names)} if grant.resource_names else {}
    return {"apiGroups": [grant.group], "resources": list(grant.resources), **limit, "verbs": list(grant.verbs)}


def _role(kind: str, metadata: Manifest, namespace: str, grants: Sequence[Grant]) -> Iterator[Manifest]:
    if not grants:
        return
    account = metadata["name"]
    yield {
        "apiVersion": f"{_RBAC}/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": [rule(grant) for grant in grants],
    }
    yield {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": account},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
