"""Workers that have finished keep their pods and logs when the master completes the job."""

from __future__ import annotations

from collections.abc import Collection

import pytest
import yaml

from tests.cluster.api import Api, Object, eventually
from tests.cluster.controllers import Controllers
from tests.cluster.fake_kubelet import FakeKubelet, PodScript
from tests.meta.tree import ROOT

LAG = 1.1  # seconds, measured on a real kubelet


def _end_together(pod: Object, pods: Collection[Object]) -> bool:
    """Whether all pods of the job run: then they end at once, as the processes of one training do."""
    job = pod["metadata"]["labels"]["volcano.sh/job-name"]
    phases = [one["status"].get("phase") for one in pods if one["metadata"]["labels"]["volcano.sh/job-name"] == job]
    return len(phases) == 3 and "Pending" not in phases


@pytest.mark.parametrize("runs", [pytest.param(5, id="5"), pytest.param(100, id="100", marks=pytest.mark.soak)])
def test_the_pytorch_job_loses_no_finished_worker(
    controllers: Controllers, api: Api, namespace: str, runs: int
) -> None:
    document = yaml.safe_load((ROOT / "examples" / "pytorch-job.yaml").read_text(encoding="utf-8"))
    script = PodScript(ends_when=_end_together)
    with FakeKubelet(controllers.cluster, namespace, lambda _pod: script, phase_lag=LAG) as kubelet:
        controllers.start(namespace)
        for number in range(runs):
            api.create("Job", namespace, {**document, "metadata": {"name": f"run-{number}"}})

        def all_completed() -> bool:
            phases = [job.get("status", {}).get("state", {}).get("phase") for job in api.list("Job", namespace)]
            return phases == ["Completed"] * runs

        eventually("all jobs are completed", all_completed)
        assert kubelet.created == 3 * runs
    pods = api.list("Pod", namespace)
    assert [pod["status"]["phase"] for pod in pods] == ["Succeeded"] * 3 * runs
    assert [job["status"]["succeeded"] for job in api.list("Job", namespace)] == [3] * runs
