"""Memory limits: by control group where there are any, by the watchdog elsewhere; the outcome is the same."""

from __future__ import annotations

import os
import sys

import pytest

from pumice.engines.local.sandbox.client import Ended
from tests.local.sandbox.boxes import Box, in_box, kernel, python_mounts

pytestmark = pytest.mark.usefixtures("namespaces")

MIB = 1 << 20
HOG = "import time\nblocks = []\nwhile True:\n    blocks.append(b'x' * (8 << 20)); time.sleep(0.02)\n"
SHARING = """
import os, time
block = b'x' * (60 << 20)
children = []
for _ in range(4):
    child = os.fork()
    if child == 0:
        time.sleep(0.8); os._exit(0)
    children.append(child)
for child in children: os.waitpid(child, 0)
"""


@in_box
async def test_a_container_over_its_limit_ends_with_137_and_its_neighbour_goes_on(box: Box) -> None:
    await box.pod("a")
    neighbour = await box.start(box.spec("a", "sleep", "1000", memory=100 * MIB))
    output = await box.python("a", HOG, memory=100 * MIB)
    assert await output.ended() == Ended(137, 9, oom=True)
    assert (await box.exec(neighbour.container, "true"))[0] == 0


@in_box
async def test_a_child_over_the_limit_ends_the_whole_container(box: Box) -> None:
    await box.pod("a")
    script = f"'{sys.executable}' -I -S -c \"$HOG\"; echo survived"
    env = {"PATH": os.defpath, "HOG": HOG}
    spec = box.spec("a", "sh", "-c", script, env=env, memory=100 * MIB, mounts=python_mounts())
    assert await box.run(spec) == (Ended(137, 9, oom=True), "")


@in_box
async def test_a_kill_below_the_limit_is_not_out_of_memory(box: Box) -> None:
    await box.pod("a")
    ended, _ = await box.run(box.spec("a", "sh", "-c", "sh -c 'kill -9 $$'; exit $?", memory=200 * MIB))
    assert ended == Ended(137, 0, oom=False)


@in_box
async def test_pages_shared_by_forked_workers_count_once(box: Box) -> None:
    await box.pod("a")
    output = await box.python("a", SHARING, memory=150 * MIB)
    assert (await output.rest(), await output.ended()) == ("", Ended(0, 0, oom=False))


@in_box
async def test_control_groups_limit_processes_and_cpu(box: Box) -> None:
    if not {"pids", "cpu"} <= kernel().limits:
        pytest.skip("this user may not create control groups")
    await box.pod("a")
    code, text = await box.shell("a", "for i in 1 2 3 4 5 6 7 8 9; do sleep 5 & done; true", pids=5)
    assert (code, "fork" in text) == (2, True), text
    spin = "import time; e = time.monotonic() + 1\nwhile time.monotonic() < e: pass\nprint(time.process_time())"
    output = await box.python("a", spin, cpu_quota=0.25)
    assert float(await output.rest()) < 0.6
