"""Job files: reads and checks them, reports what was found, and renders the objects of their Jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict

from pumice.admission.admit import Admitted, admit
from pumice.admission.context import Context
from pumice.admission.extra_objects import EXTRA_KINDS, check_extra_object
from pumice.admission.names import is_generated
from pumice.model.findings import ABSENT, METADATA, ROOT, Finding, Severity, warning
from pumice.model.job import Job, Manifest
from pumice.model.objects import KeyPair, Once, claims
from pumice.model.problem import Position, Problem
from pumice.model.scalars import kind_of
from pumice.model.suggestions import nearest
from pumice.model.text import plural, printable
from pumice.model.vocabulary import GROUP_VERSION, KIND, VOLCANO, GangProvider
from pumice.plugins.shaping import owned_objects, pods
from pumice.yaml.documents import Document, read

_LONGEST_SHOWN: Final = 80
_LONGEST_IN_JSON: Final = 2000
Paint: TypeAlias = Callable[[str], str]  # adds colour to a text
NO_JOB: Final = "the file contains no Job"
NO_UID: Final = "00000000-0000-0000-0000-000000000000"
MADE_LATER: Final = "<made at run time>"
GIVEN: Final = "<given in the file>"
_GROUP: Final = GROUP_VERSION.partition("/")[0]
_HINTS: Final = {
    KIND: f"a Job of Volcano has apiVersion: {GROUP_VERSION}",
    "List": "write each item as a document of its own, with a line --- between them",
}


class Report(Struct, frozen=True):
    """A finding with its position in a file. A problem of the text itself has no path, but its column is printed."""

    severity: Severity
    file: str
    line: int
    column: int
    path: str
    value: object
    message: str
    hint: str

    @classmethod
    def at(cls, finding: Finding, file: str = "", line: int = 0, column: int = 0) -> Report:
        what = finding.message, finding.hint
        return cls(finding.severity, file, line, column, str(finding.path), finding.value, *what)

    @classmethod
    def of_finding(cls, finding: Finding, document: Document) -> Report:
        return cls.at(finding, document.file, *document.position(finding.path))

    @classmethod
    def of_problem(cls, problem: Problem) -> Report:
        where = problem.where
        return cls(Severity.ERROR, where.file, where.line, where.column, "", ABSENT, problem.message, problem.hint)

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR

    def text(self, bold: Paint = str, warning: Paint = str) -> str:
        # A file that cannot be opened has neither line nor column.
        numbers = (self.line, self.column) if not self.path else (self.line,)
        position = ":".join((printable(self.file), *(str(number) for number in numbers if number)))
        position = f"{bold(position)}: " if position else ""
        kind = "" if self.is_error else warning("warning: ")
        path = f"{printable(self.path)}: " if self.path else ""
        hint = f"\n  hint: {printable(self.hint)}" if self.hint else ""
        return f"{position}{kind}{path}{self._shown}{printable(self.message)}{hint}"

    @property
    def _shown(self) -> str:
        if self.value is ABSENT:
            return ""
        value = self.value if isinstance(self.value, str) else _dumps(self.value)
        text = printable(value) or '""'
        return f"{text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 3] + '...'}: "

    def json(self) -> str:
        value = None if self.value is ABSENT else _bounded(self.value)
        fields = {**asdict(self), "severity": self.severity.value, "value": value}
        return _dumps(fields)

    @property
    def problem(self) -> Problem:
        """The same without colour, for an exception."""
        numbers = (self.line, 0 if self.path else self.column)
        message = f"{f'{self.path}: ' if self.path else ''}{self._shown}{self.message}"
        return Problem(message, self.hint, Position(self.file, *numbers), fatal=self.is_error)


def counted(reports: Sequence[Report]) -> str:
    """`3 errors, 1 warning`."""
    errors = sum(report.is_error for report in reports)
    numbers = ((errors, "error"), (len(reports) - errors, "warning"))
    return ", ".join(plural(number, word) for number, word in numbers if number)


def in_order(reports: Sequence[Report]) -> list[Report]:
    """Sort by position in the file; findings of one position keep the order of the rules."""
    return sorted(reports, key=lambda report: (report.line, report.column))


def _dumps(value: object, *, ascii_only: bool = False) -> str:
    import json  # noqa: PLC0415 - takes a hundredth of `pumice validate`, which seldom has something to say

    return json.dumps(value, ensure_ascii=ascii_only, default=str)


def _bounded(value: object) -> object:
    if isinstance(value, str | bytes):
        return value[:_LONGEST_IN_JSON]
    if isinstance(value, dict | list) and len(text := _dumps(value, ascii_only=True)) > _LONGEST_IN_JSON:
        return text[:_LONGEST_IN_JSON]
    return value


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
