"""ServiceAccounts, roles and bindings, made from the table of permissions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pumice.engines.kubernetes.install import names
from pumice.engines.kubernetes.install.labels import labels
from pumice.engines.kubernetes.install.permissions import Grant, Who, granted
from pumice.model.job import Manifest

GROUP: Final = "rbac.authorization.k8s.io"
ACCOUNTS: Final[dict[Who, str]] = {"controller": names.CONTROLLER, "webhook": names.WEBHOOK}


def roles(namespace: str, gang: str, *, webhook: bool) -> Iterator[Manifest]:
    for who, account in ACCOUNTS.items():
        grants = [grant for grant in granted(gang, webhook=webhook) if grant.who == who]
        if not grants:
            continue
        yield {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": account, "namespace": namespace, "labels": labels(who)},
        }
        yield from _role(account, namespace, [grant for grant in grants if not grant.at_home], at_home=False)
        yield from _role(account, namespace, [grant for grant in grants if grant.at_home], at_home=True)


def rule(grant: Grant) -> Manifest:
    named = {"resourceNames": list(grant.named)} if grant.named else {}
    return {"apiGroups": [grant.group], "resources": list(grant.resources), **named, "verbs": list(grant.verbs)}


def _role(account: str, namespace: str, grants: Iterable[Grant], *, at_home: bool) -> Iterator[Manifest]:
    kind = "Role" if at_home else "ClusterRole"
    place = {"namespace": namespace} if at_home else {}
    (who,) = (who for who, name in ACCOUNTS.items() if name == account)
    metadata = {"name": account, **place, "labels": labels(who)}
    yield {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": [rule(grant) for grant in grants],
    }
    yield {
        "apiVersion": f"{GROUP}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": account},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }
