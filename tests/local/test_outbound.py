"""Outbound traffic of pods through the proxy, and traffic between pods without it."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from pumice.engines.local.network import outbound
from pumice.engines.local.network.outbound import HINT, NOTE, TunnelProgram, open_outbound, tun_device_problem
from pumice.engines.local.network.relay import Server, Stream
from tests.local.sandbox.boxes import Box, in_box, python_mounts

PEER = """
import http.server
http.server.BaseHTTPRequestHandler.do_GET = lambda self: self.wfile.write(b"HTTP/1.0 200 OK\\r\\n\\r\\nfrom the peer")
server = http.server.HTTPServer(("0.0.0.0", 8000), http.server.BaseHTTPRequestHandler)
print("up", flush=True)
server.serve_forever()
"""
CLIENT = """
import sys, urllib.request
for url in sys.argv[1:]:
    print(urllib.request.urlopen(url, timeout=100).read().decode())
"""


async def _answer(client: Stream) -> None:
    await client.reader.readuntil(b"\r\n\r\n")
    client.writer.write(b"HTTP/1.0 200 OK\r\n\r\nfrom outside")
    await client.writer.drain()


@in_box
async def test_outbound_traffic_uses_the_proxy_and_pods_connect_directly(box: Box) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(listener, _answer)
    await server.start()
    # Tests stay on this machine, so its loopback stands in for the outside.
    route = await open_outbound(box.sandbox, ["10.77.0.99"], programs=(), permits=lambda _: True)
    assert route.env["no_proxy"].endswith("10.77.0.99")
    assert route.note == NOTE + HINT
    await box.pod("a")
    peer = await box.pod("b")
    output = await box.start(box.spec("b", sys.executable, "-I", "-c", PEER, mounts=python_mounts()))
    assert await output.line() == "up"
    urls = (f"http://127.0.0.1:{listener.getsockname()[1]}/", f"http://{peer}:8000/")
    # Without 127.0.0.1 in no_proxy, the client takes it for the outside, too.
    env = dict(route.env) | dict.fromkeys(("no_proxy", "NO_PROXY"), peer)
    spec = box.spec("a", sys.executable, "-c", CLIENT, *urls, mounts=python_mounts(), env=env)
    ended, text = await box.run(spec)
    assert (ended.code, text.splitlines()) == (0, ["from outside", "from the peer"])
    await route.close()
    await server.close()


@in_box
async def test_a_program_that_fails_is_named_and_the_proxy_is_used(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbound, "tun_device_problem", lambda: None)
    failing = TunnelProgram("sh", lambda: ["-c", "echo no tap for you >&2; exit 1"])
    absent = TunnelProgram("no-such-program", list)
    route = await open_outbound(box.sandbox, [], programs=(absent, failing))
    assert route.note == f"{NOTE}\n  cannot use sh: no tap for you"
    assert "https_proxy" in route.env
    await route.close()


@in_box
async def test_an_unusable_tun_device_is_named(box: Box) -> None:
    route = await open_outbound(box.sandbox, [], programs=(TunnelProgram("sh", list),))
    device = tun_device_problem()
    assert route.note == f"{NOTE}\n  cannot use sh: {device.text if device else 'it ended at once'}"
    await route.close()


@in_box
async def test_only_pods_of_the_job_can_connect_to_the_proxy(box: Box) -> None:
    """It listens in the job's network namespace."""
    before = _listeners()
    route = await open_outbound(box.sandbox, [], programs=())
    assert _listeners() - before == set()
    await route.close()


def _listeners() -> set[str]:
    listening = "0A"
    rows = [line.split() for file in ("tcp", "tcp6") for line in Path(f"/proc/net/{file}").read_text().splitlines()]
    return {row[1] for row in rows if row[3] == listening and row[1].endswith(f":{3128:04X}")}
