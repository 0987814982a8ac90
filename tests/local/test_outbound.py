"""A pod gets out through the proxy, and reaches its peers without."""

from __future__ import annotations

import socket
import sys

from pumice.engines.local.outbound import open_outbound, outbound_env
from pumice.engines.local.relay import Server, Stream
from tests.local.sandbox.boxes import Box, in_box, need_namespaces, python_mounts

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
    proxy = await open_outbound(box.sandbox, permits=lambda _: True)
    await box.pod("a")
    peer = await box.pod("b")
    output = await box.start(box.spec("b", sys.executable, "-I", "-c", PEER, mounts=python_mounts()))
    assert await output.line() == "up"
    urls = (f"http://127.0.0.1:{listener.getsockname()[1]}/", f"http://{peer}:8000/")
    # With 127.0.0.1 off the list, for this once it is outside to the client, too.
    env = outbound_env([]) | dict.fromkeys(("no_proxy", "NO_PROXY"), peer)
    spec = box.spec("a", sys.executable, "-c", CLIENT, *urls, mounts=python_mounts(), env=env)
    ended, text = await box.run(spec)
    assert (ended.code, text.splitlines()) == (0, ["from outside", "from the peer"])
    await proxy.close()
    await server.close()


def test_variables() -> None:
    env = outbound_env(["job-worker-0.job", "10.77.0.10"])
    assert {env[name] for name in ("http_proxy", "https_proxy", "all_proxy")} == {"http://10.77.0.1:3128"}
    inside = env["no_proxy"].split(",")
    assert {"localhost", "127.0.0.1", "10.77.0.0/16", "job-worker-0.job", "10.77.0.10"} <= set(inside)
