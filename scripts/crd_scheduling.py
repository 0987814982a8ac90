"""Builds the schemas of Volcano's PodGroup and Queue, for clusters with Volcano's scheduler.

The controller creates PodGroups and reads Queues; the scheduler owns both types. So these schemas have exactly its
fields, limits and defaults, and applying them over Volcano's definitions changes only descriptions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pumice.model.shape import ObjectType
from pumice.model.vocabulary import NETWORK_TOPOLOGY_MODES
from scripts.crd_job import DOMAIN_PATTERN
from scripts.crd_structural import Structural, structural

_TYPES: Final = {
    "PodGroup": ObjectType(
        {"apiVersion": "string", "kind": "string", "metadata": "Metadata", "spec": "Group", "status": "GroupStatus"}
    ),
    "Group": ObjectType(
        {
            "minMember": "int32",
            "minResources": "{}quantity",
            "minTaskMember": "{}int32",
            "networkTopology": "Topology",
            "priorityClassName": "string",
            "queue": "string",
            "subGroupPolicy": "[]SubGroup",
        }
    ),
    "SubGroup": ObjectType(
        {
            "labelSelector": "Selector",
            "matchLabelKeys": "[]string",
            "minSubGroups": "int32",
            "name": "string",
            "networkTopology": "Topology",
            "subGroupSize": "int32",
        }
    ),
    "Topology": ObjectType({"highestTierAllowed": "integer", "highestTierName": "string", "mode": "string"}),
    "Selector": ObjectType({"matchExpressions": "[]Requirement", "matchLabels": "{}string"}, atomic=True),
    "Requirement": ObjectType({"key": "string", "operator": "string", "values": "[]string"}, ("key", "operator")),
    "GroupStatus": ObjectType(
        {
            "conditions": "[]GroupCondition",
            "failed": "int32",
            "phase": "string",
            "running": "int32",
            "succeeded": "int32",
        }
    ),
    "GroupCondition": ObjectType(
        {
            "lastTransitionTime": "time",
            "message": "string",
            "reason": "string",
            "status": "string",
            "transitionID": "string",
            "type": "string",
        }
    ),
    "Queue": ObjectType(
        {"apiVersion": "string", "kind": "string", "metadata": "Metadata", "spec": "QueueSpec", "status": "QueueStatus"}
    ),
    "QueueSpec": ObjectType(
        {
            "affinity": "QueueAffinity",
            "capability": "{}quantity",
            "dequeueStrategy": "string",
            "deserved": "{}quantity",
            "extendClusters": "[]QueueCluster",
            "guarantee": "Guarantee",
            "parent": "string",
            "priority": "int32",
            "reclaimable": "bool",
            "type": "string",
            "weight": "int32",
        }
    ),
    "QueueAffinity": ObjectType({"nodeGroupAffinity": "NodeGroups", "nodeGroupAntiAffinity": "NodeGroups"}),
    "NodeGroups": ObjectType(
        {
            "preferredDuringSchedulingIgnoredDuringExecution": "[]string",
            "requiredDuringSchedulingIgnoredDuringExecution": "[]string",
        }
    ),
    "QueueCluster": ObjectType({"capacity": "{}quantity", "name": "string", "weight": "int32"}),
    "Guarantee": ObjectType({"resource": "{}quantity"}),
    "QueueStatus": ObjectType(
        {
            "allocated": "{}quantity",
            "completed": "int32",
            "inqueue": "int32",
            "pending": "int32",
            "reservation": "Reservation",
            "running": "int32",
            "state": "string",
            "unknown": "int32",
        }
    ),
    "Reservation": ObjectType({"nodes": "[]string", "resource": "{}quantity"}),
    "Metadata": ObjectType({}),
}
_COUNT: Final = {"minimum": 0}
_TOPOLOGY: Final[Mapping[str, Structural]] = {
    "highestTierAllowed": {"description": "highest tier the pods may span", **_COUNT},
    "highestTierName": {"description": "the same, by the tier's name", "maxLength": 253},
    "mode": {
        "description": "whether the tier is a must or a wish",
        "default": NETWORK_TOPOLOGY_MODES[0],
        "enum": list(NETWORK_TOPOLOGY_MODES),
    },
}
# Limits, defaults and descriptions by path; `[]` means the items of a list.
_POD_GROUP: Final[Mapping[str, Structural]] = {
    "spec": {"description": "which pods must start together"},
    "spec.minMember": {"description": "pods that must be able to run at once", **_COUNT},
    "spec.minResources": {"description": "what those pods ask for together"},
    "spec.minTaskMember": {"description": "pods of each task that must be able to run"},
    "spec.networkTopology": {"description": "how close the pods must be"},
    **{f"spec.networkTopology.{field}": more for field, more in _TOPOLOGY.items()},
    "spec.priorityClassName": {"description": "priority of the group", "maxLength": 253},
    "spec.queue": {
        "description": "queue that the group waits in",
        "default": "default",
        "maxLength": 253,
        "pattern": DOMAIN_PATTERN,
    },
    "spec.subGroupPolicy": {"description": "smaller groups inside this one"},
    "spec.subGroupPolicy[].labelSelector": {"description": "the pods of the smaller groups"},
    "spec.subGroupPolicy[].matchLabelKeys": {"description": "labels whose values tell the smaller groups apart"},
    "spec.subGroupPolicy[].minSubGroups": {
        "description": "smaller groups that must be able to run",
        "default": 0,
        **_COUNT,
    },
    "spec.subGroupPolicy[].name": {"description": "name of the policy", "maxLength": 253},
    "spec.subGroupPolicy[].networkTopology": {"description": "how close the pods of a smaller group must be"},
    **{f"spec.subGroupPolicy[].networkTopology.{field}": more for field, more in _TOPOLOGY.items()},
    "spec.subGroupPolicy[].subGroupSize": {"description": "pods in each smaller group", "default": 1, "minimum": 1},
    "status": {"description": "written by the scheduler"},
    "status.phase": {"enum": ["Pending", "Running", "Unknown", "Inqueue", "Completed"]},
    **{f"status.{count}": _COUNT for count in ("failed", "running", "succeeded")},
}
_QUEUE: Final[Mapping[str, Structural]] = {
    "spec": {"description": "which share of the cluster the queue has"},
    "spec.affinity": {"description": "groups of nodes that the queue's pods go to, or keep away from"},
    "spec.capability": {"description": "the most that the queue may use"},
    "spec.dequeueStrategy": {
        "description": "whether a job that does not fit holds up the others",
        "default": "traverse",
        "enum": ["fifo", "traverse"],
    },
    "spec.deserved": {"description": "the queue's own share; others may borrow it"},
    "spec.extendClusters": {"description": "other clusters that its jobs may go to"},
    "spec.guarantee": {"description": "what is kept free for the queue"},
    "spec.parent": {"description": "the queue above", "maxLength": 253, "pattern": DOMAIN_PATTERN},
    "spec.priority": {"description": "queues with a higher one are served first", **_COUNT},
    "spec.reclaimable": {"description": "whether others may take back what it borrowed"},
    "spec.type": {"description": "type of the queue", "maxLength": 253},
    "spec.weight": {"description": "share relative to the other queues", "default": 1, "minimum": 1, "maximum": 65535},
    "status": {"description": "written by Volcano"},
    "status.state": {"description": "only an open queue takes jobs", "enum": ["Open", "Closed", "Closing", "Unknown"]},
    **{f"status.{count}": _COUNT for count in ("completed", "inqueue", "pending", "running", "unknown")},
}


def pod_group_schema() -> Structural:
    return {"description": "pods that must start together", **_detailed("PodGroup", _POD_GROUP)}


def queue_schema() -> Structural:
    return {"description": "a share of the cluster, in which jobs wait", **_detailed("Queue", _QUEUE)}


def _detailed(kind: str, more: Mapping[str, Structural]) -> Structural:
    schema = structural(kind, _TYPES)
    schema["properties"]["metadata"] = {"type": "object"}
    for path, additions in more.items():
        part = schema
        for field in path.split("."):
            part = part["properties"][field.removesuffix("[]")]
            part = part["items"] if field.endswith("[]") else part
        part.update(additions)
    return schema
