from __future__ import annotations

import io
import os
import shlex
import sys
from pathlib import Path

import pytest
import yaml

from pumice.admission.program_arguments import add_program_arguments
from pumice.client.job_files import load
from pumice.client.job_templates import FRAMEWORKS
from pumice.client.script_jobs import guess, job_name
from pumice.runtime.offline_context import offline_context
from tests.unit.cli.running import COMMAND, Terminal
from tests.unit.cli.screens import OnTerminal

# Of four ranks: the pods by task, and how the ranks are named.
PODS = {
    "torch": {"master": 1, "worker": 3},
    "mpi": {"worker": 4, "master": 1},
    "tensorflow": {"worker": 4, "ps": 1},
    "ray": {"head": 1, "worker": 3, "driver": 1},
}
RANKS = {
    "torch": "master 1 + worker 3",
    "mpi": "worker 4, beside the launcher master",
    "tensorflow": "worker 4, beside ps 1",
    "ray": "head 1 + worker 3, beside driver 1",
}


@pytest.mark.parametrize("gpus", [0, 1, 2])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_file_validates_without_warnings(framework: str, gpus: int, terminal: Terminal) -> None:
    terminal.write("", "my train.py")
    flags = ("--framework", framework, "--workers", "4", "--gpus", str(gpus))
    fit = " --fit" if gpus else ""
    ranks = "8 ranks: 2 in each pod of" if gpus == 2 and framework in ("torch", "mpi") else "4 ranks:"
    about = f"my-train.yaml: {ranks} {RANKS[framework]}\n"
    written = f"my-train.yaml: written for {framework}\n{about}next: pumice run my-train.yaml{fit}\n"
    assert terminal.run("init", "my train.py", *flags) == (0, "", written)
    assert terminal.run("validate", "--volcano", "my-train.yaml") == (
        0,
        "",
        f"my-train.yaml: my-train: good ({sum(PODS[framework].values())} pods)\n",
    )
    text = (terminal.folder / "my-train.yaml").read_text(encoding="utf-8")
    assert text.partition("\n")[0].startswith(f"# Run it on this machine: pumice run my-train.yaml{fit}")
    spec = yaml.safe_load(text)["spec"]
    assert spec["minAvailable"] == sum(PODS[framework].values())
    assert {task["name"]: task["replicas"] for task in spec["tasks"]} == PODS[framework]
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
    ("text", "flags", "written"),
    [
        pytest.param('os.environ["LOCAL_RANK"]', (), True, id="environ"),
        pytest.param("int(environ['LOCAL_RANK'])", ("--gpus", "1"), True, id="one GPU"),
        pytest.param('os.environ.get("LOCAL_RANK", 0)', (), True, id="get"),
        pytest.param('os.getenv("LOCAL_RANK")', (), True, id="getenv"),
        pytest.param('os.environ["LOCAL_RANK"]', ("--gpus", "2"), False, id="torchrun sets it"),
        pytest.param('os.environ["LOCAL_RANK"]', ("--framework", "mpi"), False, id="mpiexec starts the processes"),
        pytest.param('os.environ["LOCAL_RANK_OF"] + "LOCAL_RANK"', (), False, id="does not read it"),
    ],
)
def test_local_rank_is_set_for_a_script_that_reads_it(
    text: str, flags: tuple[str, ...], written: bool, terminal: Terminal
) -> None:
    terminal.write(f"print({text})\n", "train.py")
    assert terminal.run("init", "train.py", *flags).code == 0
    assert terminal.run("validate", "--volcano", "train.yaml").code == 0
    file = (terminal.folder / "train.yaml").read_text(encoding="utf-8")
    containers = [task["template"]["spec"]["containers"][0] for task in yaml.safe_load(file)["spec"]["tasks"]]
    env = [{"name": "LOCAL_RANK", "value": "0"}]
    assert [each.get("env") for each in containers] == [env if written else None] * 2
    assert file.count("train.py reads LOCAL_RANK, which torchrun sets and plugins do not") == written


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
    assert terminal.run("init", "../x.py").err.splitlines()[2] == (
        "../x.py: warning: is outside of the working directory, and pods may not see it: call init in its directory"
    )


@pytest.mark.parametrize(
    ("framework", "pods"),
    [
        pytest.param("torch", {"master": 1}, id="torch"),
        pytest.param("mpi", {"worker": 1, "master": 1}, id="mpi"),
        pytest.param("tensorflow", {"worker": 1, "ps": 1}, id="tensorflow"),
        pytest.param("ray", {"head": 1, "driver": 1}, id="ray"),
    ],
)
def test_one_rank(framework: str, pods: dict[str, int], terminal: Terminal) -> None:
    assert "a.yaml: 1 rank: " in terminal.run("init", "a.py", "--workers", "1", "--framework", framework).err
    assert terminal.run("validate", "a.yaml").err == f"a.yaml: a: good ({some_pods(sum(pods.values()))})\n"
    tasks = yaml.safe_load((terminal.folder / "a.yaml").read_text())["spec"]["tasks"]
    assert {task["name"]: task["replicas"] for task in tasks} == pods


def test_a_script_that_cannot_have_a_parameter_server_gets_none(terminal: Terminal) -> None:
    terminal.write("import tensorflow as tf\ntf.distribute.MultiWorkerMirroredStrategy()\n", "a.py")
    assert "a.yaml: 3 ranks: worker 3\n" in terminal.run("init", "a.py", "--workers", "3").err
    assert terminal.run("validate", "--volcano", "a.yaml").err == "a.yaml: a: good (3 pods)\n"


def some_pods(count: int) -> str:
    return f"{count} pod{'' if count == 1 else 's'}"


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_arguments_are_written_into_the_file_and_further_ones_may_follow(framework: str, terminal: Terminal) -> None:
    words = ("--lr", "0.1", "a b", "$(HOME)", "two\nlines")
    assert terminal.run("init", "a.py", "--framework", framework, "--", *words).code == 0
    job = load(str(terminal.folder / "a.yaml"), offline_context()).jobs[0].admitted.job
    changed = add_program_arguments(job, ["--more"])
    assert changed.findings == ()
    commands = [each["command"] for each in changed.containers.values()]
    for command in commands:
        inner = shlex.split(command[2].replace("\\\n", " ")) if command[0] == "sh" else command
        begin = inner.index("a.py")
        assert [word.replace("$$(", "$(") for word in inner[begin + 1 : begin + 6]] == [*words]
        assert [*inner[begin + 6 :], *command[-1:]][-1] == "--more"
    assert commands


def test_secrets_are_not_written_into_the_file(terminal: Terminal) -> None:
    terminal.write("", "a.py")
    result = terminal.run("init", "a.py", "--", "--lr", "1", "--api-key", "hunter2", "--hub-token=hunter3")
    assert result.err.splitlines()[-2:] == [
        "a.yaml: warning: --api-key *** --hub-token=*** is left out: type it after -- of pumice run",
        "next: pumice run a.yaml -- --api-key *** --hub-token=***",
    ]
    text = (terminal.folder / "a.yaml").read_text()
    assert "hunter" not in text + result.err
    assert '"a.py", "--lr", "1"]' in text


@pytest.mark.parametrize("name", ["n", "y", "on", "off", "no", "yes", "true", "null", "e1", "inf", "nan"])
def test_a_name_that_is_a_word_of_yaml_is_quoted(name: str, terminal: Terminal) -> None:
    terminal.write("", f"{name}.py")
    assert terminal.run("init", f"{name}.py").code == 0
    [job] = load(str(terminal.folder / f"{name}.yaml"), offline_context()).jobs
    assert job.admitted.job.name == name


def test_the_file_may_be_stdout(terminal: Terminal) -> None:
    terminal.write("", "a.py")
    result = terminal.run("init", "a.py", "-o", "-")
    assert result.code == 0
    assert not (terminal.folder / "-").exists()
    assert not (terminal.folder / "a.yaml").exists()
    assert result.out.startswith("# Run it on this machine: pumice run a.yaml\n")
    assert "next:" not in result.err
    terminal.run("init", "a.py")
    assert (terminal.folder / "a.yaml").read_text() == result.out


def test_words_of_a_shell_are_quoted(terminal: Terminal) -> None:
    terminal.run("init", "it's.py", "--framework", "mpi")
    tasks = yaml.safe_load((terminal.folder / "it-s.yaml").read_text())["spec"]["tasks"]
    assert tasks[1]["template"]["spec"]["containers"][0]["command"][2].endswith("""python3 'it'"'"'s.py' "$@"\n""")


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
        "plain.yaml: written for torch; --framework chooses mpi, tensorflow or ray, --workers the number of ranks"
    )


def test_a_script_that_does_not_exist_yet_is_a_warning(terminal: Terminal) -> None:
    result = terminal.run("init", "train.py", "--framework", "mpi")
    lines = (
        "train.yaml: written for mpi",
        "train.yaml: 2 ranks: worker 2, beside the launcher master",
        "train.py: warning: does not exist yet",
        "next: pumice run train.yaml",
        "",
    )
    assert result == (
        0,
        "",
        "\n".join(lines),
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


@pytest.mark.parametrize("name", [pytest.param("train.yaml", id="yaml"), pytest.param("job.YML", id="capitals")])
def test_a_job_file_is_no_script(name: str, terminal: Terminal) -> None:
    why = "has the name of a Job file; name a script, such as train.py, and the file to write with -o"
    assert terminal.run("init", name) == (2, "", f"SCRIPT: {name}: {why}\n")
    assert not list(terminal.folder.glob("*.yaml"))


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
        "  hint: pumice init train.py [--workers 4] [--gpus 1] [--framework torch|mpi|tensorflow|ray] [-- --lr 0.1]",
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
    assert [(task["name"], task["replicas"]) for task in spec["tasks"]] == [("head", 1), ("worker", 2), ("driver", 1)]


def test_the_end_of_the_input_ends_the_questions(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    terminal = OnTerminal([*COMMAND, "init"], tmp_path, environ)
    terminal.read_until("Script to run:")
    terminal.type(b"\x04")
    assert terminal.read_to_end() == 2
    assert "pumice init: which script?" in terminal.screen.lines
    assert list(tmp_path.iterdir()) == []
