"""Pumice installed in the cluster with the commands of the guides, while the controller outside still runs."""

from __future__ import annotations

import base64
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pumice.engines.kubernetes.install import names
from tests.cluster.api import Object, RefusedError, eventually, path_of
from tests.kubelet import image
from tests.kubelet.jobs import Jobs, container, job, task
from tests.kubelet.node import NAME
from tests.kubelet.outside import OutsideController, pumice

pytestmark = pytest.mark.kubelet
DEPLOYMENTS = ("pumice-controller", "pumice-webhook")
CONFIGURATIONS = ("validatingwebhookconfiguration", "mutatingwebhookconfiguration")
RENEW = '[{"op": "remove", "path": "/data"}]'


def apply(controller: OutsideController, *flags: str) -> None:
    printed = pumice(controller.cluster, "install", *flags)
    assert printed.returncode == 0, printed.stderr
    controller.cluster.kubectl("apply", "--server-side", "-f", "-", stdin=printed.stdout)


def wait_for_roll_out(controller: OutsideController) -> None:
    for name in DEPLOYMENTS:
        status = ("rollout", "status", f"deployment/{name}", "--timeout=110s")
        controller.cluster.kubectl("-n", names.NAMESPACE, *status)


@pytest.fixture(scope="module")
def broken(controller: OutsideController) -> Iterator[OutsideController]:
    """Install an image that cannot be pulled; afterwards remove what creates or refuses anything."""
    kubectl = controller.cluster.kubectl
    apply(controller, "--image", "127.0.0.1:5999/none:1", "--gang", "native")
    try:
        yield controller
    finally:
        for kind in CONFIGURATIONS:
            kubectl("delete", kind, "--all")
        kubectl("-n", names.NAMESPACE, "delete", "deployment", *DEPLOYMENTS, "--cascade=foreground")
        if controller.daemon is None:
            controller.start()
        controller.wait_until_it_leads()


@pytest.fixture(scope="module")
def installed(broken: OutsideController) -> OutsideController:
    """Upgrade to the right image, which keeps the gang provider."""
    apply(broken, "--upgrade", "--image", image.PUMICE)
    wait_for_roll_out(broken)
    return broken


def test_pods_that_do_not_start_block_no_job_and_the_check_says_why(broken: OutsideController, jobs: Jobs) -> None:
    def says_why() -> bool:
        checked = pumice(broken.cluster, "install", "--check")
        return checked.returncode == 1 and "ImagePull" in checked.stdout

    jobs.create(job("free", task(pod={"containers": [container("exit 0")]})))
    jobs.until_phase("free", "Completed")
    eventually("the check names the reason", says_why)


def test_one_controller_leads_and_the_installed_ones_take_over(installed: OutsideController, jobs: Jobs) -> None:
    """A trial outside beside an installation, then the second replica of the installation."""
    assert installed.leads
    assert leading_pods(jobs) == []
    # The roll-out has waited for them: they are ready standbys, which name the holder.
    standbys = controller_pods(jobs)
    assert len(standbys) == 2
    for pod in standbys:
        assert f"waiting: {holder(jobs)} holds Lease kube-system/pumice-controller" in log(jobs, pod)
    jobs.create(job("outside", task(replicas=2), plugins={"svc": [], "ssh": []}))
    jobs.until_running("outside", 2)
    assert [each["reason"] for each in jobs.events("outside") if each["type"] == "Warning"] == []
    before = {each["metadata"]["uid"] for each in jobs.pods()}

    installed.stop()
    [leader] = eventually("an installed controller leads", lambda: leading_pods(jobs))
    jobs.create(job("inside", task(pod={"containers": [container("exit 0")]})))
    jobs.until_phase("inside", "Completed")
    assert before <= {each["metadata"]["uid"] for each in jobs.pods()}
    assert leading_pods(jobs) == [leader]
    jobs.kubectl("delete", "vcjob", "outside")


def test_a_rolling_update_of_the_controller_changes_no_pod_of_a_job(installed: OutsideController, jobs: Jobs) -> None:
    installed.stop()
    jobs.create(job("stays", task(replicas=2)))
    jobs.until_running("stays", 2)
    before = {each["metadata"]["uid"] for each in jobs.pods()}
    replaced = set(controller_pods(jobs))
    installed.cluster.kubectl("-n", names.NAMESPACE, "rollout", "restart", f"deployment/{names.CONTROLLER}")
    wait_for_roll_out(installed)
    [leader] = eventually("one of the new pods leads", lambda: set(leading_pods(jobs)) - replaced)
    assert holder(jobs).startswith(f"{leader}_")
    jobs.create(job("next", task(pod={"containers": [container("exit 0")]})))
    jobs.until_phase("next", "Completed")
    assert jobs.status("stays")["running"] == 2
    assert before <= {each["metadata"]["uid"] for each in jobs.pods()}
    jobs.kubectl("delete", "vcjob", "stays")


def test_a_leader_that_loses_the_right_to_the_lease_ends_and_names_it(installed: OutsideController, jobs: Jobs) -> None:
    installed.stop()
    [leader] = eventually("one leads", lambda: leading_pods(jobs))
    installed.cluster.kubectl("-n", names.LEASE_NAMESPACE, "delete", "rolebinding", names.CONTROLLER)

    def ended() -> Object:
        found: Object = jobs.api.get("Pod", names.NAMESPACE, leader)["status"]["containerStatuses"][0]
        return found["lastState"].get("terminated") or found["state"].get("terminated") or {}

    try:
        assert eventually("the leader ends", ended)["exitCode"] == 1
        needed = "grant get and update on Lease pumice-controller, create and list on Leases in namespace kube-system"
        eventually("its log names the right", lambda: needed in log(jobs, leader) + log(jobs, leader, previous=True))
    finally:
        apply(installed, "--upgrade")
    eventually("one leads again", lambda: len(leading_pods(jobs)) == 1)
    wait_for_roll_out(installed)


def test_the_webhook_refuses_a_bad_job_through_its_service(installed: OutsideController, jobs: Jobs) -> None:
    def refused() -> bool:
        with pytest.raises(RefusedError, match="must be") as caught:
            jobs.create(job("bad", task(replicas=-2)))
        return "admission webhook" in str(caught.value)

    eventually("the webhook refuses", refused)


def test_check_finds_everything_in_order(installed: OutsideController, jobs: Jobs) -> None:
    checked = pumice(installed.cluster, "install", "--check")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert image.PUMICE in checked.stdout


def test_no_create_fails_while_all_pods_are_replaced_and_certificates_are_renewed(
    installed: OutsideController, jobs: Jobs
) -> None:
    secret = "pumice-webhook-certificates"
    before = jobs.api.get("Secret", names.NAMESPACE, secret)["data"]
    with creating(jobs) as failures:
        for name in DEPLOYMENTS:
            installed.cluster.kubectl("-n", names.NAMESPACE, "rollout", "restart", f"deployment/{name}")
        wait_for_roll_out(installed)
        installed.cluster.kubectl("-n", names.NAMESPACE, "patch", "secret", secret, "--type=json", "-p", RENEW)

        def renewed() -> bool:
            data: Object = jobs.api.get("Secret", names.NAMESPACE, secret).get("data") or {}
            made = base64.b64decode(data.get("tls.crt", ""))
            return bool(made) and data != before and served_certificates(jobs) == {made.strip()}

        eventually("every webhook serves the new certificate", renewed)
    assert failures == []


def served_certificates(jobs: Jobs) -> set[bytes]:
    pods = jobs.api.list("Pod", names.NAMESPACE, "app.kubernetes.io/component=webhook")
    addresses = [pod["status"]["podIP"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    return {ssl.get_server_certificate((address, 9443), timeout=10).strip().encode() for address in addresses}


def test_a_drain_would_move_all_pods_without_further_flags(installed: OutsideController, jobs: Jobs) -> None:
    selector = "--pod-selector=app.kubernetes.io/name=pumice"
    printed = installed.cluster.kubectl("drain", NAME, "--ignore-daemonsets", "--dry-run=client", selector)
    assert "drained (dry run)" in printed


@contextmanager
def creating(jobs: Jobs) -> Iterator[list[str]]:
    """Create Jobs as dry runs, one after the other; yield the failures."""
    failures: list[str] = []
    ended = threading.Event()
    created = 0

    def create() -> None:
        nonlocal created
        path = f"{path_of('Job', jobs.namespace)}?dryRun=All"
        while not ended.is_set():
            answer = jobs.api.ask("POST", path, job("dry", task()))
            created += 1
            if answer.status != 201:
                failures.append(f"{created}: {answer.body}")

    thread = threading.Thread(target=create)
    thread.start()
    try:
        yield failures
    finally:
        ended.set()
        thread.join()
    assert created > 100


def controller_pods(jobs: Jobs) -> list[str]:
    selector = "app.kubernetes.io/component=controller"
    pods = jobs.api.list("Pod", names.NAMESPACE, selector)
    return [each["metadata"]["name"] for each in pods if "deletionTimestamp" not in each["metadata"]]


def leading_pods(jobs: Jobs) -> list[str]:
    """Return the pods of the installed controller that say that they lead."""
    path = "/api/v1/namespaces/{}/pods/{}:8080/proxy/metrics"
    pages = {pod: jobs.api.ask("GET", path.format(names.NAMESPACE, pod)) for pod in controller_pods(jobs)}
    return [pod for pod, page in pages.items() if page.status == 200 and "pumice_leader 1.0" in str(page.body)]


def holder(jobs: Jobs) -> str:
    return str(jobs.api.get("Lease", names.LEASE_NAMESPACE, names.LEASE)["spec"]["holderIdentity"])


def log(jobs: Jobs, pod: str, *, previous: bool = False) -> str:
    """Return what a pod of the installation wrote; empty if there is no such container any more."""
    path = f"/api/v1/namespaces/{names.NAMESPACE}/pods/{pod}/log?previous={str(previous).lower()}"
    answer = jobs.api.ask("GET", path)
    return str(answer.body) if answer.status == 200 else ""
