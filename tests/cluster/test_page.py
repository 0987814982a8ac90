"""`pumice ui --on` in Chromium, on a real API server: what it shows, how it follows, and what a user may not see."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cluster.api import Api, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import Controllers
from tests.cluster.fake_kubelet import FakeKubelet
from tests.cluster.fault_proxy import Faults
from tests.cluster.jobs import a_job, status, until_phase
from tests.cluster.log_server import ContainerOutput, LogServer
from tests.cluster.staged_jobs import RUNNING, StagedJob, terminated
from tests.fork_server import Forked, fork_server
from tests.page.browser import Watched, open_page, started
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.needs("chromium")
LIVE = "#live:not(.off)"
HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=2>"
OpenPage = Callable[..., Watched]


@pytest.fixture
def server(pumice_cluster: Cluster) -> Iterator[LogServer]:
    with LogServer(pumice_cluster) as server:
        yield server


@pytest.fixture
def opened(server: LogServer, pumice_cluster: Cluster, namespace: str, tmp_path: Path) -> Iterator[OpenPage]:
    """Starts `pumice ui --on` as a user, and opens its address; nothing may go wrong in the page."""
    with started() as browser, _processes(tmp_path) as start:
        pages: list[Watched] = []

        def open_as(user: str = "admin", *flags: str) -> Watched:
            kubeconfig = pumice_cluster.kubeconfig(user, server=server.server, namespace=namespace)
            address = start("ui", "--no-open", "--on", user, *flags, KUBECONFIG=str(kubeconfig))
            context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
            pages.append(open_page(context, address.partition("/open")[0]))
            pages[-1].page.goto(address)
            pages[-1].page.locator(LIVE).wait_for()
            return pages[-1]

        yield open_as
        assert [each.wrong for each in pages] == [[] for _ in pages]


@contextmanager
def _processes(directory: Path) -> Iterator[Callable[..., str]]:
    """Start commands; each returns the address that it prints."""
    processes: list[Forked] = []

    def start(*words: str, **env: str) -> str:
        out = directory / f"out-{len(processes)}"
        descriptor = os.open(out, os.O_CREAT | os.O_WRONLY, 0o600)
        environ = {"HOME": str(directory), "PATH": os.environ["PATH"], **env}
        process = fork_server("pumice.ui.server").start(list(words), cwd=directory, env=environ, out=descriptor)
        os.close(descriptor)
        processes.append(process)
        eventually("the address is printed", lambda: "token=" in out.read_text() or process.poll() is not None)
        found = re.search(r"http://\S+", out.read_text())
        assert found, out.read_text()
        return found[0]

    try:
        yield start
    finally:
        for process in processes:
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE) == 0


def _open_job(page: Page, name: str = "train") -> None:
    page.get_by_role("link", name=name, exact=True).click()
    page.wait_for_url("**/jobs/*")
    page.locator(LIVE).wait_for()


def _stamp(second: int) -> str:
    return f"2026-11-18T12:00:{second:02d}.000000000Z"


def test_a_job_is_followed_to_its_end(opened: OpenPage, server: LogServer, job: StagedJob) -> None:
    """Hostile lines, events and messages stay text all the way."""
    job.phases("Pending", pending=2, message=HOSTILE)
    job.event("FailedCreate", HOSTILE)
    output = server.outputs["train-worker-0", False] = ContainerOutput([(_stamp(1), HOSTILE)], ended=False)
    watched = opened()
    page = watched.page
    page.locator("tr.job", has_text="Waiting").get_by_text(HOSTILE).first.wait_for()
    _open_job(page)
    page.locator("section.verdict.wait").get_by_text(HOSTILE).wait_for()
    job.run_pods()
    job.phases(*RUNNING, running=2)
    page.locator("section.verdict", has_text="2 of 2 running").wait_for()
    page.locator("#lines .msg", has_text=HOSTILE).wait_for()
    job.event("Hostile", HOSTILE)
    output.lines.append((_stamp(2), "epoch 2"))
    page.locator("#lines .msg", has_text="epoch 2").wait_for()
    page.fill("#search", "EPOCH")
    page.locator("#matches", has_text="1 match").wait_for()
    output.lines.append((_stamp(3), "ValueError: bad learning rate"))
    output.ended = True
    job.pod(0, "Failed", terminated(3))
    job.phases(*RUNNING, "Failed", failed=1, running=1)
    page.locator("section.verdict", has_text="worker-0 failed first: exit code 3").wait_for()
    page.locator("#lines .msg", has_text="ValueError").wait_for()
    page.locator("#tab-events").click()
    page.locator("#events", has_text=HOSTILE).wait_for()
    page.locator("#tab-policies").click()
    page.locator("#file-text", has_text=f"uid: {job.uid}").wait_for()
    assert page.evaluate("[window.hacked, document.querySelectorAll('main script, main img').length]") == [None, 0]
    assert watched.wrong == []
    job.api.delete("Job", job.namespace, "train")
    page.get_by_text("train is gone").wait_for()
    # The browser notes that the page of a deleted Job is a 404.
    watched.wrong.clear()


def test_buttons_change_the_job(opened: OpenPage, controllers: Controllers, api: Api, namespace: str) -> None:
    with FakeKubelet(controllers.cluster, namespace):
        controllers.run_job(namespace, a_job(replicas=2))
        watched = opened()
        page = watched.page
        _open_job(page)
        page.locator("section.verdict", has_text="2 of 2 running").wait_for()
        assert page.locator("#tab-resources").count() == 0
        disabled = page.locator(".acts [aria-disabled=true]")
        assert [str(each.get_attribute("title")) for each in disabled.all()] == ["it has not finished: stop it first"]

        def press(button: str, confirm: str, said: str) -> None:
            page.locator(".acts").get_by_text(button, exact=True).click()
            page.locator("#dialog").get_by_role("button", name=confirm, exact=True).click()
            page.get_by_text(said).first.wait_for()

        press("Suspend", "Suspend 2 pods", "train is being suspended")
        until_phase(api, namespace, "Aborted")
        press("Resume", "Resume", "train is queued")
        until_phase(api, namespace, "Running")
        page.locator("section.verdict", has_text="2 of 2 running").wait_for()
        version = status(api, namespace)["version"]
        press("Restart", "Restart 2 pods", "train restarts")
        eventually("it restarts", lambda: status(api, namespace)["version"] > version)
        until_phase(api, namespace, "Running")
        page.locator("section.verdict", has_text="2 of 2 running").wait_for()
        own = page.url.rpartition("/")[2]
        press("Stop", "Stop 2 pods", "train is being stopped")
        until_phase(api, namespace, "Terminated")
        page.locator(".acts").get_by_text("Run again", exact=True).click()
        page.locator("#dialog").get_by_role("button", name="Run again", exact=True).click()
        eventually("it is created", lambda: api.find("Job", namespace, "train-2") is not None)
        until_phase(api, namespace, "Running", "train-2")
        # The browser may ask for the page of the new Job before the list has it.
        page.wait_for_url(lambda url: not url.endswith(own))
        watched.wrong.clear()
        page.goto(page.url.partition("/jobs/")[0])
        _open_job(page)
        press("Delete", "Delete", "train-2")  # in the list
        eventually("it is gone", lambda: api.find("Job", namespace, "train") is None)


def test_without_the_right_to_read_pods(
    opened: OpenPage, pumice_cluster: Cluster, namespace: str, job: StagedJob
) -> None:
    verbs = ("--verb=get,list,watch", "--resource=jobs.batch.volcano.sh")
    pumice_cluster.kubectl("create", "role", "reader", "-n", namespace, *verbs)
    pumice_cluster.kubectl("create", "rolebinding", "reader", "-n", namespace, "--role=reader", "--user=plain")
    job.run_pods()
    job.phases(*RUNNING, running=2)
    page = opened("plain").page
    page.locator(".banner", has_text="pods are not readable for you").wait_for()
    _open_job(page)
    page.locator("section.verdict", has_text="2 of 2 running").wait_for()
    reasons = [str(each.get_attribute("title")) for each in page.locator(".acts [aria-disabled=true]").all()]
    assert f"you have no right to delete jobs.batch.volcano.sh in {namespace}" in reasons[3]
    assert page.locator("#meters .meter").count() == 0


def test_a_lost_connection_is_said_and_heals(opened: OpenPage, server: LogServer, job: StagedJob) -> None:
    job.phases("Pending", pending=2)
    page = opened().page
    page.locator("tr.job", has_text="Waiting").wait_for()
    server.faults = Faults(rate=1.0, kinds=("cut before",))
    server.cut_watches()
    notice = page.locator(".banner", has_text="what is shown is from")
    notice.wait_for()
    assert notice.count() == 1
    job.run_pods()
    job.phases(*RUNNING, running=2)
    page.locator("tr.job", has_text="Waiting").wait_for()
    server.faults = None
    page.locator("tr.job", has_text="2 of 2 running").wait_for()
    notice.wait_for(state="detached")


def test_all_namespaces_are_named(opened: OpenPage, pumice_cluster: Cluster, job: StagedJob) -> None:
    other = f"{job.namespace}-b"
    pumice_cluster.make_namespace(other)
    try:
        StagedJob(job.api, other, "elsewhere").phases("Pending", pending=2)
        page = opened("admin", "-A").page
        page.locator("tr.job", has_text="elsewhere").get_by_text(other).wait_for()
        page.locator("tr.job", has_text="train").get_by_text(job.namespace, exact=False).first.wait_for()
        _open_job(page, "elsewhere")
        page.locator(".meta", has_text=f"namespace {other}").wait_for()
    finally:
        job.api.delete("Namespace", "", other)
