"""What the guides say of things that no command of theirs shows."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from pumice.client.job_files import load
from pumice.model import naming
from pumice.model.slot import Slot
from pumice.plugins.pytorch import PyTorch
from pumice.plugins.shaping import shaped_pod
from pumice.plugins.ssh import Ssh
from pumice.plugins.svc import Svc
from pumice.plugins.wait_for_master import SCRIPT
from pumice.runtime.offline_context import offline_context
from tests.docs.markdown import blocks
from tests.meta.tree import ROOT

GUIDES = ROOT / "docs" / "guides"
SCRIPT_OF_THE_JOB = ROOT / "examples" / "tensorflow-dist-mnist.yaml"
PROGRAM = "python /var/tf_dist_mnist/dist_mnist.py"


def _guide(name: str) -> str:
    return (GUIDES / name).read_text(encoding="utf-8")


def _tf_config(task: str, folder: Path, line: str = "", shell: str = "sh") -> str:
    """What TF_CONFIG becomes in a pod of the documented job, or with another `export` in it."""
    [entry] = load(str(SCRIPT_OF_THE_JOB), offline_context()).jobs
    job = entry.admitted.job
    for each in job.spec.tasks:
        (folder / f"{each.name}.host").write_text("\n".join(naming.hosts(job, each)))
    wanted = job.task(task)
    assert wanted is not None
    script = wanted.template["spec"]["containers"][0]["command"][2].replace(PROGRAM, "printenv TF_CONFIG")
    if line:
        script = re.sub(r"^export .*$", lambda _: line, script, flags=re.MULTILINE)
    script = script.replace("/etc/volcano", str(folder))
    environment = {"PATH": "/usr/bin:/bin", "VK_TASK_INDEX": "0"}
    return subprocess.run([shell, "-c", script], env=environment, capture_output=True, check=True, text=True).stdout


def _shown(starting: str) -> str:
    [text] = [block.text for block in blocks(GUIDES / "job-plugins.md") if block.text.startswith(starting)]
    return text


def test_the_documented_tf_config_has_no_parameter_server_and_no_worker(tmp_path: Path) -> None:
    shown = _shown('{"cluster"')
    assert json.loads(_tf_config("worker", tmp_path)) == json.loads(shown)
    assert json.loads(shown)["cluster"]["ps"] == []
    assert json.loads(shown)["task"]["type"] == "ps"


@pytest.mark.needs("bash")
def test_the_documented_tf_config_is_worse_where_sh_is_bash(tmp_path: Path) -> None:
    bash = tmp_path / "sh"
    bash.symlink_to(shutil.which("bash") or "")
    assert _tf_config("worker", tmp_path, shell=str(bash)) == '"environment":"cloud"\n'


@pytest.mark.needs("bash")
@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_the_corrected_line_gives_the_right_tf_config(shell: str, tmp_path: Path) -> None:
    found = json.loads(_tf_config("worker", tmp_path, _shown("export TF_CONFIG="), shell))
    plugin = _plugin_tf_config()
    assert found == {**plugin, "environment": "cloud"}


def _plugin_tf_config() -> Any:
    [entry] = load(str(ROOT / "examples" / "tensorflow-plugin.yaml"), offline_context()).jobs
    job = entry.admitted.job
    [worker] = [task for task in job.spec.tasks if task.name == "worker"]
    [container] = shaped_pod(Slot(job, worker, 0), entry.admitted.plugins).containers
    return json.loads(next(variable["value"] for variable in container["env"] if variable["name"] == "TF_CONFIG"))


def test_the_lines_of_the_tensorflow_example_are_the_examples() -> None:
    [document] = [document for document in yaml.safe_load_all(SCRIPT_OF_THE_JOB.read_text()) if document]
    scripts = [task["template"]["spec"]["containers"][0]["command"][2] for task in document["spec"]["tasks"]]
    for line in _shown("PS_HOST=").splitlines():
        assert all(line in script for script in scripts)


@pytest.mark.parametrize("name", ["pytorch-plugin.md", "zh/pytorch-plugin.md"])
def test_what_the_waiting_container_prints_is_what_the_guide_shows(name: str) -> None:
    values = {"$host": "pytorch-job-master-0.pytorch-job", "$port": "23456", "${{limit}}": "600", "$limit": "600"}
    words = SCRIPT
    for variable, value in values.items():
        words = words.replace(variable, value)
    for block in blocks(GUIDES / name):
        if block.language == "text":
            for line in block.text.splitlines():
                assert re.sub(r"(after |in )\d+s", r"\1${{waited}}s", line) in words


@pytest.mark.parametrize(
    ("plugin", "page"),
    [
        pytest.param(plugin, page, id=f"{plugin.name} in {page}")
        for plugin, guide in ((PyTorch, "pytorch-plugin.md"), (Svc, "job-plugins.md"), (Ssh, "job-plugins.md"))
        for page in (guide, f"zh/{guide}")
    ],
)
def test_a_table_of_arguments_has_each_with_its_type_and_default(plugin: Any, page: str) -> None:
    for option in plugin.options():
        kind = option.type.__name__.replace("str", "string")
        default = {None: r"[^|]+", "": "-", True: "true", False: "false"}.get(option.default, str(option.default))
        assert re.search(rf"^\| {option.flag}[^|]*\| {kind} \| {default} \|", _guide(page), re.MULTILINE), option.flag
