from __future__ import annotations

from typing import Any

import pytest

from pumice.admission.program_arguments import (
    ImageCommand,
    JobWithArguments,
    add_program_arguments,
    leave_out_secrets,
    read_arguments,
)
from pumice.model.job import Job, Manifest
from pumice.model.text import literal
from tests.builders import a_container, a_job, a_task, a_template

ARGS = ("--lr", "0.1")
PYTORCH = {"pytorch": ["--master=master", "--worker=worker"]}
MPI = {"mpi": ["--master=launcher", "--worker=worker"]}
RAY = {"ray": ["--head=head", "--worker=worker"]}
USES = 'python3 train.py "$@"'
IMAGES = {
    "shell": ImageCommand(("/bin/sh", "-c"), ("python3 train.py",)),
    "whole": ImageCommand((), ("python3", "train.py", "$(X)")),
    "entry": ImageCommand(("python3", "train.py"), ()),
}


def _job(tasks: dict[str, Manifest | list[str]], plugins: dict[str, list[str]] | None = None) -> Job:
    """A job of tasks by name: the command of each, or its container."""
    containers = {name: each if isinstance(each, dict) else {"command": each} for name, each in tasks.items()}
    made = [a_task(name, template=a_template(a_container(name, **each))) for name, each in containers.items()]
    return a_job(*made, plugins=plugins or {})


def _commands(job: Job) -> dict[str, Any]:
    """The command of each task; with its args, if it has them."""
    found: dict[str, Any] = {}
    for task in job.spec.tasks:
        container = task.pod_spec["containers"][0]
        command = container.get("command", [])
        found[task.name] = (command, container["args"]) if "args" in container else command
    return found


def _with_args(job: Job, *tasks: str) -> JobWithArguments:
    return add_program_arguments(job, ARGS, tasks, IMAGES.get)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param(["python3", "train.py"], ["python3", "train.py", *ARGS], id="a script"),
        pytest.param(["./train"], ["./train", *ARGS], id="a program"),
        pytest.param(["sleep", "1"], ["sleep", "1", *ARGS], id="the only program is a utility"),
        pytest.param(["sh", "-c", USES], ["sh", "-c", USES, "sh", *ARGS], id="sh -c"),
        pytest.param(["/bin/bash", "-lc", USES], ["/bin/bash", "-lc", USES, "bash", *ARGS], id="bash -lc"),
        pytest.param(["sh", "-c", "./t $1 $2"], ["sh", "-c", "./t $1 $2", "sh", *ARGS], id="by number"),
        pytest.param(
            ["busybox", "sh", "-c", USES], ["busybox", "sh", "-c", USES, "sh", *ARGS], id="a shell of busybox"
        ),
        pytest.param(["sh", "-c", USES, "zero"], ["sh", "-c", USES, "zero", *ARGS], id="with a word for $0"),
        pytest.param(["sh", "-c", USES, "a", "b"], ["sh", "-c", USES, "a", "b", *ARGS], id="with arguments"),
        pytest.param(
            ["mpirun", "-np", "2", "sh", "-c", USES], ["mpirun", "-np", "2", "sh", "-c", USES, "sh", *ARGS], id="mpirun"
        ),
        pytest.param(
            {"command": ["python3"], "args": ["train.py"]}, (["python3"], ["train.py", *ARGS]), id="to the args"
        ),
        pytest.param(
            {"command": ["sh", "-c"], "args": [USES]},
            (["sh", "-c"], [USES, "sh", *ARGS]),
            id="the script is in the args",
        ),
        pytest.param(
            {"command": ["sh", "-c", USES], "args": ["sh"]}, (["sh", "-c", USES], ["sh", *ARGS]), id="$0 is there"
        ),
        pytest.param({"args": ["--x"]}, ([], ["--x", *ARGS]), id="args for an image that is not known"),
        pytest.param({"image": "whole"}, ([], ["python3", "train.py", "$$(X)", *ARGS]), id="of an image"),
        pytest.param({"image": "entry"}, ([], [*ARGS]), id="of an image with an entrypoint"),
        pytest.param({"image": "entry", "args": ["a"]}, ([], ["a", *ARGS]), id="args for an image"),
        pytest.param({"image": "whole", "command": ["./x"]}, ["./x", *ARGS], id="a command in place of an image's"),
    ],
)
def test_where_arguments_go_in_a_container(command: Manifest | list[str], expected: object) -> None:
    changed = _with_args(_job({"worker": command}))
    assert changed.findings == ()
    assert _commands(changed.job) == {"worker": expected}


@pytest.mark.parametrize(
    ("tasks", "plugins", "expected"),
    [
        pytest.param(
            {"ps": ["python3", "train.py", "--job=ps"], "worker": ["python3", "-u", "/app/train.py"]},
            {},
            ["ps", "worker"],
            id="the same program, whatever its flags",
        ),
        pytest.param(
            {
                "master": ["torchrun", "--node-rank=0", "t.py"],
                "worker": ["python3", "t.py"],
                "eval": ["python3", "e.py"],
            },
            PYTORCH,
            ["master", "worker"],
            id="that of rank 0",
        ),
        pytest.param(
            {"eval": ["python3", "e.py"], "master": ["python3", "t.py"], "worker": ["python3", "t.py"]},
            PYTORCH,
            ["master", "worker"],
            id="that of rank 0, which is not the first task",
        ),
        pytest.param(
            {"worker": ["/usr/sbin/sshd", "-D"], "launcher": ["mpirun", "python3", "pi.py"]},
            MPI,
            ["launcher"],
            id="the launcher of MPI",
        ),
        pytest.param(
            {"worker": ["python3", "pi.py"], "launcher": ["mpirun", "python3", "pi.py"]},
            MPI,
            ["launcher"],
            id="only the launcher, though the workers name the program",
        ),
        pytest.param(
            {"head": {}, "worker": {}, "driver": ["sh", "-c", USES]}, RAY, ["driver"], id="not what Ray starts itself"
        ),
        pytest.param(
            {"board": ["tensorboard", "--logdir", "x"], "train": ["python3", "t.py"]}, {}, ["train"], id="no utility"
        ),
        pytest.param(
            {"master": ["sleep", "1"], "worker": ["python3", "t.py"]}, PYTORCH, ["master"], id="rank 0 is a utility"
        ),
        pytest.param({"a": {"args": ["x.py"]}, "b": {"args": ["x.py", "-v"]}}, {}, ["a", "b"], id="of the same image"),
        pytest.param(
            {"a": ["python3", "t.py"], "b": ["python3", "t.py"]},
            {"mpi": ["--master=nope"]},
            ["a", "b"],
            id="no launcher",
        ),
    ],
)
def test_which_tasks_get_arguments(
    tasks: dict[str, Manifest | list[str]], plugins: dict[str, list[str]], expected: list[str]
) -> None:
    job = _job(tasks, plugins)
    before, changed = _commands(job), _with_args(job)
    assert changed.findings == ()
    assert [name for name, command in _commands(changed.job).items() if command != before[name]] == expected
    assert _commands(job) == before


def test_a_user_may_name_the_tasks() -> None:
    job = _job({"a": ["python3", "a.py"], "b": ["python3", "b.py"], "c": ["python3", "c.py"]})
    assert _commands(_with_args(job, "a", "c").job) == {
        "a": ["python3", "a.py", *ARGS],
        "b": ["python3", "b.py"],
        "c": ["python3", "c.py", *ARGS],
    }


AT = "spec.tasks[0].template.spec.containers[0]"
NO_USE = 'the script does not use "$@", so its program would not get the arguments'


@pytest.mark.parametrize(
    ("tasks", "named", "expected"),
    [
        pytest.param(
            {"a": ["python3", "a.py"], "b": ["python3", "b.py"]},
            (),
            ("spec.tasks", "the tasks run several programs: a runs a.py; b runs b.py", "--args-for a or --args-for b"),
            id="several programs",
        ),
        pytest.param(
            {"a": ["python3", "a.py"], "b": ["python3", "x" * 80]},
            (),
            (
                "spec.tasks",
                f"the tasks run several programs: a runs a.py; b runs {'x' * 60}...",
                "--args-for a or --args-for b",
            ),
            id="a long name",
        ),
        pytest.param(
            {"worker": ["python3", "a.py"]},
            ("wroker",),
            ("spec.tasks", "no task is named wroker", "did you mean worker? --args-for names one of worker"),
            id="an unknown task",
        ),
        pytest.param(
            {"a": ["sh", "-c", "sleep 1\npython3 t.py --x | cat"]},
            (),
            (f"{AT}.command[2]", NO_USE, 'write: python3 t.py --x "$@" | cat'),
            id="a script that ignores them",
        ),
        pytest.param(
            {"a": ["sh", "-c", "python3 t.py --lr $1", "sh"]},
            (),
            (
                f"{AT}.command[2]",
                "the script reads $1 at most, so its program would not get all 2 arguments",
                'use "$@" in place of $1',
            ),
            id="a script that reads only some by number",
        ),
        pytest.param(
            {"a": {"command": ["sh", "-c"], "args": ["./t $1 $2", "sh", "old"]}},
            (),
            (
                f"{AT}.args[0]",
                "the script reads $2 at most, so its program would not get all 3 arguments",
                'use "$@" in place of $1',
            ),
            id="with an argument that it has",
        ),
        pytest.param(
            {"a": {"command": ["sh", "-c"], "args": ["./train"]}},
            (),
            (f"{AT}.args[0]", NO_USE, 'write: ./train "$@"'),
            id="in the args",
        ),
        pytest.param(
            {"a": {"image": "shell"}}, (), (AT, NO_USE, 'write: python3 train.py "$@"'), id="a script of the image"
        ),
        pytest.param(
            {"a": ["sh", "-c", ""]}, (), (f"{AT}.command[2]", NO_USE, 'add a command that uses "$@"'), id="empty"
        ),
        pytest.param(
            {"a": {"image": "x:1"}},
            (),
            (
                AT,
                "has neither command nor args, and what its image x:1 runs is not known here",
                "write a command, `pumice image pull x:1`, or run with --entrypoint x:1=COMMAND",
            ),
            id="an image that is not known",
        ),
    ],
)
def test_what_is_refused(
    tasks: dict[str, Manifest | list[str]], named: tuple[str, ...], expected: tuple[str, str, str]
) -> None:
    job = _job(tasks)
    changed = _with_args(job, *named)
    assert [(str(each.path), each.message, each.hint) for each in changed.findings] == [expected]
    assert changed.job == job


def test_a_job_without_a_program_of_its_own() -> None:
    [finding] = _with_args(_job({"head": {}, "worker": {}}, RAY)).findings
    assert finding.message == "no task runs a program that arguments could be for"


def test_nothing_changes_without_arguments() -> None:
    job = _job({"a": ["sh", "-c", "python3 t.py"]})
    assert add_program_arguments(job, ()).job == job


def test_other_containers_and_init_containers_stay() -> None:
    side = a_container("side", command=["python3", "train.py"])
    template = a_template(a_container(command=["python3", "train.py"]), side, initContainers=[side])
    spec = _with_args(a_job(a_task(template=template))).job.spec.tasks[0].pod_spec
    assert spec == {**template["spec"], "containers": [a_container(command=["python3", "train.py", *ARGS]), side]}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        pytest.param("plain $HOME", "plain $HOME", id="no reference"),
        pytest.param("$(HOME)", "$$(HOME)", id="a reference"),
        pytest.param("$$(HOME) $$", "$$$$(HOME) $$$", id="dollars"),
    ],
)
def test_kubernetes_expands_nothing_of_an_argument(word: str, expected: str) -> None:
    assert literal(word) == expected


@pytest.mark.parametrize(
    ("args", "words", "shown", "secrets"),
    [
        pytest.param(["--lr", "0.1"], ["--lr", "0.1"], ["--lr", "0.1"], {}, id="none"),
        pytest.param(
            ["--api-key", "x"], ["--api-key", "$(ARG_API_KEY)"], ["--api-key", "***"], {"ARG_API_KEY": "x"}, id="next"
        ),
        pytest.param(["--token=$(x)"], ["--token=$(ARG_TOKEN)"], ["--token=***"], {"ARG_TOKEN": "$(x)"}, id="joined"),
        pytest.param(
            ["-password", "-x"],
            ["-password", "$(ARG_PASSWORD)"],
            ["-password", "***"],
            {"ARG_PASSWORD": "-x"},
            id="one dash",
        ),
        pytest.param(["+a.key=1=2"], ["+a.key=$(ARG_A_KEY)"], ["+a.key=***"], {"ARG_A_KEY": "1=2"}, id="Hydra"),
        pytest.param(
            ["--use-key", "--lr", "1"], ["--use-key", "--lr", "1"], ["--use-key", "--lr", "1"], {}, id="a switch"
        ),
        pytest.param(["--key"], ["--key"], ["--key"], {}, id="the last word"),
        pytest.param(
            ["--key", "a", "--key=b", "--key", "c=d"],
            ["--key", "$(ARG_KEY)", "--key=$(ARG_KEY_2)", "--key", "$(ARG_KEY_3)"],
            ["--key", "***", "--key=***", "--key", "***"],
            {"ARG_KEY": "a", "ARG_KEY_2": "b", "ARG_KEY_3": "c=d"},
            id="several",
        ),
        pytest.param(
            ["--tokenizer", "bert", "--max-tokens=9", "--key_points", "3"],
            ["--tokenizer", "bert", "--max-tokens=9", "--key_points", "3"],
            ["--tokenizer", "bert", "--max-tokens=9", "--key_points", "3"],
            {},
            id="only look like it",
        ),
        pytest.param(["x=$(y)"], ["x=$$(y)"], ["x=$(y)"], {}, id="no secret"),
    ],
)
def test_secret_values_are_variables(
    args: list[str], words: list[str], shown: list[str], secrets: dict[str, str]
) -> None:
    found = read_arguments(args)
    assert (list(found.words), list(found.shown), found.secrets) == (words, shown, secrets)


def test_secret_values_are_left_out_with_their_names() -> None:
    args = ["--lr", "1", "--api-key", "x", "--token=y", "--name", "***", "--use-key", "--key"]
    kept = ["--lr", "1", "--name", "***", "--use-key", "--key"]
    assert leave_out_secrets(args) == (kept, ["--api-key", "***", "--token=***"])
