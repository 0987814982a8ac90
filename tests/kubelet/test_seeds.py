"""The seeds' jobs, unmodified, with real torch, sshd and Open MPI."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scripts.kubelet_settings import VARIABLE, Settings
from tests.kubelet.jobs import Jobs

pytestmark = pytest.mark.kubelet


@pytest.fixture
def torch() -> None:
    if not Settings.read(Path(os.environ[VARIABLE])).python:
        pytest.skip("no Python of this machine has torch")


@pytest.mark.parametrize("attempt", range(3))
def test_the_pytorch_job_completes_and_every_finished_worker_keeps_its_pod(
    jobs: Jobs, torch: None, attempt: int
) -> None:
    jobs.apply_example("pytorch-job.yaml")
    jobs.until_phase("pytorch-job", "Completed")
    assert "ring closed: 42.0" in jobs.logs("pytorch-job-master-0")
    for worker in ("pytorch-job-worker-0", "pytorch-job-worker-1"):
        assert "received 42.0" in jobs.logs(worker, "-c", "worker")
        assert jobs.logs(worker, "-c", "wait-for-master")
    assert jobs.status("pytorch-job")["succeeded"] == 3


@pytest.mark.needs("mpiexec", "sshd")
def test_the_mpi_job_completes(jobs: Jobs) -> None:
    jobs.apply_example("lm-mpi-job.yaml")
    jobs.until_phase("lm-mpi-job", "Completed")
