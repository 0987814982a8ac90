"""Network topology, partitions and NUMA policies."""

from __future__ import annotations

from collections.abc import Iterator

from pumice.admission.numbers import at_least
from pumice.admission.podtemplate.document_view import View
from pumice.model import naming
from pumice.model.findings import SPEC, Finding, Path
from pumice.model.job import Job, NetworkTopology, PartitionPolicy, TaskSpec
from pumice.model.quantity import Quantity
from pumice.model.suggestions import did_you_mean
from pumice.model.syntax import too_long
from pumice.model.vocabulary import NETWORK_TOPOLOGY_MODES, TOPOLOGY_POLICIES


def check_topology(job: Job) -> Iterator[Finding]:
    yield from _check_network(job.spec.network_topology, SPEC / "networkTopology")
    for position, task in enumerate(job.spec.tasks):
        at = SPEC / "tasks" / position
        if task.partition_policy is not None:
            yield from _check_partitions(task, task.partition_policy, at / "partitionPolicy")
        yield from _check_numa(task, at)


def _check_network(topology: NetworkTopology | None, at: Path) -> Iterator[Finding]:
    if topology is None:
        return
    if topology.mode and topology.mode not in NETWORK_TOPOLOGY_MODES:
        hint = did_you_mean(topology.mode, NETWORK_TOPOLOGY_MODES)
        yield Finding(at / "mode", f"must be {' or '.join(NETWORK_TOPOLOGY_MODES)}", topology.mode, hint)
    yield from at_least(at / "highestTierAllowed", topology.highest_tier_allowed, 0)
    if error := too_long(topology.highest_tier_name, naming.SUBDOMAIN_LIMIT):
        yield Finding(at / "highestTierName", error, topology.highest_tier_name)
    if topology.highest_tier_allowed is not None and topology.highest_tier_name:
        yield Finding(at, "must have either highestTierAllowed or highestTierName, not both")


def _check_partitions(task: TaskSpec, policy: PartitionPolicy, at: Path) -> Iterator[Finding]:
    yield from at_least(at / "totalPartitions", policy.total_partitions, 1)
    yield from at_least(at / "partitionSize", policy.partition_size, 1)
    yield from at_least(at / "minPartitions", policy.min_partitions, 0)
    if policy.total_partitions > 0 and policy.partition_size > 0:
        yield from _check_partition_sums(task, policy, at)
    yield from _check_network(policy.network_topology, at / "networkTopology")


def _check_partition_sums(task: TaskSpec, policy: PartitionPolicy, at: Path) -> Iterator[Finding]:
    pods = policy.total_partitions * policy.partition_size
    sizes = f"{policy.total_partitions} partitions of {policy.partition_size}"
    if task.replicas >= 0 and task.replicas != pods:
        yield Finding(at, f"{sizes} are {pods} pods, but replicas is {task.replicas}", hint=f"set replicas to {pods}")
    least = policy.min_partitions * policy.partition_size
    if policy.min_partitions > policy.total_partitions:
        yield Finding(
            at / "minPartitions",
            f"must be at most {policy.total_partitions}, the totalPartitions",
            policy.min_partitions,
        )
    elif policy.min_partitions > 0 and task.min_available is not None and task.min_available != least:
        yield Finding(
            at / "minPartitions",
            f"{policy.min_partitions} partitions of {policy.partition_size} are {least} pods, "
            f"but minAvailable is {task.min_available}",
            policy.min_partitions,
            hint=f"omit minAvailable, or set it to {least}",
        )


def _check_numa(task: TaskSpec, at: Path) -> Iterator[Finding]:
    policy = task.topology_policy
    if policy and policy not in TOPOLOGY_POLICIES:
        accepted = f"must be one of {', '.join(TOPOLOGY_POLICIES)}"
        yield Finding(at / "topologyPolicy", accepted, policy, did_you_mean(policy, TOPOLOGY_POLICIES))
    elif policy not in ("", "none"):
        for container in View(task.template, at / "template").part("spec").containers():
            if not _has_whole_cpus(container):
                yield Finding(
                    container.at / "resources",
                    f"topologyPolicy {policy} needs a whole number of CPUs in every container",
                    hint="set resources.limits.cpu to a whole number",
                )


def _has_whole_cpus(container: View) -> bool:
    resources = container.part("resources")
    requests = resources.part("requests") if resources.get("requests") else resources.part("limits")
    try:
        cpu = Quantity.parse(requests.get("cpu"))
    except ValueError:
        return False
    return cpu.is_integer and not cpu.is_zero
