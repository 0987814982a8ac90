"""What the page reads of a cluster: watches keep it current, and nothing is asked for while nothing changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import pytest

from pumice.client.backends import open_backend
from pumice.store.run_errors import Denied, InvalidOption
from pumice.ui.page_data import PageData
from pumice.ui.queries import JobPosition, JobQuery
from pumice.ui.values import Group, Info
from tests.cluster.cluster import Cluster
from tests.cluster.log_server import ContainerOutput, LogServer
from tests.cluster.staged_jobs import RUNNING, StagedJob, running, terminated
from tests.patience import PATIENCE

T = TypeVar("T")
NOW = {"gracePeriodSeconds": 0}


@asynccontextmanager
async def opened(on: str = "admin", namespace: str = "", *, everywhere: bool = False) -> AsyncIterator[PageData]:
    backend = open_backend(on, namespace, all_namespaces=everywhere)
    data = PageData(backend)
    try:
        await data.observer.open()
        yield data
    finally:
        await data.observer.close()
        await backend.close()


async def until(what: str, ask: Callable[[], Awaitable[T | None]]) -> T:
    """Ask until the answer is true."""
    found: T | None = None
    try:
        async with asyncio.timeout(PATIENCE):
            while not (found := await ask()):  # noqa: ASYNC110 - as a browser does
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"not {what}: {found}") from None
    return found


def test_what_is_reserved_is_of_the_quota_else_of_nodes(server: LogServer, job: StagedJob) -> None:
    job.run_pods()
    job.phases(*RUNNING, running=2)
    hard = {"requests.cpu": "10", "requests.memory": "20Gi", "requests.nvidia.com/gpu": "8"}

    async def look() -> None:
        async with opened() as data:
            info = await data.info()
            assert (info.capacity.cpu, info.reserved, data.observer.scope.reserved) == (0, (), "")
            job.api.create("Node", "", {"metadata": {"name": "box"}})
            room = {"cpu": "4", "memory": "8Gi"}
            status = {"allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}
            job.api.patch("Node", "", "box", {"status": status}, "status")
            try:
                info = await until("of the node", lambda: _with_cpu(data, 4.0))
                assert (info.capacity.memory, data.observer.scope.reserved) == (8 << 30, "1 node")
                job.api.create("ResourceQuota", job.namespace, {"metadata": {"name": "team"}, "spec": {"hard": hard}})
                info = await until("of the quota", lambda: _with_cpu(data, 10.0))
                assert (info.capacity.gpu_number, info.scope) == (8, f"admin/{job.namespace}")
                assert data.observer.scope.reserved == f"the quota of {job.namespace}"
            finally:
                job.api.delete("Node", "", "box")

    del server
    asyncio.run(look())


async def _with_cpu(data: PageData, cpu: float) -> Info | None:
    info = await data.info()
    return info if info.capacity.cpu == cpu else None


def test_pods_of_earlier_attempts_are_kept(server: LogServer, job: StagedJob) -> None:
    """The controller deletes them before it makes those of the next attempt."""
    del server
    job.run_pods()
    job.phases(*RUNNING, running=2)

    async def look() -> None:
        async with opened() as data:
            query = JobQuery(job.uid)
            assert (await data.pods(query)).counts == {"running": 2}
            job.pod(0, "Failed", terminated(7))
            await until("failed", lambda: _text(data, job.uid, "1 failed: worker-0 first"))
            job.phases(*RUNNING, "Restarting", retryCount=1)
            for index in (0, 1):
                job.api.delete("Pod", job.namespace, f"train-worker-{index}", NOW)
            for index in (0, 1):
                job.pod(index, "Running", running(), retry=1)
            job.phases(*RUNNING, "Restarting", "Pending", "Running", running=2, retryCount=1)
            await until("running again", lambda: _text(data, job.uid, "2 of 2 running"))
            found = await data.job(job.uid)
            assert [(each.number, each.first, each.exit_code) for each in found.attempts] == [
                (1, "worker-0", 7),
                (2, "", None),
            ]
            first = await data.pods(JobQuery(job.uid, attempt=1))
            assert {each.pod: each.exit_code for each in first.items}["worker-0"] == 7

    asyncio.run(look())


async def _text(data: PageData, uid: str, text: str) -> bool:
    return (await data.job(uid)).text.startswith(text)


def test_a_list_knows_whom_volcanos_controller_obeyed(server: LogServer, job: StagedJob) -> None:
    """It writes that into events of the Job only."""
    del server
    job.phases(*RUNNING, "Aborted")

    async def look() -> None:
        async with opened() as data:

            async def groups() -> list[Group]:
                return [each.group for each in (await data.listing(Group.ALL, "", "")).items]

            assert await groups() == [Group.FAILED]
            job.event("CommandIssued", "Start to execute command AbortJob, and clean it up.", "Normal")

            async def is_suspended() -> bool:
                return await groups() == [Group.SUSPENDED]

            await until("suspended", is_suspended)

    asyncio.run(look())


def test_a_suspended_job_goes_on_and_a_scaled_one_loses_pods(server: LogServer, job: StagedJob) -> None:
    del server
    job.run_pods()
    job.phases(*RUNNING, "Aborted", reason="Suspended")

    async def look() -> None:
        async with opened() as data:
            found = await data.job(job.uid)
            assert (found.group, found.text) == (Group.SUSPENDED, "suspended: it can be resumed")
            job.phases(*RUNNING, "Aborted", reason="Command", message="AbortJob was requested by Command x")
            await until("people's words", lambda: _text(data, job.uid, "a person suspended it: it can be resumed"))
            job.phases(*RUNNING, "Aborted", "Pending", "Running", running=2)
            await until("resumed", lambda: _text(data, job.uid, "2 of 2 running"))
            spec = job.api.get("Job", job.namespace, "train")["spec"]
            spec["tasks"][0]["replicas"] = 1
            job.api.patch("Job", job.namespace, "train", {"spec": spec})
            job.api.delete("Pod", job.namespace, "train-worker-1", NOW)
            await until("scaled", lambda: _text(data, job.uid, "1 of 1 running"))
            assert [each.pod for each in (await data.pods(JobQuery(job.uid))).items] == ["worker-0"]

    asyncio.run(look())


def test_lines_are_merged_followed_and_searched(server: LogServer, job: StagedJob) -> None:
    def stamp(second: int) -> str:
        return f"2026-11-18T12:00:{second:02d}.000000000Z"

    job.run_pods()
    job.pod(1, "Running", running(), restarts=1)
    job.phases(*RUNNING, running=2)
    server.outputs["train-worker-1", True] = ContainerOutput([(stamp(0), "before the restart")])
    outputs = [
        ContainerOutput([(stamp(index + 1), f"one {index}"), (stamp(index + 3), f"two {index}")], ended=False)
        for index in (0, 1)
    ]
    for index, output in enumerate(outputs):
        server.outputs[f"train-worker-{index}", False] = output

    async def texts(data: PageData, **asked: Any) -> list[str]:
        return [each.text for each in (await data.logs(JobQuery(job.uid, task="worker", **asked))).items]

    async def look() -> None:
        async with opened() as data:
            before = ["before the restart", "one 0", "one 1", "two 0", "two 1"]
            assert await texts(data) == before
            assert await texts(data, pod="worker-1") == ["before the restart", "one 1", "two 1"]
            outputs[0].lines.append((stamp(9), "ERROR: three 0"))

            async def three() -> bool:
                return await texts(data) == [*before, "ERROR: three 0"]

            await until("followed", three)
            found = await data.search(JobQuery(job.uid, task="worker", q="ONE"))
            assert (found.total, found.positions) == (2, (1, 2))
            window = await data.logs(JobQuery(job.uid, task="worker"))
            assert (window.errors, window.first_error, window.live, window.truncated) == (1, 5, True, False)
            # A Job that is over: all lines in one order, also one that came late.
            outputs[1].lines.append((stamp(8), "late 1"))
            for output in outputs:
                output.ended = True
            for index in (0, 1):
                job.pod(index, "Succeeded", terminated(0), restarts=index)
            job.phases(*RUNNING, "Completed", succeeded=2)

            async def complete() -> bool:
                window = await data.logs(JobQuery(job.uid, task="worker"))
                return not window.live and [each.text for each in window.items][-2:] == ["late 1", "ERROR: three 0"]

            await until("complete", complete)

    asyncio.run(look())


async def _is_quiet(server: LogServer) -> bool:
    calls = len(server.calls)
    await asyncio.sleep(1)
    return len(server.calls) == calls


def test_nothing_is_asked_while_nothing_changes(server: LogServer, job: StagedJob) -> None:
    job.run_pods()
    job.phases(*RUNNING, running=2)

    async def look() -> None:
        async with opened() as data:
            seen, _ = await data.changed_jobs(None)
            at, query = JobPosition(), JobQuery(job.uid)
            await data.info()
            await data.job_view(await data.frame(""), query)
            await data.logs(query)
            at, _ = await data.changed_job(query, at)
            at, _ = await data.changed_job(query, at)
            # What was begun by the questions above may still be read.
            await until("quiet", partial(_is_quiet, server))
            asked = len(server.calls)
            for _ in range(20):
                seen, changes = await data.changed_jobs(seen)
                assert changes == []
                at, changes = await data.changed_job(query, at)
                assert changes == []
                await data.info()
                await data.listing(Group.ALL, "", "")
            assert server.calls[asked:] == []
            job.phases(*RUNNING, running=1)

            async def noticed() -> bool:
                return bool((await data.changed_jobs(seen))[1])

            await until("noticed", noticed)

    asyncio.run(look())


def test_a_pod_and_the_job_as_they_are_stored(server: LogServer, job: StagedJob) -> None:
    del server
    job.run_pods([0])
    job.phases(*RUNNING, running=1)
    job.api.patch("Job", job.namespace, "train", {"metadata": {"annotations": {"note": "</pre><script>"}}})

    async def look() -> None:
        async with opened() as data:
            rendered = await data.rendered(JobQuery(job.uid, pod="worker-0"))
            assert f"uid: {job.api.get('Pod', job.namespace, 'train-worker-0')['metadata']['uid']}" in rendered.manifest
            assert "managedFields" not in rendered.manifest
            # One that does not exist is shown as Pumice's controller would make it.
            assert "uid:" not in (await data.rendered(JobQuery(job.uid, pod="worker-1"))).manifest.partition("spec:")[0]
            file = await data.file(JobQuery(job.uid))
            assert (file.name, file.stored, file.as_submitted) == ("train.yaml", True, False)
            assert '    note: "</pre><script>"' in file.lines
            assert (await data.job("train")).uid == job.uid

    asyncio.run(look())


def test_a_job_that_was_replaced_is_another_one(server: LogServer, job: StagedJob) -> None:
    del server
    job.phases("Pending", pending=2)

    async def look() -> None:
        async with opened() as data:
            old = job.uid
            assert (await data.job(old)).run == "train"
            job.api.delete("Job", job.namespace, "train")
            new = StagedJob(job.api, job.namespace)

            async def replaced() -> bool:
                return [each.ref.uid for each in await data.runs.read()] == [new.uid]

            await until("replaced", replaced)
            assert data.runs.gone[old][0] == "train"
            assert (await data.job(new.uid)).uid == new.uid

    asyncio.run(look())


@pytest.mark.parametrize(
    ("user", "namespace", "error"),
    [
        pytest.param("plain", "", Denied, id="no right to read Jobs"),
        pytest.param("admin", "nope", InvalidOption, id="no such namespace"),
        pytest.param("nobody", "", InvalidOption, id="no such context"),
    ],
)
def test_what_keeps_the_page_from_opening(
    pumice_cluster: Cluster, monkeypatch: pytest.MonkeyPatch, user: str, namespace: str, error: type[Exception]
) -> None:
    config = pumice_cluster.kubeconfig("plain" if user == "plain" else "admin")
    monkeypatch.setenv("KUBECONFIG", str(config))

    async def look() -> None:
        async with opened(user, namespace):
            pass

    with pytest.raises(error):
        asyncio.run(look())
