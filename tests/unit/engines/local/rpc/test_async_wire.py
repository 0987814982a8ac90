"""Calls, requests and announcements between two processes, with asyncio."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.rpc.async_wire import AsyncWire, Reply
from pumice.engines.local.rpc.wire import Format, Message, Wire, WireError, encode_json
from tests.patience import PATIENCE

FORMAT = Format(
    encode_json,
    json.loads,
    lambda error: [f"{type(error).__name__}: {error}"],
    lambda plain: RefusedError(*plain),
    1 << 20,
)


class RefusedError(Exception):
    pass


class LostError(Exception):
    pass


def pair() -> tuple[AsyncWire, AsyncWire]:
    ours, theirs = (AsyncWire(Wire(end, FORMAT), LostError) for end in socket.socketpair())
    return ours, theirs


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def played(story: Callable[[AsyncWire, AsyncWire], Awaitable[None]]) -> None:
    async def play() -> None:
        ours, theirs = pair()
        try:
            async with asyncio.timeout(PATIENCE):
                await story(ours, theirs)
        finally:
            for each in (ours, theirs):
                each.abort(LostError("the test is over"))

    asyncio.run(play())


def test_calls_of_both_sides_overlap() -> None:
    """The first request is answered last; meanwhile the server calls its client."""
    release = asyncio.Event()

    async def answer(request: Message) -> Any:
        if request["do"] == "wait":
            await release.wait()
        if request["do"] == "fail":
            raise ValueError("no")
        return request["do"]

    async def story(ours: AsyncWire, theirs: AsyncWire) -> None:
        serving = [asyncio.create_task(each.serve(answer)) for each in (ours, theirs)]
        waiting = asyncio.create_task(ours.call("wait"))
        assert await ours.call("second") == "second"
        assert await theirs.call("back") == "back"
        with pytest.raises(RefusedError, match="ValueError: no"):
            await ours.call("fail")
        assert not waiting.done()
        release.set()
        assert await waiting == "wait"
        for task in serving:
            task.cancel()

    played(story)


def test_answers_that_nobody_reads_do_not_pile_up() -> None:
    """The server reads no further requests of a client that reads no answers, and answers all of them later."""
    answered = []

    async def answer(request: Message) -> Any:
        answered.append(request["id"])
        return "x" * 10_000

    async def story(ours: AsyncWire, theirs: AsyncWire) -> None:
        serving = asyncio.create_task(theirs.serve(answer))
        for _ in range(5000):
            ours.request("much")
        for _ in range(10_000):
            await asyncio.sleep(0)
        assert theirs.is_full
        assert len(answered) < 1000
        assert theirs.unsent < 2 << 20
        for _ in range(5000):
            assert await ours.receive() is not None
        assert len(answered) == 5000
        serving.cancel()

    played(story)


def test_descriptors_go_both_ways() -> None:
    async def story(ours: AsyncWire, theirs: AsyncWire) -> None:
        (reader, writer), (other_reader, other_writer) = os.pipe(), os.pipe()
        arrived: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()
        theirs._received = lambda _message, descriptors: arrived.set_result(descriptors)
        call = asyncio.create_task(ours.exchange("swap", [writer]))
        (descriptor,) = await arrived
        os.write(descriptor, b"there")
        os.close(descriptor)
        assert os.read(reader, 9) == b"there"
        theirs.notify({"id": 1, "result": None}, [other_writer])
        _, (copy,) = await call
        os.write(copy, b"back")
        os.close(copy)
        assert os.read(other_reader, 9) == b"back"
        os.close(reader)
        os.close(other_reader)

    played(story)


def test_an_answer_with_descriptors() -> None:
    async def answer(_request: Message) -> Any:
        return Reply("null", [os.open(os.devnull, os.O_RDONLY)])

    async def story(ours: AsyncWire, theirs: AsyncWire) -> None:
        serving = asyncio.create_task(theirs.serve(answer))
        before = open_files()
        assert await ours.call("open") == "null"
        # A caller that wants none gets none, and none is left open.
        assert open_files() == before
        result, (descriptor,) = await ours.exchange("open", ())
        assert result == "null"
        os.close(descriptor)
        serving.cancel()

    played(story)


def test_a_lost_connection_ends_calls_first_of_all_by_what_lost_returns() -> None:
    order: list[str] = []

    async def story(ours: AsyncWire, theirs: AsyncWire) -> None:
        def lost() -> Exception:
            order.append("lost")
            return LostError("gone")

        async def call() -> None:
            try:
                await ours.call("x")
            except LostError:
                order.append("call")

        ours._lost = lost
        calls = [asyncio.create_task(call()) for _ in range(2)]
        theirs.notify({"event": 1})
        theirs.close()
        await asyncio.gather(*calls)
        assert order == ["lost", "call", "call"]
        # What came before the end is received, and the end again and again.
        assert [await ours.receive() for _ in range(3)] == [{"event": 1}, None, None]
        with pytest.raises(LostError):
            await ours.call("later")
        ours.notify({"ignored": True})
        with pytest.raises(ConnectionResetError):
            await ours.drain()

    played(story)


def test_a_cancelled_call_is_forgotten_and_its_answer_closed() -> None:
    async def story(ours: AsyncWire, theirs: AsyncWire) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await ours.call("never")
        assert (await theirs.receive() or {})["do"] == "never"
        before = open_files()
        theirs.notify({"id": 1, "result": "late"}, [os.open(os.devnull, os.O_RDONLY)])
        assert await ours.receive() == {"id": 1, "result": "late"}
        assert open_files() == before

    played(story)


def test_neither_side_collects_what_the_other_does_not_read() -> None:
    async def story(ours: AsyncWire, theirs: AsyncWire) -> None:
        sent = 0
        while not ours.is_full:
            ours.notify({"number": sent, "padding": "x" * 1000})
            sent += 1
            await asyncio.sleep(0)
        draining = asyncio.create_task(ours.drain())
        for number in range(sent):
            assert (await theirs.receive() or {})["number"] == number
        await draining
        assert not ours.is_full

    played(story)


def test_an_awaited_answer_arrives_behind_messages_that_nobody_reads() -> None:
    async def story(ours: AsyncWire, theirs: AsyncWire) -> None:
        async def flood() -> None:
            for number in range(3000):
                theirs.notify({"number": number, "padding": "x" * 1000})
                await theirs.drain()
            request = await theirs.receive()
            theirs.notify({"id": (request or {})["id"], "result": "at last"})

        flooding = asyncio.create_task(flood())
        assert await ours.call("what") == "at last"
        await flooding
        assert [(await ours.receive() or {})["number"] for _ in range(3000)] == list(range(3000))

    played(story)


def test_requests_are_answered_a_limited_number_at_a_time() -> None:
    running: list[int] = []
    release = asyncio.Event()

    async def answer(request: Message) -> Any:
        running.append(request["number"])
        await release.wait()

    async def story(ours: AsyncWire, theirs: AsyncWire) -> None:
        serving = asyncio.create_task(theirs.serve(answer))
        calls = [asyncio.create_task(ours.call("x", number=number)) for number in range(200)]
        for _ in range(1000):
            await asyncio.sleep(0)
        assert len(running) == 64
        release.set()
        await asyncio.gather(*calls)
        assert sorted(running) == list(range(200))
        serving.cancel()

    played(story)


@pytest.mark.parametrize(
    "sent", [b"no message\n", b"x" * (2 << 20), b'{"id": {}}\n'], ids=["no JSON", "too long", "no id"]
)
def test_what_is_no_message_ends_the_connection(sent: bytes) -> None:
    async def story(ours: AsyncWire, theirs: AsyncWire) -> None:
        call = asyncio.create_task(ours.call("x"))
        await theirs.receive()
        theirs.notify(sent)
        with pytest.raises(LostError):
            await call
        with pytest.raises(WireError):
            await ours.receive()
        assert await ours.receive() is None

    played(story)


def test_handlers_finish_though_their_client_has_gone() -> None:
    release = asyncio.Event()
    finished: list[bool] = []

    async def answer(_request: Message) -> Any:
        await release.wait()
        finished.append(True)

    async def story(ours: AsyncWire, theirs: AsyncWire) -> None:
        serving = asyncio.create_task(theirs.serve(answer))
        ours.request("x")
        ours.close()
        assert await ours.receive() is None
        await asyncio.sleep(0.01)
        assert not serving.done()
        release.set()
        await serving
        assert finished == [True]

    played(story)


@pytest.mark.parametrize("reads", [True, False], ids=["it reads", "it does not read"])
def test_closing_sends_what_is_left_unless_nobody_reads(reads: bool) -> None:
    async def story(ours: AsyncWire, theirs: AsyncWire) -> None:
        numbers = 2000
        for number in range(numbers):
            ours.notify({"number": number, "padding": "x" * 1000})
        if not reads:
            theirs._loop.remove_reader(theirs._wire.socket)
            await ours.finish(0.01)
            return
        ours.close()
        assert [(await theirs.receive() or {})["number"] for _ in range(numbers)] == list(range(numbers))
        assert await theirs.receive() is None

    played(story)


def test_an_error_that_cannot_be_sent_is_an_error_as_well() -> None:
    async def answer(_request: Message) -> Any:
        return object()

    async def story(ours: AsyncWire, theirs: AsyncWire) -> None:
        serving = asyncio.create_task(theirs.serve(answer))
        with pytest.raises(RefusedError, match="TypeError"):
            await ours.call("x")
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving

    played(story)
