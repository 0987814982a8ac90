"""Labels and annotations are a contract with schedulers and dashboards, so they stand here once more."""

from __future__ import annotations

from pumice.model import keys
from pumice.model.syntax import qualified_name_fault


def test_the_keys() -> None:
    found = {value for name, value in vars(keys).items() if name.isupper()}
    volcano = {f"volcano.sh/{name}" for name in (
        *("task-index", "task-spec", "job-name", "job-namespace", "job-version", "job-retry-count", "job-forwarding"),
        *("queue-name", "template-uid", "partition-id", "numa-topology-policy", "preemptable"),
        *("cooldown-time", "revocable-zone", "jdb-min-available", "jdb-max-unavailable"),
    )}  # fmt: skip
    assert found == volcano | {"scheduling.k8s.io/group-name", "hccl/rankIndex", keys.LAST_APPLIED}
    assert [key for key in found if qualified_name_fault(key)] == []
