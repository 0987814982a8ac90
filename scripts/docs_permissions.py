"""Builds docs/guides/permissions.md from the table of grants, which is also the source of the roles."""

from __future__ import annotations

from pumice.engines.kubernetes.install.permissions import GRANTS, Component, Grant
from scripts.docs_text import code, table

INTRODUCTION = """\
# Permissions

[中文](zh/permissions.md) · [All guides](README.md)

`pumice install` creates two ServiceAccounts. Their roles have no wildcards and grant nothing that no code needs. These
tables are generated from the same list as the roles, and tests run with exactly these permissions.

"""

SECRETS = """\
## Secrets

The controller creates the key pair of a job that uses the `ssh` plugin and deletes it with the job. It may not get,
list or watch Secrets. To find out whether the Secret of a job still exists, it sends a dry-run patch that changes
nothing, to the one name that it chose itself.

With `pumice install --keep-log-tails` it does the same for the Secret `JOB-log-tails` of each job that restarts. This
is off by default, because it lets the controller read the logs of all pods. The Secret holds the last lines of failed
pods: who may read Secrets of the namespace may read them.

This has limits: the response to a patch contains the object. With the controller's token and the name of a Secret, an
attacker could read that Secret by patching it, and could overwrite it, but could not find out names. To rule this out
as well, serve only some namespaces (`--namespace`), with a Role in each instead of the ClusterRole.

Like every controller of workloads, it may create pods, and so could mount any Secret of a namespace into a pod, as any
user can who may create pods there.

## What a stolen token allows

{stolen}

Policies (Gatekeeper, Kyverno, Pod Security admission) apply to the pods that the controller creates. Do not exempt the
ServiceAccount of the controller: any user who may create Jobs would profit from the exemption.

`/metrics` needs no authentication. It shows counts and the names of queues, nothing of single jobs.
It has a port of its own, for which you can write a NetworkPolicy; `pumice install --network-policy` prints one.

## Fewer namespaces

`pumice controller --namespace a --namespace b` serves only these namespaces. Copy the rules of the ClusterRole
`pumice-controller` into a Role in each of them, except for `priorityclasses`, which are cluster-wide, and remove
the ClusterRoleBinding. The controller also works without `priorityclasses`; it then ignores priorities when it
computes the minimum resources of a gang.

There is one Lease per namespace, `pumice-controller-a` and so on; the controller serves a namespace while it holds
the Lease. So the namespaces of several controllers may overlap: no job is served by two. A controller for all
namespaces, with the Lease `pumice-controller`, takes precedence: those for single namespaces become standbys within
a few seconds, and it begins when they have. The Role in `kube-system` names only `pumice-controller`; add
`pumice-controller-a` and so on. A controller without the right to its Lease ends and names the right. A controller
outside of the cluster needs the same permissions on Leases in `kube-system`.

## For users

Pumice's commands with `--on` need the roles of [examples/roles](../../examples/roles/cluster-user.yaml):
`pumice-viewer` to read, `pumice-runner` to run and change Jobs, `pumice-cluster-viewer` for what is shared. With
kubectl and `vcctl`, users need `create`, `get`, `list`, `watch`, `update`, `patch` and `delete` on
`jobs.batch.volcano.sh` in their namespaces, and `create` on `commands.bus.volcano.sh` to suspend jobs. A user who may
create Jobs can run any pod with any ServiceAccount of the namespace, and read its Secrets, exactly as with permission
to create pods.
"""


STOLEN = (
    (
        "the controller",
        (
            "run any pod in the served namespaces, and so use every ServiceAccount, Secret and volume there;"
            " delete pods and Jobs; overwrite Services, ConfigMaps and NetworkPolicies; read or overwrite a "
            "Secret whose name is known"
        ),
        "list Secrets, or change roles, nodes, CRDs and webhooks; with `--namespace`, reach any other namespace",
    ),
    (
        "the webhook",
        (
            "redirect the admission calls for Jobs to a server of their own, and so read, change or refuse "
            "every Job; after changing the rules of the configurations, see every object that clients send "
            "to the API server; read the webhook's private key"
        ),
        "create pods, or read Secrets by other means",
    ),
    (
        "a user who may create Jobs",
        (
            "create pods, Services, ConfigMaps, NetworkPolicies and PersistentVolumeClaims in that namespace"
            " through the controller, even without permission to create them directly"
        ),
        "affect other namespaces, or objects that no Job of theirs owns",
    ),
)


def page() -> str:
    stolen = table(("Token of", "A thief could", "And could not"), STOLEN).strip()
    tables = _section("The controller", "controller") + _section("The webhook", "webhook")
    return INTRODUCTION + tables + SECRETS.replace("{stolen}", stolen)


def _section(title: str, component: Component) -> str:
    rows = [_row(grant) for grant in GRANTS if grant.component == component]
    return f"## {title}\n\n{table(('What', 'May', 'Where', 'Why'), rows)}\n"


def _row(grant: Grant) -> tuple[str, str, str, str]:
    kinds = (kind(resource, grant.group) for resource in grant.resources)
    named = f" named {', '.join(map(code, grant.resource_names))}" if grant.resource_names else ""
    where = "its own namespace" if grant.own_namespace else code(grant.namespace) if grant.namespace else "everywhere"
    gangs = f"; only with `--gang` {' or '.join(grant.gangs)}" if grant.gangs else ""
    tails = "; only with `--keep-log-tails`" if grant.log_tails else ""
    return ", ".join(map(code, kinds)) + named, ", ".join(grant.verbs), where, grant.reason + gangs + tails


def kind(resource: str, group: str) -> str:
    """Return a resource as kubectl writes it, with the subresource at the end."""
    plural, slash, subresource = resource.partition("/")
    return (f"{plural}.{group}" if group else plural) + slash + subresource
