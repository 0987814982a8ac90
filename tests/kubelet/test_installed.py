"""Pumice installed in the cluster as the guide shows, while the controller outside still runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pumice.engines.kubernetes.install import names
from tests.cluster.api import RefusedError, eventually
from tests.kubelet import image
from tests.kubelet.jobs import Jobs, container, job, task
from tests.kubelet.outside import OutsideController, pumice

pytestmark = pytest.mark.kubelet
DEPLOYMENTS = ("pumice-webhook", "pumice-controller")
CONFIGURATIONS = ("validatingwebhookconfiguration", "mutatingwebhookconfiguration")


@pytest.fixture(scope="module")
def installed(controller: OutsideController) -> Iterator[OutsideController]:
    """Install Pumice beside the controller outside; afterwards remove what creates or refuses anything."""
    kubectl = controller.cluster.kubectl
    printed = pumice(controller.cluster, "install", "--image", image.PUMICE, "--gang", "native")
    assert printed.returncode == 0, printed.stderr
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=printed.stdout)
    try:
        for name in DEPLOYMENTS:
            kubectl("-n", names.NAMESPACE, "rollout", "status", f"deployment/{name}", "--timeout=110s")
        yield controller
    finally:
        for kind in CONFIGURATIONS:
            kubectl("delete", kind, "--all")
        kubectl("-n", names.NAMESPACE, "delete", "deployment", *DEPLOYMENTS, "--cascade=foreground")
        if controller.daemon is None:
            controller.start()
        controller.wait_until_it_leads()


def test_one_controller_leads_and_the_installed_ones_take_over(installed: OutsideController, jobs: Jobs) -> None:
    assert installed.leads
    assert leading_pods(jobs) == []
    jobs.create(job("outside", task(replicas=2), plugins={"svc": [], "ssh": []}))
    jobs.until_running("outside", 2)
    assert [each["reason"] for each in jobs.events("outside") if each["type"] == "Warning"] == []
    before = {each["metadata"]["uid"] for each in jobs.pods()}

    installed.stop()
    eventually("an installed controller leads", lambda: len(leading_pods(jobs)) == 1, within=60)
    jobs.create(job("inside", task(pod={"containers": [container("exit 0")]})))
    jobs.until_phase("inside", "Completed")
    assert before <= {each["metadata"]["uid"] for each in jobs.pods()}
    jobs.kubectl("delete", "vcjob", "outside")


def test_the_webhook_refuses_a_bad_job_through_its_service(installed: OutsideController, jobs: Jobs) -> None:
    def refused() -> bool:
        with pytest.raises(RefusedError, match="must be") as caught:
            jobs.create(job("bad", task(replicas=-2)))
        return "admission webhook" in str(caught.value)

    eventually("the webhook refuses", refused, within=60)


def test_check_finds_everything_in_order(installed: OutsideController, jobs: Jobs) -> None:
    checked = pumice(installed.cluster, "install", "--check")
    assert checked.returncode == 0, checked.stdout + checked.stderr


def leading_pods(jobs: Jobs) -> list[str]:
    """Return the pods of the installed controller that say that they lead."""
    selector = "app.kubernetes.io/component=controller"
    pods = [each["metadata"]["name"] for each in jobs.api.list("Pod", names.NAMESPACE, selector)]
    path = "/api/v1/namespaces/{}/pods/{}:8080/proxy/metrics"
    pages = {pod: jobs.api.ask("GET", path.format(names.NAMESPACE, pod)) for pod in pods}
    return [pod for pod, page in pages.items() if page.status == 200 and "pumice_leader 1.0" in str(page.body)]
