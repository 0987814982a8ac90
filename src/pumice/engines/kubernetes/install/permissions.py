"""Who may do what on a cluster, and why: the one table from which roles, the page and `--check` are made.

Nothing is granted that no code needs. Secrets are the case to look at: the controller makes key pairs and removes
them, but never lists Secrets nor reads one; whether one is there it finds out by a patch that changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from pumice.engines.kubernetes.install import names

Who = Literal["controller", "webhook"]

_WATCH: Final = ("list", "watch")
_KEEP: Final = ("get", *_WATCH, "create", "update", "delete")


@dataclass(frozen=True, slots=True)
class Grant:
    who: Who
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    # Only objects of these names; RBAC cannot limit `create`, `list` and `watch` so.
    named: tuple[str, ...] = ()
    # Only in the namespace that Pumice is installed in, instead of all.
    at_home: bool = False
    # Only with these gang providers; empty: with all.
    gangs: tuple[str, ...] = ()

    def applies(self, gang: str) -> bool:
        return not self.gangs or gang in self.gangs


GRANTS: Final = (
    Grant(
        "controller",
        "batch.volcano.sh",
        ("jobs",),
        (*_WATCH, "delete"),
        "follows jobs; deletes one when ttlSecondsAfterFinished is over",
    ),
    Grant("controller", "batch.volcano.sh", ("jobs/status",), ("patch",), "writes what became of a job"),
    Grant(
        "controller",
        "batch.volcano.sh",
        ("jobs/finalizers",),
        ("update",),
        "makes pods and other objects property of their job, also where OwnerReferencesPermissionEnforcement is on",
    ),
    Grant("controller", "bus.volcano.sh", ("commands",), (*_WATCH, "delete"), "obeys Commands, then removes them"),
    Grant("controller", "", ("pods",), ("get", *_WATCH, "create", "delete"), "runs the pods of jobs"),
    Grant("controller", "", ("services", "configmaps"), _KEEP, "names and host lists of jobs, put right when edited"),
    Grant("controller", "networking.k8s.io", ("networkpolicies",), _KEEP, "the same, for jobs that ask for a policy"),
    Grant(
        "controller",
        "",
        ("secrets",),
        ("create", "patch", "delete"),
        "makes the key pair of a job that uses ssh, and removes it; never lists or reads Secrets",
    ),
    Grant(
        "controller",
        "",
        ("persistentvolumeclaims",),
        ("get", *_WATCH, "create"),
        "makes the claims that a job describes",
    ),
    Grant("controller", "", ("events",), ("create",), "tells what happened to a job"),
    Grant("controller", "scheduling.k8s.io", ("priorityclasses",), _WATCH, "which pods of a job matter most"),
    Grant(
        "controller",
        "scheduling.volcano.sh",
        ("podgroups",),
        _KEEP,
        "tells Volcano's scheduler which pods start together",
        gangs=("auto", "volcano"),
    ),
    Grant(
        "controller",
        "scheduling.k8s.io",
        ("podgroups",),
        _KEEP,
        "tells Kubernetes' own scheduler which pods start together",
        gangs=("auto", "native"),
    ),
    Grant(
        "controller",
        "scheduling.x-k8s.io",
        ("podgroups",),
        _KEEP,
        "tells the coscheduling plugin which pods start together",
        gangs=("auto", "coscheduling"),
    ),
    # Not by name: controllers that serve only some namespaces have a Lease each, named after those.
    Grant(
        "controller",
        "coordination.k8s.io",
        ("leases",),
        ("get", "create", "update"),
        "holds the Lease by which one of several controllers leads",
        at_home=True,
    ),
    Grant(
        "webhook",
        "",
        ("secrets",),
        ("get", "update"),
        "keeps its certificates where all its replicas find them",
        named=(names.certificates(names.WEBHOOK),),
        at_home=True,
    ),
    Grant(
        "webhook",
        "admissionregistration.k8s.io",
        ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
        ("patch",),
        "tells the API server which authority signed its certificate",
        named=(names.CONFIGURATION,),
    ),
    Grant(
        "webhook",
        "apiextensions.k8s.io",
        ("customresourcedefinitions",),
        ("get",),
        "warns of fields that the cluster's definition of a Job would drop",
        named=(names.JOBS_CRD,),
    ),
    Grant(
        "webhook",
        "scheduling.volcano.sh",
        ("queues",),
        _WATCH,
        "whether the queue of a job is there and open",
        gangs=("auto", "volcano"),
    ),
)


def granted(gang: str, *, webhook: bool = True) -> Iterator[Grant]:
    """What an installation with this gang provider grants."""
    return (grant for grant in GRANTS if grant.applies(gang) and (webhook or grant.who != "webhook"))
