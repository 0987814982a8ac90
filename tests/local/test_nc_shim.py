"""wait-for-master with each of its probes: nc, bash with and without timeout, and the engine's nc shim.

Images are small directories with nothing but the programs of one probe. For the shim the host itself must lack the
others, so `pumice run` is started on a machine where they are hidden.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pumice.engines.local.container_spec.nc_shim import Interpreter, nc_files, running_interpreter
from pumice.engines.local.sandbox.specs import File, RootFs
from pumice.plugins.wait_for_master import WaitForMaster
from tests.async_tests import async_test
from tests.local.roots import small_root
from tests.local.sandbox.boxes import AS_ROOT, Box, Output, box, need_namespaces, python_mounts
from tests.meta.tree import ROOT

PATH = "/usr/local/bin:/usr/bin:/bin"
HOSTS = File("/etc/hosts", b"127.0.0.1 localhost\n10.77.0.10 master\n10.77.0.11 worker\n")
LISTEN = "import socket; s = socket.create_server(('', 23456)); print('up', flush=True); s.accept(); s.accept()"
SHELL = {"sh": "dash", "sleep": "sleep"}
PROBES = {
    "nc": {**SHELL, "nc": "busybox", "true": "true"},
    "bash and timeout": {**SHELL, "bash": "bash", "timeout": "timeout"},
    "bash": {**SHELL, "bash": "bash"},
}


async def _wait(made: Box, image: Path, seconds: int) -> Output:
    await made.pod("master", "10.77.0.10")
    await made.pod("worker", "10.77.0.11")
    argv = WaitForMaster("master", 23456, seconds, "busybox").container(None)["command"]
    return await made.start(made.spec("worker", *argv, root=RootFs(str(image)), files=(HOSTS,), hidden=()))


@pytest.mark.needs("bash", "busybox", "dash")
@pytest.mark.parametrize("probe", PROBES)
@async_test
async def test_waits_until_the_master_listens(tmp_path: Path, probe: str) -> None:
    need_namespaces()
    image = small_root(tmp_path / "image", PROBES[probe])
    async with box(tmp_path / "stage") as made:
        waiting = await _wait(made, image, 50)
        assert await waiting.line() == "waiting for master:23456 (up to 50s)"
        argv = (sys.executable, "-I", "-c", LISTEN)
        master = await made.start(made.spec("master", *argv, mounts=python_mounts()))
        assert await master.line() == "up"
        assert re.fullmatch(r"master answered after \d+s\n", await waiting.rest())
        assert (await waiting.ended()).code == 0


@pytest.mark.needs("bash", "busybox", "dash")
@pytest.mark.parametrize("probe", PROBES)
@async_test
async def test_times_out(tmp_path: Path, probe: str) -> None:
    need_namespaces()
    image = small_root(tmp_path / "image", PROBES[probe])
    async with box(tmp_path / "stage") as made:
        output = await (waiting := await _wait(made, image, 2)).rest()
        assert re.search(r"(?m)^gave up on master:23456: no answer in \d+s$", output), output
        assert "raise --wait-master-timeout (now 2)" in output
        assert (await waiting.ended()).code == 1


JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: trial}
spec:
  minAvailable: 1
  maxRetry: 1
  policies: [{event: PodFailed, action: TerminateJob}]
  plugins: {pytorch: ["--wait-master-enabled=true", "--wait-master-timeout=SECONDS"]}
  tasks:
  - name: master
    replicas: 1
    policies: [{event: TaskCompleted, action: CompleteJob}]
    template: {spec: {restartPolicy: Never, terminationGracePeriodSeconds: 1, containers: [
      {name: m, image: none, command: [python3, -c, "MASTER"]}]}}
  - name: worker
    replicas: 1
    template: {spec: {restartPolicy: Never, terminationGracePeriodSeconds: 1, containers: [
      {name: w, image: none, command: [python3, -c, "WORKER"]}]}}
"""
MASTER = (
    "import socket, time; time.sleep(1); s = socket.create_server(('', 23456));\\n"
    "while s.accept()[0].recv(1) != b'x': pass"
)
WORKER = "import socket; socket.create_connection(('trial-master-0.trial', 23456)).sendall(b'x'); print('through')"
# Programs that are added to the host, and those that are hidden.
HOST_PROGRAMS = {
    "nc": (("busybox",), ("bash", "timeout")),
    "bash and timeout": ((), ("nc",)),
    "bash": ((), ("nc", "timeout")),
    "nothing": ((), ("nc", "timeout", "bash")),
}


def _run_on(host: str, job: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run `pumice run` with an overlay on /usr/bin that adds and hides programs."""
    added, hidden = HOST_PROGRAMS[host]
    for name in ("upper", "work"):
        (directory / name).mkdir()
    (directory / "job.yaml").write_text(job)
    setup = "mount -t overlay overlay -o lowerdir=/usr/bin,upperdir=$1/upper,workdir=$1/work,userxattr /usr/bin\n"
    setup += "".join("cp /usr/bin/busybox /usr/bin/nc\n" for _ in added)
    setup += f'cd /usr/bin; rm -f {" ".join(hidden)}; cd "$1"; shift; exec "$@"'
    main = "import sys; from pumice.cli.program import main; sys.exit(main())"
    engine = (sys.executable, "-c", main, "run", "--network=job", "--timeout=50s", "job.yaml")
    environ = {
        "PATH": PATH,
        "PYTHONPATH": str(ROOT / "src"),
        "HOME": str(directory),
        "XDG_STATE_HOME": str(directory / "s"),
    }
    environ["VIRTUAL_ENV"] = sys.prefix
    return subprocess.run(
        ["unshare", "-m" if AS_ROOT else "-Urm", "sh", "-ec", setup, "sh", str(directory), *engine],
        env=environ,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.needs("bash", "busybox")
@pytest.mark.parametrize("host", HOST_PROGRAMS)
def test_the_host_as_image_waits_until_the_master_listens(tmp_path: Path, host: str) -> None:
    need_namespaces()
    job = JOB.replace("MASTER", MASTER).replace("WORKER", WORKER).replace("SECONDS", "40")
    done = _run_on(host, job, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "worker-0 wait-for-master  waiting for trial-master-0.trial:23456 (up to 40s)" in done.stdout
    assert re.search(r"worker-0 wait-for-master  master answered after \d+s", done.stdout)


@pytest.mark.needs("bash", "busybox")
def test_the_host_without_any_probe_times_out(tmp_path: Path) -> None:
    need_namespaces()
    job = JOB.replace("MASTER", "import time; time.sleep(100)").replace("WORKER", "").replace("SECONDS", "2")
    done = _run_on("nothing", job, tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "gave up on trial-master-0.trial:23456: no answer in" in done.stdout + done.stderr


def test_a_host_with_nc_gets_no_shim(tmp_path: Path) -> None:
    (tmp_path / "nc").write_text("#!/bin/sh\n")
    (tmp_path / "nc").chmod(0o755)
    assert nc_files(str(tmp_path), running_interpreter()) == ([], [])


def _nc(directory: Path) -> str:
    [file], _ = nc_files(str(directory), running_interpreter())
    (directory / "nc").write_bytes(file.data)
    return str(directory / "nc")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        pytest.param(["-z", "127.0.0.1", "OPEN"], 0, id="open"),
        pytest.param(["-z", "-w", "3", "127.0.0.1", "OPEN"], 0, id="timeout"),
        pytest.param(["-zv", "-w3", "127.0.0.1", "OPEN"], 0, id="combined flags"),
        pytest.param(["-z", "127.0.0.1", "CLOSED"], 1, id="closed"),
        pytest.param(["-z", "no.such.host.invalid", "OPEN"], 1, id="unknown"),
        pytest.param(["127.0.0.1", "OPEN", "-e", "true"], 1, id="unsupported flag"),
        pytest.param(["-z", "127.0.0.1"], 1, id="no port"),
        pytest.param(["-z", "127.0.0.1", "ssh"], 1, id="port is no number"),
    ],
)
def test_nc_shim(tmp_path: Path, arguments: list[str], code: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        ports = {"OPEN": str(listener.getsockname()[1]), "CLOSED": str(closed.getsockname()[1])}
        words = [ports.get(word, word) for word in arguments]
        done = subprocess.run(["sh", _nc(tmp_path), *words], capture_output=True, check=False, timeout=60)
    assert done.returncode == code, done.stderr
    assert bool(done.stderr) == ("usage" in done.stderr.decode())


@async_test
async def test_a_python_that_other_users_cannot_read(tmp_path: Path) -> None:
    """Such as a Python in root's home, for the container's user."""
    need_namespaces()
    real = running_interpreter()
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    prefix = private / "python"
    (prefix / "bin").mkdir(parents=True)
    shutil.copy(real.executable, prefix / "bin" / real.executable.name)
    library = f"python{sys.version_info.major}.{sys.version_info.minor}"
    (prefix / "lib").mkdir()
    (prefix / "lib" / library).symlink_to(real.prefix / "lib" / library)
    python = Interpreter(prefix / "bin" / real.executable.name, prefix)
    files, mounts = nc_files(str(tmp_path), python)
    async with box(tmp_path / "stage") as made:
        await made.pod("a")
        spec = made.spec("a", "nc", "-z", "10.77.0.99", files=tuple(files), mounts=(*mounts, *python_mounts()))
        user = {"uid": 65534, "gid": 65534} if AS_ROOT else {}
        ended, output = await made.run(made.spec("a", *spec.argv, files=spec.files, mounts=spec.mounts, **user))
        assert (ended.code, "usage: nc -z" in output) == (1, True), output
