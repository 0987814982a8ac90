"""docs/guides/permissions.md: what is granted to whom and why, from the table that the roles are made of."""

from __future__ import annotations

from pumice.engines.kubernetes.install.permissions import GRANTS, Grant, Who
from scripts.docs_text import code, table

INTRODUCTION = """\
# Permissions

`pumice install` makes two ServiceAccounts. Nothing is granted by a star, and nothing that no code needs. These
tables are made from the same list as the roles, and tests run with exactly these permissions.

"""

SECRETS = """\
## Secrets

The controller makes the key pair of a job that uses the `ssh` plugin and removes it with the job. It may not get,
list or watch Secrets, neither of other jobs nor of anybody else. Whether a job's Secret is still there it asks by a
patch that changes nothing, as a dry run, of the one name that it made up itself.

To be honest about what that means: the answer to a patch holds the object. Whoever steals the controller's token and
knows a Secret's name could read that Secret by patching it, and could overwrite it. They cannot find out names. Who
wants to shut this out as well serves only some namespaces (`--namespace`), with a Role in each instead of the
ClusterRole.

And since it may create pods, as every controller of workloads must, it could mount any Secret of a namespace into a
pod, like everybody else who may create pods there.

## Fewer namespaces

`pumice controller --namespace a --namespace b` serves only these. Turn the rules of the ClusterRole
`pumice-controller` into a Role in each of them, except for `priorityclasses`, which are cluster-wide, and remove
the ClusterRoleBinding. Without `priorityclasses` it works as well; only which tasks count first for a gang's least
resources is not known then.

There is a Lease for each of these namespaces, `pumice-controller-a` and so on, in the namespace of the installation or
where `--lease-namespace` says; the controller serves each for as long as it holds its Lease. So lists of namespaces
may overlap: no job is served by two. While a controller that serves all namespaces holds the Lease
`pumice-controller` there, those that serve only some stand aside, within a few seconds. Controllers that keep their
Leases in different namespaces do not know of each other.

## For people

Users need `create`, `get`, `list`, `watch`, `update`, `patch` and `delete` on `jobs.batch.volcano.sh` in their
namespaces, and `create` on `commands.bus.volcano.sh` to suspend jobs with `vcctl`. Whoever may create a Job can run
any pod that its template describes, as the ServiceAccount that it names: what you grant by Jobs you grant by pods.
"""


def page() -> str:
    return INTRODUCTION + _section("The controller", "controller") + _section("The webhook", "webhook") + SECRETS


def _section(title: str, who: Who) -> str:
    rows = [_row(grant) for grant in GRANTS if grant.who == who]
    return f"## {title}\n\n{table(('What', 'May', 'Where', 'Why'), rows)}\n"


def _row(grant: Grant) -> tuple[str, str, str, str]:
    kinds = (_kind(resource, grant.group) for resource in grant.resources)
    named = f" named {', '.join(map(code, grant.named))}" if grant.named else ""
    where = "its own namespace" if grant.at_home else "everywhere"
    gangs = f"; only with `--gang` {' or '.join(grant.gangs)}" if grant.gangs else ""
    return ", ".join(map(code, kinds)) + named, ", ".join(grant.verbs), where, grant.why + gangs


def _kind(resource: str, group: str) -> str:
    """As kubectl writes it, with the subresource at the end."""
    plural, slash, subresource = resource.partition("/")
    return (f"{plural}.{group}" if group else plural) + slash + subresource
