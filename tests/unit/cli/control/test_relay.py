"""The streams of a command in a pod, relayed by `pumice exec`."""

from __future__ import annotations

import json
import os
import socket

import pytest

from pumice.cli.control.relay import relay
from pumice.client.local.pods.entering import EnteredCommand
from pumice.engines.local.daemon.connections import FORMAT
from pumice.engines.local.rpc.wire import Wire


@pytest.mark.parametrize("together", [True, False], ids=["with the answer", "after it"])
def test_command_that_ends_at_once_is_noticed(together: bool, capfd: pytest.CaptureFixture[str]) -> None:
    ours, theirs = socket.socketpair()
    pipes = [os.pipe() for _ in range(3)]
    os.write(pipes[1][1], b"done\n")
    ends = [pipes[0][1], pipes[1][0], pipes[2][0]]
    answer, end = b'{"id":1,"result":{},"descriptors":3}\n', b'{"ended":3}\n'
    socket.send_fds(theirs, [answer + end if together else answer], ends)
    wire = Wire(ours, FORMAT)
    result, descriptors = wire.call("enter")
    assert (result, len(descriptors)) == ({}, 3)
    for descriptor in (*ends, pipes[0][0], pipes[1][1], pipes[2][1]):
        os.close(descriptor)
    if not together:
        theirs.sendall(end)
    entered = EnteredCommand(wire, descriptors)
    stdin = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    try:
        assert relay(entered, on_terminal=False) == 3
    finally:
        os.dup2(stdin, 0)
        os.close(stdin)
        os.close(null)
        entered.close()
    assert capfd.readouterr().out == "done\n"
    assert json.loads(theirs.recv(1000).splitlines()[0])["do"] == "enter"
    theirs.close()
