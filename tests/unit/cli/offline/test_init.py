from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest
import yaml

from pumice.cli.offline.init import guess, job_name
from pumice.cli.offline.job_templates import FRAMEWORKS
from tests.unit.cli.running import COMMAND, Terminal
from tests.unit.cli.screens import OnTerminal

PODS = {"torch": 5, "mpi": 5, "tensorflow": 4, "ray": 6}


@pytest.mark.parametrize("gpus", [0, 1, 2])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_file_validates_without_warnings(framework: str, gpus: int, terminal: Terminal) -> None:
    terminal.write("", "my train.py")
    flags = ("--framework", framework, "--workers", "4", "--gpus", str(gpus))
    fit = " --fit" if gpus else ""
    written = f"my-train.yaml: written for {framework}\nnext: pumice run my-train.yaml{fit}\n"
    assert terminal.run("init", "my train.py", *flags) == (0, "", written)
    assert terminal.run("validate", "--volcano", "my-train.yaml") == (
        0,
        "",
        f"my-train.yaml: my-train: good ({PODS[framework]} pods)\n",
    )
    text = (terminal.folder / "my-train.yaml").read_text(encoding="utf-8")
    assert text.partition("\n")[0].startswith(f"# Run it on this machine: pumice run my-train.yaml{fit}")
    spec = yaml.safe_load(text)["spec"]
    assert spec["minAvailable"] == PODS[framework]
    assert {task["name"]: task["replicas"] for task in spec["tasks"]}["worker"] == 4
    limits = [
        container.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0)
        for task in spec["tasks"]
        for container in task["template"]["spec"]["containers"]
    ]
    assert max(limits) == gpus
    assert max(map(len, text.splitlines())) <= 120


def test_several_processes_per_pod_are_started_by_torchrun(terminal: Terminal) -> None:
    terminal.run("init", "train.py", "--gpus", "2")
    terminal.run("init", "train.sh", "--gpus", "2", "-o", "shell.yaml")
    commands = [
        yaml.safe_load((terminal.folder / file).read_text())["spec"]["tasks"][0]["template"]["spec"]["containers"][0][
            "command"
        ]
        for file in ("train.yaml", "shell.yaml")
    ]
    assert commands == [["python3", "-m", "torch.distributed.run", "train.py"], ["bash", "train.sh"]]
    rendered = terminal.run("render", "train.yaml").out
    assert "name: PET_NPROC_PER_NODE\n      value: '2'" in rendered.replace('"', "'")


@pytest.mark.parametrize(
    ("script", "command"),
    [
        pytest.param("train.py", ["python3", "train.py"], id="Python"),
        pytest.param("./a/../train.py", ["python3", "train.py"], id="a path"),
        pytest.param("sub dir/train.py", ["python3", "sub dir/train.py"], id="a directory below"),
        pytest.param("train.sh", ["bash", "train.sh"], id="shell"),
        pytest.param("train", ["./train"], id="a program"),
        pytest.param("bin/train", ["bin/train"], id="a program below"),
        pytest.param("$(HOME).py", ["python3", "$$(HOME).py"], id="not a variable"),
        pytest.param('"a: b" #.py', ["python3", '"a: b" #.py'], id="YAML"),
    ],
)
def test_the_command_starts_the_script(script: str, command: list[str], terminal: Terminal) -> None:
    assert terminal.run("init", script, "--name", "a").code == 0
    tasks = yaml.safe_load((terminal.folder / "a.yaml").read_text(encoding="utf-8"))["spec"]["tasks"]
    assert [task["template"]["spec"]["containers"][0]["command"] for task in tasks] == [command, command]


def test_a_script_is_named_as_pods_see_it(terminal: Terminal) -> None:
    assert terminal.run("init", str(terminal.folder / "train.py")).code == 0
    assert '["python3", "train.py"]' in (terminal.folder / "train.yaml").read_text()
    terminal.write("", "x.py")
    (terminal.folder / "below").mkdir()
    os.chdir(terminal.folder / "below")
    assert terminal.run("init", "../x.py").err.splitlines()[1] == (
        "../x.py: warning: is outside of the working directory, and pods may not see it: call init in its directory"
    )


def test_words_of_a_shell_are_quoted(terminal: Terminal) -> None:
    terminal.run("init", "it's.py", "--framework", "mpi")
    tasks = yaml.safe_load((terminal.folder / "it-s.yaml").read_text())["spec"]["tasks"]
    assert tasks[1]["template"]["spec"]["containers"][0]["command"][2].endswith("""python3 'it'"'"'s.py'\n""")


@pytest.mark.parametrize(
    ("script", "name"),
    [
        pytest.param("train.py", "train", id="as it is"),
        pytest.param("src/My_Train.v2.py", "my-train-v2", id="other characters"),
        pytest.param("_train_.py", "train", id="ends"),
        pytest.param("2024.py", "job-2024", id="begins with a digit"),
        pytest.param("训练.py", "job", id="nothing that can stay"),
        pytest.param(f"{'long-' * 20}.py", ("long-" * 8)[:-1], id="long"),
    ],
)
def test_the_name_of_a_job_comes_from_its_script(script: str, name: str) -> None:
    assert job_name(script) == name


@pytest.mark.parametrize(
    ("text", "framework"),
    [
        pytest.param("import torch\n", "torch", id="torch"),
        pytest.param("import os, torch.distributed as dist\n", "torch", id="among others"),
        pytest.param("    from torch.nn import Linear\n", "torch", id="from, in a function"),
        pytest.param("import pytorch_lightning as pl\n", "torch", id="Lightning"),
        pytest.param("import tensorflow as tf\n", "tensorflow", id="TensorFlow"),
        pytest.param("from mpi4py import MPI\nimport torch\n", "mpi", id="MPI starts torch"),
        pytest.param("import torch\nimport ray.train\n", "ray", id="Ray starts torch"),
        pytest.param("import torchvision_like, array\n# import ray\n", "torch", id="none of them"),
        pytest.param("def broken(:\nimport tensorflow\n", "tensorflow", id="a script with an error"),
        pytest.param("raise SystemExit('was run')\nimport ray", "ray", id="never run"),
    ],
)
def test_the_framework_is_guessed_from_the_imports(text: str, framework: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(text, encoding="utf-8")
    assert guess(script)[0] == framework


def test_the_guess_and_its_reason_are_printed(terminal: Terminal) -> None:
    terminal.write("import ray\n", "tune.py")
    assert terminal.run("init", "tune.py").err.splitlines()[0] == (
        "tune.yaml: written for ray, because tune.py imports ray"
    )
    terminal.write("print()\n", "plain.py")
    assert terminal.run("init", "plain.py").err.splitlines()[0] == (
        "plain.yaml: written for torch; --framework chooses mpi, tensorflow or ray"
    )


def test_a_script_that_does_not_exist_yet_is_a_warning(terminal: Terminal) -> None:
    result = terminal.run("init", "train.py", "--framework", "mpi")
    assert result == (
        0,
        "",
        "train.yaml: written for mpi\ntrain.py: warning: does not exist yet\nnext: pumice run train.yaml\n",
    )


def test_a_program_that_is_not_executable_is_a_warning(terminal: Terminal) -> None:
    terminal.write("", "solve it")
    assert "solve it: warning: is not executable: chmod +x 'solve it'\n" in terminal.run("init", "solve it").err


def test_a_file_is_never_overwritten(terminal: Terminal) -> None:
    terminal.write("mine", "train.yaml")
    (terminal.folder / "dangling.yaml").symlink_to("nowhere.yaml")
    for flags in ((), ("-o", "dangling.yaml")):
        result = terminal.run("init", "train.py", *flags)
        file = (*flags, "train.yaml")[1 if flags else 0]
        assert (result.code, result.out) == (2, "")
        assert result.err == (
            f"{file}: exists already, and is not overwritten\n  hint: remove it, or name another file with -o FILE\n"
        )
    assert (terminal.folder / "train.yaml").read_text() == "mine"
    assert not (terminal.folder / "nowhere.yaml").exists()


def test_a_file_that_cannot_be_written(terminal: Terminal) -> None:
    assert terminal.run("init", "train.py", "-o", "no/where.yaml") == (
        2,
        "",
        "no/where.yaml: no such file or directory\n",
    )


def test_all_mistakes_are_reported_at_once(terminal: Terminal) -> None:
    (terminal.folder / "src").mkdir()
    result = terminal.run("init", "src", "--workers", "0", "--gpus", "-1", "--name", "My_Job", "-o", "a\nb")
    assert result.code == 2
    assert result.err.splitlines() == [
        "SCRIPT: src: is a directory; name a script in it",
        "--workers: 0: must be a number from 1 to 999",
        "--gpus: -1: must be a number from 0 to 999",
        "--name: My_Job: must be lower-case letters, digits or '-', and begin and end with a letter or digit",
        "  hint: for example my-job",
        "-o: a\\nb: must not contain control characters",
    ]
    assert [path.name for path in terminal.folder.iterdir()] == ["src"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ("train.py", "--name", "1st"),
            "--name: 1st: must begin with a letter\n  hint: for example job-1st",
            id="1st",
        ),
        pytest.param(("a\x1bb.py",), "SCRIPT: a\\x1bb.py: must not contain control characters", id="control"),
        pytest.param(
            ("train.py", "--name", "a" * 60), "pumice init: spec.tasks[0].name: ", id="too long for the names of pods"
        ),
    ],
)
def test_other_mistakes(words: tuple[str, ...], message: str, terminal: Terminal) -> None:
    result = terminal.run("init", *words)
    assert result.code == 2
    assert result.err.startswith(message)
    assert list(terminal.folder.iterdir()) == []


def test_without_a_script_and_without_a_terminal(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    result = terminal.run("init", "--workers", "4")
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines() == [
        "pumice init: which script?",
        "  hint: pumice init train.py [--workers 4] [--gpus 1] [--framework torch|mpi|tensorflow|ray]",
    ]


def test_on_a_terminal_init_asks(tmp_path: Path) -> None:
    (tmp_path / "tune.py").write_text("import ray\n", encoding="utf-8")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    terminal = OnTerminal([*COMMAND, "init", "--gpus", "0"], tmp_path, environ)
    for question, answer in (
        ("Script to run:", "\n"),
        ("name a script, such as train.py", "tune.py\n"),
        ("Workers [2]:", "none\n"),
        ("must be a number from 1 to 999", "3\n"),
        ("Framework (torch, mpi, tensorflow, ray) [ray]:", "torhc\n"),
        ("did you mean torch? there are torch, mpi, tensorflow, ray", "\n"),
    ):
        terminal.read_until(question)
        terminal.type(answer.encode())
    assert terminal.read_to_end() == 0
    assert "next: pumice run tune.yaml" in terminal.screen.lines
    spec = yaml.safe_load((tmp_path / "tune.yaml").read_text())["spec"]
    assert [(task["name"], task["replicas"]) for task in spec["tasks"]] == [("head", 1), ("worker", 3), ("driver", 1)]


def test_the_end_of_the_input_ends_the_questions(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    terminal = OnTerminal([*COMMAND, "init"], tmp_path, environ)
    terminal.read_until("Script to run:")
    terminal.type(b"\x04")
    assert terminal.read_to_end() == 2
    assert "pumice init: which script?" in terminal.screen.lines
    assert list(tmp_path.iterdir()) == []
