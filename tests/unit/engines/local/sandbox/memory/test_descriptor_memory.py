"""Memory by descriptors of this process."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack

from pumice.engines.local.sandbox.memory.descriptor_memory import memory_device, most_in_pipes, read_descriptors

MIB = 1 << 20


def test_files_pipes_and_sockets_count_once() -> None:
    with ExitStack() as opened:
        file = os.memfd_create("x")
        opened.callback(os.close, file)
        os.truncate(file, 1 << 40)
        os.write(file, bytes(2 * MIB))
        opened.callback(os.close, os.dup(file))
        reader, writer = os.pipe()
        empty, _ = ends = os.pipe()
        for each in (reader, writer, *ends):
            opened.callback(os.close, each)
        os.write(writer, bytes(5))
        one, other = socket.socketpair()
        opened.callback(one.close)
        opened.callback(other.close)
        found = read_descriptors([os.getpid(), os.getpid()], memory_device())
        assert found.memfds[os.fstat(file).st_ino] == 2 * MIB
        assert found.pipes[os.fstat(reader).st_ino] == 5 * os.sysconf("SC_PAGE_SIZE")
        assert found.pipes[os.fstat(empty).st_ino] == 0
        assert {os.fstat(each.fileno()).st_ino for each in (one, other)} <= found.sockets
        assert found.size >= 2 * MIB


def test_what_has_ended_has_nothing() -> None:
    assert read_descriptors([], memory_device()).size == 0
    assert read_descriptors([1 << 30], memory_device()).size == 0


def test_the_bound_of_pipes_grows_with_descriptors() -> None:
    assert 0 < most_in_pipes(64) < most_in_pipes(1 << 20)
