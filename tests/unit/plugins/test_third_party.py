"""Plugins of third parties as they really come: in a package of their own, found by a process that is started later."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest
import yaml

from tests.fork_server import fork_server
from tests.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "plugin-example"
HEADER = """\
from dataclasses import dataclass
from typing import ClassVar
import sys
from pumice import Base, Finding, Job, Pod, Slot, env_values, option
from pumice.model.objects import Once


@dataclass(frozen=True)
class Odd(Base):
    name: ClassVar[str] = "odd"
"""
JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec:
  plugins: {odd: []}
  tasks:
  - name: worker
    replicas: 2
    template:
      spec:
        restartPolicy: Never
        containers:
        - {name: main, image: "example.com/image:1"}
"""


def program(packages: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the program as a user would who has these packages installed."""
    command = [sys.executable, "-c", "import sys; from pumice.cli.program import main; sys.exit(main())", *words]
    done = subprocess.run(command, env=environ(packages), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert "Traceback" not in done.stdout + done.stderr
    return done


def pumice(packages: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Do the same in a process that need not load all modules first."""
    server = fork_server("pumice.cli.offline.validate", "pumice.cli.offline.render", "pumice.cli.offline.explain")
    done = server.run([*map(str, words)], cwd=packages, env=environ(packages))
    assert "Traceback" not in done.stdout + done.stderr
    return done


def environ(packages: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(packages), "NO_COLOR": "1"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example, built by its own build backend and unpacked as an installer would."""
    folder = tmp_path_factory.mktemp("example")
    source, packages = folder / "source", folder / "packages"
    shutil.copytree(EXAMPLE, source)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=source, check=True, capture_output=True, timeout=PATIENCE)
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(packages)
    return packages


def test_the_example_is_found(installed: Path) -> None:
    listed = program(installed, "plugins")
    shown = program(installed, "plugins", "nodes", "--json")
    assert (listed.returncode, listed.stderr, shown.returncode) == (0, "", 0)
    assert [line.split()[0] for line in listed.stdout.splitlines()[1:-2]] == [
        *("env", "svc", "ssh", "pytorch", "tensorflow", "mpi", "ray", "hcclrank"),
        "nodes",
    ]
    described = json.loads(shown.stdout)
    assert (described["builtin"], described["requires"]) == (False, ["svc"])
    assert [argument["name"] for argument in described["arguments"]] == ["prefix", "separator"]


def test_a_job_with_the_example_plugin_is_valid(installed: Path) -> None:
    valid = program(installed, "validate", EXAMPLE / "job.yaml")
    rendered = program(installed, "render", EXAMPLE / "job.yaml")
    assert (valid.returncode, valid.stdout, rendered.returncode) == (0, "", 0)
    manifests = list(yaml.safe_load_all(rendered.stdout))
    hosts = "launch-head-0.launch launch-worker-0.launch launch-worker-1.launch"
    found = {}
    for manifest in manifests:
        if manifest["kind"] == "Pod":
            env = manifest["spec"]["containers"][0]["env"]
            # Third-party plugins run last.
            found[manifest["metadata"]["name"]] = [(variable["name"], variable["value"]) for variable in env[-3:]]
    assert found == {
        name: [("NODE_RANK", str(rank)), ("NUM_NODES", "3"), ("NODE_LIST", hosts)]
        for rank, name in enumerate(("launch-head-0", "launch-worker-0", "launch-worker-1"))
    }
    assert [manifest["kind"] for manifest in manifests][:2] == ["Service", "ConfigMap"]


def test_its_arguments_are_checked_like_any(installed: Path, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text((EXAMPLE / "job.yaml").read_text().replace("--separator=space", "--seperator=tab"))
    done = program(installed, "validate", file)
    assert done.returncode == 2
    assert "spec.plugins.nodes[0]: --seperator=tab: unknown argument" in done.stdout
    assert "did you mean --separator?" in done.stdout


def test_it_is_explained(installed: Path) -> None:
    done = program(installed, "explain", EXAMPLE / "job.yaml", "worker-1")
    assert done.returncode == 0
    assert "index of worker-1 in NODE_LIST" in " ".join(done.stdout.split())


def test_a_plugin_that_is_not_installed_is_reported(tmp_path: Path) -> None:
    done = pumice(tmp_path, "validate", EXAMPLE / "job.yaml")
    assert done.returncode == 2
    assert "spec.plugins.nodes: unknown plugin" in done.stdout


def install(packages: Path, source: str, entry: str = "odd = odd:Odd") -> None:
    """What an installer leaves behind."""
    (packages / "odd.py").write_text(source)
    info = packages / "odd-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[pumice.plugins]\n{entry}\n")


def body(text: str) -> str:
    return HEADER + textwrap.indent(textwrap.dedent(text), "    ")


@pytest.mark.parametrize(
    ("source", "entry", "problem"),
    [
        pytest.param("import no_such_module", "odd = odd:Odd", "No module named 'no_such_module'", id="import error"),
        pytest.param("def (", "odd = odd:Odd", "SyntaxError", id="syntax error"),
        pytest.param("raise RuntimeError('sorry')", "odd = odd:Odd", "RuntimeError: sorry", id="raises"),
        pytest.param("import sys; sys.exit(3)", "odd = odd:Odd", "SystemExit: 3", id="exits"),
        pytest.param("", "odd = odd:Odd", "AttributeError: module 'odd' has no attribute 'Odd'", id="no class"),
        pytest.param("Odd = 5", "odd = odd:Odd", "odd:Odd is not a dataclass that inherits from", id="a number"),
        pytest.param("class Odd: name = 'odd'", "odd = odd:Odd", "is not a dataclass that inherits", id="a stranger"),
        pytest.param(HEADER, "even = odd:Odd", "odd:Odd calls itself 'odd', its entry point 'even'", id="two names"),
        pytest.param(HEADER, "svc = odd:Odd", "odd:Odd has the name of a built-in plugin", id="a built-in's name"),
        pytest.param(
            body("rate: float = 1.5"), "odd = odd:Odd", "option rate: its type must be str, int or bool", id="an option"
        ),
        pytest.param(
            body("requires = 'svc'"), "odd = odd:Odd", "requires and example must be tuples of strings", id="needs"
        ),
    ],
)
def test_a_plugin_that_cannot_be_loaded(tmp_path: Path, source: str, entry: str, problem: str) -> None:
    install(tmp_path, source, entry)
    name = entry.partition(" ")[0]
    listed = pumice(tmp_path, "plugins")
    assert listed.returncode == 0
    assert listed.stderr.startswith(f"{name}: installed, but cannot be used: ")
    assert problem in listed.stderr
    if name == "svc":
        return
    file = tmp_path / "job.yaml"
    file.write_text(JOB.replace("odd", name))
    done = pumice(tmp_path, "validate", file)
    assert done.returncode == 2
    assert f"spec.plugins.{name}: plugin {name} is installed but cannot be used: " in done.stdout
    assert problem in done.stdout
    # Other jobs do not suffer.
    file.write_text(JOB.replace("odd: []", "env: []"))
    assert pumice(tmp_path, "validate", file).returncode == 0


@pytest.mark.parametrize(
    ("hook", "problem"),
    [
        pytest.param("def check(self, job): raise RuntimeError('sorry')", "RuntimeError: sorry", id="check raises"),
        pytest.param("def check(self, job): return None", "not iterable", id="check gives none"),
        pytest.param("def check(self, job): return [Finding('spec', 'x')]", "pumice.Path", id="check without path"),
        pytest.param("def objects(self, job): raise RuntimeError('sorry')", "RuntimeError: sorry", id="objects raises"),
        pytest.param("def objects(self, job): return [{'kind': 'x'}]", "metadata", id="an object without name"),
        pytest.param("def shape_pod(self, pod, slot): 1 / 0", "ZeroDivisionError", id="shape_pod raises"),
        pytest.param("def shape_pod(self, pod, slot): sys.exit(7)", "SystemExit: 7", id="shape_pod exits"),
        pytest.param(
            "def shape_pod(self, pod, slot): pod.with_env([])", "returned a NoneType", id="shape_pod gives none"
        ),
        pytest.param("def shape_pod(self, pod, slot): return Pod({})", "KeyError: 'spec'", id="an empty pod"),
        pytest.param(
            "def shape_pod(self, pod, slot): return pod.with_spec(containers=[])", "were removed", id="no containers"
        ),
        pytest.param(
            "def shape_pod(self, pod, slot): return pod.with_spec(x=object())", "cannot be written", id="an object"
        ),
        pytest.param(
            "def shape_pod(self, pod, slot): return pod.edit_containers(lambda c: {**c, 'env': [{'nome': 'A'}]}, None)",
            "ValueError: env of container main has an entry without name",
            id="a variable without name",
        ),
        pytest.param("parse = None", "TypeError: 'NoneType' object is not callable", id="parse is none"),
    ],
)
def test_a_plugin_whose_hook_fails(tmp_path: Path, hook: str, problem: str) -> None:
    install(tmp_path, body(hook))
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    for command in ("validate", "render", "explain"):
        done = pumice(tmp_path, command, file)
        assert done.returncode == 2
        said = done.stdout if command == "validate" else done.stderr
        assert "spec.plugins.odd: plugin odd failed: " in said
        assert problem in said


@pytest.mark.parametrize(
    ("hook", "problem"),
    [
        pytest.param(
            "def shape_pod(self, pod, slot): return pod.with_env([{'name': 'A', 'value': 5}])",
            "spec.tasks[0].template.spec.containers[0].env[0].value: 5: as the plugins make it: must be a string",
            id="a number for a text",
        ),
        pytest.param(
            "def shape_pod(self, pod, slot): return pod.with_spec(restartPolicy='Maybe')",
            "as the plugins make it: ",
            id="a value that Kubernetes refuses",
        ),
    ],
)
def test_a_plugin_that_breaks_the_pod(tmp_path: Path, hook: str, problem: str) -> None:
    install(tmp_path, body(hook))
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    done = pumice(tmp_path, "validate", file)
    assert done.returncode == 2
    assert problem in done.stdout
    assert pumice(tmp_path, "render", file).returncode == 2


def test_a_plugin_that_cannot_say_why_is_reported_by_explain(tmp_path: Path) -> None:
    install(tmp_path, body("def why(self, slot): raise RuntimeError('sorry')"))
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    assert pumice(tmp_path, "render", file).returncode == 0
    done = pumice(tmp_path, "explain", file)
    assert done.returncode == 2
    assert "plugin odd failed: RuntimeError: sorry" in done.stderr


def test_a_plugin_that_edits_its_input_affects_no_other(tmp_path: Path) -> None:
    hook = """\
    def shape_pod(self, pod, slot):
        slot.task.template["spec"]["containers"][0]["image"] = "changed"
        pod.manifest["metadata"]["labels"][f"seen-{slot.index}"] = "yes"
        return pod
    """
    install(tmp_path, body(hook))
    file = tmp_path / "job.yaml"
    file.write_text(JOB)
    done = pumice(tmp_path, "render", file)
    assert done.returncode == 0
    pods = [manifest for manifest in yaml.safe_load_all(done.stdout) if manifest["kind"] == "Pod"]
    assert [pod["spec"]["containers"][0]["image"] for pod in pods] == ["example.com/image:1"] * 2
    seen = [[label for label in pod["metadata"]["labels"] if label.startswith("seen")] for pod in pods]
    assert seen == [["seen-0"], ["seen-1"]]
