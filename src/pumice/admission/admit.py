"""Admit a document: decode it, apply defaults, check all rules, and return every finding at once.

Rules about a single field always run. Rules that compare fields run only if all of these could be read, and plugins
only create pods from templates without errors, so that one mistake is not reported three times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pumice.admission.context import Context
from pumice.admission.defaults import with_defaults
from pumice.admission.dependencies import check_dependencies, check_dependency_words
from pumice.admission.duplicate_items import check_duplicate_items
from pumice.admission.empty_strings import check_empty_strings
from pumice.admission.names import GENERATED_SUFFIX, check_longest, check_names, check_queue, check_unique_tasks
from pumice.admission.numbers import check_least, check_relations
from pumice.admission.plugins import check_made_pods, check_owned_objects, check_plugins
from pumice.admission.podtemplate import check_template
from pumice.admission.policies import check_policies
from pumice.admission.portability import check_portability
from pumice.admission.size_limits import MOST_VALUES, check_size
from pumice.admission.topology import check_topology
from pumice.admission.volumes import check_volumes
from pumice.model.codec import Decoded, decode
from pumice.model.findings import MOST_FINDINGS, ROOT, SPEC, Finding, Path, without_consequences
from pumice.model.job import Job
from pumice.model.slot import MOST_PODS
from pumice.plugins.base import Base
from pumice.plugins.registry import Resolved

_TEMPLATE: Final = SPEC / "tasks" / 0 / "template"


class Admitted(Struct, frozen=True):
    written: Job  # as decoded
    job: Job  # with defaults
    plugins: tuple[Base, ...]
    findings: tuple[Finding, ...]

    @property
    def is_good(self) -> bool:
        return not any(finding.is_error for finding in self.findings)


def admit(document: Mapping[str, Any], context: Context) -> Admitted:
    """Admit a Job as a person wrote it."""
    large = check_size(document)
    if large:
        return Admitted(Job(), Job(), (), tuple(large))
    decoded = decode(document, context.kubernetes)
    if ROOT in decoded.left_out:
        return Admitted(Job(), Job(), (), decoded.findings)
    found = [*check_empty_strings(document), *(check_portability(document) if context.portable else ())]
    return _admit(decoded, found, context)


def restore(document: Mapping[str, Any], context: Context) -> Admitted:
    """Return a Job that was admitted before, with its defaults and plugins: no rule is checked again.

    Its findings are those about plugins, which may not be the same here.
    """
    written = msgspec.convert({name: value for name, value in document.items() if name != "status"}, Job)
    job = with_defaults(written, context.registry)
    resolved = context.registry.resolve(job.spec.plugins)
    return Admitted(written, job, resolved.plugins, resolved.findings)


def admit_stored(job: Job, context: Context) -> Admitted:
    """Admit a Job that is decoded already: only the rules apply, not those of the document.

    Volcano's controller writes the name of a claim that it created beside the claim. The name is kept, but not checked:
    a person may write only one of the two.
    """
    # Fields that the file does not have count as well here, so that an accepted Job is never refused later.
    large = check_size(msgspec.to_builtins({"metadata": job.metadata, "spec": job.spec}), 3 * MOST_VALUES)
    if large:
        return Admitted(job, job, (), tuple(large))
    volumes = [volume.as_written for volume in job.spec.volumes]
    unnamed = replace(job, spec=replace(job.spec, volumes=volumes))
    admitted = _admit(Decoded(unnamed, ()), [], context)
    spec = replace(admitted.job.spec, volumes=job.spec.volumes)
    return replace(admitted, written=job, job=replace(admitted.job, spec=spec))


def _admit(decoded: Decoded, found: Iterable[Finding], context: Context) -> Admitted:
    written = _named(decoded.job)
    job = with_defaults(written, context.registry)
    resolved = context.registry.resolve(job.spec.plugins)
    misplaced = [finding.correct_path for finding in decoded.findings if finding.correct_path is not None]
    rules = chain(
        found,
        _check_fields(written, job, resolved, context),
        _check_together(job, [*decoded.left_out, *misplaced]),
    )
    ruled = list(islice(rules, MOST_FINDINGS))
    # The next checks create one name per pod, so the number of pods must be reasonable.
    if decoded.complete and job.spec.tasks and job.total_replicas <= MOST_PODS:
        ruled += [*check_longest(job), *_check_plugins(job, resolved, ruled)]
    findings = without_consequences([*decoded.findings, *_not_following(ruled, decoded.left_out)])
    if not any(finding.is_error for finding in findings):
        findings += check_made_pods(job, resolved.plugins, context.kubernetes)
    # Without duplicates: two rules may find the same.
    unique = {(finding.path, finding.message): finding for finding in reversed(findings)}
    # A copy, without what the checks have derived from the job: a caller may keep it for days.
    return Admitted(written, replace(job), resolved.plugins, tuple(reversed(unique.values())))


def _check_fields(written: Job, job: Job, resolved: Resolved, context: Context) -> Iterator[Finding]:
    """Run the rules about single fields."""
    if not job.spec.tasks:
        yield Finding(SPEC / "tasks", "a job needs at least one task")
    yield from check_least(written)
    yield from check_names(job)
    yield from check_policies(job)
    yield from check_volumes(job, context.kubernetes)
    yield from check_queue(job, context)
    yield from check_dependency_words(job)
    yield from resolved.findings
    for position, task in enumerate(job.spec.tasks):
        yield from check_template(task.template, SPEC / "tasks" / position / "template", context.kubernetes)
    yield from check_duplicate_items(job)


def _check_together(job: Job, left_out: Iterable[Path]) -> Iterator[Finding]:
    """Run the rules that compare fields, as far as these could be read."""
    unread = set(map(_field, left_out))
    if not unread & {"spec", "tasks", "name", "dependsOn"}:
        yield from check_unique_tasks(job)
        yield from check_dependencies(job)
    if not unread & {"spec", "tasks", "replicas", "minAvailable", "minSuccess", "partitionPolicy"}:
        yield from check_relations(job)
        yield from check_topology(job)


def _check_plugins(job: Job, resolved: Resolved, found: Iterable[Finding]) -> Iterator[Finding]:
    """Run the checks of plugins, without the templates that have errors: plugins rely on their shape."""
    invalid = {finding.path[: len(_TEMPLATE)] for finding in found if finding.is_error and _in_template(finding)}
    tasks = [
        replace(task, template={}) if SPEC / "tasks" / position / "template" in invalid else task
        for position, task in enumerate(job.spec.tasks)
    ]
    readable = replace(job, spec=replace(job.spec, tasks=tasks)) if invalid else job
    reported = [*check_plugins(readable, resolved.plugins), *check_owned_objects(readable, resolved.plugins)]
    return (finding for finding in reported if finding.path[: len(_TEMPLATE)] not in invalid)


def _in_template(finding: Finding) -> bool:
    path = finding.path
    return path[:2] == _TEMPLATE[:2] and path[3:4] == _TEMPLATE[3:]


def _field(path: Path) -> str | int:
    """Return the field of the job, or of a task, that contains a path."""
    if path[:2] == SPEC / "tasks":
        return path[3] if len(path) > len(SPEC / "tasks" / 0) else "tasks"
    return path[1] if len(path) > 1 else path[0]


def _not_following(findings: Iterable[Finding], left_out: Iterable[Path]) -> list[Finding]:
    """Drop findings that report a value as missing which exists but could not be read."""
    paths = set(left_out)
    owners = {path[:-1] for path in paths}
    return [finding for finding in findings if not finding.path.is_within(paths) and finding.path not in owners]


def _named(job: Job) -> Job:
    metadata = job.metadata
    if metadata.name or not metadata.generate_name:
        return job
    name = metadata.generate_name + GENERATED_SUFFIX
    return replace(job, metadata=replace(metadata, name=name))
