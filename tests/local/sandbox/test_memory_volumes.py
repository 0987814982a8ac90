"""Limits of memory: by control group where there are any, by the watchdog elsewhere; the outcome is the same."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pumice.engines.local.sandbox.client import Ended
from tests.local.sandbox.boxes import Box, box, in_box, kernel, python_mounts, run

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
async def test_too_much_is_137_and_said_to_be_for_memory(box: Box) -> None:
    await box.pod("a")
    spec = box.spec("a", sys.executable, "-I", "-S", "-c", HOG, memory=100 * MIB, mounts=python_mounts())
    ended, _ = await box.run(spec)
    assert ended == Ended(137, 9, oom=True)


@in_box
async def test_a_child_that_takes_too_much_takes_all_with_it(box: Box) -> None:
    await box.pod("a")
    script = f"'{sys.executable}' -I -S -c \"$HOG\"; echo survived"
    env = {"PATH": os.defpath, "HOG": HOG}
    spec = box.spec("a", "sh", "-c", script, env=env, memory=100 * MIB, mounts=python_mounts())
    assert await box.run(spec) == (Ended(137, 9, oom=True), "")


@in_box
async def test_a_kill_within_the_limit_is_not_for_memory(box: Box) -> None:
    await box.pod("a")
    ended, _ = await box.run(box.spec("a", "sh", "-c", "sh -c 'kill -9 $$'; exit $?", memory=200 * MIB))
    assert ended == Ended(137, 0, oom=False)


@in_box
async def test_pages_shared_by_forked_workers_count_once(box: Box) -> None:
    await box.pod("a")
    spec = box.spec("a", sys.executable, "-I", "-S", "-c", SHARING, memory=150 * MIB, mounts=python_mounts())
    ended, text = await box.run(spec)
    assert ended == Ended(0, 0, oom=False), text


@in_box
async def test_a_neighbour_is_not_touched(box: Box) -> None:
    await box.pod("a")
    quiet = await box.start(box.spec("a", "sleep", "1000", memory=100 * MIB))
    spec = box.spec("a", sys.executable, "-I", "-S", "-c", HOG, memory=100 * MIB, mounts=python_mounts())
    ended, _ = await box.run(spec)
    assert ended.oom
    assert (await box.sandbox.exec(quiet.container, ["/bin/true"], {}, 10))[0] == 0


def test_processes_and_cpu_by_control_group(tmp_path: Path) -> None:
    if not {"pids", "cpu"} <= kernel().limits:
        pytest.skip("no control groups that this user may make")

    async def story() -> None:
        async with box(tmp_path) as made:
            await made.pod("a")
            code, text = await made.shell("a", "for i in 1 2 3 4 5 6 7 8 9; do sleep 5 & done; true", pids=5)
            assert (code, "fork" in text) == (2, True), text
            spin = "import time; e = time.monotonic() + 1\nwhile time.monotonic() < e: pass\nprint(time.process_time())"
            spec = made.spec("a", sys.executable, "-I", "-S", "-c", spin, cpu_quota=0.25, mounts=python_mounts())
            _, text = await made.run(spec)
            assert float(text) < 0.6

    run(story())
