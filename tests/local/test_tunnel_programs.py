"""Outbound traffic by pasta, slirp4netns and the proxy, between network namespaces: a machine, and the outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pumice.engines.local.network import outbound
from pumice.engines.local.network.outbound import nameservers, tun_device_problem
from tests.local.sandbox.boxes import AS_ROOT, need_namespaces
from tests.meta.tree import ROOT
from tests.patience import PATIENCE

# 192.0.2.77 is the machine. The outside has a server at 192.0.2.99, which every DNS query is answered with, a metadata
# service, and a DNS server at a link-local address.
MACHINE = """
import asyncio, os, socket, struct, sys, threading
from pathlib import Path
from pumice.engines.local.sandbox.net.netlink import Netlink
from pumice.engines.local.network.outbound import PROGRAMS, open_outbound
from pumice.engines.local.network.proxy import is_loopback, refused_networks
from pumice.engines.local.sandbox import syscalls
from tests.local.sandbox.boxes import box, python_mounts, run
from pumice.engines.local.sandbox.specs import File

HERE, OUTSIDE, METADATA, DNS = "192.0.2.77", "192.0.2.99", "169.254.169.254", "169.254.1.53"
apart, connected, serving = threading.Event(), threading.Event(), threading.Event()

def make_network():
    netlink = Netlink()
    netlink.link_up(1)
    threading.Thread(target=outside, daemon=True).start()
    apart.wait()
    netlink.veth("host0", 50, b"\\x02\\x51\\0\\0\\0\\1", ("peer0", namespace, b"\\x02\\x51\\0\\0\\0\\2"))
    connected.set()
    netlink.address(50, HERE, 24)
    netlink.default_route(50, "192.0.2.1")
    serving.wait()

def outside():
    # A thread can be in another network than its process.
    global namespace
    syscalls.unshare(syscalls.NEWNET)
    namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    apart.set()
    connected.wait()
    netlink = Netlink()
    index = socket.if_nametoindex("peer0")
    netlink.link_up(1)
    netlink.link_up(index)
    for address in ("192.0.2.1", OUTSIDE, METADATA, DNS):
        netlink.address(index, address, 32)
    netlink.host_route(index, HERE)
    names, listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.create_server(("0.0.0.0", 8080))
    names.bind((DNS, 53))
    for answer, server in ((serve_names, names), (serve, listener)):
        threading.Thread(target=answer, args=[server], daemon=True).start()
    serving.set()

def serve_names(server):
    while True:
        question, asker = server.recvfrom(512)
        end = question.index(0, 12) + 5
        kind = question[end - 4:end - 2]
        found = kind == b"\\0\\1"
        head = question[:2] + struct.pack("!HHHHH", 0x8180, 1, found, 0, 0) + question[12:end]
        answer = b"\\xc0\\x0c\\0\\1\\0\\1" + struct.pack("!IH", 60, 4) + socket.inet_aton(OUTSIDE)
        server.sendto(head + (answer if found else b""), asker)

def serve(listener):
    while True:
        connection, (peer, _) = listener.accept()
        connection.sendall(f"hello {peer}".encode())
        connection.close()

CLIENT = '''
import os, socket, sys
proxy = ("10.77.0.1", 3128) if "https_proxy" in os.environ else None
must_answer = int(sys.argv[1])
for number, name in enumerate(sys.argv[2:]):
    try:
        seconds = 180 if number < must_answer else 3
        with socket.create_connection(proxy or (name, 8080), timeout=seconds) as connection:
            answer = connection.makefile()
            if proxy:
                connection.sendall(f"CONNECT {name}:8080 HTTP/1.1".encode() + bytes([13, 10, 13, 10]))
                if " 200 " not in answer.readline() + answer.readline():
                    raise OSError
            print(name, answer.read())
    except OSError as error:
        print(name, "is unreachable")
'''

def below(pid):
    return Path("/proc", pid, "task", pid, "children").read_text().split()

async def story():
    async with box(Path(sys.argv[1])) as made:
        programs = [each for each in PROGRAMS if each.name == sys.argv[2]]
        everywhere = sys.argv[3] == "all"
        if everywhere:
            route = await open_outbound(made.sandbox, [], programs, permits=lambda address: not is_loopback(address))
        else:
            route = await open_outbound(made.sandbox, [], programs, refused=refused_networks())
        print("note", route.note.partition("pods")[0], flush=True)
        if sys.argv[3] == "wait":
            waiter = below(str(made.sandbox._process.pid))[0]
            (tunnel,) = below(waiter)
            (first,) = below(tunnel)
            print(waiter, tunnel, first, *below(first), flush=True)
            await asyncio.sleep(1000)
        files = (File("/etc/resolv.conf", "".join(f"nameserver {n}\\n" for n in route.nameservers).encode()),)
        for pod in ("a", "b"):
            await made.pod(pod)
            names = ("outside.test", OUTSIDE, METADATA, HERE, "198.51.100.2", "127.0.0.1")
            argv = (sys.executable, "-I", "-c", CLIENT, "4" if everywhere else "2", *names)
            spec = made.spec(pod, *argv, files=files, mounts=python_mounts(), env=dict(route.env))
            print((await made.run(spec))[1], end="", flush=True)
        await route.close()

def run_job():
    os.chdir(os.path.dirname(sys.argv[1]))
    sys.argv = ["pumice", "run", "--timeout=150s", "job.yaml"]
    from pumice.cli.main import main
    sys.exit(main())

make_network()
threading.Thread(target=serve, args=[socket.create_server(("0.0.0.0", 8080))], daemon=True).start()
run_job() if sys.argv[3] == "job" else run(story())
"""
PROGRAMS = [pytest.param(name, marks=pytest.mark.needs(name)) for name in ("pasta", "slirp4netns")]


@pytest.fixture
def _tunnels() -> None:
    need_namespaces()
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        pytest.skip("this user may not open /dev/net/tun")


def _start(directory: Path, program: str, purpose: str) -> subprocess.Popen[str]:
    directory.chmod(0o755)
    (directory / "resolv.conf").write_text("nameserver 169.254.1.53\n")
    setup = 'mount --bind "$1/resolv.conf" /etc/resolv.conf; shift; exec "$@"'
    engine = (sys.executable, "-c", MACHINE, str(directory / "stage"), program, purpose)
    return subprocess.Popen(
        ["unshare", "-nm" if AS_ROOT else "-Urnm", "sh", "-ec", setup, "sh", str(directory), *engine],
        env={
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}",
            "VIRTUAL_ENV": sys.prefix,
            "HOME": str(directory),
            "XDG_STATE_HOME": str(directory / "state"),
        },
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.usefixtures("_tunnels")
@pytest.mark.parametrize("network", ["outbound", pytest.param("all", marks=pytest.mark.soak)])
@pytest.mark.parametrize("program", [*PROGRAMS, "proxy"])
def test_every_pod_reaches_the_outside_but_not_this_machine_nor_metadata(
    tmp_path: Path, program: str, network: str
) -> None:
    """`--network all` opens the machine's own addresses and metadata, never the loopback. Names always resolve."""
    engine = _start(tmp_path, program, network)
    output, _ = engine.communicate(timeout=PATIENCE)
    more = ["169.254.169.254", "192.0.2.77"]
    reached = ["outside.test", "192.0.2.99", *(more if network == "all" else [])]
    refused = [*(more if network != "all" else []), "198.51.100.2", "127.0.0.1"]
    expected = [*(f"{name} hello 192.0.2.77" for name in reached), *(f"{name} is unreachable" for name in refused)]
    assert output.splitlines() == ["note ", *2 * expected]


JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: trial}
spec:
  tasks:
  - {name: only, replicas: 2, template: {spec: {restartPolicy: Never, containers: [{name: c, image: none, command: [
      python3, -c, "import socket; print(socket.create_connection(('outside.test', 8080)).makefile().read())"]}]}}}
"""


@pytest.mark.usefixtures("_tunnels")
@pytest.mark.needs("pasta")
def test_pods_of_a_run_reach_the_outside_by_name_without_a_proxy(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    engine = _start(tmp_path, "any", "job")
    output, _ = engine.communicate(timeout=PATIENCE)
    assert engine.returncode == 0
    assert sorted(output.splitlines()) == [f"only-{index}  hello 192.0.2.77" for index in range(2)]


@pytest.mark.usefixtures("_tunnels")
@pytest.mark.parametrize("program", PROGRAMS)
def test_all_processes_end_after_kill_9(tmp_path: Path, program: str) -> None:
    engine = _start(tmp_path, program, "wait")
    assert engine.stdout is not None
    assert engine.stdout.readline() == "note \n"
    pids = engine.stdout.readline().split()
    assert len(pids) >= 3
    names = [_name(pid) for pid in pids]
    assert any(name.startswith(("passt", "pasta", "slirp")) for name in names), names
    engine.send_signal(signal.SIGKILL)
    engine.communicate()
    end = time.monotonic() + PATIENCE
    while (left := [pid for pid in pids if Path("/proc", pid).exists()]) and time.monotonic() < end:
        time.sleep(0.01)
    assert left == []


def _name(pid: str) -> str:
    """Return "" for a process that has ended, like the one that waits until the network is ready."""
    try:
        return Path("/proc", pid, "comm").read_text().strip()
    except FileNotFoundError:
        return ""


@pytest.mark.parametrize(
    ("mode", "problem"),
    [
        pytest.param(None, "there is no DEVICE\n  hint: sudo modprobe tun", id="missing"),
        pytest.param(
            0o000,
            f"no permission to open DEVICE\n  hint: sudo setfacl -m u:{os.getuid()}:rw DEVICE",
            id="closed",
        ),
        pytest.param(0o666, None, id="open"),
    ],
)
def test_tun_device_problem(tmp_path: Path, mode: int | None, problem: str | None) -> None:
    device = tmp_path / "tun"
    if mode is not None:
        device.touch()
        device.chmod(mode)
    if mode == 0 and AS_ROOT:
        pytest.skip("root may open every device")
    found = tun_device_problem(device)
    assert (found and found.text) == (problem and problem.replace("DEVICE", str(device)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("# none\nnameserver 127.0.0.53\n", (outbound._DNS,), id="one"),
        pytest.param("nameserver fd00::1\nnameserver\n", (), id="only IPv6"),
        pytest.param(None, (), id="no file"),
    ],
)
def test_nameservers(tmp_path: Path, text: str | None, expected: tuple[str, ...]) -> None:
    if text is not None:
        (tmp_path / "resolv.conf").write_text(text)
    assert nameservers(tmp_path / "resolv.conf") == expected
