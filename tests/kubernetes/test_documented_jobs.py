"""The documented jobs on a real API server: the objects that `pumice render` prints, and real processes to the end."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from pathlib import Path

import pytest

from pumice.cli.run_settings import active_python, add_arguments, read_options
from pumice.engines.local.settings import ExtraMount, Settings
from scripts import torch_env
from tests.kubernetes.api import Api, eventually
from tests.kubernetes.controllers import Controllers, apply, phase
from tests.kubernetes.running_kubelet import RunningKubelet
from tests.meta.tree import ROOT

IN_CI = os.environ.get("CI") == "true"
EXAMPLES = ROOT / "examples"


def _settings(example: str, state: Path, environ: dict[str, str]) -> Settings:
    """What `pumice run` would take for this example, in a place of the test's own."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    settings = read_options(parser.parse_args([str(EXAMPLES / example)])).settings
    python = active_python(environ)
    work = state / "work"
    work.mkdir(parents=True)
    mounts = (ExtraMount(EXAMPLES, read_only=True),)
    return replace(settings, state=state, workdir=work, mounts=mounts, python=python.directories, path=python.bin)


@pytest.fixture
def with_torch() -> dict[str, str]:
    found = torch_env.find(os.environ, ROOT)
    if found is None:
        (pytest.fail if IN_CI else pytest.skip)("no torch: make run fetches it")
    return torch_env.environment(found, {**os.environ})


def test_the_pytorch_job_runs_with_real_torch(
    controllers: Controllers, api: Api, namespace: str, tmp_path: Path, with_torch: dict[str, str]
) -> None:
    cluster = controllers.cluster
    settings = _settings("pytorch-job.yaml", tmp_path / "kubelet", with_torch)
    with RunningKubelet(cluster, namespace, settings) as kubelet:
        controllers.start(namespace)
        apply(cluster, namespace, EXAMPLES / "pytorch-job.yaml")
        eventually("it is completed", lambda: phase(cluster, namespace, "pytorch-job") == "Completed", within=150)
        assert "ring closed: 42.0" in kubelet.lines("master-0")


@pytest.mark.needs("mpiexec", "sshd")
def test_the_mpi_job_runs_over_real_ssh(controllers: Controllers, api: Api, namespace: str, tmp_path: Path) -> None:
    cluster = controllers.cluster
    settings = _settings("lm-mpi-job.yaml", tmp_path / "kubelet", {**os.environ})
    with RunningKubelet(cluster, namespace, settings) as kubelet:
        controllers.start(namespace)
        apply(cluster, namespace, EXAMPLES / "lm-mpi-job.yaml")
        eventually("it is completed", lambda: phase(cluster, namespace, "lm-mpi-job") == "Completed", within=150)
        assert kubelet.warnings == []
