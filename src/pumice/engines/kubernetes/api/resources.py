"""The resources that Pumice reads and writes on a cluster, and their paths on the API server."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final
from urllib.parse import quote

from pumice.model.vocabulary import COSCHEDULING, NATIVE, VOLCANO


@dataclass(frozen=True)
class Resource:
    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @cached_property
    def api_version(self) -> str:
        """As written in an object: `v1`, `batch.volcano.sh/v1alpha1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def identity(self) -> str:
        """As discovery names it: `v1/pods`, `batch.volcano.sh/v1alpha1/jobs`."""
        return f"{self.api_version}/{self.plural}"

    @cached_property
    def full_name(self) -> str:
        """As kubectl and RBAC name it: `pods`, `jobs.batch.volcano.sh`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def root(self) -> str:
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str = "") -> str:
        """Return the path of one object or, without a name, of the collection in the namespace or the cluster."""
        path = self.root
        if self.namespaced and namespace:
            path += "/namespaces/" + quote(namespace, safe="")
        path += "/" + self.plural
        if name is not None:
            path += "/" + quote(name, safe=":")
        return f"{path}/{subresource}" if subresource else path


JOBS: Final = Resource("batch.volcano.sh", "v1alpha1", "jobs", "Job")
COMMANDS: Final = Resource("bus.volcano.sh", "v1alpha1", "commands", "Command")

NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
PODS: Final = Resource("", "v1", "pods", "Pod")
SERVICES: Final = Resource("", "v1", "services", "Service")
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS: Final = Resource("", "v1", "secrets", "Secret")
CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
CORE_EVENTS: Final = Resource("", "v1", "events", "Event")
QUOTAS: Final = Resource("", "v1", "resourcequotas", "ResourceQuota")
NETWORK_POLICIES: Final = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)

VOLCANO_POD_GROUPS: Final = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
VOLCANO_QUEUES: Final = Resource("scheduling.volcano.sh", "v1beta1", "queues", "Queue", namespaced=False)
COSCHEDULING_POD_GROUPS: Final = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
# Kubernetes' own, the newest first; discovery says which of them a cluster serves.
NATIVE_POD_GROUPS: Final = tuple(
    Resource("scheduling.k8s.io", version, "podgroups", "PodGroup") for version in ("v1beta1", "v1alpha3", "v1alpha2")
)
# The PodGroups of each gang provider, best first.
POD_GROUPS: Final[dict[str, tuple[Resource, ...]]] = {
    VOLCANO.name: (VOLCANO_POD_GROUPS,),
    NATIVE.name: NATIVE_POD_GROUPS,
    COSCHEDULING.name: (COSCHEDULING_POD_GROUPS,),
}

CRDS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
MUTATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
SELF_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount")
