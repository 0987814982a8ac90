"""Processes of containers; those of a program in namespaces of its own stand for a container."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pumice.engines.local.sandbox.memory.container_processes import (
    ContainerProcesses,
    Found,
    Identity,
    identify,
    namespace,
    own_number,
)
from tests.local.sandbox.boxes import need_namespaces

# A pid namespace with a nested one in it.
NESTED = "sleep 100 & unshare -Urpf sh -c 'sleep 100 & echo ready; wait' & wait"


@pytest.fixture(autouse=True)
def _possible() -> None:
    need_namespaces()


@contextmanager
def container(script: str) -> Iterator[int]:
    """The first process of a pid namespace, after the script has printed a line."""
    argv = ["unshare", "-Urpf", "--kill-child", "sh", "-c", script]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "ready\n"
            [first] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            yield int(first)
        finally:
            process.kill()


def _known(*identities: Identity | None) -> ContainerProcesses:
    processes = ContainerProcesses()
    for each in identities:
        assert each is not None
        processes.add(each)
    return processes


def test_processes_in_nested_pid_namespaces_belong_to_the_container() -> None:
    with container(NESTED) as first:
        identity = identify("pod", first, namespace(first, "pid"))
        found = _known(identity).find()
        assert identity is not None
        # Two shells, two children of theirs, and the parent of the second shell.
        assert (len(found.own[identity]), found.unclear) == (5, {})


def test_containers_that_share_a_pid_namespace_are_distinguished_by_their_first_process_and_mounts() -> None:
    with container("sleep 100 & sleep 100 & echo ready; wait") as first:
        pids = namespace(first, "pid")
        one, other = map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split())
        holder = identify("pod", first, pids)
        joined = Identity("pod", one, pids, mounts=-2, root=-2, joined=True)
        found = _known(holder, joined).find()
        assert holder is not None
        # The mount namespace of the other one is that of the holder.
        assert found == Found({holder: [first, other], joined: [one]}, {})
        elsewhere = holder._replace(mounts=-3)
        assert _known(elsewhere, joined).find() == Found({elsewhere: [first], joined: [one]}, {pids: [other]})


def test_processes_are_ignored_on_request() -> None:
    with container("sleep 100 & sleep 100 & echo ready; wait") as first:
        one, other = map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split())
        identity = identify("pod", first, namespace(first, "pid"))
        assert identity is not None
        processes = ContainerProcesses(lambda: {one})
        processes.add(identity)
        assert processes.find() == Found({identity: [first, other]}, {})


def test_a_process_that_has_ended_is_no_container() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert identify("pod", process.pid, 1) is None
    assert ContainerProcesses().find() == Found({}, {})


def test_the_number_of_a_process_in_this_namespace() -> None:
    assert own_number(os.getpid()) == os.getpid()
    with pytest.raises(ProcessLookupError):
        own_number(1 << 30)
