"""LocalRun as a Python program uses it: real pods, without the command line."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pumice.admission.admit import admit
from pumice.client.local.reasons import why_run
from pumice.client.local.run_reader import summary
from pumice.diagnosis.why import WhyCode
from pumice.engines.local import local_run
from pumice.engines.local.clock import wall_clock
from pumice.engines.local.kubelet import hang_watch
from pumice.engines.local.kubelet.sampler import Sampler
from pumice.engines.local.local_run import LocalRun
from pumice.engines.local.preparation.default_settings import default_settings
from pumice.model.snapshot import PodPhase
from pumice.runtime.offline_context import offline_context
from pumice.store.events import (
    HangEnded,
    LogOutput,
    PhaseChanged,
    PodChanged,
    RunEvent,
    RunHangs,
    Stopping,
    Tick,
    WarningIssued,
)
from pumice.store.files.run_store import RunStore
from pumice.store.options import Isolation, Network, RunOptions
from pumice.store.run_end import RunEnded, Stop
from pumice.store.run_errors import InvalidOption, NoSuchPod, WrongState
from pumice.store.run_request import RunRequest
from tests.local.running import job, task
from tests.local.sandbox.boxes import need_namespaces
from tests.patience import PATIENCE

WAITS = "trap 'echo farewell; exit 0' TERM; echo up; while :; do sleep 0.05; done"


@dataclass
class Run:
    """A session with the events that it has emitted."""

    session: LocalRun
    events: list[RunEvent] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def listen(self, event: RunEvent) -> None:
        self.events.append(event)
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    @property
    def output(self) -> list[tuple[str, str]]:
        return [(line.pod, line.text) for event in self.events if isinstance(event, LogOutput) for line in event.lines]

    @property
    def running(self) -> set[str]:
        """The pods whose last phase is Running."""
        phases = {event.pod.short_name: event.pod for event in self.events if isinstance(event, PodChanged)}
        return {name for name, pod in phases.items() if pod.phase is PodPhase.RUNNING and not pod.is_deleting}


def a_session(tmp_path: Path, document: dict[str, Any], **options: Any) -> LocalRun:
    settings = replace(default_settings(os.environ), workdir=tmp_path, state=tmp_path / "state")
    chosen = RunOptions(settings, **{"network": Network.JOB, **options})
    return LocalRun(RunRequest(admit(document, offline_context()), chosen))


def play(session: LocalRun, story: Callable[[Run], Awaitable[None]]) -> tuple[Run, RunEnded]:
    """Run the session, and the story beside it."""

    async def both() -> tuple[Run, RunEnded]:
        run = Run(session)
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
            running = tasks.create_task(session.run(run.listen))
            await story(run)
        return run, running.result()

    return asyncio.run(both())


@pytest.mark.parametrize("isolation", [Isolation.NAMESPACES, Isolation.PROCESS])
def test_stop_scale_kill_and_exec_while_a_job_runs(tmp_path: Path, isolation: Isolation) -> None:
    need_namespaces()
    policies = [{"event": "PodFailed", "action": "RestartPod"}]
    session = a_session(tmp_path, job(task("w", WAITS, 2), policies=policies, maxRetry=9), isolation=isolation)

    async def story(run: Run) -> None:
        with pytest.raises(WrongState):
            session.scale({"w": 1})
        await run.until(lambda: run.running == {"w-0", "w-1"})
        code, output = await session.exec("w-0", ["sh", "-c", "echo $VC_TASK_INDEX in; echo err >&2; exit 7"])
        assert (code, output.split()) == (7, [b"in", b"err"])
        with pytest.raises(TimeoutError):
            await session.exec("w-0", ["sleep", "100"], timeout=0.1)
        with pytest.raises(NoSuchPod, match="the job has no pod w-7"):
            await session.exec("w-7", ["true"])
        with pytest.raises(NoSuchPod, match="pod w-0 has no container other"):
            await session.exec("w-0", ["true"], container="other")
        session.scale({"w": 3})
        await run.until(lambda: run.running == {"w-0", "w-1", "w-2"})
        assert (await session.exec("w-2", ["true"]))[0] == 0
        with pytest.raises(InvalidOption, match="the job has no task nobody"):
            session.scale({"nobody": 1})
        with pytest.raises(InvalidOption, match=r"spec\.tasks\[0\]\.replicas"):
            session.scale({"w": -1})
        session.scale({"w": 1})
        await run.until(lambda: run.running == {"w-0"} and len(_farewells(run)) == 2)
        assert await session.kill("w-0")
        await run.until(lambda: [text for pod, text in run.output if pod == "w-0"].count("up") == 2)
        await run.until(lambda: run.running == {"w-0"})
        assert session.stop(Stop(3, "Enough"))
        assert not session.stop(Stop(4, "Ignored"))

    run, outcome = play(session, story)
    assert (outcome.exit_code, outcome.reason, outcome.phase) == (3, "Enough", "Terminated")
    assert {pod for pod, _ in _farewells(run)} == {"w-0", "w-1", "w-2"}
    assert any(isinstance(event, Stopping) for event in run.events)
    assert run.events[-1] is outcome
    assert not list((tmp_path / "state").glob("runs/*/*/*/scratch"))


def _farewells(run: Run) -> list[tuple[str, str]]:
    return [(pod, text) for pod, text in run.output if text == "farewell"]


def test_an_update_fires_job_updated(tmp_path: Path) -> None:
    need_namespaces()
    policies = [{"event": "JobUpdated", "action": "CompleteJob"}]
    session = a_session(tmp_path, job(task("w", WAITS), policies=policies))

    async def story(run: Run) -> None:
        await run.until(lambda: run.running == {"w-0"})
        session.scale({"w": 1})
        session.scale({"w": 2})

    run, outcome = play(session, story)
    assert outcome.exit_code == 0
    acted = [event.acted for event in run.events if isinstance(event, PhaseChanged) and event.acted is not None]
    assert [(each.event, each.action) for each in acted] == [("JobUpdated", "CompleteJob")]


def test_the_outcome_names_the_first_failure(tmp_path: Path) -> None:
    need_namespaces()
    session = a_session(tmp_path, job(task("w", "echo why >&2; exit 5")))

    async def story(_run: Run) -> None:
        return

    _, outcome = play(session, story)
    first = outcome.first
    assert first is not None
    assert (first.pod, first.code, first.line) == ("w-0", 5, "why")
    assert (outcome.exit_code, outcome.phase) == (5, "Failed")
    assert Path(outcome.verdict.log if outcome.verdict else "").read_text() == "why\n"


def test_a_listener_that_fails_stops_the_run_and_its_exception_is_raised(tmp_path: Path) -> None:
    need_namespaces()
    session = a_session(tmp_path, job(task("w", WAITS)))

    def listen(event: RunEvent) -> None:
        if isinstance(event, PodChanged):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(session.run(listen))


def test_a_run_that_does_not_end_is_killed_after_its_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hang(*_: object) -> None:
        await asyncio.sleep(1000)

    monkeypatch.setattr(local_run, "PATIENCE", 0.01)
    monkeypatch.setattr(local_run, "open_sandbox", hang)
    pod = {"terminationGracePeriodSeconds": 0}
    session = a_session(tmp_path, job(task("w", WAITS, pod=pod)), timeout=0.01)
    outcome = asyncio.run(session.run(lambda _event: None))
    assert (outcome.exit_code, outcome.reason) == (124, "Timeout")


def test_a_cancelled_run_leaves_nothing(tmp_path: Path) -> None:
    need_namespaces()
    session = a_session(tmp_path, job(task("w", WAITS)))

    async def cancelled() -> None:
        run = Run(session)
        task = asyncio.create_task(session.run(run.listen))
        await run.until(lambda: run.running == {"w-0"})
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert not list((tmp_path / "state").glob("runs/*/*/*/scratch"))


def test_a_session_needs_no_module_of_the_command_line() -> None:
    code = "import sys, pumice.engines.local.local_run; print([each for each in sys.modules if 'pumice.cli' in each])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


LISTENS = """
import socket, time
server = socket.create_server(("", 5000))
peer = server.accept()
time.sleep(600)
"""
# A socket of IPv6 with a peer of IPv4, as Java and Go open them.
CONNECTS = """
import socket, time
client = socket.socket(socket.AF_INET6)
while True:
    try:
        client.connect(("::ffff:" + socket.gethostbyname("story-master-0.story"), 5000))
        break
    except OSError:
        client = socket.socket(socket.AF_INET6)
        time.sleep(0.1)
print("connected", flush=True)
time.sleep(600)
"""


def test_a_silent_run_says_once_what_each_pod_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_namespaces()
    master = task("master", "", container={"command": ["python3", "-c", LISTENS]})
    worker = task("worker", "", container={"command": ["python3", "-c", CONNECTS]})
    document = job(master, worker, plugins={"svc": []})
    document["metadata"]["name"] = "story"

    async def story(run: Run) -> None:
        await run.until(lambda: ("worker-0", "connected") in run.output)
        monkeypatch.setattr(hang_watch, "_SILENT", 0.1)
        await run.until(lambda: any(isinstance(event, RunHangs) for event in run.events))
        # Three more looks at the clock, in which nothing is printed either.
        ticks = len([event for event in run.events if isinstance(event, Tick)])
        await run.until(lambda: len([event for event in run.events if isinstance(event, Tick)]) >= ticks + 3)
        run.session.stop(Stop(130, "Interrupted"), force=True)

    run, _ = play(a_session(tmp_path, document), story)
    [hang] = [event.hang for event in run.events if isinstance(event, RunHangs)]
    assert hang.running == 2
    [of_master, of_worker] = hang.doing
    assert of_master.pod == "master-0"
    assert re.search(r"^python3\S* sleeping(?: in .*)?; connected to worker-0:\d+$", of_master.text)
    assert of_worker.pod == "worker-0"
    assert re.search(r"^python3\S* sleeping(?: in .*)?; connected to master-0:5000$", of_worker.text)


def test_a_hang_is_shown_while_it_lasts_and_a_later_one_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `ps` and `why` say about the run comes from its store, so it holds for detached runs, too."""
    script = f"echo up; until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo again; exec sleep 600"
    session = a_session(tmp_path, job(task("only", script)))
    store, noted = RunStore(tmp_path / "state"), []

    def reported(run: Run, kind: type[RunHangs | HangEnded]) -> int:
        return len([event for event in run.events if isinstance(event, kind)])

    async def note(run: Run) -> None:
        # The status is written by then.
        ticks = len(run.events)
        await run.until(lambda: any(isinstance(event, Tick) for event in run.events[ticks + 2 :]))
        [stored] = store.active_runs()
        why = why_run(store, stored, wall_clock())
        noted.append((summary(stored, stored.status()).hang is not None, why.code, why.message.partition(" for ")[0]))

    async def story(run: Run) -> None:
        await run.until(lambda: ("only-0", "up") in run.output)
        monkeypatch.setattr(hang_watch, "_SILENT", 0.1)
        await run.until(lambda: reported(run, RunHangs) == 1)
        await note(run)
        monkeypatch.setattr(hang_watch, "_SILENT", 600.0)
        (tmp_path / "go").touch()
        await run.until(lambda: reported(run, HangEnded) == 1)
        await note(run)
        monkeypatch.setattr(hang_watch, "_SILENT", 0.1)
        await run.until(lambda: reported(run, RunHangs) == 2)
        await note(run)
        run.session.stop(Stop(130, "Interrupted"), force=True)

    play(session, story)
    hangs = (True, WhyCode.RUNNING, "no pod has printed anything")
    assert noted == [hangs, (False, WhyCode.RUNNING, "1 of 1 pods run"), hangs]


def test_an_error_beside_the_job_is_a_warning_and_the_clock_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_namespaces()

    async def fail(*_: object) -> None:
        raise RuntimeError("no look")

    monkeypatch.setattr(hang_watch.HangWatch, "check", fail)
    monkeypatch.setattr(Sampler, "run", fail)
    session = a_session(tmp_path, job(task("w", WAITS)))

    async def story(run: Run) -> None:
        await run.until(lambda: run.running == {"w-0"})
        ticks = run.events.count(Tick())
        await run.until(lambda: run.events.count(Tick()) >= ticks + 3)
        assert session.stop()

    run, _ = play(session, story)
    warnings = [event.message for event in run.events if isinstance(event, WarningIssued)]
    for name in ("watching the job", "measuring pods"):
        assert warnings.count(f"{name} failed: RuntimeError: no look") == 1
