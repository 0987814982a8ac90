from __future__ import annotations

import contextlib
import itertools
import os
import socket

import pytest

from pumice.engines.local.sandbox import protocol
from pumice.engines.local.sandbox.specs import ContainerSpec, File, Mount, RootFs, Tmpfs

FULL = ContainerSpec(
    id="pod/c",
    pod="pod",
    argv=("sh", "-c", "echo \udcff ü"),
    env={"A": "1", "Ü": "\udcfe"},
    cwd="/",
    root=RootFs(image="/image", upper="/upper"),
    mounts=(Mount("/a", "/b", read_only=True), Tmpfs("/t", "v", 5, 0o700)),
    files=(File("/f", bytes(range(256)), 0o600),),
    uid=1,
    gid=2,
    groups=(3, 4),
    cpus=(0, 1),
    memory=5,
    cpu_quota=0.5,
    pids=6,
    devices=("/dev/x",),
    hidden=("/home",),
    share_pid_with="other",
)


@pytest.mark.parametrize("size", [pytest.param(0, id="short"), pytest.param(3_000_000, id="longer than a packet")])
def test_a_spec_and_a_descriptor_arrive(size: int) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        reader, writer = os.pipe()
        protocol.send(ours, {"id": 1, "spec": protocol.encode_spec(FULL), "padding": "x" * size}, [writer])
        os.close(writer)
        received = protocol.receive(theirs)
        assert received is not None
        message, (copy,) = received
        assert protocol.decode_spec(message["spec"]) == FULL
        assert not os.get_inheritable(copy)
        os.write(copy, b"through")
        os.close(copy)
        assert os.read(reader, 99) == b"through"
        os.close(reader)


def test_receive_returns_none_at_the_end() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.close()
    with theirs:
        assert protocol.receive(theirs) is None


def test_a_full_channel_takes_no_part_of_a_message() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ours.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            for sent in itertools.count():
                protocol.send(ours, {"id": sent, "padding": "x" * 20_000})
        for number in range(sent):
            received = protocol.receive(theirs)
            assert received is not None
            assert received[0]["id"] == number
