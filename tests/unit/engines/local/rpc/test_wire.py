"""Messages and descriptors between two processes, without event loop."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.rpc.wire import Format, Wire, WireError, close_all, encode_json

LIMIT = 4 << 20


class RefusedError(Exception):
    pass


FORMAT = Format(encode_json, json.loads, lambda error: [str(error)], lambda plain: RefusedError(*plain), LIMIT)


@pytest.fixture
def wires() -> Iterator[tuple[Wire, Wire]]:
    ours, theirs = (Wire(end, FORMAT) for end in socket.socketpair())
    yield ours, theirs
    ours.close()
    theirs.close()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def through(descriptor: int, reader: int) -> None:
    """The descriptor writes to the pipe of this reader, and is not inherited."""
    assert not os.get_inheritable(descriptor)
    os.write(descriptor, b"through")
    assert os.read(reader, 99) == b"through"
    close_all((descriptor, reader))


@pytest.mark.parametrize("size", [0, 3_000_000], ids=["short", "longer than the buffer of the socket"])
def test_a_message_arrives_with_its_descriptor(wires: tuple[Wire, Wire], size: int) -> None:
    ours, theirs = wires
    reader, writer = os.pipe()
    sender = threading.Thread(target=ours.send, args=({"text": "\udcff\n" + "x" * size}, [writer]))
    sender.start()
    received = theirs.receive()
    sender.join()
    assert received is not None
    message, (copy,) = received
    assert message == {"text": "\udcff\n" + "x" * size}
    through(copy, reader)


def test_descriptors_stay_with_their_messages(wires: tuple[Wire, Wire]) -> None:
    ours, theirs = wires
    pipes = [os.pipe() for _ in range(6)]
    sent = [[], [0, 1], [], [2], [], [3, 4, 5]]
    for number, each in enumerate(sent):
        ours.put({"number": number}, [pipes[index][1] for index in each])
    assert ours.flush()
    for number, each in enumerate(sent):
        received = theirs.receive()
        assert received is not None
        assert received[0] == {"number": number}
        for copy, index in zip(received[1], each, strict=True):
            through(copy, pipes[index][0])


def test_a_full_socket_takes_the_rest_later(wires: tuple[Wire, Wire]) -> None:
    ours, theirs = wires
    numbers = 0
    while ours.flush():
        ours.put({"number": numbers, "padding": "x" * 20_000})
        numbers += 1
    for number in range(numbers):
        while (received := theirs.take()) is None:
            theirs.read()
            ours.flush()
        assert received[0]["number"] == number
    assert ours.unsent == 0


def test_the_end_of_the_connection(wires: tuple[Wire, Wire]) -> None:
    ours, theirs = wires
    ours.send({"last": True})
    ours.close()
    assert theirs.receive() == ({"last": True}, [])
    assert theirs.receive() is None
    with pytest.raises(OSError, match="Broken pipe"):
        theirs.send({})


def test_a_silent_peer(wires: tuple[Wire, Wire]) -> None:
    with pytest.raises(TimeoutError):
        wires[0].receive(0.01)


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", "not a JSON object", id="another protocol"),
        pytest.param(b"\xff\xfe\n", "not a JSON object", id="no text"),
        pytest.param(b"[" * 100_000 + b"\n", "not a JSON object", id="too deep"),
        pytest.param(b"[1]\n", "not a JSON object", id="no object"),
        pytest.param(b"x" * (LIMIT + 1), "more than 4 MiB", id="too long"),
        pytest.param(b'{"x":"' + b"x" * LIMIT + b'"}\n', "more than 4 MiB", id="too long, and complete"),
        pytest.param(b'{"descriptors":1}\n', "1 descriptors, and 0 came", id="no descriptor"),
        pytest.param(b'{"descriptors":-1}\n', "-1 descriptors", id="fewer descriptors than none"),
        pytest.param(b'{"descriptors":"all"}\n', "all descriptors", id="no number"),
        pytest.param(b'{"id":[1]}\n', "id of a message is not a number", id="an id that is a list"),
    ],
)
def test_what_is_no_message_is_an_error(wires: tuple[Wire, Wire], sent: bytes, message: str) -> None:
    ours, theirs = wires
    sender = threading.Thread(target=ours.socket.sendall, args=(sent,))
    sender.start()
    with pytest.raises(WireError, match=message):
        theirs.receive()
    theirs.socket.close()
    sender.join()


def test_descriptors_without_a_message_are_limited_and_closed(wires: tuple[Wire, Wire]) -> None:
    ours, theirs = wires
    null = os.open(os.devnull, os.O_RDONLY)
    before = open_files()
    for _ in range(5):
        socket.send_fds(ours.socket, [b" "], [null] * 200)
        assert theirs.read()
    socket.send_fds(ours.socket, [b" "], [null] * 200)
    with pytest.raises(WireError, match="too many descriptors"):
        theirs.read()
    theirs.close()
    assert open_files() == before - 1
    os.close(null)


def test_calls_are_answered_or_refused(wires: tuple[Wire, Wire]) -> None:
    ours, theirs = wires
    reader, writer = os.pipe()

    def answer(request: dict[str, Any]) -> tuple[Any, list[int]]:
        if request["do"] == "refuse":
            raise ValueError("no")
        return request["text"], [writer]

    server = threading.Thread(target=theirs.serve, args=(answer,))
    server.start()
    with pytest.raises(RefusedError, match="no"):
        ours.call("refuse")
    result, (copy,) = ours.call("echo", text="hi")
    assert result == "hi"
    through(copy, reader)
    ours.close()
    server.join()


@pytest.mark.parametrize("end", [True, False], ids=["it ends", "announcements come first"])
def test_a_call_without_an_answer(wires: tuple[Wire, Wire], end: bool) -> None:
    ours, theirs = wires
    theirs.send({"event": 1}, [os.open(os.devnull, os.O_RDONLY)])
    if not end:
        theirs.send({"id": 1, "result": 5})
        assert ours.call("what") == (5, [])
        return
    theirs.socket.shutdown(socket.SHUT_WR)
    with pytest.raises(ConnectionResetError, match="before the answer"):
        ours.call("what")


def test_an_error_that_nobody_understands(wires: tuple[Wire, Wire]) -> None:
    ours, theirs = wires
    theirs.send({"id": 1, "error": 5})
    with pytest.raises(WireError, match="an error cannot be read: TypeError"):
        ours.call("what")


def test_an_unsendable_message_leaves_the_wire_as_it_was(wires: tuple[Wire, Wire]) -> None:
    ours, theirs = wires
    given = os.open(os.devnull, os.O_RDONLY)
    with pytest.raises(TypeError):
        ours.put({"what": object()}, [given])
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(given)
    ours.send({"next": 1})
    assert theirs.receive() == ({"next": 1}, [])
