"""The Job (`batch.volcano.sh/v1alpha1`): every field of Volcano's, and the few that only Pumice has.

Decoding checks no constraint and fills in no default, so that admission can report all errors at once and compute a
defaulting patch. Pod templates and claim specs stay opaque mappings; nothing in them is lost or reordered.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from copy import deepcopy
from functools import cached_property
from io import StringIO
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta

from pumice.model.findings import SPEC, Finding, InvalidJob
from pumice.model.units import is_number
from pumice.model.vocabulary import (
    DEPENDENCY_CONDITIONS,
    DEPENDENCY_ITERATIONS,
    GROUP_VERSION,
    KIND,
    NETWORK_TOPOLOGY_MODES,
    POLICY_ACTIONS,
    POLICY_EVENTS,
    TOPOLOGY_POLICIES,
)

Manifest = dict[str, Any]
# The image of containers without one, for which the host serves. The name never resolves on a cluster.
HOST_IMAGE: Final = "pumice.invalid/host"
T = TypeVar("T")

# Fields beyond Volcano's. A list in the path ends with `[]`.
PUMICE_FIELDS: Final = (
    "spec.activeDeadlineSeconds",
    "spec.suspend",
    "spec.policies[].exitCodes",
    "spec.tasks[].policies[].exitCodes",
    "spec.tasks[].maxRestarts",
    "spec.tasks[].dependsOn.condition",
)

# In controlledResources: the minAvailable that the job had at first, and below it that of each task. Where the spec has
# none, it has stood for all replicas, and it must not change with them.
MIN_AVAILABLE: Final = "pumice/min-available"

# A template or claim is checked against Kubernetes' own schema, which `extra` names.
PodTemplate = Annotated[Manifest, Meta(extra={"kubernetes": "PodTemplateSpec"})]
ClaimSpec = Annotated[Manifest, Meta(extra={"kubernetes": "PersistentVolumeClaimSpec"})]


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The base of all parts of a Job: frozen, camelCase in JSON, defaults omitted."""


class Metadata(_Part, frozen=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


def _doc(text: str, *, minimum: int | None = None, choices: tuple[str, ...] = (), **schema: object) -> Meta:
    """Describe a field for `pumice schema`. Decoding does not enforce it."""
    if minimum is not None:
        schema["minimum"] = minimum
    if choices:
        schema["enum"] = [str(choice) for choice in choices]
    return Meta(description=text, extra_json_schema=schema)


class NetworkTopology(_Part, frozen=True):
    mode: Annotated[str, _doc("whether the tier is a must or a wish", choices=NETWORK_TOPOLOGY_MODES)] = ""
    highest_tier_allowed: Annotated[int | None, _doc("highest tier the pods may span", minimum=0)] = None
    highest_tier_name: Annotated[str, _doc("the same, by the tier's name", maxLength=253)] = ""


class VolumeSpec(_Part, frozen=True):
    mount_path: Annotated[str, _doc("where every container finds the volume")] = ""
    volume_claim_name: Annotated[str, _doc("an existing claim", maxLength=253)] = ""
    volume_claim: Annotated[ClaimSpec | None, _doc("a claim to be made for this job")] = None

    @property
    def as_written(self) -> "VolumeSpec":
        """Return the volume without the name of its claim, which Volcano's controller writes beside the claim."""
        return self if self.volume_claim is None else msgspec.structs.replace(self, volume_claim_name="")


_PolicyEvent = Annotated[str, Meta(extra_json_schema={"enum": [str(event) for event in POLICY_EVENTS]})]


class LifecyclePolicy(_Part, frozen=True):
    action: Annotated[str, _doc("what to do", choices=POLICY_ACTIONS)] = ""
    event: Annotated[str, _doc("when to do it", choices=POLICY_EVENTS)] = ""
    events: Annotated[list[_PolicyEvent], _doc("when to do it: any of these")] = []
    exit_code: Annotated[int | None, _doc("when a container ends with this code (not 0)")] = None
    exit_codes: Annotated[list[int], _doc("when a container ends with any of these codes; Pumice only")] = []
    timeout: Annotated[str, _doc("wait this long before acting, such as 30s or 5m")] = ""

    @property
    def all_events(self) -> tuple[str, ...]:
        """Return the events of `events` and `event`."""
        return (*self.events, self.event) if self.event else tuple(self.events)

    @property
    def all_exit_codes(self) -> tuple[int, ...]:
        return tuple(self.exit_codes) if self.exit_code is None else (*self.exit_codes, self.exit_code)


Policy = LifecyclePolicy  # its name in Python


class DependsOn(_Part, frozen=True):
    name: Annotated[list[str], _doc("tasks that must be ready before this one starts")] = []
    iteration: Annotated[str, _doc("how many of them: any or all (default)", choices=DEPENDENCY_ITERATIONS)] = ""
    condition: Annotated[
        str, _doc("what ready means: Running (default) or Completed; Pumice only", choices=DEPENDENCY_CONDITIONS)
    ] = ""


class PartitionPolicy(_Part, frozen=True):
    total_partitions: Annotated[int, _doc("number of partitions", minimum=1)] = 0
    partition_size: Annotated[int, _doc("pods in each partition", minimum=1)] = 0
    min_partitions: Annotated[int, _doc("partitions that must be able to run", minimum=0)] = 0
    network_topology: Annotated[NetworkTopology | None, _doc("how close the pods of a partition must be")] = None


class TaskSpec(_Part, frozen=True):
    name: Annotated[str, _doc("name of the task; default default<position>", maxLength=63)] = ""
    replicas: Annotated[int, _doc("number of pods", minimum=0)] = 0
    min_available: Annotated[int | None, _doc("pods that must be able to run; default replicas", minimum=0)] = None
    template: Annotated[PodTemplate, _doc("the pod; labels, annotations and spec are used")] = {}
    policies: Annotated[list[LifecyclePolicy], _doc("what to do when something happens to this task")] = []
    topology_policy: Annotated[str, _doc("NUMA policy", choices=TOPOLOGY_POLICIES)] = ""
    max_retry: Annotated[int, _doc("container restarts before TaskFailed; default 3", minimum=0)] = 0
    max_restarts: Annotated[
        int | None, _doc("restarts caused by this task before the job fails; Pumice only", minimum=0)
    ] = None
    depends_on: Annotated[DependsOn | None, _doc("tasks that must be ready first")] = None
    partition_policy: Annotated[PartitionPolicy | None, _doc("pods in equal groups")] = None

    @property
    def min_members(self) -> int:
        """Return how many pods the gang needs: minAvailable, by default the least partitions, else all replicas."""
        if self.min_available is not None:
            return self.min_available
        policy = self.partition_policy
        least = policy.min_partitions * policy.partition_size if policy is not None else 0
        return least if least > 0 else self.replicas

    @property
    def pod_spec(self) -> Manifest:
        """Return the template's spec; empty if it has none, or one of the wrong type."""
        spec = self.template.get("spec")
        return spec if isinstance(spec, dict) else {}


class JobSpec(_Part, frozen=True):
    scheduler_name: Annotated[str, _doc("scheduler of the pods; default volcano", maxLength=63)] = ""
    min_available: Annotated[
        int, _doc("pods that must be able to run at once; default the sum over the tasks", minimum=0)
    ] = 0
    volumes: Annotated[list[VolumeSpec], _doc("claims mounted in every container")] = []
    tasks: Annotated[list[TaskSpec], _doc("groups of equal pods", minItems=1)] = []
    policies: Annotated[list[LifecyclePolicy], _doc("what to do when something happens to the job")] = []
    plugins: Annotated[dict[str, list[str] | None], _doc("plugins by name, each with its arguments")] = {}
    running_estimate: Annotated[str, _doc("how long the job should take; informative only")] = ""
    queue: Annotated[str, _doc("queue of the job; default default", maxLength=63)] = ""
    max_retry: Annotated[int, _doc("runs before the job fails; default 3", minimum=0)] = 0
    ttl_seconds_after_finished: Annotated[
        int | None, _doc("remove the job this long after its end; default never", minimum=0)
    ] = None
    priority_class_name: Annotated[str, _doc("priority of the job and its pods", maxLength=253)] = ""
    min_success: Annotated[int | None, _doc("the job is complete when this many pods succeeded", minimum=1)] = None
    network_topology: Annotated[NetworkTopology | None, _doc("how close the pods must be")] = None
    active_deadline_seconds: Annotated[
        int | None, _doc("fail the job this long after it first ran; Pumice only", minimum=1)
    ] = None
    suspend: Annotated[bool | None, _doc("true stops the job, false resumes it; Pumice only")] = None


class JobState(_Part, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class JobCondition(_Part, frozen=True):
    status: str
    last_transition_time: str | None = None


class TaskState(_Part, frozen=True):
    phase: dict[str, int] = {}


class JobStatus(_Part, frozen=True):
    state: JobState = JobState()
    min_available: int = 0
    task_status_count: dict[str, TaskState] = {}
    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    version: int = 0
    retry_count: int = 0
    running_duration: str | None = None
    controlled_resources: dict[str, str] = {}
    conditions: list[JobCondition] = []


class Job(_Part, frozen=True, dict=True):  # `dict` for the cached properties
    api_version: Annotated[str, _doc("always " + GROUP_VERSION, choices=(GROUP_VERSION,))] = GROUP_VERSION
    kind: Annotated[str, _doc("always " + KIND, choices=(KIND,))] = KIND
    metadata: Annotated[Metadata, _doc("name, namespace, labels, annotations")] = Metadata()
    spec: Annotated[JobSpec, _doc("what to run")] = JobSpec()
    status: Annotated[JobStatus, _doc("written by the controller")] = JobStatus()

    def __repr__(self) -> str:
        from pumice.model.display.job_summary import job_text  # noqa: PLC0415 - it loads the module of HTML

        return job_text(self)

    def _repr_html_(self) -> str:
        from pumice.model.display.job_summary import job_html  # noqa: PLC0415 - only notebooks need it

        return job_html(self, HOST_IMAGE)

    def to_yaml(self, *, for_cluster: bool = False) -> str:
        """Return the Job as a file, from which `pumice.load` makes an equal one.

        `for_cluster` refuses containers without an image, for which only this machine can serve: raises InvalidJob.
        """
        from pumice.yaml.writer import write_yaml  # noqa: PLC0415 - above this layer; it knows nothing of the Job

        if for_cluster and (findings := list(self._imageless())):
            raise InvalidJob(findings)
        plain = msgspec.to_builtins(self)
        head = {"apiVersion": self.api_version, "kind": self.kind}
        text = StringIO()
        write_yaml([{**head, **{part: plain[part] for part in ("metadata", "spec") if part in plain}}], text)
        return text.getvalue()

    def _imageless(self) -> Iterator[Finding]:
        for position, task in enumerate(self.spec.tasks):
            for index, container in enumerate(task.pod_spec.get("containers") or []):
                if container.get("image") == HOST_IMAGE:
                    path = SPEC / "tasks" / position / "template" / "spec" / "containers" / index / "image"
                    message = "is missing: on this machine the host serves as image, on a cluster nothing does"
                    yield Finding(path, message, hint=f'pumice.task("{task.name}", image="...")')

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def total_replicas(self) -> int:
        return sum(task.replicas for task in self.spec.tasks)

    @property
    def all_min_available(self) -> dict[str, int]:
        """Return minAvailable by task; that of the job has an empty name."""
        return {"": self.spec.min_available, **{task.name: task.min_members for task in self.spec.tasks}}

    @property
    def task_names(self) -> list[str]:
        """Return the names without duplicates, in the order of the file."""
        return list(dict.fromkeys(task.name for task in self.spec.tasks))

    @cached_property
    def _tasks_by_name(self) -> dict[str, TaskSpec]:
        # The first of two tasks with the same name wins; admission reports the second.
        return {task.name: task for task in reversed(self.spec.tasks)}

    def task(self, name: str) -> TaskSpec | None:
        return self._tasks_by_name.get(name)

    def replace(self, **changes: Any) -> "Job":
        """Return a copy with other fields of the Job (`spec`), of its metadata (`name`) or of its spec (`max_retry`).

        It keeps the file of a job that was loaded: its ConfigMaps and Secrets, and the pumice.toml beside it. So do
        `copy.copy`, `copy.deepcopy` and `copy.replace`; `msgspec.structs.replace` makes a job without a file.
        """
        kinds = {"metadata": Metadata, "spec": JobSpec}
        for part, kind in kinds.items():
            inner = {name: changes.pop(name) for name in kind.__struct_fields__ if name in changes}
            if inner:
                changes[part] = msgspec.structs.replace(changes.get(part, getattr(self, part)), **inner)
        copy = msgspec.structs.replace(self, **changes)
        copy.attached.update(self.attached)
        return copy

    __replace__ = replace
    __copy__ = replace

    def __deepcopy__(self, memo: dict[int, Any]) -> "Job":
        parts = {name: deepcopy(getattr(self, name), memo) for name in self.__struct_fields__}
        return self.replace(**parts)

    @cached_property
    def attached(self) -> dict[Hashable, Any]:
        """What is remembered about this job and its copies, such as the file that it was loaded from."""
        return {}

    @cached_property
    def _derived(self) -> dict[Hashable, Any]:
        return {}

    def derived(self, key: Hashable, make: "Callable[[Job], T]") -> T:
        """Return `make(self)`, computed once per key: a job is immutable, and all its pods share the result."""
        known = self._derived
        if key not in known:
            known[key] = make(self)
        value: T = known[key]
        return value


def scaled(spec: JobSpec, replicas: Mapping[str, int]) -> JobSpec:
    """Return a spec with other replicas of some tasks, and minAvailable lowered where it would exceed them."""
    tasks = [
        msgspec.structs.replace(
            task,
            replicas=replicas[task.name],
            min_available=None if task.min_available is None else min(task.min_available, replicas[task.name]),
        )
        if task.name in replicas
        else task
        for task in spec.tasks
    ]
    total = sum(task.replicas for task in tasks)
    return msgspec.structs.replace(spec, tasks=tasks, min_available=min(spec.min_available, total))


def first_min_available(entries: Mapping[str, str]) -> dict[str, int]:
    """Read the recorded minAvailable by task; that of the job has an empty name."""
    found = {
        key.removeprefix(MIN_AVAILABLE).removeprefix("/"): text
        for key, text in entries.items()
        if key == MIN_AVAILABLE or key.startswith(f"{MIN_AVAILABLE}/")
    }
    return {task: int(text) for task, text in found.items() if is_number(text)}
