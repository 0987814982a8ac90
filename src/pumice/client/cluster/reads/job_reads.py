"""Reads of one Job that load modules of their own: a command needs one of them.

The backend itself knows how Jobs are found, listed and watched.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, BinaryIO, cast

from msgspec.structs import replace

from pumice.client.backend import Feature, Findings, NodeListing, OpenedRun, RunRef, Usage, no_prefix
from pumice.client.cluster.connection import Connection
from pumice.client.cluster.journal_entries import summary
from pumice.client.cluster.live_objects import patiently
from pumice.model.job import Manifest
from pumice.model.problem import Problem
from pumice.store.run_errors import Unsupported

if TYPE_CHECKING:
    from pumice.admission.admit import Admitted
    from pumice.client.cluster.cluster_backend import ClusterBackend
    from pumice.diagnosis.why import Why
    from pumice.store.logs.log_reader import LogSelection
    from pumice.store.logs.log_source import Execution, LogBatch


class JobReads:
    connection: Connection

    @property
    def _backend(self) -> ClusterBackend:
        return cast("ClusterBackend", self)

    def supports(self, feature: Feature) -> Problem | None:
        return self._no_archives if feature is Feature.OPEN else None

    @property
    def _no_archives(self) -> Problem:
        return Problem(f"{self._backend.name}: archives are opened on this machine", "leave out --on")

    async def open(self, archive: BinaryIO, name: str) -> OpenedRun:
        del archive, name
        raise Unsupported(self._no_archives.message, self._no_archives.hint)

    async def wake(self) -> None:
        """A controller keeps Jobs going."""

    async def logs(
        self,
        run: RunRef,
        selection: LogSelection,
        *,
        follow: bool = False,
        prefix: Callable[[Execution], bytes] = no_prefix,
    ) -> AsyncGenerator[Sequence[LogBatch], None]:
        from pumice.client.cluster.pod_logs import JobLogs, check_selection

        facts = await (
            patiently(self.connection, lambda: self._backend.facts(run)) if follow else self._backend.facts(run)
        )
        check_selection(facts, selection, follow=follow)
        logs = JobLogs(self.connection, facts.job, selection, prefix, tails=facts.kept.tails)
        batches = logs.follow(facts.pods) if follow else logs.read(facts.pods)
        async with aclosing(batches):
            async for each in batches:
                yield each

    async def why(self, run: RunRef, pod: str = "") -> Why:
        from pumice.client.cluster.archive.kept_logs import evidence_of_attempts
        from pumice.client.cluster.reasons import explain, explain_pod

        facts = await self._backend.facts(run, details=True)
        status, now = summary(facts, self._backend.name), self._backend.now()
        if pod:
            return await explain_pod(self.connection, facts, status, pod, now)
        why = await explain(self.connection, facts, status, now)
        if "pods" in facts.unreadable:
            return why
        earlier = evidence_of_attempts(facts.job, [each.observed for each in facts.pods], facts.kept)
        return replace(why, evidence=(*why.evidence, *earlier))

    async def validate(self, job: Admitted, documents: Sequence[Manifest], namespace: str) -> Findings:
        from pumice.client.cluster.validation import validate

        return await validate(self.connection, job, documents, namespace)

    async def usage(self, run: RunRef) -> Usage:
        from pumice.client.cluster.reads.usage import usage_of

        facts = await self._backend.facts(run)
        return await usage_of(self.connection, facts, live=not summary(facts, self._backend.name).is_over)

    async def export(self, run: RunRef, out: BinaryIO, *, logs: bool = True) -> None:
        from pumice.client.cluster.archive.export import export_job

        await export_job(self.connection, await self._backend.facts(run), out, logs=logs)

    async def nodes(self) -> NodeListing:
        from pumice.client.cluster.cluster_reading import nodes

        return await nodes(self.connection)
