"""JSON patches of a Job, which apply only to what was read; that which changes the numbers of its pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from pumice.admission.defaults import with_first_min_available
from pumice.admission.updates import check_update
from pumice.client.backend import RunRef
from pumice.model.job import Job, scaled
from pumice.model.problem import Command, Position, Problem
from pumice.model.suggestions import did_you_mean
from pumice.store.run_errors import InvalidOption

JSON_PATCH: Final = "application/json-patch+json"


def resize_patch(
    run: RunRef, manifest: Mapping[str, Any], job: Job, replicas: Mapping[str, int]
) -> list[dict[str, object]]:
    """Return the operations; none if the Job has these sizes. Raises InvalidOption if it cannot have them."""
    unknown = [name for name in replicas if name not in job.task_names]
    where = Position(option="scale")
    if unknown:
        known = job.task_names
        raise InvalidOption.of(
            [
                Problem(
                    f"{name}={replicas[name]}: the job has no task {name}",
                    f"{did_you_mean(name, known)} it has {', '.join(known)}".strip(),
                    where,
                )
                for name in unknown
            ]
        )
    # A minAvailable that a default stands for is that of the creation, and would exceed fewer replicas.
    job = with_first_min_available(job)
    wanted = msgspec.structs.replace(job, spec=scaled(job.spec, replicas))
    if not wanted.total_replicas:
        raise InvalidOption("no pod is left", (Command("suspend", str(run)), " ends the pods and keeps the Job"), where)
    errors = dict.fromkeys(f"{each.path}: {each.message}" for each in check_update(job, wanted) if each.is_error)
    if errors:
        raise InvalidOption.of([Problem(error, where=where) for error in errors])
    return _operations(manifest["spec"], job, wanted)


def _operations(spec: Mapping[str, Any], job: Job, wanted: Job) -> list[dict[str, object]]:
    tests: dict[str, object] = {}
    values: dict[str, object] = {}

    def change(at: str, written: Mapping[str, Any], name: str, numbers: tuple[int | None, int | None]) -> None:
        if numbers[0] != numbers[1]:
            values[f"{at}/{name}"] = numbers[1]
            if name in written:
                tests[f"{at}/{name}"] = written[name]

    for position, (was, is_) in enumerate(zip(job.spec.tasks, wanted.spec.tasks, strict=True)):
        at, written = f"/spec/tasks/{position}", spec["tasks"][position]
        change(at, written, "replicas", (was.replicas, is_.replicas))
        change(at, written, "minAvailable", (was.min_available, is_.min_available))
        if "name" in written and any(path.startswith(f"{at}/") for path in values):
            tests[f"{at}/name"] = written["name"]
    change("/spec", spec, "minAvailable", (job.spec.min_available, wanted.spec.min_available))
    return replace_where(tests, values)


def replace_where(tests: Mapping[str, object], values: Mapping[str, object]) -> list[dict[str, object]]:
    """Return a patch that sets values if the tested fields are as they were."""
    patch: list[dict[str, object]] = [{"op": "test", "path": path, "value": value} for path, value in tests.items()]
    # `add` also replaces: a field that a default stands for may not exist.
    return patch + [{"op": "add", "path": path, "value": value} for path, value in values.items()]
