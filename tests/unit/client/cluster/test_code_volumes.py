"""What `--code` and `--env` put into a Job, and that all of it can be taken out again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pumice.admission.admit import admit
from pumice.client.cluster.submission.code_parts import CodeParts, MountedFile
from pumice.client.cluster.submission.code_volumes import as_written, code_problems, with_code, without_code
from pumice.client.cluster.submission.job_manifest import Marks, job_manifest, without_variables
from pumice.model import keys
from pumice.runtime.offline_context import offline_context
from pumice.store.options import ClusterOptions, CodeMode, RunOptions
from pumice.store.run_request import RunRequest
from pumice.store.settings import Settings

CODE = CodeParts("0123456789abcdef", [{"part": b"x"}, {"part": b"y"}], "/src", {"train.py": 1})


def _job(**container: Any) -> dict[str, Any]:
    main = {"name": "main", "image": "torch", "command": ["python", "train.py"], **container}
    template = {"spec": {"containers": [main]}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"tasks": [{"name": "worker", "replicas": 1, "template": template}]},
    }


def _pod(job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["tasks"][0]["template"]["spec"]
    return found


def test_the_init_container_is_first_and_is_the_image_of_the_task() -> None:
    limits = {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": 1}
    job = _job(resources={"limits": limits}, securityContext={"runAsUser": 1000}, imagePullPolicy="Always")
    _pod(job)["initContainers"] = [{"name": "own", "image": "own"}]
    pod = _pod(with_code(job, CODE, ClusterOptions()))
    first, second = pod["initContainers"]
    assert (first["name"], first["image"], second["name"]) == ("pumice-code", "torch", "own")
    assert first["resources"] == {"limits": {"cpu": "2", "memory": "1Gi"}}
    assert (first["securityContext"], first["imagePullPolicy"]) == ({"runAsUser": 1000}, "Always")
    assert first["command"][:2] == ["sh", "-c"]
    assert first["command"][-1] == CODE.sha256


def test_volumes_and_mounts() -> None:
    job = with_code(_job(), CODE, ClusterOptions())
    code, parts = _pod(job)["volumes"]
    assert code == {"name": "pumice-code", "emptyDir": {}}
    assert [each["secret"]["name"] for each in parts["projected"]["sources"]] == [
        "pumice-code-0123456789ab-0",
        "pumice-code-0123456789ab-1",
    ]
    [main] = _pod(job)["containers"]
    assert main["volumeMounts"] == [{"name": "pumice-code", "mountPath": "/workspace"}]
    assert main["workingDir"] == "/workspace"
    assert job["metadata"]["annotations"]["pumice/code"] == CODE.sha256


def test_read_only_mode_has_no_init_container() -> None:
    files = [MountedFile("train.py", 0, "f0", 0o644), MountedFile("a/run.sh", 1, "f1", 0o755)]
    code = CodeParts("ab" * 32, [{"f0": b""}, {"f1": b""}], "/src", {}, CodeMode.READ_ONLY, files)
    pod = _pod(with_code(_job(), code, ClusterOptions()))
    assert "initContainers" not in pod
    sources = pod["volumes"][0]["projected"]["sources"]
    assert [each["secret"]["items"] for each in sources] == [
        [{"key": "f0", "path": "train.py"}],
        [{"key": "f1", "path": "a/run.sh", "mode": 0o555}],
    ]
    assert pod["containers"][0]["volumeMounts"][0]["readOnly"]


@pytest.mark.parametrize(
    ("container", "options", "directory"),
    [
        pytest.param({}, {}, "/workspace", id="default"),
        pytest.param({"workingDir": "/app/"}, {}, "/app", id="workingDir"),
        pytest.param({"workingDir": "/app"}, {"code_directory": "/src"}, "/src", id="option"),
    ],
)
def test_where_the_code_goes(container: dict[str, Any], options: dict[str, Any], directory: str) -> None:
    job = with_code(_job(**container), CODE, ClusterOptions(**options))
    assert _pod(job)["containers"][0]["workingDir"] == directory


@pytest.mark.parametrize(
    ("container", "why"),
    [
        pytest.param({"workingDir": "/"}, "whose files the image needs", id="root"),
        pytest.param({"workingDir": "/usr/local/bin"}, "whose files the image needs", id="system"),
        pytest.param({"workingDir": "/etc/app"}, "whose files the image needs", id="below a system directory"),
        pytest.param({"workingDir": "app"}, "which is no absolute path", id="relative"),
        pytest.param(
            {"volumeMounts": [{"name": "v", "mountPath": "/workspace/"}]}, "where the Job mounts /workspace", id="mount"
        ),
        pytest.param(
            {"workingDir": "/data/src", "volumeMounts": [{"name": "v", "mountPath": "/data"}]},
            "where the Job mounts /data",
            id="below a mount",
        ),
    ],
)
def test_directories_that_are_refused(container: dict[str, Any], why: str) -> None:
    [problem] = code_problems(_job(**container), ClusterOptions())
    assert why in problem.message
    assert problem.hint.endswith('code_dir="DIR"')


@pytest.mark.parametrize(
    "container",
    [
        pytest.param({"workingDir": "/usr/src/app"}, id="as in many images"),
        pytest.param({"volumeMounts": [{"name": "v", "mountPath": "/workspace/checkpoints"}]}, id="a mount below"),
        pytest.param({"volumeMounts": [{"name": "v", "mountPath": "/workspaces"}]}, id="a similar name"),
    ],
)
def test_directories_that_are_accepted(container: dict[str, Any]) -> None:
    assert list(code_problems(_job(**container), ClusterOptions())) == []


@pytest.mark.parametrize(
    "container",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"workingDir": "/app", "env": [{"name": "A", "value": "own"}]}, id="own variable and directory"),
        pytest.param(
            {"env": [{"name": "B", "value": "b"}], "volumeMounts": [{"name": "v", "mountPath": "/data"}]}, id="others"
        ),
    ],
)
def test_all_of_it_is_taken_out_again(container: dict[str, Any]) -> None:
    before = _job(**container)
    admitted = admit(before, offline_context())
    settings = Settings(
        workdir=Path("/src"), state=Path("/state"), env={"A": "1", "TOKEN": "s3cret"}, passed_on=("TOKEN",)
    )
    options = ClusterOptions(code_directory="/src")
    request = RunRequest(admitted, RunOptions(settings, cluster=options))
    manifest = job_manifest(request, "ml", Marks("word", "ada"))
    assert "s3cret" not in str(manifest)
    changed = with_code(manifest, CODE, options)
    assert _pod(changed) != _pod(before)
    assert _pod(without_variables(without_code(changed))) == _pod(before)
    assert with_code(changed, CODE, options)["spec"] == changed["spec"]


@pytest.mark.parametrize(
    "text",
    [
        '{"worker/main": {"env": 5}}',
        '{"worker/main": {"env": ["A"]}}',
        '{"worker/main": {"env": {"A": 5}}}',
        '{"worker/main": {"env": {"A": [1]}, "workingDir": {"x": 1}}}',
        '{"worker/main": 5}',
        "[" * 5000,
    ],
)
def test_an_annotation_that_somebody_else_wrote_takes_nothing_out(text: str) -> None:
    job = _job(env=[{"name": "A", "value": "1"}], workingDir="/work")
    annotations = {keys.SUBMISSION: "1", keys.ADDED: text}
    stored = {**job, "metadata": {**job["metadata"], "annotations": annotations}}
    assert as_written(stored)["spec"] == job["spec"]
