"""`submit` and `run` on a cluster: what is sent, what is refused, and what becomes of a Job of the same name."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
import yaml

from pumice.client.backend import Backend, RunRef
from pumice.client.backends import open_backend
from tests.cluster.api import Api, Object, eventually
from tests.cluster.cluster import Cluster
from tests.cluster.controllers import Controllers
from tests.cluster.fake_kubelet import FakeKubelet, PodScript
from tests.cluster.jobs import until_phase
from tests.cluster.log_server import ContainerOutput, LogServer
from tests.cluster.pod_status import timestamp
from tests.cluster.staged_jobs import RUNNING, StagedJob
from tests.cluster.typed_commands import JOB, Pumice, typing
from tests.local.sandbox.boxes import need_namespaces


def test_submit_prints_the_name_alone(pumice: Pumice, api: Api, namespace: str) -> None:
    done = pumice("submit", "job.yaml")
    assert (done.code, done.out) == (0, "train\n")
    job = api.get("Job", namespace, "train")
    assert job["metadata"]["annotations"]["pumice/submitted-by"] == "admin"
    assert json.loads(pumice("get", "@last", "-o", "json").out)["run"]["uid"] == job["metadata"]["uid"]


def test_run_shows_what_a_run_on_this_machine_shows(
    controllers: Controllers,
    namespace: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tmp_path.joinpath("job.yaml").write_text(JOB)
    with LogServer(controllers.cluster) as logs:
        pumice = typing(controllers.cluster, namespace, tmp_path, monkeypatch, capsys, server=logs.server)
        for index in range(2):
            logs.outputs[f"train-worker-{index}", False] = ContainerOutput([(timestamp(), "epoch 1")])
        controllers.start(namespace)
        with FakeKubelet(controllers.cluster, namespace, lambda _pod: PodScript(seconds=0.5)):
            done = pumice("run", "job.yaml")
    assert done.code == 0, done.err
    assert sorted(done.out.splitlines()) == ["worker-0  epoch 1", "worker-1  epoch 1"]
    assert done.err.startswith("train  2 pods: worker 2   gang 2   images: busybox\n  run train   on admin/")
    assert "Completed  in " in done.err


def test_code_is_sent_once_and_belongs_to_its_jobs(pumice: Pumice, api: Api, namespace: str, tmp_path: Path) -> None:
    tmp_path.joinpath("train.py").write_text("print('hello')\n")
    tmp_path.joinpath(".env").write_text("TOKEN=1\n")
    done = pumice("submit", "job.yaml", "--code")
    assert done.code == 0, done.err
    assert "left out, because they look like credentials: .env" in done.err
    [secret] = _code_secrets(api, namespace)
    job = api.get("Job", namespace, "train")
    assert secret["immutable"]
    assert job["metadata"]["annotations"]["pumice/code"].startswith(secret["metadata"]["labels"]["pumice/code"])
    assert [each["uid"] for each in secret["metadata"]["ownerReferences"]] == [job["metadata"]["uid"]]
    assert not secret["metadata"]["ownerReferences"][0]["blockOwnerDeletion"]
    assert pumice("submit", "job.yaml", "--code", "--name", "other").code == 0
    [same] = _code_secrets(api, namespace)
    assert same["metadata"]["uid"] == secret["metadata"]["uid"]
    assert len(same["metadata"]["ownerReferences"]) == 2
    assert pumice("get", "other", "--code", str(tmp_path / "back")).code == 0
    assert sorted(each.name for each in (tmp_path / "back").iterdir()) == ["job.yaml", "train.py"]


def _code_secrets(api: Api, namespace: str) -> list[Object]:
    return [each for each in api.list("Secret", namespace) if each["metadata"]["name"].startswith("pumice-code-")]


def test_get_prints_the_job_without_what_options_put_in(
    pumice: Pumice, api: Api, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "s3cret")
    assert pumice("submit", "job.yaml", "--code", "--env", "LR=2", "--env", "TOKEN").code == 0
    job = api.get("Job", namespace, "train")
    assert "s3cret" not in json.dumps(job)
    [secret] = [each for each in api.list("Secret", namespace) if each["metadata"]["name"].startswith("pumice-env-")]
    assert secret["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    written = yaml.safe_load(pumice("get", "train", "-o", "yaml").out)
    assert written["spec"]["tasks"] == yaml.safe_load(JOB)["spec"]["tasks"]
    assert written["metadata"]["annotations"].keys() == {"pumice/code", "pumice/code-from", "pumice/submitted-by"}


def test_a_name_that_is_in_use_is_refused(pumice: Pumice, job: StagedJob) -> None:
    job.phases(*RUNNING, running=2)
    done = pumice("submit", "job.yaml")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("train: a Job of this name is running on admin/")
    assert "pumice run job.yaml --on admin --name train-2\n" in done.err
    assert pumice("submit", "job.yaml", "--name", "train-2").out == "train-2\n"


def test_a_finished_job_is_replaced_only_on_request(
    pumice: Pumice, job: StagedJob, api: Api, namespace: str, garbage_collected: Cluster
) -> None:
    del garbage_collected
    job.fail()
    done = pumice("submit", "job.yaml")
    assert done.code == 2
    assert "replacing it deletes its " in done.err
    assert "pumice run job.yaml --on admin --replace" in done.err
    assert api.get("Job", namespace, "train")["metadata"]["uid"] == job.uid
    assert pumice("submit", "job.yaml", "--replace").out == "train\n"
    assert api.get("Job", namespace, "train")["metadata"]["uid"] != job.uid
    assert [each["metadata"]["name"] for each in api.list("Pod", namespace)] == []


def test_claims_of_a_job_need_a_word_of_their_own(
    pumice: Pumice, job: StagedJob, api: Api, namespace: str, garbage_collected: Cluster
) -> None:
    del garbage_collected
    job.phases(*RUNNING, "Completed")
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": job.uid}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
    api.create(
        "PersistentVolumeClaim", namespace, {"metadata": {"name": "ckpt", "ownerReferences": [owner]}, "spec": spec}
    )
    done = pumice("submit", "job.yaml", "--replace")
    assert done.code == 2
    assert "and the data of ckpt (10Gi)" in done.err
    assert "--delete-claims" in done.err
    assert api.get("Job", namespace, "train")["metadata"]["uid"] == job.uid


def test_a_job_that_the_server_refuses_leaves_the_old_one(
    pumice: Pumice, job: StagedJob, api: Api, namespace: str, tmp_path: Path
) -> None:
    job.phases(*RUNNING, "Completed")
    tmp_path.joinpath("job.yaml").write_text(JOB.replace("metadata:\n  name", "metadata:\n  labels: {a: '-'}\n  name"))
    done = pumice("submit", "job.yaml", "--replace", "--code")
    assert done.code == 2
    assert api.get("Job", namespace, "train")["metadata"]["uid"] == job.uid
    assert _code_secrets(api, namespace) == []


def test_what_pods_need_is_looked_for_before(pumice: Pumice, api: Api, namespace: str, tmp_path: Path) -> None:
    volumes = "        volumes: [{name: v, configMap: {name: settings}}]\n        serviceAccountName: trainer\n"
    tmp_path.joinpath("job.yaml").write_text(JOB.replace("        containers:", f"{volumes}        containers:"))
    done = pumice("submit", "job.yaml")
    assert done.code == 2
    assert "job.yaml:12: spec.tasks[0].template.spec.volumes[0].configMap.name: ConfigMap settings does not" in done.err
    assert "ServiceAccount trainer does not exist" in done.err
    assert api.list("Job", namespace) == []


def test_documents_of_the_job_are_created_and_never_overwritten(
    pumice: Pumice, api: Api, namespace: str, tmp_path: Path
) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {lr: '0.1'}\n")
    assert pumice("submit", "job.yaml", "--with", "settings.yaml").code == 0
    assert api.get("ConfigMap", namespace, "settings")["data"] == {"lr": "0.1"}
    assert pumice("submit", "job.yaml", "--with", "settings.yaml", "--name", "again").code == 0
    settings.write_text(settings.read_text().replace("0.1", "0.2"))
    done = pumice("submit", "job.yaml", "--with", "settings.yaml", "--name", "third")
    assert done.code == 2
    assert 'ConfigMap settings exists and differs: data.lr (there "0.1", here "0.2")' in done.err
    assert api.find("Job", namespace, "third") is None


def test_options_change_the_job_that_is_sent(pumice: Pumice, api: Api, namespace: str) -> None:
    flags = ("--scale", "worker=1", "--image", "busybox=busybox:1.36", "--queue", "gpu", "--priority-class", "high")
    done = pumice("submit", "job.yaml", *flags, "--note", "second try", "--", "--lr", "0.1")
    assert done.code == 0, done.err
    job = api.get("Job", namespace, "train")
    [task] = job["spec"]["tasks"]
    assert (task["replicas"], job["spec"]["queue"], job["spec"]["priorityClassName"]) == (1, "gpu", "high")
    [container] = task["template"]["spec"]["containers"]
    assert (container["image"], container["command"]) == ("busybox:1.36", ["python", "train.py", "--lr", "0.1"])
    assert job["metadata"]["annotations"]["pumice/note"] == "second try"
    [listed] = json.loads(pumice("ps", "-o", "json").out)["items"]
    assert (listed["note"], listed["args"]) == ("second try", ["--lr", "0.1"])
    assert json.loads(pumice("get", "train", "-o", "json").out)["run"].items() >= {"note": "second try"}.items()
    assert "second try" in pumice("ps").out


def test_a_job_of_a_cluster_runs_here_with_its_code(
    pumice: Pumice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`pumice get RUN --on X -o yaml | pumice run - --fit`."""
    need_namespaces()
    code = tmp_path / "code"
    (code / "lib").mkdir(parents=True)
    code.joinpath("train.py").write_text("import os, lib.model; print(lib.model.NAME, os.environ['LR'])\n")
    code.joinpath("lib", "model.py").write_text("NAME = 'tiny'\n")
    far = JOB.replace("[python, train.py]", "[python, /workspace/train.py]").replace("image: busybox", GPU_IMAGE)
    tmp_path.joinpath("job.yaml").write_text(far)
    assert pumice("submit", "job.yaml", "--code", "code", "--env", "LR=2", "--scale", "worker=1").code == 0
    written = pumice("get", "train", "-o", "yaml").out
    assert "pumice-code" not in written
    code.joinpath("lib", "model.py").write_text("NAME = 'changed since'\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(written.encode())))
    done = pumice("run", "-", "--fit", "--env", "LR=3", on="")
    assert done.code == 0, done.err
    assert done.out == "worker-0  tiny 3\n"
    [fetched] = tmp_path.glob("train-code-*")
    assert f"is in {fetched}" in done.err


GPU_IMAGE = 'image: busybox\n          resources: {limits: {example.com/gpu: "8"}}'


@pytest.mark.parametrize(
    ("flags", "script", "code", "said"),
    [
        pytest.param((), PodScript(seconds=0.2, code=3), 3, "worker-", id="a pod fails"),
        pytest.param(("--timeout", "1s"), PodScript(), 124, "its activeDeadlineSeconds, 1", id="timed out"),
        pytest.param((), PodScript(), 143, "stopped", id="another person stops it"),
    ],
)
def test_exit_codes_of_run(  # noqa: PLR0917 - fixtures and what differs
    controllers: Controllers,
    pumice: Pumice,
    namespace: str,
    flags: tuple[str, ...],
    script: PodScript,
    code: int,
    said: str,
) -> None:
    api = controllers.cluster.api()
    controllers.start(namespace)
    if code == 143:
        threading.Thread(target=_terminate_when_running, args=(api, namespace), daemon=True).start()
    with FakeKubelet(controllers.cluster, namespace, lambda _pod: script):
        done = pumice("run", "job.yaml", *flags)
    assert done.code == code, done.err
    assert said in done.err
    assert "--keep" not in done.err


def _terminate_when_running(api: Api, namespace: str) -> None:
    eventually("the Job is there", lambda: api.find("Job", namespace, "train") is not None)
    until_phase(api, namespace, "Running")
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train"}
    target["uid"] = api.get("Job", namespace, "train")["metadata"]["uid"]
    metadata = {"generateName": "train-", "ownerReferences": [target]}
    command = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": metadata}
    api.create("Command", namespace, {**command, "target": target, "action": "TerminateJob"})


def test_a_timeout_that_the_client_keeps_ends_in_a_failure(
    controllers: Controllers, pumice: Pumice, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a cluster whose definition of Jobs is that of Volcano."""

    async def knows_none(_connection: object) -> bool:
        return False

    monkeypatch.setattr("pumice.client.cluster.submission.submit.knows_deadline", knows_none)
    controllers.start(namespace)
    with FakeKubelet(controllers.cluster, namespace):
        done = pumice("run", "job.yaml", "--timeout", "1s")
    assert done.code == 124, done.err
    assert "train ran longer than its timeout of 1s and was stopped" in done.err
    done = pumice("wait", "train")
    assert (done.code, done.out) == (100, "train Failed: train ran longer than its timeout of 1s and was stopped\n")


def test_values_with_secret_names_are_not_in_the_job(pumice: Pumice, api: Api, namespace: str, tmp_path: Path) -> None:
    tmp_path.joinpath("vars").write_text("# of the team\nWANDB_API_KEY=s3cret-1\nEPOCHS=3\n")
    flags = ("--env-file", "vars", "--env", "HF_TOKEN=s3cret-2")
    assert pumice("submit", "job.yaml", *flags, "--", "--password", "s3cret-3").code == 0
    text = json.dumps(api.get("Job", namespace, "train"))
    assert "s3cret" not in text
    assert '{"name": "EPOCHS", "value": "3"}' in text
    assert "s3cret" not in pumice("get", "train", "-o", "yaml").out
    [secret] = [each for each in api.list("Secret", namespace) if each["metadata"]["name"].startswith("pumice-env-")]
    assert secret["data"].keys() == {"WANDB_API_KEY", "HF_TOKEN", "ARG_PASSWORD"}


def test_a_generated_name_and_the_namespace_of_the_context(
    pumice: Pumice, pumice_cluster: Cluster, api: Api, namespace: str, tmp_path: Path
) -> None:
    document = (
        f"kind: ConfigMap\napiVersion: v1\nmetadata: {{name: settings, namespace: {namespace}}}\ndata: {{a: b}}\n"
    )
    tmp_path.joinpath("job.yaml").write_text(JOB.replace("name: train", "generateName: train-", 1))
    tmp_path.joinpath("settings.yaml").write_text(document)
    config = str(pumice_cluster.kubeconfig(namespace=namespace))
    done = pumice("submit", "job.yaml", "--with", "settings.yaml", "--kubeconfig", config)
    assert done.code == 0, done.err
    name = done.out.strip()
    assert api.get("Job", namespace, name)["metadata"]["generateName"] == "train-"
    assert api.get("ConfigMap", namespace, "settings")["data"] == {"a": "b"}
    assert pumice("submit", "job.yaml").out not in ("", done.out)


def test_secrets_that_another_person_wrote_are_no_code(
    pumice: Pumice, api: Api, namespace: str, tmp_path: Path
) -> None:
    """Who may create Secrets gives them the labels and annotations of another person's code."""
    tmp_path.joinpath("train.py").write_text("print('hello')\n")
    assert pumice("submit", "job.yaml", "--code", "--code-mode", "read-only").code == 0
    [mine] = _code_secrets(api, namespace)
    metadata = mine["metadata"]
    about = {"labels": metadata["labels"], "annotations": {**metadata["annotations"], "pumice/size": "9" * 6000}}
    index = [{"path": "train.py", "part": 0, "key": "f", "mode": 420}]
    forged = {"index": json.dumps(index), "f": "print('forged')\n"}
    for name in ("pumice-code-x", "a-0", f"{metadata['name'].rpartition('-')[0]}-x"):
        api.create("Secret", namespace, {"metadata": {"name": name, **about}, "stringData": forged})
    assert pumice("get", "train", "--code", str(tmp_path / "back")).code == 0
    assert (tmp_path / "back" / "train.py").read_text() == "print('hello')\n"
    assert pumice("submit", "job.yaml", "--code", "--name", "other").code == 0
    assert pumice("clean").code == 0
    assert len(_code_secrets(api, namespace)) == 4
    api.delete("Secret", namespace, metadata["name"])
    api.create("Secret", namespace, {"metadata": {"name": metadata["name"], **about}, "stringData": forged})
    done = pumice("get", "train", "--code", str(tmp_path / "again"))
    assert done.code == 2
    assert "have other files than those that were sent" in done.err
    assert not (tmp_path / "again").exists()


def test_a_repetition_shares_the_secrets_of_its_job_and_takes_no_others(
    pumice: Pumice, api: Api, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who writes a Job may name a Secret of another person as ours are named."""
    monkeypatch.setenv("TOKEN", "s3cret")
    api.create("Secret", namespace, {"metadata": {"name": "pumice-env-other"}, "stringData": {"a": "b"}})
    foreign = "env: [{name: A, valueFrom: {secretKeyRef: {name: pumice-env-other, key: a}}}]"
    tmp_path.joinpath("job.yaml").write_text(JOB.replace('env: [{name: LR, value: "1"}]', foreign))
    assert pumice("submit", "job.yaml", "--code", "--env", "TOKEN").code == 0
    backend = open_backend("admin")
    again = asyncio.run(_closing(backend, backend.repeat(run_ref(api.get("Job", namespace, "train")))))
    owners = {
        each["metadata"]["name"]: sorted(owner["name"] for owner in each["metadata"].get("ownerReferences", []))
        for each in api.list("Secret", namespace)
        if each["metadata"]["name"].startswith("pumice-")
    }
    assert (str(again), owners.pop("pumice-env-other")) == ("train-2", [])
    assert len(owners) == 2
    assert all(names == ["train", "train-2"] for names in owners.values()), owners


def run_ref(job: Object) -> RunRef:
    metadata = job["metadata"]
    return RunRef(metadata["name"], 0, metadata["namespace"], metadata["uid"])


async def _closing(backend: Backend, work: Coroutine[Any, Any, RunRef]) -> RunRef:
    try:
        return await work
    finally:
        await backend.close()
