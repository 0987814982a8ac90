"""Every view of the page and every endpoint on a backend in memory: the page needs nothing beyond the port.

What it shows of the same runs is what it shows of this machine.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import chain, zip_longest
from pathlib import Path

import msgspec
import pytest
from aiohttp import ClientSession, CookieJar

from pumice.client.backend import Backend, RemoveRun, ResumeRun, RunRef, StopRun, SuspendRun, complete
from pumice.client.history_values import pod_names
from pumice.client.local.local_backend import LocalBackend
from pumice.client.local.run_reader import ref_of
from pumice.client.observer import Repeat, Scope
from pumice.diagnosis.why import EvidenceLine, Hint, Why, WhyCode
from pumice.model.job import Job, JobSpec, JobStatus, Manifest, TaskSpec, TaskState
from pumice.store.files.run_store import RunStore, StoredRun
from pumice.store.journal import read_journal
from pumice.store.logs.log_reader import LogReader
from pumice.store.sample_file import read_samples
from pumice.ui.data.states import counted_pods
from pumice.ui.figures.plots import machine_meters
from pumice.ui.security import TOKEN_HEADER, Gate
from pumice.ui.server import PageServer
from pumice.ui.values import Info, PodState, Reservation, Resources
from scripts.made_runs import RunMaker
from scripts.made_stories import stories
from tests.golden.page_views import DATA, DATA_LISTS, LISTS, MORE_DATA, NOT_SHOWN, TABS
from tests.unit.client.memory_backend import MemoryBackend, MemoryRun

NOW = dt.datetime(2026, 11, 17, 12, tzinfo=dt.UTC)
IN_DETAIL = ("bert-pretrain:1", "llama-ft:1", "hostile:1")
BEAT = b"event: beat"
NO_GROUPS = ("phase=nope", "phase=running")


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBackend]:
    directory = tmp_path_factory.mktemp("state")
    maker = RunMaker(RunStore(directory / "pumice"), directory / "jobs", NOW)
    for story in stories():
        if story.job != "sweep-1000":
            maker.make(story)
    yield LocalBackend({"XDG_STATE_HOME": str(directory)}, now=lambda: NOW)
    for lock in maker.locks:
        lock.release()


@pytest.fixture
def memory(local: LocalBackend) -> MemoryBackend:
    """The same runs in memory."""
    runs = [_in_memory(local, stored) for stored in local.store.all_runs()]
    runs.sort(key=lambda run: (run.status.created, run.ref.uid), reverse=True)
    return MemoryBackend(NOW, runs, name=local.name, capacity=complete(local.observe().capacity()))


def _in_memory(local: LocalBackend, stored: StoredRun) -> MemoryRun:
    history, observer = stored.history(), local.observe()
    pods = pod_names(history)
    manifests: dict[str, list[Manifest]] = {pod: [] for pod in pods}
    for pod in pods:
        for path in sorted(
            (stored.directory / "pods" / pod).glob("*/pod.json"), key=lambda each: int(each.parent.name)
        ):
            manifests[pod].append(json.loads(path.read_bytes()))
    seen = complete(observer.observe(ref_of(stored)))
    return MemoryRun(
        ref_of(stored),
        local.summary(stored),
        stored.record,
        read_journal(stored.directory).entries,
        list(chain.from_iterable(LogReader(stored.directory).read())),
        state=stored.status(),
        measured=read_samples(stored.directory),
        addresses=dict(complete(observer.addresses(seen, pods))),
        manifests={pod: _manifests(stored.directory / "pods" / pod) for pod in pods},
    )


def _manifests(directory: Path) -> list[Manifest]:
    numbers = sorted(int(path.parent.name) for path in directory.glob("*/pod.json"))
    return [json.loads((directory / str(number) / "pod.json").read_bytes()) for number in numbers]


@asynccontextmanager
async def opened(backend: Backend) -> AsyncIterator[tuple[PageServer, ClientSession]]:
    """Yield a page of a backend, and a browser that has its cookie."""
    server = PageServer(backend, Gate())
    address = await server.start()
    async with ClientSession(f"http://127.0.0.1:{server.gate.port}", cookie_jar=CookieJar(unsafe=True)) as browser:
        async with browser.get(address) as answer:
            assert answer.status == 200
        yield server, browser
    await server.stop()


async def shown(browser: ClientSession, path: str) -> tuple[int, str]:
    async with browser.get(path) as answer:
        if "/stream" not in path:
            return answer.status, await answer.text()
        lines: list[bytes] = []
        while not lines or BEAT not in lines[-1]:
            lines.append(await answer.content.readline())
        return answer.status, b"".join(lines).decode()


def plain(text: str, files: Path) -> list[str]:
    """Return the parts of an answer, without what differs between two servers; runs in memory have no files."""
    text = re.sub(r'(?<=name="pumice-token" content=")[^"]*|(?<=name="token" value=")[^"]*', "TOKEN", text)
    # The size of the file of the samples, or their number.
    text = re.sub(r'(?<=event: metric\ndata: )\{"size":\d+\}|(?m:^id: .*)', "POSITION", text)
    return re.split(r"(?=[<{\n])", re.sub(rf'{files}[^"<\s]*', "", text))


def paths_of(refs: Sequence[RunRef]) -> Iterator[str]:
    """Yield the views and the endpoints of all goldens."""
    yield from (
        "/",
        "/api/info",
        "/api/stream",
        "/jobs/nope",
        "/api/jobs/nope",
        "/api/jobs/nope/logs",
        "/api/jobs?phase=nope",
    )
    yield from (f"/?{query}" for query in LISTS)
    yield from (f"/api/jobs?{query}" for query in DATA_LISTS)
    for ref in refs:
        yield f"/jobs/{ref.uid}"
        yield from (f"/api/jobs/{ref.uid}{end}" for end in DATA)
        if str(ref) in IN_DETAIL:
            yield from (f"/jobs/{ref.uid}?tab={tab}" for tab in TABS)
            yield from (f"/api/jobs/{ref.uid}{end}" for end in (*MORE_DATA, "/logs/volume", "/logs?lines=5&html=1"))
            yield from (f"/jobs/{ref.uid}/actions/{name}" for name in ("stop", "delete"))
            yield f"/api/stream?job={ref.uid}&last=0.0.0"


def test_what_the_page_shows_does_not_depend_on_the_backend(local: LocalBackend, memory: MemoryBackend) -> None:
    paths, files = list(paths_of([each.ref for each in memory.all_runs])), local.store.runs

    async def compare() -> None:
        async with opened(local) as (server, here), opened(memory) as (_, elsewhere):
            for path in paths:
                (status, text), (other_status, other) = await shown(here, path), await shown(elsewhere, path)
                assert status == (404 if "/nope" in path else 400 if path.endswith(NO_GROUPS) else 200), path
                pairs = zip_longest(plain(text, files), plain(other, files))
                assert [pair for pair in pairs if pair[0] != pair[1]][:3] == [], path
                assert other_status == status, path
            names = {each.canonical for each in server.http.app.router.resources()} - NOT_SHOWN
            patterns = {name: re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(name))) for name in names}
            asked = {path.partition("?")[0] for path in paths}
            assert [name for name, each in patterns.items() if not any(map(each.fullmatch, asked))] == []

    asyncio.run(compare())


@pytest.mark.parametrize(
    ("run", "action", "answer", "change"),
    [
        pytest.param("llama-ft:1", "stop", (200, "llama-ft:1 is being stopped"), StopRun(), id="stop"),
        pytest.param("dlrm-nightly:1", "resume", (200, "dlrm-nightly:1 is queued"), ResumeRun(), id="resume"),
        pytest.param("horovod:1", "delete", (200, "horovod:1 was deleted"), RemoveRun(), id="delete"),
        pytest.param("horovod:1", "again", (200, "horovod:2 is queued"), None, id="again"),
        pytest.param("horovod:1", "stop", (409, "horovod:1: it has ended"), None, id="refused"),
    ],
)
def test_actions_change_runs_through_the_port(
    run: str, action: str, answer: tuple[int, str], change: msgspec.Struct | None, memory: MemoryBackend
) -> None:
    async def post() -> tuple[int, str]:
        ref = await memory.find(run)
        async with opened(memory) as (server, browser):
            headers = {TOKEN_HEADER: server.gate.form_token, "Origin": f"http://127.0.0.1:{server.gate.port}"}
            async with browser.post(f"/api/jobs/{ref.uid}/actions/{action}", headers=headers) as response:
                return response.status, (await response.json())["message"]

    assert asyncio.run(post()) == answer
    assert memory.changes == ([] if change is None else [(run, change)])


ELSEWHERE = Scope("prod/ml", "the quota of ml", False, True, False, True, "kubectl create -f job.yaml")
HOSTILE = "<script>window.hacked=1</script>"


async def pages_of(memory: MemoryBackend, observer: Mapping[str, object], *paths: str) -> list[str]:
    async with opened(memory) as (server, browser):
        for name, value in observer.items():
            setattr(server.data.observer, name, value)
        return [(await shown(browser, path))[1] for path in paths]


def test_what_a_cluster_does_not_have_is_left_out(memory: MemoryBackend) -> None:
    uid = asyncio.run(memory.find("llama-ft:1")).uid

    async def look() -> tuple[list[str], list[str]]:
        paths = ("/", f"/jobs/{uid}")
        return await pages_of(memory, {}, *paths), await pages_of(memory, {"scope": ELSEWHERE}, *paths)

    (jobs, job), (jobs_there, job_there) = asyncio.run(look())
    for text in ('data-tab="resources"', "CPU<span", 'id="against"'):
        assert (text in job, text in job_there) == (True, False), text
    assert "on <b>prod/ml</b>" in job_there
    assert "What is reserved of this machine" in jobs
    assert "What is reserved of the quota of ml" in jobs_there
    record = memory.run(asyncio.run(memory.find("llama-ft:1"))).record
    assert (f"{record.namespace} · " in jobs, f"{record.namespace} · " in jobs_there) == (False, True)


def test_without_jobs_the_page_says_how_one_is_created_there(memory: MemoryBackend) -> None:
    memory.all_runs = []
    here, there = (asyncio.run(pages_of(memory, each, "/"))[0] for each in ({}, {"scope": ELSEWHERE}))
    assert ("pumice run examples" in here, "pumice run examples" in there) == (True, False)
    assert "kubectl create -f job.yaml" in there


def test_notices_are_shown_and_announced(memory: MemoryBackend) -> None:
    told = {"told": (f"prod: cannot be reached: {HOSTILE}",)}
    page, jobs, job = asyncio.run(
        pages_of(memory, told, "/", "/api/stream", f"/api/stream?job={memory.all_runs[0].ref.uid}")
    )
    assert "prod: cannot be reached: &lt;script&gt;" in page
    assert ("event: notice" in jobs, "event: notice" in job) == (True, True)
    assert "event: notice" not in asyncio.run(pages_of(memory, {}, "/api/stream"))[0]


def test_buttons_say_why_a_change_is_not_possible_there(memory: MemoryBackend) -> None:
    refused = {StopRun: "no right to stop", SuspendRun: "no right to suspend", Repeat: "not from here", RemoveRun: ""}

    async def reasons(name: str) -> dict[str, str]:
        uid = (await memory.find(name)).uid
        [text] = await pages_of(memory, {"refused": refused}, f"/api/jobs/{uid}")
        return {each["name"]: each["whyNot"] for each in json.loads(text)["actions"]}

    live, ended = asyncio.run(reasons("llama-ft:1")), asyncio.run(reasons("horovod:1"))
    assert (live["stop"], live["suspend"], live["restart"]) == ("no right to stop", "no right to suspend", "")
    assert (ended["stop"], ended["again"], ended["delete"]) == ("it has ended", "not from here", "")


def test_what_a_cluster_says_about_a_wait_is_text(memory: MemoryBackend) -> None:
    uid, found = next(iter(memory.capacity.waiting.items()))
    line = EvidenceLine(kind="Pod", name="train-worker-0", field="status.conditions[PodScheduled]", text=HOSTILE)
    hint = Hint("a node is too small", "kubectl get nodes")
    why = Why(run=found.run, code=WhyCode.SCHEDULER, message=HOSTILE, evidence=(line,), hints=(hint,))
    waits = msgspec.structs.replace(found, demand={}, why=why)
    memory.capacity = msgspec.structs.replace(memory.capacity, waiting={uid: waits})
    page, data = asyncio.run(pages_of(memory, {"scope": ELSEWHERE}, f"/jobs/{uid}", f"/api/jobs/{uid}"))
    assert HOSTILE not in page
    for text in ("Pod train-worker-0", "status.conditions[PodScheduled]", "kubectl get nodes", "&lt;script&gt;"):
        assert text in page
    assert "What would start it now" not in page
    [evidence] = json.loads(data)["waiting"]["evidence"]
    assert evidence["subject"] == "Pod train-worker-0"


def test_pods_that_are_not_readable_are_counted_by_their_controller() -> None:
    counts = {"worker": TaskState(phase={"Running": 2, "Failed": 1})}
    tasks = [TaskSpec(name="master", replicas=1), TaskSpec(name="worker", replicas=4)]
    job = Job(spec=JobSpec(tasks=tasks), status=JobStatus(task_status_count=counts))
    assert [(each.name, each.total, each.counts) for each in counted_pods(job)] == [
        ("master", 1, {}),
        ("worker", 4, {PodState.RUNNING: 2, PodState.FAILED: 1}),
    ]


@pytest.mark.parametrize(
    ("capacity", "names"),
    [
        pytest.param(Resources(), [], id="nothing is limited"),
        pytest.param(Resources(cpu=8.0), ["CPU"], id="only CPUs"),
        pytest.param(Resources(cpu=8.0, memory=1, gpu_number=4), ["CPU", "Memory", "GPU"], id="GPUs as a number"),
    ],
)
def test_what_has_no_limit_has_no_meter(capacity: Resources, names: list[str]) -> None:
    held = Reservation(job="train", uid="u", resources=Resources(cpu=2.0, gpu_number=1))
    meters = machine_meters(Info(scope="", host="", version="", now=NOW, capacity=capacity, reserved=(held,)))
    assert [each.name for each in meters] == names
    assert [each.parts[0][2] for each in meters[2:]] == ["train: 1"][: len(meters[2:])]
