"""What a run refuses before anything starts: every mistake is told with its place, and nothing is changed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.local.running import Manifest, Workspace, extra_object, job, task
from tests.local.sandbox.boxes import need_namespaces
from tests.patience import PATIENCE

GONE_MAP = {"configMap": {"name": "gone"}}
CLAIM_SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    need_namespaces()


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path)


def _untouched(workspace: Workspace) -> None:
    """No claim, no run: as if it had not been called."""
    assert not list(workspace.state.glob("runs/*"))
    assert not list(workspace.state.glob("claims/*"))


def _with_volume(source: Manifest) -> Manifest:
    only = task("only", "echo started", container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]})
    only["template"]["spec"]["volumes"] = [{"name": "v", **source}]
    return only


def _env(*, optional: bool = False) -> list[tuple[str, Manifest]]:
    more = {"optional": True} if optional else {}
    return [
        ("envFrom ConfigMap", {"envFrom": [{"configMapRef": {"name": "gone", **more}}]}),
        ("envFrom Secret", {"envFrom": [{"secretRef": {"name": "gone", **more}}]}),
        ("env ConfigMap", _variable({"configMapKeyRef": {"name": "gone", "key": "k", **more}})),
        ("env Secret", _variable({"secretKeyRef": {"name": "gone", "key": "k", **more}})),
        ("key of a ConfigMap", _variable({"configMapKeyRef": {"name": "there", "key": "gone", **more}})),
    ]


def _variable(source: Manifest) -> Manifest:
    return {"env": [{"name": "X", "valueFrom": source}]}


def _volumes(*, optional: bool = False) -> list[tuple[str, Manifest]]:
    more: Manifest = {"optional": True} if optional else {}
    return [
        ("ConfigMap", {"configMap": {"name": "gone", **more}}),
        ("Secret", {"secret": {"secretName": "gone", **more}}),
        ("projected ConfigMap", {"projected": {"sources": [{"configMap": {"name": "gone", **more}}]}}),
        ("projected Secret", {"projected": {"sources": [{"secret": {"name": "gone", **more}}]}}),
        (
            "item of a ConfigMap",
            {"configMap": {"name": "there", "items": [{"key": "gone", "path": "p"}], **more}},
        ),
    ]


def _tasks(*, optional: bool = False) -> list[Any]:
    env = [
        pytest.param(task("only", "echo started", container=extra), id=name) for name, extra in _env(optional=optional)
    ]
    return [
        *env,
        *(pytest.param(_with_volume(source), id=f"volume: {name}") for name, source in _volumes(optional=optional)),
    ]


THERE = extra_object("ConfigMap", "there", data={"k": "v"})


@pytest.mark.parametrize("only", _tasks())
def test_a_missing_config_source_is_named(workspace: Workspace, only: Manifest) -> None:
    result = workspace.run(job(only), THERE)
    assert result.code == 2, result.err
    line = next(line for line in result.err.splitlines() if "gone" in line)
    assert line.startswith("job.yaml:")
    assert ": only-0: container only: " in line
    assert "--with FILE" in result.err or "there" in line
    assert "started" not in result.out
    _untouched(workspace)


@pytest.mark.parametrize("only", _tasks(optional=True))
def test_what_is_optional_may_be_missing(workspace: Workspace, only: Manifest) -> None:
    result = workspace.run(job(only), THERE)
    assert result.code == 0, result.err
    assert "started" in result.out


def test_a_missing_claim_is_named(workspace: Workspace) -> None:
    only = job(task("only", "echo started"), volumes=[{"mountPath": "/data", "volumeClaimName": "data"}])
    for _ in range(2):
        result = workspace.run(only)
        assert result.code == 2, result.err
        assert "only-0: container only: " in result.err
        assert "there is no PersistentVolumeClaim data" in result.err
        _untouched(workspace)
    workspace.write(extra_object("PersistentVolumeClaim", "data", spec=CLAIM_SPEC), name="claim.yaml")
    result = workspace.run(only, flags=["--with", "claim.yaml"])
    assert result.code == 0, result.err
    assert (workspace.state / "claims" / "default" / "data").is_dir()


@pytest.mark.parametrize(
    ("own", "its", "code"),
    [
        pytest.param("", "other", 2, id="another namespace"),
        pytest.param("other", "", 0, id="none"),
        pytest.param("other", "other", 0, id="the same"),
        pytest.param("", "default", 0, id="the default"),
    ],
)
def test_an_extra_object_serves_the_jobs_of_its_namespace(workspace: Workspace, own: str, its: str, code: int) -> None:
    only = job(task("only", "echo $k", container={"envFrom": [{"configMapRef": {"name": "there"}}]}))
    only["metadata"]["namespace"] = own or None
    there = extra_object("ConfigMap", "there", data={"k": "v"})
    there["metadata"]["namespace"] = its or None
    result = workspace.run(there, only)
    assert result.code == code, result.err
    printed = (
        "job.yaml:1: warning: ConfigMap there is in namespace other, which a job of namespace default does not see"
    )
    assert (printed in result.err) is (code == 2)


def test_a_claim_made_for_the_job_needs_no_document(workspace: Workspace) -> None:
    volumes = [{"mountPath": "/data", "volumeClaim": CLAIM_SPEC}]
    result = workspace.run(job(task("only", "echo x > /data/f; cat /data/f"), volumes=volumes))
    assert result.code == 0, result.err
    (claim,) = workspace.state.glob("claims/default/*-pvc-*")
    assert (claim / "f").read_text() == "x\n"
    assert workspace.run(job(task("only", "exit 3"), volumes=volumes)).code == 3
    # An empty one is removed: the next run would not find it.
    assert list(claim.parent.glob("*-pvc-*")) == [claim]


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        pytest.param(
            "kind: ConfigMap\napiVersion: v1\nmetadata: {name: A}\ndata: {x: 1}\n", "4: data.x: 1: ", id="findings"
        ),
        pytest.param("kind: ConfigMap\napiVersion: v1\nmetadata: {name: UP}\n", "3: metadata.name: UP: ", id="name"),
        pytest.param("a: [", "1:", id="syntax"),
        pytest.param("", "the file is empty", id="empty"),
        pytest.param(
            "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: x}\nspec: {tasks: [{replicas: 1, "
            "template: {spec: {containers: [{name: c, image: i}]}}}]}\n",
            "--with accepts ConfigMaps, Secrets and claims, not a Job",
            id="another job",
        ),
    ],
)
def test_mistakes_in_files_of_with(workspace: Workspace, text: str, printed: str) -> None:
    (workspace.directory / "more.yaml").write_text(text)
    result = workspace.run(job(task("only", "echo started")), flags=["--with", "more.yaml"])
    assert result.code == 2, result.err
    assert "more.yaml:" in result.err
    assert printed in result.err
    assert "started" not in result.out
    _untouched(workspace)


def test_all_mistakes_of_all_files_are_reported(workspace: Workspace) -> None:
    for name in ("a", "b"):
        (workspace.directory / f"{name}.yaml").write_text(
            f"apiVersion: v1\nkind: Secret\nmetadata: {{name: {name}_}}\n"
        )
    result = workspace.run(
        job(task("only", "true")), flags=["--with", "a.yaml", "--with", "b.yaml", "--with", "c.yaml"]
    )
    assert result.code == 2
    assert [word in result.err for word in ("a.yaml:3: ", "b.yaml:3: ", "c.yaml: ")] == [True] * 3


@pytest.mark.parametrize(
    ("flags", "printed"),
    [
        pytest.param(["--publish", "onyl-0:80"], "--publish: onyl-0:80: the job has no pod onyl-0\n", id="publish"),
        pytest.param(["--kill", "only-1@1s"], "--kill: only-1@1s: the job has no pod only-1\n", id="kill"),
        pytest.param(["--scale", "onyl=2"], "--scale: onyl=2: the job has no task onyl\n", id="scale"),
        pytest.param(
            ["--scale", "only=0"], "--scale: no pod is left\n  hint: --scale only=1 runs one\n", id="scale to nothing"
        ),
        pytest.param(["--image", "nowher=."], "--image: nowher: the job has no image nowher\n", id="image"),
        pytest.param(["--entrypoint", "x=ls"], "--entrypoint: x: the job has no image x\n", id="entrypoint"),
        pytest.param(["--mount", "gone"], "--mount: gone: no such file or directory", id="mount"),
        pytest.param(["--network", "some"], "argument --network: invalid choice: 'some' (choose from ", id="network"),
    ],
)
def test_flags_that_name_nothing(workspace: Workspace, flags: list[str], printed: str) -> None:
    result = workspace.run(job(task("only", "echo started")), flags=flags)
    assert result.code == 2, result.err
    assert printed in result.err
    assert "started" not in result.out
    _untouched(workspace)


def test_a_flag_that_names_nothing_lists_what_exists(workspace: Workspace) -> None:
    result = workspace.run(job(task("worker", "true", 12)), flags=["--publish", "worker-12:80"])
    names = ", ".join(f"worker-{index}" for index in range(8))
    assert f"  hint: did you mean worker-1? it has {names} and 4 more" in result.err


def test_a_job_without_pods(workspace: Workspace) -> None:
    result = workspace.run(job(task("only", "true", 0)))
    assert result.code == 2
    assert "the job has no pod: every task has 0 replicas\n  hint: --scale only=1 runs one" in result.err
    assert workspace.run(job(task("only", "true", 0)), flags=["--scale", "only=1"]).code == 0


def test_exactly_one_job(workspace: Workspace) -> None:
    one, two = job(task("only", "true")), job(task("only", "true"))
    two["metadata"]["name"] = "other"
    result = workspace.run(one, two)
    choice = "  hint: --job trial or --job other\n"
    assert (result.code, result.err) == (2, f"job.yaml: contains 2 Jobs; `pumice run` runs exactly one\n{choice}")
    result = workspace.run(one, two, flags=["--job", "other", "--note", "second try", "--json"])
    assert result.code == 0, result.err
    plan = json.loads(result.out.splitlines()[0])
    assert (plan["job"], plan["note"]) == ("other", "second try")


def test_variables_and_directories_of_this_machine_win(workspace: Workspace) -> None:
    (workspace.directory / "src").mkdir()
    (workspace.directory / "src/app").write_text("code\n")
    (workspace.directory / "vars").write_text("# for the laptop\nB=file\nEPOCHS=2\n")
    (workspace.directory / "pumice.toml").write_text('[mounts]\n"/workspace" = "./src:ro"\n')
    container = {"env": [{"name": "EPOCHS", "value": "90"}], "workingDir": "/workspace"}
    manifest = job(task("only", "cat app; echo $EPOCHS $B $PYTHONUNBUFFERED", container=container))
    result = workspace.run(manifest, flags=["--no-prefix", "--env-file", "vars", "--env", "EPOCHS=1"])
    assert (result.code, result.out) == (0, "code\n1 file 1\n"), result.err
    assert "--env EPOCHS overrides the job's EPOCHS=90" in result.err


def test_too_large_a_job_is_refused_with_the_shortage_and_its_lines(workspace: Workspace) -> None:
    large = {"resources": {"requests": {"cpu": "3000", "memory": "1Mi"}}}
    result = workspace.run(job(task("small", "true"), task("large", "true", 2, container=large)))
    assert result.code == 2
    lines = result.err.splitlines()
    assert lines[0] == "job.yaml: needs 3 pods at once (minAvailable), 1 fits on this machine"
    assert lines[2].split()[:2] == ["cpu", "6000.00"]
    text = (workspace.directory / "job.yaml").read_text().splitlines()
    number = next(number for number, line in enumerate(text, start=1) if "cpu:" in line)
    assert f"lower resources.requests.cpu (job.yaml:{number})" in lines[-2]
    assert lines[-1] == "pumice run job.yaml --timeout 150s --fit"
    _untouched(workspace)


def _tar(files: dict[str, bytes]) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return data.getvalue()


def _image(layer: bytes) -> bytes:
    """An archive as `docker save` makes it, of one layer."""
    manifest = [{"Config": "config.json", "RepoTags": ["nowhere:latest"], "Layers": ["layer.tar"]}]
    config = {"rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}}
    files = {"manifest.json": json.dumps(manifest).encode(), "config.json": json.dumps(config).encode()}
    return _tar({**files, "layer.tar": layer})


@pytest.mark.parametrize(
    ("data", "printed"),
    [
        pytest.param(b"no archive at all", "", id="no archive"),
        pytest.param(_image(_tar({"bin/sh": b"x" * 4000})[:1500]), "", id="truncated layer"),
        pytest.param(_image(_tar({"../../climbs": b"x"})), "leaves the image", id="layer that leaves the image"),
    ],
)
def test_bad_images(workspace: Workspace, data: bytes, printed: str) -> None:
    (workspace.directory / "image.tar").write_bytes(data)
    result = workspace.run(job(task("only", "echo started")), flags=["--image", "nowhere=image.tar"])
    assert result.code == 2, result.err
    assert "image.tar" in result.err
    assert printed in result.err
    assert "only-0: container only" in result.err
    assert "Traceback" not in result.err
    _untouched(workspace)
    assert not list(workspace.directory.rglob("climbs"))
    left = [path for path in (workspace.state / "images").rglob("*") if path.is_file() and path.stat().st_size]
    assert left == []


def test_state_that_cannot_be_kept(workspace: Workspace) -> None:
    (workspace.directory / "file").write_text("")
    workspace.environ["XDG_STATE_HOME"] = str(workspace.directory / "file")
    result = workspace.run(job(task("only", "echo started")))
    assert result.code == 2, result.err
    assert "not a directory, so nothing can be stored in " in result.err
    assert "set XDG_STATE_HOME" in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("name", ["stage", "runs", "active"])
def test_something_in_the_way_of_state(workspace: Workspace, name: str) -> None:
    workspace.state.mkdir(parents=True)
    (workspace.state / name).write_text("")
    result = workspace.run(job(task("only", "echo started")))
    assert result.code == 2, result.err
    assert (
        f"{workspace.state / name}: not a directory, so nothing can be stored in {workspace.state}\n  hint: "
        in result.err
    )
    assert result.out == ""


def _run_on_small_disk(
    workspace: Workspace, options: str, before: str, argv: list[str]
) -> subprocess.CompletedProcess[str]:
    """In namespaces of its own, where anybody may mount a small file system for the state."""
    workspace.state.parent.mkdir()
    mount = f"mount -t tmpfs -o {options},mode=700 tmpfs {workspace.state.parent}"
    script = f'{mount} && {before}; "$@"; code=$?; ls {workspace.state}/stage; exit $code'
    who = [] if os.geteuid() == 0 else ["-r"]
    return subprocess.run(
        ["unshare", *who, "-m", "sh", "-c", script, "sh", *argv],
        cwd=workspace.directory,
        env=workspace.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_a_full_disk(workspace: Workspace) -> None:
    argv = workspace.argv(job(task("only", "head -c 200k /dev/zero | tr '\\0' x | fold; echo; echo done")))
    done = _run_on_small_disk(workspace, "size=64k", f"head -c 50k /dev/zero > {workspace.state.parent}/full", argv)
    assert "Traceback" not in done.stderr
    assert "no space left on device" in done.stderr
    assert done.returncode in (0, 2), done.stderr
    if done.returncode == 0:
        assert "done" in done.stdout
        assert "logs are shown but no longer written to" in done.stderr


@pytest.mark.parametrize("files", [5, 8, 11, 12, 16, 24])
def test_a_disk_without_room_for_another_file(workspace: Workspace, files: int) -> None:
    """Wherever it is noticed: before the start, at the start, or for one of the containers."""
    argv = workspace.argv(job(task("only", "echo done", 2), maxRetry=1), flags=["--keep", "--network=job"])
    done = _run_on_small_disk(workspace, f"nr_inodes={files}", "true", argv)
    assert done.returncode in (1, 128), done.stderr
    assert ": no space left on device" in done.stderr
    assert not re.search(r"Traceback|Errno|None", done.stderr), done.stderr
    assert not re.search(r"^trial-", done.stdout, re.MULTILINE)
