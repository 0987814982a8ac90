"""`pumice run` for real: jobs in namespaces on this machine, as whatever user runs the tests."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.local.roots import small_root
from tests.local.running import Manifest, Workspace, job, task
from tests.local.sandbox.boxes import need_namespaces
from tests.unit.engines.local.images.archives import docker_files, tar_of


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    need_namespaces()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


@pytest.mark.parametrize(
    ("script", "code"),
    [
        pytest.param("exit 0", 0, id="completes"),
        pytest.param("echo oh no; exit 7", 7, id="fails"),
        pytest.param("kill -9 $$$$; sleep 5", 137, id="signal"),
        pytest.param("kill -15 $$$$; sleep 5", 143, id="terminated"),
    ],
)
def test_exit_code_is_that_of_the_container(workspace: Workspace, script: str, code: int) -> None:
    # The shell is not pid 1 here, because signals that it sends to itself would not reach it; $$ is one $ in a command.
    result = workspace.run(job(task("only", f"sh -c '{script}'; exit $?"), maxRetry=1))
    assert result.code == code, result.err


def test_restart_policy_restarts_until_the_retries_are_spent(workspace: Workspace) -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    result = workspace.run(job(task("only", "echo once; exit 4"), policies=policies, maxRetry=2))
    assert result.code == 4
    assert result.out.count("once") == 2, result.err
    assert "(attempt 2 of 2)" in result.err


def test_completed_task_completes_the_job(workspace: Workspace) -> None:
    policies = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    result = workspace.run(job(task("master", "true", policies=policies), task("worker", "sleep 20")))
    assert result.code == 0, result.err
    assert "Completing master-0 succeeded: TaskCompleted -> CompleteJob (tasks[0].policies[0], job.yaml:" in result.err


def test_exit_code_policy(workspace: Workspace) -> None:
    policies = [{"exitCode": 5, "action": "CompleteJob"}]
    result = workspace.run(job(task("only", "exit 5"), task("other", "sleep 20"), policies=policies))
    assert result.code == 0, result.err


def test_killed_worker_restarts_the_job(workspace: Workspace) -> None:
    script = "if [ -e seen ]; then exit 0; fi; touch seen; sleep 20"
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    result = workspace.run(job(task("worker", script), policies=policies), flags=["--kill", "worker-0@0.2s"])
    assert result.code == 0, result.err
    assert "PodFailed -> RestartJob" in result.err


def test_pods_reach_each_other_by_name_and_share_no_port(workspace: Workspace) -> None:
    listen = "import socket; s = socket.create_server(('', 22)); c, _ = s.accept(); c.sendall(b'hello'); c.close()"
    ask = """
import socket, time
for name in ("trial-server-0.trial", "trial-server-1.trial.default.svc.cluster.local"):
    while True:
        try:
            print(name, socket.create_connection((name, 22), 5).recv(9).decode())
            break
        except OSError:
            time.sleep(0.1)
"""
    server = task("server", "", 2, container={"command": ["python3", "-c", listen]})
    client = task("client", "", container={"command": ["python3", "-c", ask]})
    result = workspace.run(job(server, client, plugins={"svc": []}))
    assert result.code == 0, result.err
    assert result.out.count("hello") == 2, result.out


def test_extra_objects_serve_variables_and_volumes(workspace: Workspace) -> None:
    config: Manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "conf"}, "data": {"A": "1"}}
    secret: Manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hush"}, "stringData": {"B": "2"}}
    container = {
        "envFrom": [{"configMapRef": {"name": "conf"}}],
        "env": [
            {"name": "B", "valueFrom": {"secretKeyRef": {"name": "hush", "key": "B"}}},
            {"name": "C", "value": "$(A)3"},
        ],
        "volumeMounts": [{"name": "v", "mountPath": "/conf"}],
        "args": ["$(C)$(HOME)"],
    }
    pod = {"volumes": [{"name": "v", "configMap": {"name": "conf"}}]}
    only = task("only", 'echo $A $B $C $(cat /conf/A) "$0"', container=container, pod={})
    only["template"]["spec"] |= pod
    result = workspace.run(job(only), config, secret)
    assert result.code == 0, result.err
    # HOME is nobody's declared variable, so it stays as it is written.
    assert "1 2 13 1 13$(HOME)" in result.out


def test_claims_are_kept_by_name(workspace: Workspace) -> None:
    claim: Manifest = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {}}
    claim["spec"] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volumes = [{"mountPath": "/data", "volumeClaimName": "data"}]
    for expected in ("1", "2"):
        result = workspace.run(job(task("only", "echo x >> /data/f; wc -l < /data/f"), volumes=volumes), claim)
        assert result.code == 0, result.err
        assert result.out.split()[-1] == expected


@pytest.mark.parametrize(
    ("container", "flags", "printed"),
    [
        pytest.param({"command": []}, [], "no command, and this machine has no image nowhere", id="no command"),
        pytest.param({"envFrom": [{"configMapRef": {"name": "gone"}}]}, [], "gone", id="missing ConfigMap"),
        pytest.param(
            {"resources": {"requests": {"cpu": "4000"}}}, [], "needs 1 pod, 0 fit on this machine", id="too large"
        ),
        pytest.param({}, ["--image", "nowhere=job.yaml"], "job.yaml", id="image that is no archive"),
        pytest.param({}, ["--scale", "only"], "must be TASK=N", id="bad flag"),
    ],
)
def test_bad_input_is_reported_before_anything_starts(
    workspace: Workspace, container: Manifest, flags: list[str], printed: str
) -> None:
    result = workspace.run(job(task("only", "echo started", container=container)), flags=flags)
    assert result.code == 2, result.err
    assert printed in result.err
    assert "started" not in result.out
    assert "Traceback" not in result.err


def test_init_containers_come_first_and_restarts_are_reported(workspace: Workspace) -> None:
    first = {"name": "first", "image": "nowhere", "command": ["sh", "-c", "echo begun"]}
    script = "echo broken; [ -e seen ] && exit 0; touch seen; exit 9"
    pod = {"initContainers": [first], "restartPolicy": "OnFailure"}
    only = task("only", script)
    only["template"]["spec"] |= pod
    result = workspace.run(job(only))
    assert result.code == 0, result.err
    assert result.out.index("begun") < result.out.index("broken")
    assert "only-0 restart 1: exit code 9: broken" in result.err


_SERVER = ["python3", "-m", "http.server", "80"]


@pytest.mark.parametrize(
    "handler",
    [
        pytest.param({"exec": {"command": ["false"]}}, id="exec"),
        pytest.param({"tcpSocket": {"port": 81}}, id="tcp"),
        pytest.param({"httpGet": {"port": 80, "path": "/missing"}}, id="http"),
    ],
)
def test_container_that_is_not_alive_is_ended(workspace: Workspace, handler: Manifest) -> None:
    probe = {**handler, "periodSeconds": 1, "failureThreshold": 1, "initialDelaySeconds": 1}
    result = workspace.run(job(task("only", "", container={"command": _SERVER, "livenessProbe": probe}), maxRetry=1))
    assert result.code in (137, 143), result.err


def test_good_probes_leave_a_container_alone(workspace: Workspace) -> None:
    """The server ends when it has been asked four times."""
    serve = "from http.server import *\ns = HTTPServer(('', 80), SimpleHTTPRequestHandler)\n"
    serve += "for _ in range(4): s.handle_request()"
    probe = {"httpGet": {"port": 80, "path": "/"}, "periodSeconds": 1, "timeoutSeconds": 20, "failureThreshold": 1000}
    served = {"command": ["python3", "-c", serve], "startupProbe": probe, "livenessProbe": probe}
    result = workspace.run(job(task("only", "", container=served), maxRetry=1))
    assert result.code == 0, result.err
    assert result.out.count("GET /") == 4


def sidecar(image: str, trap: str) -> Manifest:
    """An init container beside which the others start once its trap is set."""
    helper: Manifest = {"name": "helper", "image": image, "restartPolicy": "Always"}
    helper |= {"command": ["sh", "-c", f"{trap}; : > /tmp/set; while :; do sleep 0.1; done"]}
    return helper | {"startupProbe": {"exec": {"command": ["sh", "-c", "[ -e /tmp/set ]"]}, "periodSeconds": 1}}


def test_sidecar_goes_with_the_pod_and_hooks_run(workspace: Workspace) -> None:
    hook = {"postStart": {"exec": {"command": ["touch", "/tmp/hooked"]}}}
    only = task("only", "while ! [ -e /tmp/hooked ]; do sleep 0.1; done; echo hooked", container={"lifecycle": hook})
    only["template"]["spec"]["initContainers"] = [sidecar("nowhere", "trap 'echo closing; exit 0' TERM")]
    result = workspace.run(job(only))
    assert result.code == 0, result.err
    assert "hooked" in result.out
    assert "closing" in result.out


def test_directory_serves_as_image(workspace: Workspace) -> None:
    root = workspace.directory / "image"
    for name in ("bin", "usr", "lib", "lib64", "sbin", "etc", "tmp", "proc", "dev", "sys"):
        (root / name).mkdir(parents=True)
    (root / "etc/motto").write_text("from the image\n")
    listed = subprocess.run(["ldd", "/bin/sh"], capture_output=True, text=True, check=True).stdout.split()
    for file in [Path("/bin/sh"), *(Path(word) for word in listed if word.startswith("/"))]:
        copy = root / str(file).lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(file.read_bytes())
        copy.chmod(0o755)
    result = workspace.run(
        job(task("only", "while read l; do echo $l; done < /etc/motto")), flags=["--image", "nowhere=image"]
    )
    assert result.code == 0, result.err
    assert "from the image" in result.out
    assert "images: nowhere" in result.err


def test_the_stop_signal_of_an_image_ends_its_container(workspace: Workspace) -> None:
    root, layer = small_root(workspace.directory / "root", {"sh": "sh", "sleep": "sleep"}), io.BytesIO()
    (root / "tmp").mkdir()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        archive.add(root, arcname=".")
    files = docker_files([layer.getvalue()], ["box:latest"], StopSignal="SIGINT")
    (workspace.directory / "box.tar").write_bytes(tar_of(files))
    only = task("only", "true")
    only["template"]["spec"]["initContainers"] = [sidecar("box", "trap 'echo interrupted; exit 0' INT")]
    result = workspace.run(job(only), flags=["--image", "box=box.tar"])
    assert (result.code, "interrupted" in result.out) == (0, True), result.err
