"""The queue of a job: it must exist, be open and be a leaf. Offline only its name is checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pumice.admission.context import Context
from pumice.model.findings import SPEC, Finding
from pumice.model.job import Job
from pumice.model.suggestions import did_you_mean

ROOT: Final = "root"
OPEN: Final = "Open"


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
