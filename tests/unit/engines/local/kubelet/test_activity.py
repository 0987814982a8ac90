"""What a silent container does, read from /proc."""

from __future__ import annotations

import socket
import struct

import pytest

from pumice.engines.local.kubelet.activity import activity, lacks_py_spy


def _number(address: str) -> str:
    return f"{struct.unpack('=I', socket.inet_aton(address))[0]:08X}"


def test_processes_and_connections_are_described() -> None:
    output = (
        "look 6\n1 (python3) S 0 1 1 0\n6 (sh) S 1 1 1\n7 (cat) R 6 1\n9 (my (odd) name) D 1 1\n"
        "  sl  local_address rem_address   st tx_queue\n"
        f"   0: {_number('10.0.0.2')}:A000 {_number('10.0.0.9')}:0016 01 0:0\n"
        f"   1: {_number('10.0.0.2')}:A001 {_number('10.0.0.1')}:5BA0 02 0:0\n"
        f"   2: 00000000:5BA0 00000000:0000 0A 0:0\n"
        "/proc/1/wchan:hrtimer_nanosleep\n/proc/9/wchan:0\n"
    )
    names = {"10.0.0.1": "master-0"}
    assert activity(output, lambda address: names.get(address, address)) == (
        "python3 sleeping in hrtimer_nanosleep, my (odd) name waiting for a device; "
        "waits for a connection to master-0:23456, connected to 10.0.0.9:22"
    )
    assert activity("", str) == "unknown"


@pytest.mark.parametrize(
    ("peer", "shown"),
    [
        pytest.param("::ffff:10.0.0.1", "master-0:23456", id="a peer of IPv4"),
        pytest.param("fd00::1", "[fd00::1]:23456", id="a peer of IPv6"),
    ],
)
def test_connections_of_ipv6_sockets(peer: str, shown: str) -> None:
    packed = socket.inet_pton(socket.AF_INET6, peer)
    number = "".join(f"{word:08X}" for word in struct.unpack("=4I", packed))
    output = (
        f"1 (java) S 0 1\n   0: {'0' * 32}:A000 {number}:5BA0 01 0:0\n   1: {'0' * 32}:5BA0 {'0' * 32}:0000 0A 0:0\n"
    )
    names = {"10.0.0.1": "master-0"}
    assert activity(output, lambda address: names.get(address, address)) == f"java sleeping; connected to {shown}"


def test_the_functions_of_python_processes_where_py_spy_lists_them() -> None:
    output = (
        "look 6\n1 (python3) S 0 1 1 0\n2 (pt_main_thread) S 0 1 1 0\n/proc/1/wchan:futex_do_wait\n"
        'Process 1: python3 train.py\nPython v3.11.2 (/usr/bin/python3)\n\nThread 9 (idle): "helper"\n    x (y.py:1)\n'
        'Thread 1 (idle): "MainThread"\n    wait (threading.py:324)\n    f (train.py:9)\n    <module> (train.py:14)\n'
        'Process 2: python3\nPython v3.11.2\n\nThread 2 (active): "MainThread"\n    <module> (a.py:3)\n'
    )
    assert activity(output, str) == (
        "python3 sleeping in wait (threading.py:324), called by <module> (train.py:14), "
        "pt_main_thread sleeping in <module> (a.py:3)"
    )


def test_py_spy_of_a_program_without_threads_whose_command_has_several_lines() -> None:
    output = (
        "look 6\n1 (python3) S 0 1 1 0\nProcess 1: python3 -c import time\ndef stuck(): time.sleep(9)\nstuck()\n"
        "Python v3.11.7 (/usr/bin/python3.11)\n\nThread 1 (idle)\n    stuck (<string>:2)\n    <module> (<string>:3)\n"
    )
    assert activity(output, str) == "python3 sleeping in stuck (<string>:2), called by <module> (<string>:3)"


@pytest.mark.parametrize(
    ("output", "lacks"),
    [
        pytest.param("look 6\n1 (python3.11) S 0 1\nno py-spy\n", True, id="Python without py-spy"),
        pytest.param("look 6\n1 (sleep) S 0 1\nno py-spy\n", False, id="another program"),
        pytest.param("look 6\n1 (python3.11) S 0 1\n", False, id="py-spy is there and found nothing"),
    ],
)
def test_py_spy_is_missed(output: str, lacks: bool) -> None:
    assert lacks_py_spy(output) is lacks
