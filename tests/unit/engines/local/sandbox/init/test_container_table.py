"""Processes that job-init forks: copies of it, until their command runs."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable

import pytest

from pumice.engines.local.sandbox.init.container_table import Process


@pytest.mark.parametrize(
    ("act", "is_copy"),
    [
        pytest.param(lambda _writer: None, True, id="before its command runs"),
        pytest.param(os.close, False, id="when its command runs"),
        pytest.param(lambda writer: os.write(writer, b"[]"), False, id="when it reports an error"),
    ],
)
def test_a_process_is_a_copy_of_its_parent_until_its_pipe_says_otherwise(
    act: Callable[[int], object], is_copy: bool
) -> None:
    reader, writer = os.pipe()
    with subprocess.Popen(["sleep", "100"]) as child:
        process = Process("a", child.pid, reader)
        act(writer)
        assert process.number == child.pid
        assert process.is_copy is is_copy
        process.send(signal.SIGKILL)
    process.errors = None
    assert not process.is_copy
    os.close(process.pidfd)
    os.close(reader)
