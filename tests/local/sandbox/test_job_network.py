"""Several pods: each has the whole range of ports for itself and reaches all others."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pumice.engines.local.sandbox.specs import File
from tests.local.sandbox.boxes import Box, Output, box, in_box, python_mounts, run

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
    with socket.create_connection((name, int(sys.argv[1])), timeout=20) as connection:
        print(connection.makefile().read(), end="")
"""


async def _serve(box: Box, pod: str, port: int) -> Output:
    output = await box.start(box.spec(pod, sys.executable, "-I", "-c", SERVER, str(port), mounts=python_mounts()))
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
    spec = box.spec(pods[0], sys.executable, "-I", "-c", CLIENT, "22", *names, mounts=python_mounts())
    files = (File("/etc/hosts", b"127.0.0.1 localhost\n" + hosts), File("/etc/resolv.conf", b""))
    ended, text = await box.run(replace(spec, files=files))
    assert ended.code == 0, text
    first = addresses[pods[0]]
    assert text.splitlines() == [f"{pod} saw {first}" for pod in pods for _ in range(2)]


@in_box
async def test_the_engine_connects_from_the_middle(box: Box) -> None:
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
    """No address of the host's, not even one that listens on all of them."""
    listener = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    await box.pod("a")
    code, text = await box.shell("a", "cut -d: -f1 /proc/net/dev | tail -n +3")
    assert (code, sorted(text.split())) == (0, ["eth0", "lo"])
    program = CLIENT.replace("timeout=20", "timeout=1")
    ended, _ = await box.run(
        box.spec("a", sys.executable, "-I", "-c", program, str(port), "127.0.0.1", mounts=python_mounts())
    )
    assert ended.code == 1
    listener.close()
    await listener.wait_closed()


@in_box
async def test_a_pod_is_made_again_with_the_same_address(box: Box) -> None:
    """As RestartJob does: at once, though the kernel takes its time to end a network."""
    for _ in range(5):
        await box.pod("a", "10.77.0.20")
        server = await _serve(box, "a", 80)
        (await box.sandbox.connect("a", 80)).close()
        await box.sandbox.remove_pod("a")
        assert (await server.ended()).signal == 9


@in_box
async def test_removing_a_pod_that_is_not_there_is_fine(box: Box) -> None:
    await box.sandbox.remove_pod("never-made")


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
async def test_64_pods_all_talking_to_each_other(box: Box) -> None:
    """Over a bridge this fills the kernel's table of neighbours."""
    pods = [f"p{index}" for index in range(64)]
    addresses = await asyncio.gather(*(box.pod(pod) for pod in pods))
    await asyncio.gather(*(box.start(box.spec(pod, "sleep", "1000")) for pod in pods[1:]))
    # One that dies shows that its address is reached: a closed port answers with a reset, an unknown host does not.
    program = (
        "import socket, sys\n"
        "for address in sys.argv[1:]:\n"
        "    try: socket.create_connection((address, 9), timeout=20)\n"
        "    except ConnectionRefusedError: continue\n"
        "    sys.exit(address)\n"
    )
    spec = box.spec("p0", sys.executable, "-I", "-S", "-c", program, *addresses, mounts=python_mounts())
    assert (await box.run(spec))[0].code == 0


@in_box
async def test_the_engine_listens_in_the_middle(box: Box) -> None:
    await box.pod("a")
    listener = await box.sandbox.listen("10.77.0.1", 3128)
    spec = box.spec("a", sys.executable, "-I", "-c", CLIENT, "3128", "10.77.0.1", mounts=python_mounts())
    output = await box.start(spec)
    connection, (peer, _) = await asyncio.get_running_loop().sock_accept(listener)
    connection.sendall(f"hello {peer}\n".encode())
    connection.close()
    listener.close()
    assert await output.rest() == "hello 10.77.0.10\n"
