"""The port to the Jobs of a cluster, whoever created them, under either controller."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from pumice.client.backend import Listing, RunRef, Selection, Update
from pumice.client.cluster.connection import Connection, gone
from pumice.client.cluster.container_log import with_last_lines
from pumice.client.cluster.job_end import COMMANDS_OF_JOBS
from pumice.client.cluster.job_facts import (
    ClusterPod,
    JobEventFact,
    JobFacts,
    read_events,
    read_facts,
    read_job,
    read_pod,
)
from pumice.client.cluster.job_operations import JobOperations
from pumice.client.cluster.job_rows import JobTable, listed
from pumice.client.cluster.journal_entries import JobJournal, history_of, record_of, summary
from pumice.client.cluster.live_objects import PATIENCE, LiveObjects, live, patiently
from pumice.client.values import Status
from pumice.engines.kubernetes.api.resources import CORE_EVENTS, JOBS, PODS
from pumice.model import keys
from pumice.model.job import Manifest
from pumice.model.problem import Command, Option
from pumice.model.suggestions import did_you_mean
from pumice.store.run_errors import Denied, InvalidOption, NoSuchRun
from pumice.store.run_names import LAST

if TYPE_CHECKING:
    from pumice.client.cluster.live.cluster_observer import ClusterObserver
    from pumice.store.history.run_history import RunHistory
    from pumice.store.journal import Entry

_PAUSE: Final = 1.0  # seconds, at least, between two listings of a watch
_LONGEST_PAUSE: Final = 5.0  # ages are shown, too
_SHORT_UID: Final = 8  # characters
_TICK: Final = 0.5


@dataclass(frozen=True, slots=True)
class ClusterBackend(JobOperations):
    connection: Connection
    arguments: tuple[Any, ...]  # of `open_backend`
    submitted: list[RunRef] = field(default_factory=list)  # from here, for tests that clean up
    waits = True

    @property
    def name(self) -> str:
        return self.connection.name

    @property
    def address(self) -> tuple[Any, ...]:
        return self.arguments

    @property
    def default_namespace(self) -> str:
        return self.typed_namespace or self.connection.access.namespace or "default"

    def now(self) -> dt.datetime:
        return dt.datetime.now(dt.UTC)  # noqa: TID251 - the clock of the caller

    def listen(self, tell: Callable[[str], None]) -> None:
        self.connection.tell = tell

    async def close(self) -> None:
        await self.connection.close()

    def notices(self) -> list[str]:
        return []

    def warnings(self, *, submitted: bool = False) -> list[str]:
        del submitted
        return []

    def observe(self) -> ClusterObserver:
        from pumice.client.cluster.live.cluster_observer import ClusterObserver

        return ClusterObserver(self)

    # --- show -----------------------------------------------------------------------------------------------------

    async def find(self, text: str) -> RunRef:
        """Return the Job of a name, or of NAME@UID-PREFIX."""
        where = f"{self.name}/{self.connection.namespace or '*'}"
        if text == LAST and (last := self.last_job()) is not None:
            text = f"{last.name}@{last.uid}"
        if text == LAST:
            hint = ("name it: ", self._list(), " lists them")
            raise NoSuchRun(f"{text}: no Job was submitted to {where} from here", hint)
        name, _, uid = text.partition("@")
        connection, namespace = self.connection, self.connection.namespace
        if namespace:
            raw = await connection.get(JOBS, namespace, name) if name else None
            raws: Sequence[bytes | msgspec.Raw] = [] if raw is None else [raw]
        else:
            raws = await connection.all(JOBS, fields=f"metadata.name={name}")
        named = [read_job(each)[1] for each in raws]
        found = [job for job in named if job.uid.startswith(uid)]
        if len(found) == 1:
            return RunRef(found[0].name, 0, found[0].namespace, found[0].uid)
        if found:
            some = ", ".join(sorted(job.namespace for job in found))
            raise NoSuchRun(f"{text}: Jobs of this name are in {some}", "choose one with -n")
        if len(named) == 1:
            newer = f"{name}@{named[0].uid[:_SHORT_UID]}"
            raise NoSuchRun(f"{text}: was replaced by another Job of this name", f"the newer one is {newer}")
        await connection.check_namespace()
        guess = did_you_mean(name, await self.run_names())
        raise NoSuchRun(f"{text}: no such Job in {where}", guess or (self._list(Option("all", True)), " lists all"))

    def _list(self, *options: Option) -> Command:
        namespace = self.connection.namespace
        everywhere = () if namespace else (Option("all-namespaces", True),)
        return Command("ps", options=(*self.connection.where(namespace), *everywhere, *options))

    async def runs(self, selection: Selection) -> Listing:
        table = JobTable(self.name, selection, self.now(), await self._me(selection))
        jobs = self.connection.each(JOBS, self.connection.namespace, labels=selection.labels)
        async with aclosing(jobs):
            async for raw in jobs:
                table.add(raw)
        if not table.seen:
            await self.connection.check_namespace()
        for name in table.missing:
            await self.find(name)
        return await self._decided(table, {})

    async def _decided(self, table: JobTable, pods: dict[str, list[ClusterPod]]) -> Listing:
        """Return the listing, with what only events and pods say of the Jobs that Volcano's controller has ended.

        `pods` has those of Jobs that were listed before, by uid; more are added.
        """
        if table.undecided:
            connection, namespace, events = self.connection, self.connection.namespace, dict[str, list[JobEventFact]]()
            with suppress(Denied):
                events = read_events(await connection.all(CORE_EVENTS, namespace, fields=COMMANDS_OF_JOBS))
            with suppress(Denied):
                if new := table.uncounted - pods.keys():
                    found: dict[str, list[ClusterPod]] = {uid: [] for uid in new}
                    async with aclosing(connection.each(PODS, namespace, labels=keys.JOB_NAME)) as each:
                        async for raw in each:
                            if (pod := read_pod(raw)) is not None and pod.job_uid in new:
                                found[pod.job_uid].append(pod)
                    pods.update(found)
            table.decide(events, pods)
        return table.listing()

    async def listings(self, selection: Selection) -> AsyncGenerator[Listing, None]:
        me = await self._me(selection)
        jobs = LiveObjects(self.connection, JOBS, self.connection.namespace, labels=selection.labels)
        pods: dict[str, list[ClusterPod]] = {}
        async with live(jobs):
            await jobs.changed(PATIENCE)
            while True:
                table = JobTable(self.name, selection, self.now(), me)
                for raw in jobs.items.values():
                    table.add(raw)
                yield await self._decided(table, pods)
                await asyncio.sleep(_PAUSE)
                await jobs.changed(_LONGEST_PAUSE)

    async def _me(self, selection: Selection) -> str:
        """Return the name that the API server gives this user, if it is asked for."""
        if not selection.by_me:
            return ""
        if name := await self.connection.user_name():
            return name
        message = f"{self.name}: the API server does not say who you are, so that yours cannot be told from others"
        raise InvalidOption(message, "name the Jobs, or select them with -l")

    async def run_names(self) -> Sequence[str]:
        return [read_job(raw)[1].name for raw in await self.connection.all(JOBS, self.connection.namespace)]

    async def facts(self, run: RunRef, *, details: bool = False) -> JobFacts:
        """Return what the cluster says about a Job now. Raises NoSuchRun if it was deleted or replaced."""
        raw = await self.connection.get(JOBS, run.namespace, run.name)
        if raw is None:
            raise gone(str(run))
        facts = await read_facts(self.connection, raw, details=details)
        if facts.job.uid != run.uid:
            raise gone(str(run), is_replaced=True)
        return await with_last_lines(self.connection, facts)

    async def status(self, run: RunRef) -> Status:
        return summary(await self.facts(run), self.name)

    async def statuses(self, runs: Sequence[RunRef]) -> AsyncGenerator[Sequence[Status], None]:
        async with AsyncExitStack() as stack:
            watched = [
                await stack.enter_async_context(
                    live(LiveObjects(self.connection, JOBS, run.namespace, fields=f"metadata.name={run.name}"))
                )
                for run in runs
            ]
            known = [await patiently(self.connection, partial(self.status, run)) for run in runs]
            while True:
                yield known
                for number, (run, objects) in enumerate(zip(runs, watched, strict=True)):
                    if known[number].is_over or not await objects.changed(_TICK / len(runs)):
                        continue
                    if (raw := objects.items.get(run.uid)) is None:
                        raise gone(str(run), is_replaced=bool(objects.items))
                    known[number] = listed(raw, self.name)
                    if known[number].is_over:
                        # Its verdict is in its pods.
                        known[number] = await patiently(self.connection, partial(self.status, run))

    async def history(self, run: RunRef) -> RunHistory:
        return history_of(await self.facts(run))

    async def job(self, run: RunRef) -> Manifest:
        return (await self.facts(run)).manifest

    async def journal(self, run: RunRef, *, follow: bool = False) -> AsyncGenerator[Sequence[Entry], None]:
        if not follow:
            facts = await self.facts(run)
            yield JobJournal(record_of(facts)).add(facts)
            return
        from pumice.client.cluster.watching import journal

        async with aclosing(journal(self, run)) as parts:
            async for part in parts:
                yield part.entries

    def watch(self, run: RunRef) -> AsyncGenerator[Update, None]:
        from pumice.client.cluster.watching import watch

        return watch(self, run)


def cluster_backend(
    context: str, namespace: str = "", kubeconfig: str = "", *, everywhere: bool = False
) -> ClusterBackend:
    """Raises InvalidOption if there is no such context."""
    connection = Connection.open(context, namespace, kubeconfig, everywhere=everywhere)
    return ClusterBackend(connection, (context, namespace, None, kubeconfig, everywhere))
