"""What `pumice run` keeps from its pods: the user's home, its own state and with it the secrets of other jobs."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.local.roots import small_root
from tests.local.running import SEARCH_PATH
from tests.local.sandbox.boxes import need_namespaces
from tests.meta.tree import ROOT
from tests.patience import PATIENCE, RUN_TIMEOUT

MAIN = "import sys; from pumice.cli.program import main; sys.exit(main())"
SECRET = "the-very-secret"


@pytest.fixture
def workspace() -> Iterator[Path]:
    """Not below /tmp, of which pods see nothing anyway."""
    need_namespaces()
    made = Path(tempfile.mkdtemp(prefix="pumice-secrets-", dir="/var/tmp"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


def _job(name: str, script: str, **pod: Any) -> list[Any]:
    container: dict[str, Any] = {"name": "c", "image": "none", "command": ["sh", "-c", script]}
    if pod:
        container["volumeMounts"] = [{"name": "v", "mountPath": "/secret"}]
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container], **pod}
    task = {"name": "only", "replicas": 1, "template": {"spec": spec}}
    policies = [{"event": "PodFailed", "action": "TerminateJob"}]
    body = {"maxRetry": 1, "policies": policies, "tasks": [task]}
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": SECRET}}
    return [{**job, "metadata": {"name": name}, "spec": body}, *([secret] if pod else [])]


def _start(workspace: Path, documents: list[Any], *flags: str) -> subprocess.Popen[str]:
    """In `place`/project, with the home in `place`/home and the state in the working directory."""
    for name in ("home", "project"):
        (workspace / name).mkdir(exist_ok=True)
    name = documents[0]["metadata"]["name"]
    (workspace / "project" / f"{name}.yaml").write_text(yaml.safe_dump_all(documents))
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, "run", "--network=job", RUN_TIMEOUT, *flags, f"{name}.yaml"],
        cwd=workspace / "project",
        env={
            "PATH": SEARCH_PATH,
            "PYTHONPATH": str(ROOT / "src"),
            "HOME": str(workspace / "home"),
            "XDG_STATE_HOME": str(workspace / "project" / "state"),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("image", [False, True], ids=["the host as image", "an image"])
def test_neither_the_home_nor_the_secrets_of_another_job_are_found(workspace: Path, *, image: bool) -> None:
    programs = {name: name for name in ("sh", "grep", "ls", "cat", "true")}
    flags = [f"--image=none={small_root(workspace / 'image', programs)}"] if image else []
    (workspace / "home").mkdir()
    (workspace / "home" / "private").write_text(SECRET)
    (workspace / "home" / "private").chmod(0o644)
    volume = {"volumes": [{"name": "v", "secret": {"secretName": "s", "defaultMode": 0o444}}]}
    other = _start(workspace, _job("other", "cat /secret/key; echo; sleep 1000", **volume))
    try:
        assert other.stdout is not None
        while SECRET not in (line := other.stdout.readline()):
            assert line, "the other job ended"
        look = f"grep -rl {SECRET[:-1]}[t] {workspace} /proc/[0-9]*/environ /home /root 2>/dev/null;"
        look += f"ls -A {workspace}/home {workspace}/project/state/pumice 2>/dev/null; true"
        found, _ = _start(workspace, _job("curious", look), *flags).communicate(timeout=PATIENCE)
        said = [line.partition("  ")[2] for line in found.splitlines() if line.startswith("only-0")]
        # The other job's own file is in the working directory, where its author put it.
        assert [line for line in said if line and not line.endswith(":")] == [f"{workspace}/project/other.yaml"], found
        assert list((workspace / "project/state/pumice").iterdir())
    finally:
        other.kill()
        other.communicate()
