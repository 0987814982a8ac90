"""The names of pods, objects and hosts. No other module builds them.

The names are Volcano's, because scripts, dashboards and host files rely on them. Where Volcano appends a random suffix
(claims and their volumes), Pumice hashes it from the job's uid, so that the same YAML always gives the same pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from pumice.model.job import Job, TaskSpec

# Kubernetes' limit for a DNS label, which also holds for volume names and label values.
LABEL_LIMIT: Final = 63
SUBDOMAIN_LIMIT: Final = 253
# The beginning of the name of the Secret with the caller's own variables.
OWN_VARIABLES: Final = "pumice-env-"

_SUFFIX_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_SUFFIX_LENGTH: Final = 12


def pod(job: str, task: str, index: int) -> str:
    return f"{job}-{task}-{index}"


def pod_group(job: str, uid: str) -> str:
    return f"{job}-{uid}"


def service(job: str) -> str:
    """Return the name of the headless Service, which is also the subdomain of the pods."""
    return job


def network_policy(job: str) -> str:
    return job


def hosts_config_map(job: str) -> str:
    """Return the name of the ConfigMap with the host files, and of the volume that mounts it."""
    return f"{job}-svc"


def ssh_secret(job: str) -> str:
    """Return the name of the Secret with the ssh keys, and of the volume that mounts it."""
    return f"{job}-ssh"


def log_tails_secret(job: str) -> str:
    """Return the name of the Secret with the last lines of failed pods, of a controller that keeps them."""
    return f"{job}-log-tails"


def ray_head_service(job: str) -> str:
    return f"{job}-head-svc"


def claim(job: str, uid: str, index: int) -> str:
    """Return the name of the claim that is created for `spec.volumes[index]`."""
    return f"{job}-pvc-{_suffix(uid, index)}"


def claim_volume(job: str, uid: str, index: int) -> str:
    """Return the name of the volume that mounts `spec.volumes[index]`."""
    return f"{job}-{_suffix(uid, index)}"


def default_task(position: int) -> str:
    return f"default{position}"


def template_uid(job: str, task: str) -> str:
    return f"{job}-{task}"


def task_key(task: str) -> str:
    """Return a task's name without dashes, for variables and for keys of the hosts ConfigMap."""
    return task.replace("-", "_")


def hostname(job: Job, task: TaskSpec, index: int) -> str:
    return fixed_hostname(task) or pod(job.name, task.name, index)


def subdomain(job: Job, task: TaskSpec) -> str:
    return _from_template(task, "subdomain") or service(job.name)


def host(job: Job, task: TaskSpec, index: int) -> str:
    """Return the DNS name by which the other pods of the job reach this one: `<hostname>.<subdomain>`."""
    return f"{hostname(job, task, index)}.{subdomain(job, task)}"


def fixed_hostname(task: TaskSpec) -> str:
    """Return the host name that the template sets for all pods of the task, or an empty string."""
    return _from_template(task, "hostname")


def hosts(job: Job, task: TaskSpec) -> list[str]:
    """Return the hosts of a task by index; only one if the template sets the host name, which all pods then share."""
    domain = subdomain(job, task)
    if fixed := fixed_hostname(task):
        return [f"{fixed}.{domain}"] if task.replicas > 0 else []
    stem = pod(job.name, task.name, 0)[:-1]
    return [f"{stem}{index}.{domain}" for index in range(task.replicas)]


class LongestName(Struct, frozen=True):
    """The longest name of one kind that a job leads to, and its limit."""

    what: str
    name: str
    limit: int
    task: int | None = None  # position of the task whose name is part of it


def longest_names(job: Job) -> Iterator[LongestName]:
    """Yield the longest name of each kind, including the owned objects of plugins."""
    for position, task in enumerate(job.spec.tasks):
        last = max(task.replicas - 1, 0)
        yield LongestName("pod name", pod(job.name, task.name, last), LABEL_LIMIT, position)
    yield LongestName("label with the job's name", job.name, LABEL_LIMIT)
    if "svc" in job.spec.plugins:
        yield LongestName("name of the hosts volume", hosts_config_map(job.name), LABEL_LIMIT)
    if "ssh" in job.spec.plugins:
        yield LongestName("name of the ssh volume", ssh_secret(job.name), LABEL_LIMIT)
    if "ray" in job.spec.plugins:
        yield LongestName("name of the head Service", ray_head_service(job.name), LABEL_LIMIT)
    if job.spec.volumes:
        yield LongestName("name of a claim's volume", claim_volume(job.name, job.uid, 0), LABEL_LIMIT)


def _suffix(uid: str, index: int) -> str:
    import hashlib  # noqa: PLC0415 - loads OpenSSL, and few jobs have claims

    number = int.from_bytes(hashlib.sha256(f"{uid}/{index}".encode()).digest(), "big")
    digits = []
    for _ in range(_SUFFIX_LENGTH):
        number, digit = divmod(number, len(_SUFFIX_DIGITS))
        digits.append(_SUFFIX_DIGITS[digit])
    return "".join(digits)


def _from_template(task: TaskSpec, field: str) -> str:
    value = task.pod_spec.get(field)
    return value if isinstance(value, str) else ""
