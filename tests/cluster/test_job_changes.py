"""stop, suspend, resume, restart, scale, rm and clean on a cluster: they wait for the effect, and say where it is."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from pumice.client.cluster.control.job_commands import Commander
from tests.cluster.api import Api, Object, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import Controllers
from tests.cluster.fake_kubelet import FakeKubelet
from tests.cluster.jobs import until_phase
from tests.cluster.staged_jobs import RUNNING, StagedJob
from tests.cluster.typed_commands import Pumice, Result
from tests.cluster.volcano_player import VolcanoPlayer


def _phase(api: Api, namespace: str, name: str = "train") -> str:
    return str(api.get("Job", namespace, name)["status"]["state"]["phase"])


def test_changes_under_the_controller_of_pumice(
    controllers: Controllers, pumice: Pumice, api: Api, namespace: str
) -> None:
    controllers.start(namespace)
    where = f"train on admin/{namespace}"
    with FakeKubelet(controllers.cluster, namespace):
        assert pumice("submit", "job.yaml").code == 0
        until_phase(api, namespace, "Running")
        assert pumice("scale", "train", "worker=3").out == f"{where}: worker 2 -> 3\n"
        assert api.get("Job", namespace, "train")["spec"]["tasks"][0]["replicas"] == 3
        assert pumice("scale", "train", "worker=3").out == f"{where}: worker has 3 already\n"
        assert pumice("scale", "train", "worker=0").code == 2
        assert pumice("restart", "train").out == f"{where}: all pods restart; it costs no retry\n"
        until_phase(api, namespace, "Running")
        assert pumice("suspend", "train").out == f"{where}: suspended\n"
        assert _phase(api, namespace) == "Aborted"
        assert api.list("Pod", namespace) == []
        assert pumice("restart", "train").err == "train is not running: Aborted\n  hint: pumice resume train\n"
        assert pumice("wait", "train").code == 103
        assert pumice("resume", "train").out == f"{where}: resumed\n"
        until_phase(api, namespace, "Running")
        done = pumice("rm", "train")
        assert (done.code, done.out) == (1, "")
        assert done.err == "train is running\n  hint: pumice stop train, or --force\n"
        assert pumice("stop", "@last").out == f"{where}: stopped\n"
        assert _phase(api, namespace) == "Terminated"
        assert pumice("wait", "train").code == 103
        assert pumice("stop", "train").out == f"{where}: stopped\n"
        assert pumice("rm", "train").out.splitlines()[0] == f"{where}: removed"
        assert api.find("Job", namespace, "train") is None


@pytest.mark.parametrize("lost", [pytest.param(0, id="at work"), pytest.param(1, id="dies before it obeys")])
def test_changes_under_the_controller_of_volcano(
    pumice: Pumice, job: StagedJob, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    monkeypatch.setattr("pumice.client.cluster.control.job_commands._EFFECT", 0.3)
    where = f"train on admin/{job.namespace}"
    with VolcanoPlayer(job, lost).at_work() as volcano:
        assert pumice("suspend", "train").out == f"{where}: suspended\n"
        assert pumice("resume", "train").out == f"{where}: resumed\n"
        assert pumice("suspend", "train").out == f"{where}: suspended\n"
        # It terminates no suspended Job: that is resumed first.
        assert pumice("stop", "train").out == f"{where}: stopped\n"
        assert volcano.obeyed == ["AbortJob", "ResumeJob", "AbortJob", "ResumeJob", "TerminateJob"]
        assert {each["target"]["uid"] for each in volcano.commands} == {job.uid}
        # Only its events say that a person asked for the end.
        assert pumice("wait", "train").code == 103
        for event in job.api.list("Event", job.namespace):
            job.api.delete("Event", job.namespace, event["metadata"]["name"])
        assert pumice("wait", "train").code == 100


def test_a_restart_that_would_end_the_job_is_refused(pumice: Pumice, job: StagedJob) -> None:
    with VolcanoPlayer(job).at_work():
        for number in (1, 2):
            done = pumice("restart", "train")
            assert done.out.endswith(
                f"all pods restart; Volcano's controller counts it as a retry, number {number} of maxRetry 3\n"
            )
        done = pumice("restart", "train")
    assert done.code == 1
    assert done.err.startswith("train: Volcano's controller counts a restart as a retry, number 3 of maxRetry 3: ")


def test_without_a_controller_the_command_is_withdrawn(
    pumice: Pumice, job: StagedJob, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pumice.client.cluster.control.changes.Commander", partial(Commander, within=0.2))
    job.phases(*RUNNING, running=2)
    done = pumice("stop", "train")
    assert done.code == 1
    assert "train: no controller took the Command within " in done.err
    assert api.list("Command", job.namespace) == []


@pytest.mark.parametrize("command", ["stop", "suspend", "restart"])
def test_an_invalid_job_obeys_nothing_and_is_removed(pumice: Pumice, job: StagedJob, api: Api, command: str) -> None:
    """As Pumice's controller writes the status of one that was stored without the webhook."""
    job.phases("Pending", reason="InvalidJob", message="spec.minAvailable: 99: must be at most 2")
    done = pumice(command, "train")
    assert done.code == 1
    assert done.err == (
        "train is invalid, and its controller obeys nothing until it is corrected\n"
        "  hint: pumice why train says what is wrong, pumice rm train --force removes it\n"
    )
    assert api.list("Command", job.namespace) == []
    said = pumice("why", "train").out.splitlines()
    assert said[0] == "train Waiting: spec.minAvailable: 99: must be at most 2"
    assert said[-1] == "  correct it, and submit it again after: pumice rm train --force --on admin"
    assert pumice("rm", "train", "--force").code == 0


@pytest.fixture
def other_person(pumice_cluster: Cluster, namespace: str) -> None:
    """The user `plain` may do in the namespace what a user of Jobs does."""
    pumice_cluster.kubectl("-n", namespace, "create", "rolebinding", "editor", "--clusterrole=admin", "--user=plain")
    verbs = "--verb=get,list,watch,create,patch,update,delete"
    resources = "--resource=jobs.batch.volcano.sh,commands.bus.volcano.sh"
    pumice_cluster.kubectl("-n", namespace, "create", "role", "jobs", verbs, resources)
    pumice_cluster.kubectl("-n", namespace, "create", "rolebinding", "jobs", "--role=jobs", "--user=plain")


@pytest.mark.usefixtures("other_person")
def test_jobs_of_other_people_are_named_and_kept(
    pumice: Pumice, pumice_cluster: Cluster, api: Api, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pumice("submit", "job.yaml").code == 0
    for name in ("first", "second"):
        assert pumice("submit", "job.yaml", "--name", name).code == 0
    monkeypatch.setenv("KUBECONFIG", str(pumice_cluster.kubeconfig("plain", namespace=namespace)))
    plain = partial(pumice, on="plain")
    done = plain("rm", "train", "--force")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"train on plain/{namespace} was submitted by admin\n"
        "nothing was changed: it is another person's\n  hint: -y changes it all the same\n"
    )
    assert plain("submit", "job.yaml").err.splitlines()[0].endswith("submitted by admin")
    assert plain("rm", "--all", "--force").err.startswith("--all: on plain it needs -l or --mine, too")
    assert plain("submit", "job.yaml", "--name", "third").code == 0
    assert plain("rm", "--all", "--mine", "--force").out.startswith(f"third on plain/{namespace}: removed\n")
    assert {each["metadata"]["name"] for each in api.list("Job", namespace)} == {"train", "first", "second"}
    for name in ("train", "first"):
        api.patch("Job", namespace, name, {"metadata": {"labels": {"team": "a"}}})
    done = plain("rm", "--all", "-l", "team=a", "--force", "-y")
    assert {line.partition(" ")[0] for line in done.out.splitlines() if "removed" in line} == {"train", "first"}
    assert {each["metadata"]["name"] for each in api.list("Job", namespace)} == {"second"}


def test_a_job_that_owns_claims_is_removed_on_request(pumice: Pumice, job: StagedJob, api: Api) -> None:
    job.phases(*RUNNING, "Completed")
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": job.uid}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
    claim = {"metadata": {"name": "ckpt", "ownerReferences": [owner]}, "spec": spec}
    api.create("PersistentVolumeClaim", job.namespace, claim)
    done = pumice("rm", "train")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "train: its claims go with it, and what is stored in them: ckpt (10Gi)\n  hint: --delete-claims removes them\n"
    )
    done = pumice("rm", "train", "--delete-claims")
    assert done.out.splitlines() == [f"train on admin/{job.namespace}: removed", "ckpt (10Gi)"]


def test_a_job_that_was_replaced_is_not_changed(pumice: Pumice, job: StagedJob, api: Api) -> None:
    job.phases(*RUNNING, "Completed")
    old = f"train@{job.uid[:8]}"
    assert pumice("get", old).code == 0
    api.delete("Job", job.namespace, "train")
    eventually("it is gone", lambda: api.find("Job", job.namespace, "train") is None)
    newer = StagedJob(api, job.namespace)
    done = pumice("rm", old)
    assert done.code == 2
    assert done.err.splitlines()[1] == f"  hint: the newer one is train@{newer.uid[:8]}"
    assert api.get("Job", job.namespace, "train")["metadata"]["uid"] == newer.uid


def test_where_is_said_also_if_it_was_not_typed(
    pumice: Pumice, job: StagedJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.phases(*RUNNING, "Completed")
    monkeypatch.setenv("PUMICE_ON", "admin")
    assert pumice("rm", "train", on="").out == (f"train on admin/{job.namespace}: removed (admin is from PUMICE_ON)\n")
    done = pumice("submit", "job.yaml", on="")
    assert done.err.splitlines() == ["on admin, as PUMICE_ON says", f"train on admin/{job.namespace}: submitted"]


@pytest.fixture
def send_code(pumice: Pumice, tmp_path: Path, api: Api, namespace: str) -> Callable[[str], str]:
    """Submits a Job with its own code; returns the id of that."""

    def send(name: str) -> str:
        tmp_path.joinpath("train.py").write_text(f"print({name!r})\n")
        assert pumice("submit", "job.yaml", "--code", "--name", name).code == 0
        found: str = api.get("Job", namespace, name)["metadata"]["annotations"]["pumice/code"]
        return found[:12]

    return send


def test_clean_removes_code_that_no_job_names_and_nothing_else(
    pumice: Pumice, send_code: Callable[[str], str], api: Api, namespace: str
) -> None:
    unused, used = send_code("gone"), send_code("stays")
    # As a client leaves them that was killed before it was an owner.
    for bundle in (unused, used):
        api.patch("Secret", namespace, f"pumice-code-{bundle}-0", {"metadata": {"ownerReferences": None}})
    api.delete("Job", namespace, "gone")
    for name, labels in (("mine", {"pumice/code": "abc"}), ("pumice-code-mine", {}), ("pumice-code-x", {"a": "b"})):
        api.create("Secret", namespace, {"metadata": {"name": name, "labels": labels}, "data": {}})
    before = _secrets(api, namespace)
    listed = pumice("clean", "--dry-run").out
    assert listed.startswith(f"code {unused} on admin/{namespace} (")
    assert len(listed.splitlines()) == 1
    assert pumice("clean").code == 2
    assert _secrets(api, namespace) == before
    assert pumice("clean", "-y").out == f"code {unused} on admin/{namespace}\n"
    assert before - _secrets(api, namespace) == {f"pumice-code-{unused}-0"}
    done = pumice("clean", "-y")
    assert (done.code, done.err) == (0, "nothing to remove\n")
    assert pumice("clean", "-y", "--claims").code == 2


def _secrets(api: Api, namespace: str) -> set[str]:
    return {each["metadata"]["name"] for each in api.list("Secret", namespace)}


def test_a_namespace_full_of_code(pumice: Pumice, api: Api, namespace: str, tmp_path: Path) -> None:
    tmp_path.joinpath("train.py").write_text("print(1)\n")
    annotations = {"pumice/code": "f" * 64, "pumice/size": str(64 << 20)}
    metadata: Object = {"name": "pumice-code-ffffffffffff-0", "annotations": annotations}
    data = {"part": base64.b64encode(b"x").decode()}
    api.create("Secret", namespace, {"metadata": {**metadata, "labels": {"pumice/code": "f" * 12}}, "data": data})
    done = pumice("submit", "job.yaml", "--code")
    assert done.code == 2
    assert done.err == (
        f"--code: {namespace} has 64 MiB of code: with this it is more than 64 MiB\n"
        "  hint: pumice clean --on admin removes what no Job uses\n"
    )
    assert api.list("Job", namespace) == []
    assert pumice("clean", "-y").code == 0
    assert pumice("submit", "job.yaml", "--code").code == 0


def test_a_bundle_of_two_jobs_outlives_one_of_them(
    pumice: Pumice, send_code: Callable[[str], str], api: Api, namespace: str, garbage_collected: Cluster
) -> None:
    del garbage_collected
    name = f"pumice-code-{send_code('first')}-0"
    assert pumice("submit", "job.yaml", "--code", "--name", "second").code == 0
    uids = {each["uid"] for each in api.get("Secret", namespace, name)["metadata"]["ownerReferences"]}
    assert len(uids) == 2
    assert pumice("rm", "first", "--force").code == 0
    left = json.loads(pumice("get", "second", "-o", "json").out)["run"]["uid"]

    def owners() -> set[str]:
        return {each["uid"] for each in api.get("Secret", namespace, name)["metadata"]["ownerReferences"]}

    eventually("the collector removes the other owner", lambda: owners() == {left})
    assert pumice("rm", "second", "--force").code == 0
    eventually("it goes with its last Job", lambda: api.find("Secret", namespace, name) is None)


def test_the_answers_of_commands_have_the_same_form(pumice: Pumice, job: StagedJob) -> None:
    job.phases(*RUNNING, running=2)
    done: Result = pumice("detach", "train")
    assert done.out == f"train on admin/{job.namespace}: needs no client: it runs on without one\n"


@pytest.mark.usefixtures("garbage_collected")
def test_what_other_people_wrote_is_escaped(pumice: Pumice, job: StagedJob, api: Api) -> None:
    job.phases(*RUNNING, "Completed")
    job.create_pod(0)
    api.patch("Job", job.namespace, "train", {"metadata": {"annotations": {"pumice/submitted-by": "me\r\x1b[1A"}}})
    task = {"metadata": {"annotations": {"volcano.sh/task-spec": "\x1b[2J"}}}
    api.patch("Pod", job.namespace, "train-worker-0", task)
    done = pumice("rm", "train")
    assert (done.code, done.err.splitlines()[0].partition(" was ")[2]) == (2, r"submitted by me\r\x1b[1A")
    done = pumice("rm", "train", "-y")
    assert done.code == 0
    assert r"the logs of \x1b[2J-0" in done.out
    assert "\x1b" not in done.out + done.err
