"""What becomes of pods and containers when the sandbox dies under them, in real namespaces."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from pumice.engines.local.sandbox.sandbox_errors import SandboxError
from pumice.model.job import Manifest
from pumice.model.snapshot import PodPhase
from tests.local.lives import ADDRESS, Harness, pod_manifest, shell
from tests.local.sandbox import boxes
from tests.local.sandbox.boxes import Box, in_box

UP = "echo up; sleep 600"
# Longer than any test may take: who waits for it fails.
GRACE = 600


@pytest.fixture(autouse=True)
def _possible() -> None:
    boxes.need_namespaces()


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - every test has an end
        await asyncio.sleep(0.01)


def lose(box: Box) -> None:
    os.kill(box.sandbox.pid, signal.SIGKILL)


@in_box
async def test_a_container_that_is_lost_is_not_waited_for(box: Box) -> None:
    harness = Harness(box)
    await box.pod("pod", ADDRESS)
    container = harness.container(shell(UP), grace=GRACE)
    life = asyncio.create_task(container.run("Never"))
    await until(lambda: container.running and harness.lines)
    lose(box)
    with pytest.raises(SandboxError, match="job-init has ended"):
        await life
    assert (container.running, container.started, container.ready) == (False, False, False)
    await container.stop(GRACE)


@in_box
async def test_who_waits_for_the_end_of_a_container_hears_that_it_is_lost(box: Box) -> None:
    harness = Harness(box)
    await box.pod("pod", ADDRESS)
    container = harness.container(shell("trap '' TERM; echo up; while :; do sleep 0.05; done"), grace=GRACE)
    life = asyncio.create_task(container.run("Never"))
    await until(lambda: container.running and harness.lines)
    stopping = asyncio.create_task(container.stop(GRACE))
    await asyncio.sleep(0.05)
    lose(box)
    await stopping
    await asyncio.gather(life, return_exceptions=True)


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(pod_manifest(shell(UP), terminationGracePeriodSeconds=GRACE), id="a container"),
        pytest.param(
            pod_manifest(
                {**shell("true"), "name": "main"},
                initContainers=[
                    shell(
                        UP,
                        restartPolicy="Always",
                        startupProbe={"exec": {"command": ["false"]}, "failureThreshold": 1000},
                    )
                ],
            ),
            id="a sidecar that has not started",
        ),
    ],
)
def test_a_pod_that_is_lost_has_failed_and_can_be_removed(tmp_path: Path, manifest: Manifest) -> None:
    async def story() -> None:
        async with boxes.box(tmp_path / "stage") as box:
            harness = Harness(box)
            pod = harness.pod(manifest)
            pod.begin()
            await until(lambda: harness.lines)
            lose(box)
            await pod.gone()
            failure = pod.observed().first_failure
            assert failure is not None
            assert (pod.phase, failure.reason) == (PodPhase.FAILED, "SandboxError")
            await pod.delete()

    boxes.run(story())
