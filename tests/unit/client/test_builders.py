"""Jobs as Python code are the same values as Jobs in files."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import pumice
from pumice.plugins import PyTorch, Ssh

TASK = pumice.task("w", command=["true"])
JOB = pumice.job(
    "ddp",
    tasks=[
        pumice.task("worker", replicas=4, command=["torchrun", "train.py"], cpu=4, memory="16Gi", gpu=1),
        pumice.task("eval", function="train:main", kwargs={"epochs": 1}, env={"A": "1"}, depends_on=["worker"]),
    ],
    plugins=[PyTorch(master="worker", worker="worker")],
    policies=[pumice.Policy(event="PodFailed", action="RestartJob")],
    max_retry=3,
)


def test_code_and_yaml_give_the_same_job(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB.to_yaml())
    assert pumice.load(file) == JOB
    assert pumice.load_all(file) == [JOB]
    assert JOB.spec.plugins == {"pytorch": ["--master=worker"]}
    assert pumice.load(file).to_yaml() == JOB.to_yaml()
    limits = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    assert JOB.spec.tasks[0].pod_spec["containers"][0]["resources"] == {"limits": limits, "requests": limits}


def test_a_cluster_needs_images() -> None:
    with pytest.raises(pumice.InvalidJob, match="the host serves as image, on a cluster nothing does") as caught:
        JOB.to_yaml(for_cluster=True)
    assert [str(finding.path) for finding in caught.value.findings] == [
        f"spec.tasks[{index}].template.spec.containers[0].image" for index in range(2)
    ]
    with_image = pumice.job("a", tasks=[pumice.task("w", image="python:3.12", command=["true"])])
    assert "image: python:3.12" in with_image.to_yaml(for_cluster=True)


def test_a_function_is_imported_and_called_with_its_arguments(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("class Loop:\n    @staticmethod\n    def main(**given): print(given)\n")
    given = {"epochs": 2, "name": "ä b\0\n", "more": [1.5, None, True, 10**30], "path": "$(HOME) $$(HOME) $", "a": {}}
    task = pumice.task("w", function="train:Loop.main", kwargs=given)
    _python, *words = task.pod_spec["containers"][0]["command"]
    # Kubernetes and this machine alike replace $(NAME) in a command.
    assert not any("$" in word for word in words)
    printed = subprocess.run([sys.executable, *words], cwd=tmp_path, check=True, capture_output=True, encoding="utf-8")
    assert printed.stdout == f"{given}\n"


def test_a_function_that_can_be_imported_is_named_by_reference() -> None:
    command = pumice.task("w", function=json.dumps, kwargs={"obj": 1}).pod_spec["containers"][0]["command"]
    assert command[3:] == ["json", "dumps", '{"obj": 1}']


class Trainer:
    def main(self) -> None: ...

    @classmethod
    def other(cls) -> None: ...


def _nested(depth: int) -> list[object]:
    found: list[object] = []
    for _ in range(depth):
        found = [found]
    return found


def _in_main() -> Callable[[], None]:
    def main() -> None: ...

    main.__module__, main.__qualname__ = "__main__", "main"
    return main


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"function": lambda: None}, "a lambda has no name", id="lambda"),
        pytest.param({"function": _in_main()}, r"a script or a notebook cell \(__main__\)", id="main"),
        pytest.param({"function": "train"}, "must be module:function", id="no colon"),
        pytest.param({"function": "train.main"}, r"train\.main: .*\n  hint: did you mean train:main\?", id="a dot"),
        pytest.param({"function": "train:ma in"}, "must be module:function", id="no name"),
        pytest.param({"function": 5}, "must be module:function", id="number"),
        pytest.param({"function": "a:b", "command": ["x"]}, "cannot be combined with command", id="command"),
        pytest.param({"function": "a:b", "kwargs": {"x": object()}}, "not JSON serializable", id="object"),
        pytest.param({"function": "a:b", "kwargs": {"x": float("nan")}}, "not JSON compliant", id="nan"),
        pytest.param({"function": "a:b", "kwargs": {"x": _nested(100_000)}}, "nested too deeply", id="deep"),
        pytest.param({"function": "a:b", "kwargs": {"x": "y" * 200_000}}, "write them to a file", id="large"),
        pytest.param({"function": "a:b", "kwargs": {"no name": 1}}, "'no name': must be the name of", id="bad name"),
        pytest.param({"function": "a:b", "kwargs": {1: 2}}, "1: must be the name of a parameter", id="number as name"),
        pytest.param({"function": Trainer().main}, "a pod would call another one", id="method of an object"),
        pytest.param({"kwargs": {}}, "needs function", id="kwargs alone"),
        pytest.param({}, "task w: needs command, function or image", id="no program"),
        pytest.param({"args": ["-v"]}, "needs command, function or image", id="arguments of no program"),
        pytest.param(
            {"command": "python train.py"}, r'must be a list of words, such as \["python", "train.py"\]', id="line"
        ),
        pytest.param({"image": "a", "args": "-v"}, r'args: .*such as \["-v"\]', id="args"),
        pytest.param({"image": "a", "depends_on": {"nam": ["a"]}}, "did you mean name", id="dependency"),
        pytest.param({"image": "a", "depends_on": {"name": "a"}}, "Expected `array`", id="dependency on a text"),
        pytest.param({"image": "a", "policies": pumice.Policy()}, r"policies=\[...\]", id="single policy"),
        pytest.param(
            {"image": "a", "policies": [{"event": "PodFailed"}]},
            r"pumice.Policy\(...\) returns",
            id="policy as mapping",
        ),
    ],
)
def test_what_cannot_be_called_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(pumice.InvalidOption, match=message):
        pumice.task("w", **options)  # type: ignore[arg-type] # wrong on purpose


def test_a_nested_function_is_refused() -> None:
    def nested() -> None: ...

    with pytest.raises(pumice.InvalidOption, match="inside another one"):
        pumice.task("w", function=nested)


def test_a_class_method_is_a_function() -> None:
    command = pumice.task("w", function=Trainer.other).pod_spec["containers"][0]["command"]
    assert command[4] == "Trainer.other"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"tasks": TASK}, r"tasks: .*\n.*write tasks=\[...\]", id="single task"),
        pytest.param({"tasks": ["w"]}, r"'w': must be a list of what pumice.task\(...\) returns", id="name of a task"),
        pytest.param({"plugins": PyTorch()}, r"write plugins=\[...\]", id="single plugin"),
        pytest.param({"plugins": [PyTorch]}, "must be a plugin or its name", id="class"),
        pytest.param({"plugins": ["env", "env"]}, "env: given twice", id="twice"),
        pytest.param({"plugins": {"env": "--x"}}, "must be a list of words", id="arguments as a line"),
    ],
)
def test_what_is_no_job_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(pumice.InvalidOption, match=message):
        pumice.job("a", **{"tasks": [TASK], **options})  # type: ignore[arg-type] # wrong on purpose


def test_short_forms_are_what_a_file_has(tmp_path: Path) -> None:
    first = pumice.task("first", command=[Path("/bin/true")])
    then = {"name": ["first"], "condition": "Completed"}
    job = pumice.job(
        "a",
        tasks=[first, pumice.task("second", command=["true"], depends_on=then)],
        plugins=["env", PyTorch(master="first", worker="second")],
        volumes={"/data": "data", "/own": {"accessModes": ["ReadWriteOnce"]}},
    )
    assert yaml.safe_load(job.to_yaml())["spec"] == {
        "tasks": [
            {"name": "first", "replicas": 1, "template": _template("first", "/bin/true")},
            {"name": "second", "replicas": 1, "template": _template("second", "true"), "dependsOn": then},
        ],
        "plugins": {"env": [], "pytorch": ["--master=first", "--worker=second"]},
        "volumes": [
            {"mountPath": "/data", "volumeClaimName": "data"},
            {"mountPath": "/own", "volumeClaim": {"accessModes": ["ReadWriteOnce"]}},
        ],
    }


def _template(name: str, program: str) -> object:
    container = {"name": name, "image": "pumice.invalid/host", "command": [program]}
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}


def test_bad_arguments_of_plugins_are_findings() -> None:
    with pytest.raises(pumice.InvalidJob, match="must be between 1 and 65535"):
        pumice.job("a", tasks=[], plugins=[PyTorch(port=70000)])
    key = "-----BEGIN KEY-----\nx --port=1\n"
    assert pumice.job("a", tasks=[], plugins=[Ssh(ssh_private_key=key)]).spec.plugins == {
        "ssh": [f"--ssh-private-key={key}"]
    }


def test_a_file_with_errors_is_refused_with_all_of_them(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec:\n  tasks:\n  - nam: x\n    replicas: -1\n")
    with pytest.raises(pumice.InvalidJob) as caught:
        pumice.load(file)
    assert f"{file}:6: spec.tasks[0].replicas: -1: must be 0 or more" in str(caught.value)
    assert "did you mean name?" in str(caught.value)
    assert {str(finding.path) for finding in caught.value.findings} >= {"metadata.name", "spec.tasks[0].replicas"}
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "the file is empty", id="empty"),
        pytest.param("a: [", "job.yaml:", id="no YAML"),
        pytest.param("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "contains no Job", id="no Job"),
        pytest.param(
            f"{JOB.to_yaml()}---\n{JOB.to_yaml().replace('ddp', 'ddq')}", "contains 2 Jobs: ddp, ddq", id="two"
        ),
    ],
)
def test_a_file_without_exactly_one_job(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(text)
    with pytest.raises(pumice.InvalidJob, match=message):
        pumice.load(file)


def test_a_file_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(pumice.InvalidJob, match="no such file"):
        pumice.load(tmp_path / "none.yaml")


def test_an_error_without_findings_still_says_something() -> None:
    assert str(pumice.InvalidJob([])) == "the Job is not valid"
