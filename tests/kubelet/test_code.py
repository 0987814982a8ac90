"""The code of a Job in pods on a real node: nothing is built, and the second run has what was changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scripts.kubelet_settings import VARIABLE, Settings
from tests.kubelet import image
from tests.kubelet.jobs import Jobs
from tests.kubelet.typist import Typist
from tests.meta.tree import ROOT

pytestmark = pytest.mark.kubelet

TOOLLESS = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: {name}}}
spec:
  tasks:
  - name: w
    replicas: 1
    template:
      spec:
        restartPolicy: {restart}
        containers:
        - {{name: main, image: "{image}", command: [/usr/bin/python3, train.py]}}
"""


@pytest.fixture
def typist(jobs: Jobs, tmp_path: Path) -> Typist:
    return Typist.there(tmp_path, jobs.cluster, jobs.namespace)


def _code_secrets(jobs: Jobs) -> set[str]:
    return {each["metadata"]["uid"] for each in jobs.api.list("Secret", jobs.namespace)}


@pytest.mark.skipif(
    VARIABLE in os.environ and not Settings.read(Path(os.environ[VARIABLE])).python,
    reason="no Python of this machine has torch",
)
def test_the_pytorch_job_runs_the_script_as_it_is_now(jobs: Jobs, typist: Typist) -> None:
    python = Settings.read(Path(os.environ[VARIABLE])).python
    job = ROOT.joinpath("examples", "pytorch-job.yaml").read_text()
    # The program of the image is that of the seeds; the user's own one is in the directory of the Job file.
    command = f"command: [{python}, sendrecv.py]"
    job = job.replace("imagePullPolicy: IfNotPresent", f"imagePullPolicy: IfNotPresent\n              {command}")
    script = typist.folder / "sendrecv.py"
    typist.folder.joinpath("job.yaml").write_text(job)
    script.write_text(ROOT.joinpath("examples", "stand-ins", "sendrecv.py").read_text())
    flags = ("--code", "--code-dir", "/workspace")
    first = typist.run("run", "job.yaml", *flags)
    assert first.returncode == 0, first.stderr
    assert "ring closed: 42.0" in first.stdout
    sent = _code_secrets(jobs)

    assert typist.run("run", "job.yaml", *flags, "--name", "same").returncode == 0
    assert _code_secrets(jobs) == sent

    script.write_text(script.read_text().replace("42.0 if rank == 0", "43.5 if rank == 0"))
    second = typist.run("run", "job.yaml", *flags, "--replace")
    assert second.returncode == 0, second.stderr
    assert "ring closed: 43.5" in second.stdout
    assert "42.0" not in second.stdout
    images = {each["image"] for pod in jobs.pods() for each in pod["spec"]["containers"]}
    assert images == {"gcr.io/kubeflow-ci/pytorch-dist-sendrecv-test:1.0"}


@pytest.fixture
def toolless(typist: Typist) -> Typist:
    for name, restart in (("never", "Never"), ("onfailure", "OnFailure")):
        text = TOOLLESS.format(name=name, restart=restart, image=image.TOOLLESS)
        typist.folder.joinpath(f"{name}.yaml").write_text(text)
    typist.folder.joinpath("train.py").write_text("print('the code is here')\n")
    return typist


def test_the_verdict_on_an_image_without_sh_says_how_the_code_gets_in(toolless: Typist) -> None:
    done = toolless.run("run", "never.yaml", "--code")
    assert done.returncode not in (0, 2), done.stderr
    assert "pumice-code" in done.stderr
    assert "submit it again with --code-mode read-only" in done.stderr
    done = toolless.run("run", "never.yaml", "--code", "--code-mode", "read-only", "--replace")
    assert (done.returncode, done.stdout) == (0, "w-0  the code is here\n"), done.stderr


def test_a_pod_that_tries_again_and_again_says_it_as_well(toolless: Typist) -> None:
    assert toolless.run("submit", "onfailure.yaml", "--code").returncode == 0
    toolless.until("submit it again with --code-mode read-only", "why", "onfailure")
