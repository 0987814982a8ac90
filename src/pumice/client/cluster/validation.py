"""`pumice validate --on`: would this cluster take a Job? Everything is asked as this user; nothing is created."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from pumice.admission.admit import Admitted, admit_stored
from pumice.client.cluster.connection import Connection
from pumice.client.cluster.pod_references import Reference, pod_references
from pumice.client.cluster.refusals import job_findings, pod_findings
from pumice.client.job_files import as_stored, render
from pumice.diagnosis.cluster.node_fit import NodeFit, fits
from pumice.diagnosis.cluster.objects import OPEN, ROOT_QUEUE, Node, Queue, Quota, quantities
from pumice.diagnosis.cluster.reading import amount
from pumice.engines.kubernetes.api import resources
from pumice.engines.kubernetes.api.errors import ApiError, UnreachableError
from pumice.engines.kubernetes.api.object_metadata import read_metadata
from pumice.model import keys
from pumice.model.findings import ROOT, SPEC, Finding, Path, warning
from pumice.model.job import Job, Manifest
from pumice.model.suggestions import did_you_mean
from pumice.model.vocabulary import NO_GANG
from pumice.runtime.offline_context import offline_context
from pumice.store.run_errors import Denied, InvalidOption, RunError

_DEFAULT_QUEUE: Final = "default"
_SHOWN: Final = 3


async def validate(
    connection: Connection, admitted: Admitted, documents: Sequence[Manifest], namespace: str
) -> list[Finding]:
    """Return what keeps the cluster from taking a Job, and what could not be asked. Raises RunError."""
    where = namespace or admitted.job.namespace or connection.access.namespace
    await connection.check_namespace(where)
    asked = _Validation(connection, admitted, documents, where)
    parts = await asyncio.gather(
        asked.admission(), asked.references(), asked.queue(), asked.priority(), asked.quotas(), asked.node_fit()
    )
    return list(dict.fromkeys(finding for part in parts for finding in part))


async def outlook(connection: Connection, manifest: Manifest, documents: Sequence[Manifest]) -> list[Finding]:
    """Return what keeps the pods of a Job from running now, and may change: nothing of it stops a submission."""
    job = msgspec.convert(manifest, Job)
    asked = _Validation(connection, admit_stored(job, offline_context()), documents, job.namespace)
    asks = (asked.pods(), asked.references(), asked.queue(), asked.priority(), asked.quotas(), asked.node_fit())
    parts = await asyncio.gather(*asks, return_exceptions=True)
    for part in parts:
        if isinstance(part, BaseException) and not isinstance(part, RunError):
            raise part
    found = [finding for part in parts if not isinstance(part, BaseException) for finding in part if finding.is_error]
    return list(dict.fromkeys(found))


@dataclass(slots=True)
class _Validation:
    connection: Connection
    admitted: Admitted
    documents: Sequence[Manifest]
    namespace: str
    job: Job = field(init=False)
    objects: list[Manifest] = field(init=False)  # that the controller makes for the Job

    def __post_init__(self) -> None:
        self.job = as_stored(self.admitted, self.namespace)
        self.objects = list(render(self.admitted, self.namespace))

    async def admission(self) -> list[Finding]:
        """What the API server says of the Job, and of one pod of each task."""
        if not await self._may_create(resources.JOBS):
            denied = Finding(ROOT, f"you have no right to create Jobs in {self.namespace}", hint=_ASK)
            return [denied, *await self.pods()]
        job = self.admitted.written
        plain = msgspec.to_builtins(job)
        written = {
            "apiVersion": job.api_version,
            "kind": job.kind,
            "metadata": plain["metadata"],
            "spec": plain["spec"],
        }
        error = await self._dry_run(resources.JOBS, written)
        if error is not None and error.already_exists:
            error = await self._dry_run(resources.JOBS, written, is_unnamed=True)
        return [*(() if error is None else job_findings(error)), *await self.pods()]

    async def pods(self) -> list[Finding]:
        if await self._may_create(resources.PODS):
            # The first pod of each task, as the controller would create it without a gang.
            first: dict[str, Manifest] = {}
            for each in render(self.admitted, self.namespace, gang=NO_GANG):
                if each["kind"] == "Pod":
                    first.setdefault(each["metadata"]["annotations"][keys.TASK_SPEC], each)
            pods = await asyncio.gather(*map(self._pod_admission, first.values()))
            return [finding for each in pods for finding in each]
        what = "quotas, limits, PodSecurity and webhooks did not see a pod"
        return [warning(ROOT, f"you have no right to create pods in {self.namespace}: {what}")]

    async def _may_create(self, resource: resources.Resource) -> bool:
        with self.connection.explaining():
            return await self.connection.may("create", resource, self.namespace)

    async def _pod_admission(self, pod: Manifest) -> list[Finding]:
        error = await self._dry_run(resources.PODS, pod, is_unnamed=True)
        index = [task.name for task in self.job.spec.tasks].index(pod["metadata"]["annotations"][keys.TASK_SPEC])
        if error is None:
            return []
        own = self.job.spec.tasks[index].pod_spec.get("priorityClassName")
        found = pod_findings(error, SPEC / "tasks" / index, self.namespace)
        # The pods have that of the Job, which `priority` looks up.
        return [finding for finding in found if own or finding.path[-1] != "priorityClassName"]

    async def _dry_run(
        self, resource: resources.Resource, manifest: Manifest, *, is_unnamed: bool = False
    ) -> ApiError | None:
        """Return why the API server would refuse an object; `is_unnamed`: under a name that it chooses."""
        metadata = {**manifest["metadata"], "namespace": self.namespace}
        metadata.pop("ownerReferences", None)
        if is_unnamed:
            metadata["generateName"] = f"{metadata.pop('name', '')[:_LONGEST_PREFIX]}-"
        body = msgspec.json.encode({**manifest, "metadata": metadata})
        client = self.connection.client
        try:
            await client.create(resource, self.namespace, body, dry_run=True, strict=True, attempts=3)
        except UnreachableError as error:
            raise self.connection.explained(error) from error
        except ApiError as error:
            if error.not_found:
                raise self.connection.explained(error) from error
            return error
        return None

    async def references(self) -> list[Finding]:
        given = {(each["kind"], each["metadata"]["name"]) for each in (*self.documents, *self.objects)}
        found: dict[tuple[str, str], Manifest | Denied | None] = {}
        findings: list[Finding] = []
        for reference in pod_references(self.job):
            key = (reference.resource.kind, reference.name)
            if key in given:
                continue
            if key not in found:
                try:
                    raw = await self.connection.get(reference.resource, self.namespace, reference.name)
                    found[key] = None if raw is None else msgspec.json.decode(raw)
                except Denied as error:
                    found[key] = error
            findings += _missing(reference, found[key], self.namespace)
        return findings

    async def queue(self) -> list[Finding]:
        name = self.job.spec.queue or _DEFAULT_QUEUE
        path = SPEC / "queue"
        try:
            raw = await self.connection.get(resources.VOLCANO_QUEUES, "", name)
            if raw is None:
                found = await self.connection.all(resources.VOLCANO_QUEUES)
                others = {read_metadata(each).name for each in found} - {ROOT_QUEUE}
                hint = did_you_mean(name, others) or f"there are: {', '.join(sorted(others)) or 'none'}"
                return [Finding(path, "there is no such Queue on this cluster", name, hint)] if others else []
        except InvalidOption:
            return []  # a cluster without Volcano's scheduler has no Queues
        except Denied:
            return [warning(path, f"Queues are {_UNREADABLE}", name)]
        queue = msgspec.json.decode(raw, type=Queue)
        if queue.state != OPEN:
            return [Finding(path, f"the Queue is {queue.state} and takes no Jobs", name)]
        return []

    async def priority(self) -> list[Finding]:
        name = self.job.spec.priority_class_name
        path = SPEC / "priorityClassName"
        if not name:
            return []
        try:
            if await self.connection.get(resources.PRIORITY_CLASSES, "", name) is not None:
                return []
            others = [read_metadata(each).name for each in await self.connection.all(resources.PRIORITY_CLASSES)]
        except Denied:
            return [warning(path, f"PriorityClasses are {_UNREADABLE}", name)]
        return [Finding(path, "there is no such PriorityClass on this cluster", name, did_you_mean(name, others))]

    async def quotas(self) -> list[Finding]:
        """Quotas that never grant what the gang needs. Whether one has room now, the dry run of the pods tells."""
        group: Manifest = next((each["spec"] for each in self.objects if each["kind"] == "PodGroup"), {})
        try:
            raws = await self.connection.all(resources.QUOTAS, self.namespace)
        except Denied:
            return [warning(SPEC, f"ResourceQuotas are {_UNREADABLE}")]
        wanted = quantities(group.get("minResources") or {})
        findings: list[Finding] = []
        for quota in (msgspec.json.decode(raw, type=Quota) for raw in raws):
            hard = quantities(quota.spec.hard) if quota.is_for_all_pods else {}
            for name in (each for each, need in wanted.items() if each in hard and need > hard[each]):
                grants = f"ResourceQuota {quota.metadata.name} grants {amount(name, hard[name])}"
                message = f"the gang needs {amount(name, wanted[name])} of {name}, {grants}"
                hint = "lower minAvailable or the requests"
                findings.append(Finding(SPEC / "minAvailable", message, self.job.spec.min_available, hint))
        return findings

    async def node_fit(self) -> list[Finding]:
        try:
            nodes = [msgspec.json.decode(raw, type=Node) for raw in await self.connection.all(resources.NODES)]
        except Denied:
            return [warning(SPEC / "tasks", f"nodes are {_UNREADABLE}")]
        if not nodes:
            return [warning(SPEC / "tasks", "the cluster has no node now")]
        findings: list[Finding] = []
        for index, task in enumerate(self.job.spec.tasks):
            findings += _never_fits(fits(task.pod_spec, nodes, None), SPEC / "tasks" / index / "template" / "spec")
        return findings


_ASK: Final = "ask an administrator for a Role with create of jobs.batch.volcano.sh"
_UNREADABLE: Final = "not readable for you, so this was not checked"
_LONGEST_PREFIX: Final = 57  # of 63 characters, of which the server adds five


def _missing(reference: Reference, found: Manifest | Denied | None, namespace: str) -> Iterator[Finding]:
    kind = reference.resource.kind
    if isinstance(found, Denied):
        yield warning(reference.path, f"{kind}s are {_UNREADABLE}", reference.name)
    elif found is None:
        message = f"there is no {kind} of this name in {namespace}"
        hint = f"create it, or add it to the Job's file: {kind} documents are created with the Job"
        if reference.is_required:
            yield Finding(reference.path, message, reference.name, hint)
        else:
            yield warning(reference.path, message, reference.name)
    elif reference.key:
        entries = sorted({*(found.get("data") or {}), *(found.get("binaryData") or {})})
        if reference.key not in entries:
            hint = did_you_mean(reference.key, entries) or f"it has: {', '.join(entries) or 'none'}"
            yield Finding(reference.path, f"this {kind} has no key {reference.key}", reference.name, hint)


def _never_fits(found: Sequence[NodeFit], path: Path) -> Iterator[Finding]:
    """Yield a finding if no node could take the pod, even if it were empty."""
    if any(not fit.is_excluded and not fit.too_small for fit in found):
        return
    allowed = [fit for fit in found if not fit.is_excluded]
    if not allowed:
        reasons = "; ".join(f"{fit.node}: {fit.exclusion}" for fit in found[:_SHOWN])
        rest = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        message = f"no node takes such a pod: {reasons}{rest}"
        yield Finding(path, message, hint="change nodeSelector, affinity or tolerations")
        return
    best = allowed[0]
    texts = [
        f"{amount(short.resource, short.wanted)} of {short.resource}, "
        f"{best.node} has {amount(short.resource, short.capacity)}"
        for short in best.too_small
    ]
    yield Finding(path, f"no node is large enough: a pod wants {'; '.join(texts)}", hint="lower the requests")
