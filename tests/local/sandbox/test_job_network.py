"""Several pods: each has all ports for itself and reaches all others."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pumice.engines.local.sandbox.specs import File
from tests.local.sandbox.boxes import Box, Output, box, in_box, run

pytestmark = pytest.mark.usefixtures("namespaces")

SERVER = """
import socket, sys
listener = socket.create_server(("0.0.0.0", int(sys.argv[1])))
print("up", flush=True)
while True:
    connection, (peer, _) = listener.accept()
    connection.sendall(f"{socket.gethostname()} saw {peer}\\n".encode())
    connection.close()
"""
CLIENT = """
import socket, sys
for name in sys.argv[2:]:
    with socket.create_connection((name, int(sys.argv[1])), timeout=100) as connection:
        print(connection.makefile().read(), end="")
"""


async def _serve(box: Box, pod: str, port: int) -> Output:
    output = await box.python(pod, SERVER, str(port))
    assert await output.line() == "up"
    return output


@in_box
async def test_every_pod_listens_on_port_22_and_is_reached_by_its_names(box: Box) -> None:
    pods = [f"job-worker-{index}" for index in range(3)]
    addresses = {pod: await box.pod(pod) for pod in pods}
    for pod in pods:
        await _serve(box, pod, 22)
    hosts = "".join(f"{address} {pod}.job {pod}\n" for pod, address in addresses.items()).encode()
    names = [name for pod in pods for name in (pod, f"{pod}.job")]
    files = (File("/etc/hosts", b"127.0.0.1 localhost\n" + hosts), File("/etc/resolv.conf", b""))
    output = await box.python(pods[0], CLIENT, "22", *names, files=files)
    expected = [f"{pod} saw {addresses[pods[0]]}" for pod in pods for _ in range(2)]
    assert (await output.rest()).splitlines() == expected


@in_box
async def test_the_engine_connects_to_a_pod(box: Box) -> None:
    await box.pod("a")
    await _serve(box, "a", 23456)
    connection = await box.sandbox.connect("a", 23456)
    with connection:
        data = await asyncio.get_running_loop().sock_recv(connection, 100)
    assert data == b"a saw 10.77.0.1\n"
    with pytest.raises(ConnectionRefusedError):
        await box.sandbox.connect("a", 23457)


@in_box
async def test_nothing_but_pods_is_reached(box: Box) -> None:
    """Not even the loopback address of the host."""
    listener = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    await box.pod("a")
    code, text = await box.shell("a", "cut -d: -f1 /proc/net/dev | tail -n +3")
    assert (code, sorted(text.split())) == (0, ["eth0", "lo"])
    output = await box.python("a", CLIENT, str(port), "127.0.0.1")
    assert "ConnectionRefusedError" in await output.rest()
    listener.close()
    await listener.wait_closed()


@in_box
async def test_a_pod_is_recreated_with_the_same_address(box: Box) -> None:
    """As RestartJob does: at once, although the kernel removes the old network later."""
    await box.sandbox.remove_pod("never-created")
    for _ in range(5):
        await box.pod("a", "10.77.0.20")
        server = await _serve(box, "a", 80)
        (await box.sandbox.connect("a", 80)).close()
        await box.sandbox.remove_pod("a")
        assert (await server.ended()).signal == 9


def test_two_jobs_with_the_same_addresses(tmp_path: Path) -> None:
    async def story() -> None:
        async with box(tmp_path) as one, box(tmp_path) as two:
            for made, name in ((one, "first"), (two, "second")):
                await made.pod(name, "10.77.0.9")
                await _serve(made, name, 22)
            for made, name in ((one, "first"), (two, "second")):
                connection = await made.sandbox.connect(name, 22)
                with connection:
                    data = await asyncio.get_running_loop().sock_recv(connection, 100)
                assert data.split()[0].decode() == name

    run(story())


@in_box
async def test_64_pods_at_once_reach_each_other(box: Box) -> None:
    """With a bridge this would overflow the kernel's neighbour table."""

    async def start(pod: str) -> str:
        address = await box.pod(pod)
        output = await box.start(box.spec(pod, "sh", "-c", "hostname; exec sleep 1000"))
        assert await output.line() == pod
        return address

    addresses = await asyncio.gather(*(start(f"p{index}") for index in range(64)))
    # A closed port of a pod answers with a reset, an unknown host does not answer.
    program = (
        "import socket, sys\n"
        "for address in sys.argv[1:]:\n"
        "    try: socket.create_connection((address, 9), timeout=100)\n"
        "    except ConnectionRefusedError: continue\n"
        "    sys.exit(address)\n"
    )
    output = await box.python("p0", program, *addresses)
    assert (await output.rest(), (await output.ended()).code) == ("", 0)


@in_box
async def test_the_engine_listens_in_the_network_of_the_job(box: Box) -> None:
    await box.pod("a")
    listener = await box.sandbox.listen("10.77.0.1", 3128)
    output = await box.python("a", CLIENT, "3128", "10.77.0.1")
    connection, (peer, _) = await asyncio.get_running_loop().sock_accept(listener)
    connection.sendall(f"hello {peer}\n".encode())
    connection.close()
    listener.close()
    assert await output.rest() == "hello 10.77.0.10\n"
