from __future__ import annotations

import asyncio
import os
import socket
import stat
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.daemon import connections
from pumice.engines.local.daemon.connections import (
    FORMAT,
    RETIRE,
    Connection,
    Hello,
    Listener,
    bound_socket,
    connection_to,
    greeted_wire,
    unknown_request,
)
from pumice.engines.local.daemon.runtime_files import socket_address
from pumice.engines.local.rpc.wire import Message
from pumice.model.problem import Option, Position
from pumice.store.run_errors import ConnectionFailed, RefusedError, RunError, VersionMismatch


async def answer(request: Message) -> Any:
    match request["do"]:
        case "echo":
            return request["text"]
        case "refuse":
            raise RefusedError("no room", "make some")
        case "retire":
            return "bye"
    raise unknown_request(request)


@asynccontextmanager
async def server(path: Path, handler: Callable[[Connection], Awaitable[None]] | None = None) -> AsyncIterator[Listener]:
    async def serve(connection: Connection) -> None:
        await connection.serve_requests(answer)

    listening = Listener(lambda: path, handler or serve, "here")
    await listening.keep()
    try:
        yield listening
    finally:
        listening.close()


def test_requests_and_answers(tmp_path: Path) -> None:
    async def story() -> None:
        async with server(tmp_path / "s"), connection_to(tmp_path / "s") as connection:
            assert (connection.peer.serves, connection.peer.pid) == ("here", os.getpid())
            assert await connection.call("echo", text="x" * 100_000 + "\n") == "x" * 100_000 + "\n"
            with pytest.raises(RefusedError, match=r"no room\n.*make some") as refused:
                await connection.call("refuse")
            assert (refused.value.problem.message, refused.value.hint) == ("no room", "make some")
            with pytest.raises(RunError, match="unknown request 'dance'"):
                await connection.call("dance")
            assert await connection.call("echo", text="still there") == "still there"

    asyncio.run(story())


def test_only_the_user_can_connect(tmp_path: Path) -> None:
    async def story() -> None:
        async with server(tmp_path / "s"):
            assert stat.S_IMODE((tmp_path / "s").stat().st_mode) == 0o600

    asyncio.run(story())


def test_another_user_is_sent_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with server(tmp_path / "s"):
            real = connections.peer_uid
            monkeypatch.setattr(connections, "peer_uid", lambda peer: real(peer) + 1)
            with socket.socket(socket.AF_UNIX) as client:
                with socket_address(tmp_path / "s") as address:
                    client.connect(address)
                client.setblocking(False)
                assert await asyncio.get_running_loop().sock_recv(client, 100) == b""
            with pytest.raises(ConnectionFailed, match="another user"):
                async with connection_to(tmp_path / "s"):
                    pass

    asyncio.run(story())


def test_a_process_of_another_user_by_the_kernels_word(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    tmp_path.chmod(0o755)

    async def story() -> None:
        async with server(tmp_path / "s"):
            (tmp_path / "s").chmod(0o777)
            code = "import os, socket, sys; os.setuid(65534); s = socket.socket(socket.AF_UNIX)\n"
            code += "os.chdir(int(sys.argv[1])); s.connect('s'); sys.exit(len(s.recv(9)))"
            directory = os.open(tmp_path, os.O_RDONLY)
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", code, str(directory), pass_fds=(directory,)
            )
            os.close(directory)
            assert await process.wait() == 0

    asyncio.run(story())


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", "not a JSON object", id="another protocol"),
        pytest.param(b"[1]\n", "not a JSON object", id="no object"),
        pytest.param(b"{}\n", "does not say hello", id="no hello"),
        pytest.param(b'{"hello": {"protocol": "all"}}\n', "does not say hello", id="a wrong hello"),
        pytest.param(b"x" * (FORMAT.limit + 2), "more than 16 MiB", id="too long"),
    ],
)
def test_what_is_no_server_of_pumice(tmp_path: Path, sent: bytes, message: str) -> None:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        writer.close()

    async def story() -> None:
        listening = await asyncio.start_unix_server(answer, sock=bound_socket(tmp_path / "s"))
        with pytest.raises(ConnectionFailed, match=message):
            async with connection_to(tmp_path / "s"):
                pass
        with pytest.raises(ConnectionFailed, match=message):
            await asyncio.to_thread(greeted_wire, tmp_path / "s")
        listening.close()

    asyncio.run(story())


def test_a_server_that_has_just_ended_counts_as_one_that_does_not_listen(tmp_path: Path) -> None:
    async def end(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def story() -> None:
        listening = await asyncio.start_unix_server(end, sock=bound_socket(tmp_path / "s"))
        with pytest.raises(ConnectionRefusedError):
            async with connection_to(tmp_path / "s"):
                pass
        with pytest.raises(ConnectionRefusedError):
            await asyncio.to_thread(greeted_wire, tmp_path / "s")
        listening.close()

    asyncio.run(story())


def test_a_silent_server_is_reported(tmp_path: Path) -> None:
    async def story() -> None:
        with bound_socket(tmp_path / "s") as silent:
            silent.listen()
            with pytest.raises(ConnectionFailed, match="does not say hello"):
                async with connection_to(tmp_path / "s", patience=0.01):
                    pass

    asyncio.run(story())


def test_a_client_waits_while_many_others_do(tmp_path: Path) -> None:
    with bound_socket(tmp_path / "s") as busy, ExitStack() as stack:
        busy.listen(0)
        stack.enter_context(connections.connect(tmp_path / "s"))
        with pytest.raises(ConnectionFailed, match="accepts no connection"):
            connections.connect(tmp_path / "s", patience=0.01)
        with ThreadPoolExecutor(1) as other:
            waiting = other.submit(connections.connect, tmp_path / "s")
            for _ in range(2):
                stack.enter_context(busy.accept()[0])
            stack.enter_context(waiting.result())


def test_a_connection_that_ends_before_the_answer(tmp_path: Path) -> None:
    async def leave(connection: Connection) -> None:
        await connection.receive()

    async def story() -> None:
        async with server(tmp_path / "s", leave), connection_to(tmp_path / "s") as connection:
            with pytest.raises(ConnectionFailed, match="ended before the answer"):
                await connection.call("echo", text="")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("own", "other", "common"),
    [
        pytest.param((1, 1), (1, 1), 1, id="equal"),
        pytest.param((2, 3), (1, 2), 2, id="overlap"),
        pytest.param((1, 3), (2, 5), 3, id="the highest"),
        pytest.param((3, 4), (1, 2), None, id="the other is older"),
        pytest.param((1, 2), (3, 4), None, id="the other is newer"),
    ],
)
def test_the_common_protocol(
    own: tuple[int, int], other: tuple[int, int], common: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PROTOCOLS", own)
    assert Hello(protocol=other).common_protocol() == common


def test_without_a_common_protocol_a_server_only_retires(tmp_path: Path) -> None:
    async def story() -> None:
        async with server(tmp_path / "s"), connection_to(tmp_path / "s") as connection:
            connection.peer = Hello(protocol=(7, 8), version="9.0")
            with pytest.raises(VersionMismatch, match=r"cannot talk to pumice 9\.0 \(protocols 2 and 7 to 8\)"):
                connection.peer.check()

        async def older(connection: Connection) -> None:
            connection.peer = Hello(protocol=(7, 8))
            await connection.serve_requests(answer)

        async with server(tmp_path / "s", older), connection_to(tmp_path / "s") as connection:
            connection.peer.check()
            with pytest.raises(RunError, match="unknown request 'echo'"):
                await connection.call("echo", text="")
            assert await connection.call(RETIRE) == "bye"

    asyncio.run(story())


def test_a_problem_keeps_its_form_between_versions() -> None:
    """The other side may be of an earlier version, which reads objects."""
    refused = RefusedError("no room", ("use ", Option("fit", True)), Position("job.yaml", 3))
    where = {"file": "job.yaml", "line": 3, "column": 0, "option": ""}
    advice = ("use ", {"name": "fit", "value": True})
    problem = {"message": "no room", "advice": advice, "where": where, "fatal": True}
    plain = connections.encode_error(refused)
    assert plain["problems"] == [problem]
    decoded = connections.decode_error({**plain, "problems": [{**problem, "of a later version": 1}]})
    assert isinstance(decoded, RefusedError)
    assert decoded.problems == refused.problems


def test_a_program_without_event_loop_says_hello_and_calls(tmp_path: Path) -> None:
    def call() -> list[Any]:
        wire = greeted_wire(tmp_path / "s")
        try:
            first = wire.call("echo", text="hi")
            with pytest.raises(RefusedError, match="no room"):
                wire.call("refuse")
            return [first, wire.call("echo", text="again")]
        finally:
            wire.close()

    async def story() -> None:
        async with server(tmp_path / "s"):
            assert await asyncio.to_thread(call) == [("hi", []), ("again", [])]

    asyncio.run(story())


def test_a_handler_that_fails_is_reported_to_the_caller_and_the_server_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        async with server(tmp_path / "s"), connection_to(tmp_path / "s") as connection:
            with pytest.raises(RuntimeError, match="KeyError: 'text'"):
                await connection.call("echo")
            assert await connection.call("echo", text="still there") == "still there"

    asyncio.run(story())


def test_a_socket_that_was_removed_comes_back_and_goes_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "s"

    async def story() -> None:
        async with server(path) as listening:
            await listening.keep()
            path.unlink()
            await listening.keep()
            async with connection_to(path) as connection:
                assert await connection.call("echo", text="back") == "back"
        assert not path.exists()

    asyncio.run(story())
