"""wait-for-master with the host as image: with the host's nc, and with the engine's nc shim where the host has none.

For the shim the host itself must lack all programs of a probe, so `pumice run` is started on a machine where they are
hidden. The probes themselves are tested in tests/unit/plugins/test_wait_for_master.py.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from pumice.engines.local.container_spec.nc_shim import Interpreter, nc_files, running_interpreter
from pumice.engines.local.sandbox.specs import Mount
from tests.async_tests import async_test
from tests.local.sandbox.boxes import AS_ROOT, box, need_namespaces
from tests.meta.tree import ROOT
from tests.patience import PATIENCE, RUN_TIMEOUT

PATH = "/usr/local/bin:/usr/bin:/bin"

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
    engine = (sys.executable, "-c", main, "run", "--network=job", RUN_TIMEOUT, "job.yaml")
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
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.needs("bash", "busybox")
@pytest.mark.parametrize("host", HOST_PROGRAMS)
def test_the_host_as_image_waits_until_the_master_listens(tmp_path: Path, host: str) -> None:
    need_namespaces()
    job = JOB.replace("MASTER", MASTER).replace("WORKER", WORKER).replace("SECONDS", "100")
    done = _run_on(host, job, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "worker-0 wait-for-master  waiting for trial-master-0.trial:23456 (up to 100s)" in done.stdout
    assert re.search(r"worker-0 wait-for-master  master answered after \d+s", done.stdout)


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
        done = subprocess.run(["sh", _nc(tmp_path), *words], capture_output=True, check=False, timeout=PATIENCE)
    assert done.returncode == code, done.stderr
    assert bool(done.stderr) == ("usage" in done.stderr.decode())


@async_test
async def test_a_python_that_other_users_cannot_read(tmp_path: Path) -> None:
    """Such as a Python in root's home, for the container's user. Its libpython, if it has one, is there too."""
    need_namespaces()
    real = running_interpreter()
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    prefix = private / "python"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib").mkdir()
    shutil.copy(real.executable, prefix / "bin" / real.executable.name)
    for library in real.libraries.glob("libpython3*") if real.libraries is not None else ():
        shutil.copy(library, prefix / "lib")
    python = Interpreter(prefix / "bin" / real.executable.name, prefix, real.libraries and prefix / "lib")
    standard = Path(sysconfig.get_path("stdlib"))
    within = standard.relative_to(sys.base_prefix)
    (prefix / within).mkdir(parents=True)
    files, [mount] = nc_files(str(tmp_path), python)
    # The library of another Python of the same version must not do.
    (tmp_path / "empty").touch()
    others = [Mount(str(tmp_path / "empty"), path) for path in _system_libraries()]
    mounts = (mount, Mount(str(standard), f"{mount.target}/{within}", read_only=True), *others)
    user = {"uid": 65534, "gid": 65534} if AS_ROOT else {}
    async with box(tmp_path / "stage") as made:
        await made.pod("a")
        spec = made.spec("a", "nc", "-z", "10.77.0.99", files=tuple(files), mounts=mounts, **user)
        ended, output = await made.run(spec)
        assert (ended.code, "usage: nc -z" in output) == (1, True), output


def _system_libraries() -> list[str]:
    name = f"libpython{sys.version_info.major}.{sys.version_info.minor}*.so*"
    found = {os.path.realpath(path) for top in ("/usr/lib", "/usr/lib64") for path in Path(top).glob(f"**/{name}")}
    return sorted(found)
