"""The life of a pod, in real namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.kubelet.pod import LocalPod, grace_of
from pumice.engines.local.sandbox.sandbox_errors import SandboxError
from pumice.model.job import Manifest
from pumice.model.snapshot import PodPhase, Waiting
from tests.local.lives import Harness, pod_manifest, shell
from tests.local.sandbox import boxes
from tests.local.sandbox.boxes import Box, in_box

POLITE = "trap 'echo farewell; exit 0' TERM; echo up; while :; do sleep 0.05; done"


@pytest.fixture(autouse=True)
def _possible() -> None:
    boxes.need_namespaces()


def named(name: str, script: str, **more: Any) -> Manifest:
    return {**shell(script), "name": name, **more}


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - every test has an end
        await asyncio.sleep(0.01)


async def lived(harness: Harness, manifest: Manifest) -> LocalPod:
    """A pod that has come to its end by itself."""
    pod = harness.pod(manifest)
    pod.begin()
    await pod.gone()
    return pod


@pytest.mark.parametrize(
    ("containers", "phase", "codes"),
    [
        pytest.param([shell("exit 0")], PodPhase.SUCCEEDED, [0], id="well"),
        pytest.param([shell("exit 3")], PodPhase.FAILED, [3], id="not well"),
        pytest.param([named("a", "exit 0"), named("b", "exit 4")], PodPhase.FAILED, [0, 4], id="one of two"),
        pytest.param([{"name": "c", "command": ["nothing"]}], PodPhase.FAILED, [127], id="not started"),
    ],
)
def test_how_it_ends(tmp_path: Path, containers: list[Manifest], phase: PodPhase, codes: list[int]) -> None:
    async def story() -> None:
        async with boxes.box(tmp_path / "stage") as box:
            pod = (await lived(Harness(box), pod_manifest(*containers))).observed()
            assert pod.phase is phase
            assert [end.exit_code for end in pod.ends] == codes
            assert (pod.name, pod.short_name, pod.is_deleting) == ("pod", "task-0", False)

    boxes.run(story())


@in_box
async def test_init_containers_come_one_after_the_other(box: Box) -> None:
    harness = Harness(box)
    inits = [named("one", "sleep 0.3; echo one"), named("two", "echo two")]
    pod = await lived(harness, pod_manifest(shell("echo last"), initContainers=inits))
    assert harness.lines == ["one", "two", "last"]
    assert pod.phase is PodPhase.SUCCEEDED


@in_box
async def test_the_host_name_is_the_full_one_where_the_pod_wants_it(box: Box) -> None:
    harness = Harness(box)
    names = {"hostname": "boss", "subdomain": "team", "setHostnameAsFQDN": True}
    await lived(harness, pod_manifest(shell("cat /proc/sys/kernel/hostname"), **names))
    assert harness.lines == ["boss.team.default.svc.cluster.local"]


@in_box
async def test_what_an_init_container_fails_at_is_the_pod_s_failure(box: Box) -> None:
    harness = Harness(box)
    pod = await lived(harness, pod_manifest(shell("echo never"), initContainers=[named("one", "exit 9")]))
    failure = pod.observed().first_failure
    assert failure is not None
    assert (pod.phase, failure.container, failure.exit_code) == (PodPhase.FAILED, "one", 9)
    assert harness.lines == []


@in_box
async def test_a_pod_is_pending_until_its_init_containers_are_done(box: Box) -> None:
    harness = Harness(box)
    pod = harness.pod(pod_manifest(shell(POLITE), initContainers=[named("one", "echo waits; sleep 600")]))
    pod.begin()
    await until(lambda: "waits" in harness.lines and pod.init_containers[0].running)
    assert pod.observed().phase is PodPhase.PENDING
    await pod.init_containers[0].kill(9)
    await pod.gone()


@in_box
async def test_a_pod_runs_until_the_output_of_its_ended_container_is_read(box: Box) -> None:
    harness = Harness(box)
    pod = harness.pod(pod_manifest(shell(POLITE)))
    pod.begin()
    # What it prints may be heard before it is known that it was started.
    await until(lambda: "up" in harness.lines and pod.is_running)
    harness.gate.close()
    assert await pod.kill(9)
    await until(lambda: not pod.is_running)
    assert pod.observed().phase is PodPhase.RUNNING
    assert pod.observed().ends == ()
    harness.gate.open()
    await pod.gone()
    assert pod.observed().phase is PodPhase.FAILED


@in_box
async def test_a_kill_hits_whatever_runs(box: Box) -> None:
    harness = Harness(box)
    pod = harness.pod(pod_manifest(shell(POLITE), initContainers=[named("one", "echo waits; sleep 600")]))
    pod.begin()
    await until(lambda: pod.init_containers and pod.init_containers[0].running)
    assert await pod.kill(9)
    await pod.gone()
    failure = pod.observed().first_failure
    assert failure is not None
    assert (failure.container, failure.signal) == ("one", 9)
    assert not await pod.kill(9)


@in_box
async def test_sidecars_start_first_and_end_last(box: Box) -> None:
    harness = Harness(box)
    says = "trap 'echo {0} ends; exit 1' TERM; echo {0}; touch /tmp/up; while :; do sleep 0.05; done"
    up = {"exec": {"command": ["test", "-e", "/tmp/up"]}, "periodSeconds": 0.05, "timeoutSeconds": 20}
    started = {"startupProbe": {**up, "failureThreshold": 2000}, "restartPolicy": "Always"}
    sidecars = [named(name, says.format(name), **started) for name in ("a", "b")]
    pod = await lived(harness, pod_manifest(shell("echo main; sleep 0.3"), initContainers=sidecars))
    assert set(harness.lines[:3]) == {"a", "b", "main"}
    assert harness.lines[3:] == ["b ends", "a ends"]
    # How they ended does not count.
    assert pod.phase is PodPhase.SUCCEEDED
    assert [end.container for end in pod.observed().ends] == ["c"]


@in_box
async def test_a_deleted_pod_ends_its_sidecars_last(box: Box) -> None:
    harness = Harness(box)
    helper = named("helper", POLITE.replace("farewell", "helper ends").replace("up", "helper"), restartPolicy="Always")
    pod = harness.pod(pod_manifest(shell(POLITE), initContainers=[helper]))
    pod.begin()
    await until(lambda: {"up", "helper"} <= set(harness.lines))
    await pod.delete()
    assert harness.lines[2:] == ["farewell", "helper ends"]
    assert pod.observed().is_deleting


@in_box
async def test_containers_share_the_network(box: Box) -> None:
    harness = Harness(box)
    server = "import socket; s = socket.create_server(('127.0.0.1', 80)); s.accept()[0].sendall(b'hello')"
    client = """
import socket, time
while True:
    try:
        print(socket.create_connection(("127.0.0.1", 80)).recv(9).decode())
        break
    except OSError:
        time.sleep(0.05)
"""
    programs = {"server": server, "client": client}
    containers = [{"name": name, "command": ["python3", "-S", "-c", text]} for name, text in programs.items()]
    pod = await lived(harness, pod_manifest(*containers))
    assert pod.phase is PodPhase.SUCCEEDED
    assert harness.lines == ["hello"]


# It finds neither itself nor the shell that runs it: for both, the pattern is a longer word.
_LOOK = "grep -qxz '33[.]25' /proc/[0-9]*/cmdline"


@pytest.mark.parametrize(
    ("shares", "script", "seen"),
    [
        pytest.param(True, f"until {_LOOK}; do sleep 0.2; done; echo yes", "yes", id="shared"),
        pytest.param(False, f"sleep 0.3; {_LOOK} && echo yes || echo no", "no", id="not"),
    ],
)
def test_processes_of_other_containers(tmp_path: Path, shares: bool, script: str, seen: str) -> None:
    async def story() -> None:
        async with boxes.box(tmp_path / "stage") as box:
            harness = Harness(box)
            manifest = pod_manifest(named("a", "sleep 33.25; true"), named("b", script), shareProcessNamespace=shares)
            pod = harness.pod(manifest)
            pod.begin()
            await until(lambda: harness.lines)
            assert harness.lines == [seen]
            await pod.delete()

    boxes.run(story())


@in_box
async def test_a_shared_namespace_outlives_the_container_that_ends_first(box: Box) -> None:
    harness = Harness(box)
    manifest = pod_manifest(named("a", "exit 0"), named("b", "sleep 0.5; echo still here"), shareProcessNamespace=True)
    pod = await lived(harness, manifest)
    assert pod.phase is PodPhase.SUCCEEDED
    assert harness.lines == ["still here"]


@in_box
async def test_a_pod_that_runs_for_too_long_is_ended(box: Box) -> None:
    harness = Harness(box)
    pod = await lived(harness, pod_manifest(shell(POLITE), activeDeadlineSeconds=0.5))
    assert (pod.phase, pod.reason) == (PodPhase.FAILED, "DeadlineExceeded")
    assert harness.warnings == ["ran for its activeDeadlineSeconds (0.5) and is stopped"]


@in_box
async def test_a_pod_can_come_again_with_the_same_name(box: Box) -> None:
    for _ in range(3):
        harness = Harness(box)
        pod = harness.pod(pod_manifest(shell(POLITE)))
        pod.begin()
        await until(lambda harness=harness: "up" in harness.lines)  # type: ignore[misc] # mypy does not infer a default's type
        await pod.delete()
        assert "farewell" in harness.lines


@in_box
async def test_an_error_of_the_sandbox_fails_the_pod(box: Box) -> None:
    pod = Harness(box).pod(pod_manifest(shell("true")))
    await box.sandbox.close()
    pod.begin()
    await pod.gone()
    failure = pod.observed().first_failure
    assert failure is not None
    assert (pod.phase, failure.reason) == (PodPhase.FAILED, "SandboxError")
    assert "task-0: the sandbox is closed" in failure.last_line
    with pytest.raises(SandboxError):
        await box.sandbox.create_pod("pod", "10.77.0.10", "pod")


class OneSlotScheduler:
    """Room for whoever is let in."""

    def __init__(self) -> None:
        self.room = asyncio.Event()
        self.story: list[str] = []

    async def acquire(self, pod: str, _spec: Manifest, waits: Callable[[], None]) -> None:
        waits()
        await self.room.wait()
        self.story.append(f"{pod} has it")

    def release(self, pod: str) -> None:
        self.story.append(f"{pod} gives it back")

    def pod_removed(self, pod: str) -> None:
        self.story.append(f"{pod} is removed")


@in_box
async def test_a_pod_whose_container_fails_again_and_again_says_so(box: Box) -> None:
    pod = Harness(box).pod(pod_manifest(shell("exit 7"), restartPolicy="OnFailure"))
    pod.begin()
    await until(lambda: pod.observed().waiting)
    waits = pod.observed()
    assert waits.waiting == Waiting("CrashLoopBackOff", f"container {pod.containers[0].name}: exit code 7")
    assert waits.changed_at == waits.ends[0].finished_at
    await pod.delete()


@in_box
async def test_a_pod_waits_until_it_is_scheduled(box: Box) -> None:
    scheduler = OneSlotScheduler()
    harness = Harness(box)
    pod = harness.pod(pod_manifest(shell("echo up")), scheduler)
    pod.begin()
    await until(lambda: pod.reason)
    assert (pod.observed().phase, pod.observed().reason) == (PodPhase.PENDING, "Unschedulable")
    assert pod.observed().waiting == Waiting("Unschedulable", "this machine has no room for it now")
    scheduler.room.set()
    await pod.gone()
    assert (pod.phase, pod.reason, harness.lines) == (PodPhase.SUCCEEDED, "", ["up"])
    await pod.delete()
    assert scheduler.story == ["pod has it", "pod gives it back", "pod is removed"]


@in_box
async def test_a_pod_that_is_ended_while_it_is_made_does_not_begin(box: Box) -> None:
    harness = Harness(box)
    pod = harness.pod(pod_manifest(shell("echo up; sleep 600")))
    pod.begin()
    # It has asked for its namespaces by then, and has no answer yet.
    await asyncio.sleep(0)
    await pod.end()
    assert (pod.phase, pod.containers, harness.lines) == (PodPhase.FAILED, [], [])


@in_box
async def test_a_pod_that_is_deleted_while_it_waits_does_not_begin(box: Box) -> None:
    scheduler = OneSlotScheduler()
    harness = Harness(box)
    pod = harness.pod(pod_manifest(shell("echo up")), scheduler)
    pod.begin()
    await until(lambda: pod.reason)
    await pod.delete()
    assert (pod.phase, harness.lines) == (PodPhase.FAILED, [])
    assert scheduler.story == ["pod gives it back", "pod is removed"]


@pytest.mark.parametrize(
    ("spec", "grace"), [({}, 30), ({"terminationGracePeriodSeconds": 0}, 0), ({"terminationGracePeriodSeconds": 5}, 5)]
)
def test_grace(spec: Manifest, grace: float) -> None:
    assert grace_of(spec) == grace
