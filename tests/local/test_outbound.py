"""A pod gets out through the proxy, and reaches its peers without."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from pumice.engines.local.network import outbound
from pumice.engines.local.network.outbound import HINT, NOTE, open_outbound, outbound_env
from pumice.engines.local.network.relay import Server, Stream
from pumice.engines.local.network.tunnel_programs import Kind, tun_device_problem
from tests.local.sandbox.boxes import Box, box, in_box, need_namespaces, python_mounts, run

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
    print(urllib.request.urlopen(url, timeout=20).read().decode())
"""


async def _answer(client: Stream) -> None:
    await client.reader.readuntil(b"\r\n\r\n")
    client.writer.write(b"HTTP/1.0 200 OK\r\n\r\nfrom outside")
    await client.writer.drain()


@in_box
async def test_out_by_the_proxy_and_to_peers_directly(box: Box) -> None:
    need_namespaces()
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(listener, _answer)
    await server.start()
    # Nothing beyond this machine is reached in a test, so its loopback plays the outside.
    way = await open_outbound(box.sandbox, ["10.77.0.99"], kinds=(), permits=lambda _: True)
    assert way.env["no_proxy"].endswith("10.77.0.99")
    assert way.note == NOTE + HINT
    await box.pod("a")
    peer = await box.pod("b")
    output = await box.start(box.spec("b", sys.executable, "-I", "-c", PEER, mounts=python_mounts()))
    assert await output.line() == "up"
    urls = (f"http://127.0.0.1:{listener.getsockname()[1]}/", f"http://{peer}:8000/")
    # With 127.0.0.1 off the list, for this once it is outside to the client, too.
    env = dict(way.env) | dict.fromkeys(("no_proxy", "NO_PROXY"), peer)
    spec = box.spec("a", sys.executable, "-c", CLIENT, *urls, mounts=python_mounts(), env=env)
    ended, text = await box.run(spec)
    assert (ended.code, text.splitlines()) == (0, ["from outside", "from the peer"])
    await way.close()
    await server.close()


def test_a_program_that_fails_is_named_and_the_proxy_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_namespaces()
    monkeypatch.setattr(outbound, "tun_device_problem", str)
    failing = Kind("sh", lambda: ["-c", "echo no tap for you >&2; exit 1"])
    absent = Kind("no-such-program", list)

    async def story() -> None:
        async with box(tmp_path) as made:
            way = await open_outbound(made.sandbox, [], kinds=(absent, failing))
            assert way.note == f"{NOTE}\n  sh does not lead out: no tap for you"
            assert "https_proxy" in way.env
            await way.close()

    run(story())


@in_box
async def test_a_device_that_is_closed_is_named_with_what_opens_it(box: Box) -> None:
    need_namespaces()
    way = await open_outbound(box.sandbox, [], kinds=(Kind("sh", list),))
    fault = tun_device_problem()
    assert way.note == f"{NOTE}\n  sh does not lead out: " + (fault or "it ended at once")
    await way.close()


@in_box
async def test_the_proxy_is_there_for_the_pods_of_the_job_only(box: Box) -> None:
    """It listens in the job's network, in which nothing of the machine and of other jobs is."""
    need_namespaces()
    before = _listeners()
    way = await open_outbound(box.sandbox, [], kinds=())
    assert _listeners() - before == set()
    await way.close()


def _listeners() -> set[str]:
    listening = "0A"
    rows = [line.split() for file in ("tcp", "tcp6") for line in Path(f"/proc/net/{file}").read_text().splitlines()]
    return {row[1] for row in rows if row[3] == listening and row[1].endswith(f":{3128:04X}")}


def test_variables() -> None:
    env = outbound_env(["job-worker-0.job", "10.77.0.10"])
    assert {env[name] for name in ("http_proxy", "https_proxy", "all_proxy")} == {"http://10.77.0.1:3128"}
    inside = env["no_proxy"].split(",")
    assert {"localhost", "127.0.0.1", "10.77.0.0/16", "job-worker-0.job", "10.77.0.10"} <= set(inside)
