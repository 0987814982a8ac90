from __future__ import annotations

import shlex

import pytest

from pumice.admission.program import Program, program, shell_script

# The command line, its program, and the index of the word with its script.
COMMANDS = (
    ("python3 train.py --x", "train.py", None),
    ("python train.py", "train.py", None),
    ("python3.12 -u train.py", "train.py", None),
    ("/usr/bin/python3 -W ignore -X dev ./train.py --x 1", "train.py", None),
    ("python -u -m pkg.train --epochs 3", "-m pkg.train", None),
    ("python -um pkg.train", "-m pkg.train", None),
    ("pypy3 a/../train.py", "train.py", None),
    ("python3 /app/train.py", "/app/train.py", None),
    ("./train.py --x", "train.py", None),
    ("/opt/app/bin/train --x", "/opt/app/bin/train", None),
    ("trainer --config a.yaml", "trainer", None),
    ("bash train.sh --x", "train.sh", None),
    ("bash -e -o pipefail train.sh", "train.sh", None),
    ("perl -I lib train.pl", "train.pl", None),
    ("java -cp app.jar Main", "Main", None),
    ("node --expose-gc server.js", "server.js", None),
    ("julia --threads 4 train.jl", "train.jl", None),
    ("torchrun train.py", "train.py", None),
    ("torchrun --nproc-per-node 2 train.py --x", "train.py", None),
    ("torchrun --standalone --nproc-per-node=2 train.py", "train.py", None),
    ("torchrun --nnodes 2 -m pkg.train", "-m pkg.train", None),
    ("torchrun --no-python ./train", "train", None),
    ("torchrun --nproc-per-node 2 -- train.py", "train.py", None),
    ("python3 -m torch.distributed.run --nproc-per-node 2 train.py", "train.py", None),
    ("python3 -m torch.distributed.launch --use-env train.py", "train.py", None),
    ("accelerate launch --multi_gpu --num_processes 2 train.py", "train.py", None),
    ("deepspeed --num_gpus 2 train.py --deepspeed ds.json", "train.py", None),
    ("mpirun -np 2 python pi.py", "pi.py", None),
    ("mpirun --allow-run-as-root --mca btl ^openib -x PATH -np 2 python3 -u pi.py", "pi.py", None),
    ("mpiexec -n4 --hostfile /etc/hosts ./pi", "pi", None),
    ("horovodrun -np 2 -H a:1,b:1 python train.py", "train.py", None),
    ("srun --exclusive -N2 python train.py", "train.py", None),
    ("env A=1 B=2 python train.py", "train.py", None),
    ("env -i -u X PATH=/bin python train.py", "train.py", None),
    ("nohup nice -n 5 python train.py", "train.py", None),
    ("timeout -s KILL 10m python train.py", "train.py", None),
    ("stdbuf -oL -eL ./train", "train", None),
    ("taskset 0x3 numactl --cpunodebind=0 python train.py", "train.py", None),
    ("tini -- python train.py", "train.py", None),
    ("gosu nobody python train.py", "train.py", None),
    ("""sh -c 'python train.py "$@"'""", "train.py", 2),
    ("""/bin/sh -ec 'exec python train.py "$@" --last'""", "train.py", 2),
    ("""bash -lc 'source venv/bin/activate && torchrun --nproc-per-node 2 train.py "$@"'""", "train.py", 2),
    ("""bash -euo pipefail -c 'python train.py "$@" | tee log'""", "train.py", 4),
    ("""bash --login -c 'cd /app; RATE=1 python train.py'""", "train.py", 3),
    ("""sh -c 'python prepare.py; python train.py' sh""", "train.py", 2),
    ("""sh -c 'if true; then python train.py; fi'""", "train.py", 2),
    ("""sh -c 'python first.py "$@"; python second.py'""", "first.py", 2),
    ("""sh -c 'python "$PWD/train.py" "$@"'""", "train.py", 2),
    ("""sh -c 'python ${APP}/src/train.py $RATE'""", "src/train.py", 2),
    ("""env A=1 sh -c 'python train.py'""", "train.py", 4),
    ("""mpirun -np 2 sh -c 'python pi.py "$@"'""", "pi.py", 5),
    ("""sh -c 'bash -c "python train.py"'""", "train.py", 2),
    ("""sh -c 'exec "$@"' -- python train.py""", "$@", 2),
    ("""busybox sh -c 'python train.py "$@"'""", "train.py", 3),
    ("uv run train.py --x", "train.py", None),
    ("uv run --python 3.12 --with torch -- python train.py", "train.py", None),
    ("poetry run python -m pkg.train", "-m pkg.train", None),
    ("conda run -n torch --no-capture-output python train.py", "train.py", None),
    ("pixi run -e gpu torchrun --nproc-per-node 2 train.py", "train.py", None),
    ("uv sync", "uv", None),
    ("""sh -c 'while true; do python train.py; done'""", "train.py", 2),
    ("""sh -c 'if a; then python train.py; fi; exit 0'""", "train.py", 2),
)
UTILITIES = (
    "sleep infinity",
    "/usr/sbin/sshd -D",
    "python3 -c 'print()'",
    "python3 -m http.server 8000",
    "python3",
    "bash",
    "sh -c",
    "sh -c ''",
    "sh -c 'A=1'",
    "sh -c 'mkdir -p /run/sshd; exec /usr/sbin/sshd -D'",
    "env A=1",
    "",
)


@pytest.mark.parametrize(("line", "name", "script"), [pytest.param(*row, id=row[0]) for row in COMMANDS])
def test_the_program_of_a_command_line(line: str, name: str, script: int | None) -> None:
    words = shlex.split(line)
    assert program(words) == Program(name)
    assert shell_script(words) == script


@pytest.mark.parametrize("line", UTILITIES)
def test_what_arguments_are_seldom_for(line: str) -> None:
    assert program(shlex.split(line)).is_utility


def test_a_launcher_without_a_program_is_one() -> None:
    assert program(["mpirun", "--version"]).name == "mpirun"
    assert program(["torchrun", "--unknown", "train.py"]).name == "torchrun"


def test_a_relative_path_begins_at_the_working_directory() -> None:
    assert program(["python3", "train.py"], "/app").name == "/app/train.py"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        pytest.param("train.py", "train.py", True, id="equal"),
        pytest.param("train.py", "/app/train.py", True, id="the end of a path"),
        pytest.param("/app/src/train.py", "src/train.py", True, id="two words of it"),
        pytest.param("rain.py", "/app/train.py", False, id="the end of a name"),
        pytest.param("/a/train.py", "/b/train.py", False, id="other directories"),
        pytest.param("train.py", "src/train.py", False, id="both relative"),
    ],
)
def test_the_same_program_by_another_path(one: str, other: str, same: bool) -> None:
    assert Program(one).is_same(Program(other)) is same
    assert Program(other).is_same(Program(one)) is same
