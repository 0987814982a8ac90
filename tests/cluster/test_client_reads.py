"""Jobs on a cluster in the words of this machine: `ps`, `get`, `wait`, `why`, `history`. Nothing works on them here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.cluster.api import Api
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import MAIN
from tests.cluster.staged_jobs import RUNNING, StagedJob, running, terminated, waiting
from tests.cluster.typed_commands import Pumice


def test_a_running_job_has_the_columns_of_this_machine(pumice: Pumice, job: StagedJob) -> None:
    job.run_pods()
    job.phases(*RUNNING, running=2)
    head, row = pumice("ps").out.splitlines()
    assert head.split() == ["RUN", "STATUS", "PODS", "TRY", "AGE", "NOTE"]
    assert row.split()[:4] == ["train", "Running", "2/2", "1/3"]


def test_json_names_the_run_by_the_job_and_where_it_is(pumice: Pumice, job: StagedJob) -> None:
    job.phases(*RUNNING, running=2)
    [item] = json.loads(pumice("ps", "-o", "json").out)["items"]
    assert (item["run"], item["number"], item["on"], item["uid"]) == ("train", 0, "admin", job.uid)
    assert item["outcome"] == "Running"


def test_a_waiting_job_says_what_the_scheduler_says(pumice: Pumice, job: StagedJob) -> None:
    job.unscheduled_pod(0, "0/3 nodes are available: 3 Insufficient cpu.")
    job.phases("Pending", pending=1)
    assert pumice("ps").out.splitlines()[1].split()[1] == "Waiting"
    done = pumice("why", "train")
    assert done.code == 0
    assert done.out.startswith(
        "train waits: worker-0 waits: Unschedulable: 0/3 nodes are available: 3 Insufficient cpu\n"
    )


def test_an_image_that_cannot_be_pulled_is_the_reason(pumice: Pumice, job: StagedJob) -> None:
    job.pod(0, "Pending", waiting("ImagePullBackOff", "Back-off pulling image busybox"))
    job.phases("Pending", pending=1)
    found = json.loads(pumice("why", "train", "-o", "json").out)
    assert (found["code"], found["message"]) == (
        "Image",
        "worker-0 waits: ImagePullBackOff: Back-off pulling image busybox",
    )
    about_pod = pumice("why", "train/worker-0").out
    assert about_pod.startswith(
        "train/worker-0 waits: worker-0 waits: ImagePullBackOff: Back-off pulling image busybox\n"
    )
    assert "  Pod train-worker-0 status.containerStatuses[main].state.waiting" in about_pod


def test_a_failed_job_has_the_verdict_of_this_machine(pumice: Pumice, job: StagedJob) -> None:
    job.fail()
    done = pumice("why", "train")
    assert done.out.startswith("worker-0 failed first: exit code 3 in container main")
    assert "pumice logs train/worker-0 -c main --on admin --tail 30" in done.out
    assert pumice("get", "train", "--exit-code").code == 100


@pytest.mark.parametrize(
    ("phase", "reason", "code"),
    [
        pytest.param("Completed", "", 0, id="completed"),
        pytest.param("Failed", "", 100, id="failed"),
        pytest.param("Terminated", "Command", 103, id="a person stopped it"),
        pytest.param("Terminated", "", 100, id="Volcano does not say who"),
        pytest.param("Aborted", "Suspended", 103, id="suspended"),
        pytest.param("Aborted", "PodFailed", 100, id="aborted by a policy"),
        pytest.param("Aborted", "", 100, id="Volcano does not say who aborted it"),
    ],
)
def test_wait_reports_how_it_ended(pumice: Pumice, job: StagedJob, phase: str, reason: str, code: int) -> None:
    job.phases(*RUNNING, phase, reason=reason)
    assert pumice("wait", "train").code == code


@pytest.mark.parametrize(
    ("phase", "action", "code", "outcome"),
    [
        pytest.param("Terminated", "TerminateJob", 103, "Stopped", id="stopped"),
        pytest.param("Aborted", "AbortJob", 103, "Suspended", id="suspended"),
        pytest.param("Terminated", "AbortJob", 100, "Failed", id="another Command"),
    ],
)
def test_an_event_of_volcano_says_that_a_person_asked(  # noqa: PLR0917 - parameters of the test
    pumice: Pumice, job: StagedJob, phase: str, action: str, code: int, outcome: str
) -> None:
    job.phases(*RUNNING, phase)
    text = f"Start to execute command {action}, and clean it up to make sure executed not more than once."
    job.event("CommandIssued", text, "Normal")
    assert pumice("wait", "train").code == code
    assert pumice("ps").out.splitlines()[1].split()[1] == outcome


def test_labels_and_owners_select_jobs(pumice: Pumice, job: StagedJob, namespace: str) -> None:
    StagedJob(job.api, namespace, name="other")
    metadata = {"labels": {"team": "vision"}, "annotations": {"pumice/submitted-by": "admin"}}
    job.api.patch("Job", namespace, "train", {"metadata": metadata})
    assert sorted(pumice("ps", "-o", "name").out.split()) == ["other", "train"]
    assert pumice("ps", "-l", "team=vision", "-o", "name").out == "train\n"
    assert pumice("ps", "--mine", "-o", "name").out == "train\n"
    refused = pumice("ps", "-l", "team=vision", on="")
    assert (refused.code, refused.err.partition("\n")[0]) == (2, "--selector: labels select Jobs on a cluster")
    wrong = pumice("ps", "-l", "team in vision")
    assert (wrong.code, len(wrong.err.splitlines()) <= 2) == (2, True), wrong
    wide = pumice("ps", "-o", "wide").out.splitlines()
    assert wide[0].split()[5] == "QUEUE"
    assert wide[1].split()[5] == "default"


def test_ps_follows_changes(pumice_cluster: Cluster, job: StagedJob, tmp_path: Path) -> None:
    """Until its reader goes."""
    config = str(pumice_cluster.kubeconfig(namespace=job.namespace))
    environ = {"HOME": str(tmp_path), "PATH": os.defpath, "KUBECONFIG": config}
    command = [sys.executable, "-c", MAIN, "ps", "-w", "--json", "--on", "admin"]
    job.phases("Pending", pending=2)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stdout is not None
        try:
            assert json.loads(process.stdout.readline())["outcome"] == "Waiting"
            job.phases(*RUNNING, running=2)
            assert json.loads(process.stdout.readline())["outcome"] == "Running"
        finally:
            process.terminate()


def test_attach_says_how_to_come_back(pumice: Pumice, job: StagedJob, namespace: str) -> None:
    del pumice
    job.run_pods()
    job.phases(*RUNNING, running=2)
    command = [sys.executable, "-c", MAIN, "attach", "train", "--on", "admin", "-n", namespace]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert process.stderr.readline().startswith("train  2 pods")
            process.send_signal(signal.SIGQUIT)
            last = process.stderr.read().splitlines()[-1]
        finally:
            process.terminate()
    assert last == f"train keeps running; reattach with `pumice attach train --on admin -n {namespace}`"
    assert process.returncode == 0


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("get", "-o", "json"), id="get"),
        pytest.param(("why",), id="why"),
        pytest.param(("history",), id="history"),
        pytest.param(("history", "--events"), id="events"),
        pytest.param(("wait", "--timeout", "0.5s"), id="wait"),
    ],
)
def test_a_uid_names_one_job_of_a_name(pumice: Pumice, job: StagedJob, words: tuple[str, ...]) -> None:
    job.phases(*RUNNING, running=2)
    command, *flags = words
    assert pumice(command, f"train@{job.uid[:8]}", *flags).code in (0, 124)
    other = pumice(command, "train@ffffffff", *flags)
    assert other.code == (102 if command == "wait" else 2)
    assert other.err == (
        f"train@ffffffff: was replaced by another Job of this name\n  hint: the newer one is train@{job.uid[:8]}\n"
    )


def test_wait_sees_the_end_by_a_watch(pumice: Pumice, job: StagedJob) -> None:
    job.phases(*RUNNING, running=2)
    timer = threading.Timer(0.5, job.phases, [*RUNNING, "Completed"], {"succeeded": 2})
    timer.start()
    done = pumice("wait", "train", "--timeout", "60s")
    timer.join()
    assert (done.code, done.out) == (0, "train Succeeded\n")


def test_wait_gives_up_after_its_timeout(pumice: Pumice, job: StagedJob) -> None:
    job.phases(*RUNNING, running=2)
    done = pumice("wait", "train", "--timeout", "1s")
    assert (done.code, done.err) == (124, "train: not finished within 1s\n")


def test_wait_for_a_job_that_does_not_exist(pumice: Pumice, job: StagedJob) -> None:
    done = pumice("wait", "trian")
    assert done.code == 102
    assert done.err == f"trian: no such Job in admin/{job.namespace}\n  hint: did you mean train?\n"


def test_a_job_that_is_deleted_while_it_is_watched(pumice: Pumice, job: StagedJob) -> None:
    job.phases(*RUNNING, running=2)
    timer = threading.Timer(0.5, job.api.delete, ["Job", job.namespace, "train"])
    timer.start()
    done = pumice("wait", "train")
    timer.join()
    assert (done.code, done.err) == (102, "train: was deleted\n  hint: its pods and logs are gone with it\n")


def test_get_prints_the_object_as_it_is(pumice: Pumice, job: StagedJob) -> None:
    job.phases(*RUNNING, running=2)
    found = json.loads(pumice("get", "train", "-o", "json").out)
    assert found.pop("run")["on"] == "admin"
    stored = job.api.get("Job", job.namespace, "train")
    del stored["metadata"]["managedFields"]
    assert found == stored


def test_history_has_attempts_and_events(pumice: Pumice, job: StagedJob) -> None:
    job.event("FailedCreate", "exceeded quota: small")
    job.pod(0, "Failed", terminated(1), retry=0)
    job.pod(1, "Running", running(), retry=1)
    job.phases(*RUNNING, "Restarting", *RUNNING, retryCount=1, running=1)
    rows = pumice("history", "train").out.splitlines()
    assert [row.split()[0] for row in rows] == ["ATTEMPT", "1", "2"]
    assert "worker-0: exit code 1" in rows[1]
    events = pumice("history", "train", "--events").out
    assert "WarningIssued FailedCreate: exceeded quota: small" in events
    assert "PhaseChanged Restarting" in events


def test_attach_shows_a_job_until_it_ends(pumice: Pumice, job: StagedJob) -> None:
    job.run_pods()
    job.phases(*RUNNING, running=2)
    timer = threading.Timer(1.0, job.fail)
    timer.start()
    done = pumice("attach", "train")
    timer.join()
    assert done.code == 3
    assert "worker-0 failed first: exit code 3" in done.err


def test_several_jobs_of_one_name_need_a_namespace(
    pumice: Pumice, pumice_cluster: Cluster, api: Api, namespace: str
) -> None:
    del pumice_cluster
    other = f"{namespace}-b"
    api.create("Namespace", "", {"metadata": {"name": other}})
    for each in (namespace, other):
        StagedJob(api, each, name="twice")
    assert pumice("ps", "-A", "-o", "name").out.splitlines().count("twice") == 2
    done = pumice("why", "twice", "-A")
    assert (done.code, done.err.partition(": ")[2]) == (
        2,
        f"Jobs of this name are in {namespace}, {other}\n  hint: choose one with -n\n",
    )
    api.delete("Namespace", "", other)
