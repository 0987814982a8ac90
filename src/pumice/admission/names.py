"""Names of the job, its tasks and its queue, and the longest names that derive from them.

On a cluster the queue must exist, be open and be a leaf; offline only its name is checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pumice.admission.context import Context
from pumice.admission.podtemplate.document_view import View
from pumice.admission.podtemplate.metadata import check_labels_and_annotations
from pumice.model import naming
from pumice.model.findings import METADATA, SPEC, Finding, warning
from pumice.model.job import Job, Metadata
from pumice.model.suggestions import did_you_mean
from pumice.model.syntax import dns_label_error, dns_subdomain_error, too_long

# Placeholder for the suffix that the API server generates.
GENERATED_SUFFIX: Final = "xxxxx"
ROOT: Final = "root"
OPEN: Final = "Open"


def is_generated(metadata: Metadata) -> bool:
    """Return whether the name has the placeholder suffix that `admit` adds."""
    return bool(metadata.generate_name) and metadata.name == metadata.generate_name + GENERATED_SUFFIX


def check_names(job: Job) -> Iterator[Finding]:
    yield from _check_job_name(job)
    for position, task in enumerate(job.spec.tasks):
        if error := dns_label_error(task.name):
            yield Finding(SPEC / "tasks" / position / "name", error, task.name)
    priority, scheduler = job.spec.priority_class_name, job.spec.scheduler_name
    if priority and (error := dns_subdomain_error(priority)):
        yield Finding(SPEC / "priorityClassName", error, priority)
    if error := too_long(scheduler, naming.LABEL_LIMIT):
        yield Finding(SPEC / "schedulerName", error, scheduler)
    yield from _check_queue_name(job.spec.queue)
    yield from _check_metadata(job)


def check_unique_tasks(job: Job) -> Iterator[Finding]:
    """Report every task that has the name of an earlier one; Volcano reports only the first."""
    first: dict[str, int] = {}
    for position, task in enumerate(job.spec.tasks):
        if task.name in first:
            message = f"must differ from that of spec.tasks[{first[task.name]}]"
            yield Finding(SPEC / "tasks" / position / "name", message, task.name)
        first.setdefault(task.name, position)


def check_longest(job: Job) -> Iterator[Finding]:
    """Report names that become too long with an index or a suffix."""
    for longest in naming.longest_names(job):
        at, value = METADATA / "name", job.name
        if longest.task is not None:
            at, value = SPEC / "tasks" / longest.task / "name", job.spec.tasks[longest.task].name
        over = len(longest.name) - longest.limit
        # Another rule reports a part that exceeds the limit by itself.
        if over > 0 and max(len(job.name), len(value)) <= longest.limit:
            yield Finding(
                at,
                f"the {longest.what} {longest.name} would have {len(longest.name)} characters; "
                f"{longest.limit} are allowed",
                value,
                hint=f"shorten the name of the job or of the task by {over}"
                if longest.task is not None
                else f"shorten the job's name by {over}",
            )


def _check_job_name(job: Job) -> Iterator[Finding]:
    at = METADATA / "name"
    if not job.name:
        yield Finding(at, "is missing", hint="give the job a name of lower-case letters, digits and '-'")
        return
    if "." in job.name:
        yield Finding(
            at,
            "must not contain dots: the names of its Service, volumes and hosts derive from it",
            job.name,
            hint=f"for example {job.name.replace('.', '-').lower()}",
        )
    elif error := dns_label_error(job.name):
        yield Finding(at, error, job.name)
    elif job.name[0].isdigit() and "svc" in job.spec.plugins:
        yield warning(
            at, "older clusters refuse the Service of the job, because its name begins with a digit", job.name
        )


def _check_queue_name(queue: str) -> Iterator[Finding]:
    error = dns_subdomain_error(queue) if queue else ""
    if not error and (error := too_long(queue, naming.LABEL_LIMIT)):
        error += "; it becomes a label of every pod"
    if error:
        yield Finding(SPEC / "queue", error, queue)


def _check_metadata(job: Job) -> Iterator[Finding]:
    metadata = job.metadata
    if metadata.namespace and (error := dns_label_error(metadata.namespace)):
        yield Finding(METADATA / "namespace", error, metadata.namespace)
    if is_generated(metadata):
        yield warning(METADATA / "generateName", f"the API server generates the name; shown here as {metadata.name}")
    read = {"labels": metadata.labels, "annotations": metadata.annotations}
    yield from check_labels_and_annotations(View(read, METADATA))


def check_queue(job: Job, context: Context) -> Iterator[Finding]:
    at, name = SPEC / "queue", job.spec.queue
    if not context.queue_rules:
        return
    if name == ROOT:
        yield Finding(at, "the root queue takes no jobs", name, hint="use a child queue, such as default")
    elif context.queues is not None:
        queue = context.queues.get(name)
        if queue is None:
            yield Finding(at, "no such queue", name, did_you_mean(name, context.queues))
        else:
            if queue.state != OPEN:
                yield Finding(at, f"the queue is {queue.state or 'not open yet'}; only an open one takes jobs", name)
            if queue.children:
                yield Finding(at, "the queue has child queues; only a leaf queue takes jobs", name)
