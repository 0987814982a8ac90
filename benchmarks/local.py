"""The cost of the local engine, compared with the same processes without it, in the same run.

Start: from the first call until the last of 1, 64 and 256 pods has printed a line. The baseline is the same shell
command by bare `subprocess`, one after the other, and podman if it is installed. `sandbox` is the engine's lower half
alone, without the time to make a job's namespaces; `pumice run` is everything, from the start of the interpreter. Both
the time that passes and the processor time, with the end of all processes, are compared with those of the sandbox and
of the start of Python. All are medians; `--rounds` chooses of how many rounds.

Throughput: one connection from pod to pod, compared with the same two programs over loopback, in Gbit/s.

PyTorch: the example job, including init containers, compared with the same script under torchrun with as many ranks.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from pumice.engines.local.network.addresses import address
from pumice.engines.local.sandbox.client import Sandbox
from pumice.engines.local.sandbox.specs import ContainerSpec, RootFs
from scripts.frameworks import TORCH, environment, find
from scripts.measuring import processor_time, timed

ROOT = Path(__file__).resolve().parents[1]
SIZES = (1, 64, 256)
ROUNDS = 9
PODMAN_ROUNDS = {1: 2, 64: 1}
COMMAND = ("sh", "-c", "echo up; exec sleep 1000")
SECONDS = 3
PORT = 5001
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
LONGEST = 120

# Large chunks, so that Python's own cost is small; the receiver prints bits per second.
RECEIVE = """
import socket, sys, time
server = socket.create_server(("", int(sys.argv[1])))
print("up", flush=True)
connection, _ = server.accept()
chunk, total, began = bytearray(1 << 20), 0, time.perf_counter()
while got := connection.recv_into(chunk):
    total += got
print(8 * total / (time.perf_counter() - began), flush=True)
"""
SEND = """
import socket, sys, time
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
chunk, end = bytes(1 << 20), time.perf_counter() + float(sys.argv[3])
while time.perf_counter() < end:
    connection.sendall(chunk)
"""


def lines(descriptor: int, wanted: int) -> None:
    """Wait until `wanted` lines have been printed."""
    seen = 0
    while seen < wanted:
        data = os.read(descriptor, 65536)
        if not data:
            raise RuntimeError(f"only {seen} of {wanted} have printed a line")
        seen += data.count(b"\n")


# --- start ------------------------------------------------------------------------------------------------------------


def by_subprocess(pods: int) -> float:
    times: list[float] = []
    reader, writer = os.pipe()
    children = []
    try:
        with timed(times):
            for _ in range(pods):
                child = subprocess.Popen(COMMAND, stdin=subprocess.DEVNULL, stdout=writer)
                children.append(child)
            lines(reader, pods)
    finally:
        for child in children:
            child.kill()
            child.wait()
        os.close(reader)
        os.close(writer)
    return times[0]


def container(pod: str, *argv: str) -> ContainerSpec:
    hidden = ("/home", "/root")
    return ContainerSpec(
        id=f"{pod}/main", pod=pod, argv=argv, env={"PATH": PATH}, cwd="/", root=RootFs(), hidden=hidden
    )


def by_sandbox(pods: int) -> float:
    return asyncio.run(_by_sandbox(pods))


async def _by_sandbox(pods: int) -> float:
    times: list[float] = []
    reader, writer = os.pipe()
    with tempfile.TemporaryDirectory() as scratch:
        sandbox = await Sandbox.start("bench", Path(scratch))

        async def one(index: int) -> None:
            pod = f"pod-{index}"
            await sandbox.create_pod(pod, address(index), pod)
            await sandbox.start_container(container(pod, *COMMAND), writer, writer)

        try:
            with timed(times):
                await asyncio.gather(*(one(index) for index in range(pods)))
                await asyncio.to_thread(lines, reader, pods)
        finally:
            await sandbox.close()
            os.close(reader)
            os.close(writer)
    return times[0]


def job_of(pods: int, command: Sequence[str] = COMMAND) -> str:
    main = {"name": "main", "image": "host", "command": list(command)}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [main]}
    task = {"name": "pod", "replicas": pods, "template": {"spec": spec}}
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "bench"}}
    return json.dumps({**job, "spec": {"tasks": [task]}})


def pumice(state: Path, *arguments: str) -> list[str]:
    """Return the command with a state directory of its own."""
    return ["env", f"XDG_STATE_HOME={state}", str(Path(sys.executable).with_name("pumice")), "run", *arguments]


def by_run(pods: int) -> float:
    times: list[float] = []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "job.yaml").write_text(job_of(pods))
        with timed(times):
            process = subprocess.Popen(
                pumice(directory / "state", "job.yaml", "--no-prefix"),
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
            if process.stdout is None:
                raise AssertionError("stdout is a pipe")
            lines(process.stdout.fileno(), pods)
        process.terminate()
        process.communicate(timeout=LONGEST)
    return times[0]


def by_podman(pods: int) -> float:
    """Use the host's file system as image, as Pumice does; detached, because otherwise each needs a terminal."""
    times: list[float] = []
    names = [f"pumice-bench-{os.getpid()}-{index}" for index in range(pods)]
    try:
        with timed(times):
            for name in names:
                command = ["podman", "run", "--detach", "--name", name, "--rootfs", "/:O", *COMMAND]
                subprocess.run(command, check=True, capture_output=True, text=True, timeout=LONGEST)
    finally:
        subprocess.run(["podman", "rm", "--force", "--time=0", *names], check=False, capture_output=True)
    return times[0]


def python_start(_pods: int) -> float:
    times: list[float] = []
    with timed(times):
        subprocess.run([sys.executable, "-c", "pass"], check=True)
    return times[0]


def measure_start(rounds: int) -> None:
    methods: dict[str, Callable[[int], float]] = {
        "python": python_start,
        "subprocess": by_subprocess,
        "sandbox": by_sandbox,
        "pumice run": by_run,
    }
    print(f"{'':<33}{'times that of':>29}{'of a processor, times that of':>32}")
    print("start           pods   seconds    ms/pod subprocess   sandbox    python     seconds   sandbox    python")
    for pods in SIZES:
        wall: dict[str, list[float]] = {name: [] for name in methods}
        processor: dict[str, list[float]] = {name: [] for name in methods}
        # In turns, so that a busy moment of the machine affects all of them.
        for _ in range(rounds):
            for name, method in methods.items():
                with processor_time() as spent:
                    wall[name].append(method(pods))
                    processor[name].append(spent())
        if shutil.which("podman") and pods in PODMAN_ROUNDS:
            try:
                wall["podman"] = [by_podman(pods) for _ in range(PODMAN_ROUNDS[pods])]
            except subprocess.TimeoutExpired:
                print(f"  podman took longer than {LONGEST} s")
            except subprocess.CalledProcessError as error:
                print("  podman does not run here:", (error.stderr.strip().splitlines() or ["no reason given"])[-1])
        took = {name: statistics.median(each) for name, each in wall.items()}
        used = {name: statistics.median(each) for name, each in processor.items()}
        for name, seconds in took.items():
            line = f"  {name:<12} {pods:>5} {seconds:>9.3f} {1000 * seconds / pods:>9.2f}"
            ratios = (seconds / took[each] for each in ("subprocess", "sandbox", "python"))
            line += " {:>10.1f} {:>9.1f} {:>9.1f}".format(*ratios)
            if name in used:
                line += (
                    f" {used[name]:>9.2f} s {used[name] / used['sandbox']:>11.1f} {used[name] / used['python']:>10.1f}"
                )
            print(line, flush=True)


# --- throughput -------------------------------------------------------------------------------------------------------


def over_loopback() -> float:
    port = str(PORT)
    python = ["python3", "-c"]
    receiver = subprocess.Popen([*python, RECEIVE, port], stdout=subprocess.PIPE, text=True)
    if receiver.stdout is None:
        raise AssertionError("stdout is a pipe")
    receiver.stdout.readline()
    subprocess.run([*python, SEND, "127.0.0.1", port, str(SECONDS)], check=True)
    output, _ = receiver.communicate(timeout=LONGEST)
    return float(output)


async def between_pods() -> float:
    reader, writer = os.pipe()
    with tempfile.TemporaryDirectory() as scratch, os.fdopen(reader) as output:
        sandbox = await Sandbox.start("bench", Path(scratch))
        try:
            for index, pod in enumerate(("receiver", "sender")):
                await sandbox.create_pod(pod, address(index), pod)
            receive = container("receiver", "python3", "-c", RECEIVE, str(PORT))
            await sandbox.start_container(receive, writer, writer)
            await asyncio.to_thread(output.readline)
            send = container("sender", "python3", "-c", SEND, address(0), str(PORT), str(SECONDS))
            await sandbox.start_container(send, writer, writer)
            return float(await asyncio.to_thread(output.readline))
        finally:
            await sandbox.close()
            os.close(writer)


def measure_throughput() -> None:
    print("throughput      Gbit/s   of loopback")
    loopback = pods = 0.0
    for _ in range(2):
        loopback = max(loopback, over_loopback() / 1e9)
        pods = max(pods, asyncio.run(between_pods()) / 1e9)
    print(f"  loopback    {loopback:>8.1f}\n  pod to pod  {pods:>8.1f} {pods / loopback:>12.2f}")


# --- PyTorch ----------------------------------------------------------------------------------------------------------


def seconds(command: list[str], environ: dict[str, str]) -> float:
    times: list[float] = []
    with timed(times):
        subprocess.run(
            command, cwd=ROOT, env=environ, check=True, timeout=LONGEST, stdin=subprocess.DEVNULL, capture_output=True
        )
    return times[0]


def measure_torch() -> None:
    found = find(TORCH, os.environ, ROOT)
    if found is None:
        print("PyTorch: torch is not installed; `make run` installs it")
        return
    environ = environment(found, os.environ)
    script = str(ROOT / "examples" / "stand-ins" / "sendrecv.py")
    # By module: the torchrun command may be missing.
    torchrun = [found.python, "-m", "torch.distributed.run", "--nproc-per-node=3", "--master-port=29517", script]
    best = {"torchrun": float("inf"), "pumice run": float("inf")}
    with tempfile.TemporaryDirectory() as state:
        for _ in range(2):
            best["torchrun"] = min(best["torchrun"], seconds(torchrun, environ))
            run = pumice(Path(state), "examples/pytorch-job.yaml")
            best["pumice run"] = min(best["pumice run"], seconds(run, environ))
    print("PyTorch, 3 ranks   seconds   times torchrun")
    for name, took in best.items():
        print(f"  {name:<14} {took:>9.2f} {took / best['torchrun']:>14.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="*", metavar="start|throughput|torch", help="only these parts")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of the start; the default is %(default)s")
    args = parser.parse_args()
    parts: dict[str, Callable[[], None]] = {
        "start": lambda: measure_start(args.rounds),
        "throughput": measure_throughput,
        "torch": measure_torch,
    }
    for part in args.part or parts:
        parts[part]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
