"""The keys of labels and annotations that users, schedulers and dashboards read. No other module spells them."""

from __future__ import annotations

from typing import Final

TASK_INDEX: Final = "volcano.sh/task-index"
TASK_SPEC: Final = "volcano.sh/task-spec"
JOB_NAME: Final = "volcano.sh/job-name"
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
JOB_VERSION: Final = "volcano.sh/job-version"
JOB_RETRY_COUNT: Final = "volcano.sh/job-retry-count"
JOB_FORWARDING: Final = "volcano.sh/job-forwarding"
QUEUE_NAME: Final = "volcano.sh/queue-name"
TEMPLATE_UID: Final = "volcano.sh/template-uid"
PARTITION_ID: Final = "volcano.sh/partition-id"
NUMA_TOPOLOGY_POLICY: Final = "volcano.sh/numa-topology-policy"
POD_GROUP: Final = "scheduling.k8s.io/group-name"
# Some schedulers read the PodGroup of a pod from this one. Neither Volcano nor Pumice sets it unless a template does.
VOLCANO_POD_GROUP: Final = "scheduling.volcano.sh/group-name"

PREEMPTABLE: Final = "volcano.sh/preemptable"
COOLDOWN_TIME: Final = "volcano.sh/cooldown-time"
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"
JDB_MIN_AVAILABLE: Final = "volcano.sh/jdb-min-available"
JDB_MAX_UNAVAILABLE: Final = "volcano.sh/jdb-max-unavailable"

# The label by which a pod is a member of a PodGroup of the coscheduling plugin.
COSCHEDULING_POD_GROUP: Final = "scheduling.x-k8s.io/pod-group"
# The annotation of a native or coscheduling PodGroup that holds the spec of the PodGroup that Volcano would get.
WHOLE_POD_GROUP: Final = "pumice/pod-group"
# The annotation of a Job with the user that submitted it, as the API server names its users.
SUBMITTED_BY: Final = "pumice/submitted-by"
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
HCCL_RANK: Final = "hccl/rankIndex"

# What the client writes on a Job, and on the Secrets with its code.
SUBMISSION: Final = "pumice/submission"  # a random word: whether a Job is that of one call
NOTE: Final = "pumice/note"
TIMED_OUT: Final = "pumice/timed-out"  # the timeout that a client kept and for which it stopped the Job, in words
ARGS: Final = "pumice/args"  # of the program, as they are shown: a list in JSON
CODE: Final = "pumice/code"
CODE_FROM: Final = "pumice/code-from"  # only in what `get -o yaml` prints: where the code is, in JSON
ADDED: Final = "pumice/added"  # what `--code` and `--env` put into the containers, so that it can be taken out
