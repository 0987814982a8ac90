"""Job files: reads and checks them, and renders the objects of their Jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from pumice.admission.admit import Admitted, admit
from pumice.admission.context import Context
from pumice.admission.extra_objects import EXTRA_KINDS, check_extra_object
from pumice.admission.names import is_generated
from pumice.client.reports import Report, in_order
from pumice.model.findings import METADATA, ROOT, Finding, warning
from pumice.model.job import Job, Manifest
from pumice.model.objects import KeyPair, Once, claims
from pumice.model.problem import Problem
from pumice.model.scalars import kind_of
from pumice.model.suggestions import nearest
from pumice.model.vocabulary import GROUP_VERSION, KIND, VOLCANO, GangProvider
from pumice.plugins.shaping import owned_objects, pods
from pumice.yaml.documents import Document, read

NO_JOB: Final = "the file contains no Job"
NO_UID: Final = "00000000-0000-0000-0000-000000000000"
MADE_LATER: Final = "<made at run time>"
GIVEN: Final = "<given in the file>"
_GROUP: Final = GROUP_VERSION.partition("/")[0]
_HINTS: Final = {
    KIND: f"a Job of Volcano has apiVersion: {GROUP_VERSION}",
    "List": "write each item as a document of its own, with a line --- between them",
}


class JobDocument(Struct, frozen=True):
    document: Document
    admitted: Admitted


class JobFile(Struct):
    """The documents of a file by kind, and everything that was found in them."""

    name: str
    jobs: list[JobDocument] = field(default_factory=list)
    extra_objects: list[Document] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not self.problems

    @property
    def problems(self) -> list[Problem]:
        return [report.problem for report in self.reports if report.is_error]


def load(file: str, context: Context) -> JobFile:
    documents, problems = read(file)
    loaded = JobFile(file, reports=[Report.of_problem(problem) for problem in problems])
    for document in documents:
        loaded.reports += [Report.of_finding(finding, document) for finding in _add_document(document, loaded, context)]
    loaded.reports = in_order(loaded.reports)
    return loaded


def documents(file: JobFile) -> Iterator[tuple[Manifest, str]]:
    """Yield the ConfigMaps, Secrets and claims of a file, with their namespaces; empty if it is that of the Job."""
    for document in file.extra_objects:
        if isinstance(document.value, dict):
            yield document.value, str(document.value["metadata"].get("namespace") or "")


def as_stored(admitted: Admitted, namespace: str = "", uid: str = NO_UID) -> Job:
    """The Job as an API server would store it: with a namespace and a uid."""
    metadata = admitted.job.metadata
    where = namespace or metadata.namespace or "default"
    return msgspec.structs.replace(
        admitted.job, metadata=msgspec.structs.replace(metadata, namespace=where, uid=uid, resource_version="")
    )


def render(
    admitted: Admitted,
    namespace: str = "",
    uid: str = NO_UID,
    gang: GangProvider = VOLCANO,
    *,
    show_secrets: bool = False,
) -> Iterator[Manifest]:
    """The objects that the controller creates for a Job, in a fixed order."""
    from pumice.reconcile.gangs import GangMembership, pod_groups  # noqa: PLC0415 - `validate` needs none of it

    job = as_stored(admitted, namespace, uid)
    for owned in owned_objects(job, admitted.plugins):
        yield _readable(owned, show_secrets=show_secrets) if isinstance(owned, Once) else owned
    yield from claims(job)
    yield from pod_groups(job, gang)
    for pod in pods(job, (*admitted.plugins, GangMembership(gang))):
        yield pod.manifest


def _readable(once: Once, *, show_secrets: bool) -> Manifest:
    """A Secret whose keys are replaced by a placeholder, because output ends up in logs."""

    def placeholders(_kind: str) -> KeyPair:
        return KeyPair(MADE_LATER, MADE_LATER)

    if once.given and show_secrets:
        return once.created_with(placeholders)
    entries = dict.fromkeys(once.make(placeholders), GIVEN if once.given else MADE_LATER)
    return {**once.manifest, "stringData": {**entries, **once.manifest["stringData"]}}


def _add_document(document: Document, loaded: JobFile, context: Context) -> Iterable[Finding]:
    """Add a document to the file, by its kind, and return its findings."""
    value = document.value
    if not isinstance(value, dict):
        return [Finding(ROOT, f"a document must be a mapping with apiVersion and kind, found {kind_of(value)}")]
    api_version, kind = value.get("apiVersion"), value.get("kind")
    if (api_version, kind) == (GROUP_VERSION, KIND):
        admitted = admit(value, context)
        is_duplicate = (key := _key(admitted.job)) in [_key(other.admitted.job) for other in loaded.jobs]
        loaded.jobs.append(JobDocument(document, admitted))
        duplicate = Finding(METADATA / "name", "another job in this file has this name", admitted.job.name)
        return [*admitted.findings, *([duplicate] if key is not None and is_duplicate else [])]
    if api_version == "v1" and kind in EXTRA_KINDS:
        loaded.extra_objects.append(document)
        return check_extra_object(value, context.kubernetes)
    return _check_other(value)


def _key(job: Job) -> tuple[str, str] | None:
    """Return namespace and name; None for a name that the API server generates, which never collides."""
    return (job.namespace or "default", job.name) if job.name and not is_generated(job.metadata) else None


def _check_other(value: dict[str, Any]) -> Iterator[Finding]:
    api_version, kind = value.get("apiVersion"), value.get("kind")
    missing = [name for name in ("apiVersion", "kind") if not value.get(name)]
    for name in missing:
        wanted = GROUP_VERSION if name == "apiVersion" else KIND
        yield Finding(ROOT / name, "is missing", hint=f"a Job has {name}: {wanted}")
    if missing:
        return
    if not isinstance(kind, str) or not isinstance(api_version, str):
        name, found = ("kind", kind) if not isinstance(kind, str) else ("apiVersion", api_version)
        yield Finding(ROOT / name, f"must be a string, found {kind_of(found)}")
    elif kind == KIND and nearest(api_version, [GROUP_VERSION]):
        yield Finding(
            ROOT / "apiVersion", f"must be {GROUP_VERSION}", api_version, hint=f"did you mean {GROUP_VERSION}?"
        )
    elif api_version.startswith(_GROUP) and kind != KIND and nearest(kind, [KIND]):
        yield Finding(ROOT / "kind", f"must be {KIND}", kind, hint=f"did you mean {KIND}?")
    else:
        hint = _HINTS.get(kind, "")
        named = f"{kind} of {api_version}"
        yield warning(
            ROOT / "kind", f"{named} is neither a Job of Volcano nor used by one; it is not checked", hint=hint
        )
