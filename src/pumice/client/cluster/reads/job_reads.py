"""Reads of one Job that load modules of their own: a command needs one of them.

The backend itself knows how Jobs are found, listed and watched.
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, BinaryIO

from msgspec.structs import replace

from pumice.client.backend import Feature, Findings, NodeListing, OpenedRun, RunRef, Usage
from pumice.client.cluster.connection import Connection
from pumice.client.cluster.job_facts import JobFacts
from pumice.client.cluster.live_objects import patiently
from pumice.client.cluster.summary import summary
from pumice.model.job import Manifest
from pumice.model.problem import Problem
from pumice.store.run_errors import Unsupported

if TYPE_CHECKING:
    from pumice.admission.admit import Admitted
    from pumice.diagnosis.why import Why
    from pumice.store.logs.log_reader import LogSelection
    from pumice.store.logs.log_source import Execution, LogBatch


def _no_prefix(_execution: Execution) -> bytes:
    return b""


class JobReads(ABC):
    connection: Connection

    @property
    @abstractmethod
    def name(self) -> str: ...

    @abstractmethod
    def now(self) -> dt.datetime: ...

    @abstractmethod
    async def facts(self, run: RunRef, *, details: bool = False) -> JobFacts: ...

    def supports(self, feature: Feature) -> Problem | None:
        return self._no_archives if feature is Feature.OPEN else None

    @property
    def _no_archives(self) -> Problem:
        return Problem(f"{self.name}: archives are opened on this machine", "leave out --on")

    async def open(self, archive: BinaryIO, name: str) -> OpenedRun:
        del archive, name
        raise Unsupported(self._no_archives.message, self._no_archives.hint)

    async def wake(self) -> None:  # noqa: B027 - nothing is to be done
        """A controller keeps Jobs going."""

    async def logs(
        self,
        run: RunRef,
        selection: LogSelection,
        *,
        follow: bool = False,
        prefix: Callable[[Execution], bytes] = _no_prefix,
    ) -> AsyncGenerator[Sequence[LogBatch], None]:
        from pumice.client.cluster.log_selection import check_selection
        from pumice.client.cluster.pod_logs import JobLogs

        facts = await (patiently(self.connection, lambda: self.facts(run)) if follow else self.facts(run))
        check_selection(facts, selection, follow=follow)
        logs = JobLogs(self.connection, facts.job, selection, prefix, tails=facts.kept.tails)
        batches = logs.follow(facts.pods) if follow else logs.read(facts.pods)
        async with aclosing(batches):
            async for each in batches:
                yield each

    async def why(self, run: RunRef, pod: str = "") -> Why:
        from pumice.client.cluster.archive.kept_logs import evidence_of_attempts
        from pumice.client.cluster.reasons import explain, explain_pod

        facts = await self.facts(run, details=True)
        status, now = summary(facts, self.name), self.now()
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

        facts = await self.facts(run)
        return await usage_of(self.connection, facts, live=not summary(facts, self.name).is_over)

    async def export(self, run: RunRef, out: BinaryIO, *, logs: bool = True) -> None:
        from pumice.client.cluster.archive.export import export_job

        await export_job(self.connection, await self.facts(run), out, logs=logs)

    async def nodes(self) -> NodeListing:
        from pumice.client.cluster.reads.nodes import nodes

        return await nodes(self.connection)
