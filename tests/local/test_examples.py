"""The documented jobs run on this machine as they stand, with real torch, TensorFlow, Ray and Open MPI."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts import examples
from scripts.frameworks import RAY, TENSORFLOW, TORCH, Framework, environment, find, private_environment
from tests.docs.markdown import blocks
from tests.meta.tree import ROOT

IN_CI = os.environ.get("CI") == "true"
EXAMPLES = ROOT / "examples"
GUIDES = ROOT / "docs" / "guides"
IMAGE = "gcr.io/kubeflow-ci/pytorch-dist-sendrecv-test:1.0"
MAIN = "import sys; from pumice.cli.program import main; sys.exit(main())"
# What stands in where torch does not matter: the master accepts every worker, and each tells its rank.
RING = """
import os, socket
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank:
    with socket.create_connection(place, 30) as master:
        master.sendall(bytes([rank]))
        print("told", master.recv(1)[0], flush=True)
else:
    server, seen = socket.create_server(("", place[1])), []
    while len(seen) < size - 1:
        worker, _ = server.accept()
        if data := worker.recv(1):
            seen.append((data[0], worker))
    for number, worker in seen:
        worker.sendall(bytes([number]))
    print("seen", sorted(number for number, _ in seen), flush=True)
"""

Having = Callable[..., dict[str, str]]


def _run(arguments: list[str], environ: dict[str, str], state: Path) -> subprocess.CompletedProcess[str]:
    """`pumice run` as a program of its own, which cannot hang for good and whose state is nobody else's."""
    return subprocess.run(
        [sys.executable, "-c", MAIN, "run", "--timeout=150s", *arguments],
        cwd=ROOT,
        env={**environ, "PYTHONPATH": str(ROOT / "src"), "XDG_STATE_HOME": str(state)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def _said_by_pods(output: str, pods: str = r"[a-z]+-\d") -> set[str]:
    """The lines of pods, whatever time it took them and however wide the names of others are."""
    lines = re.findall(rf"(?m)^({pods}(?: [a-z-]+)?) {{2,}}(.*)$", output)
    return {f"{pod}  {re.sub(r'after [0-9]+s', 'after Ns', text)}" for pod, text in lines}


def _shown(page: Path, pods: str = r"[a-z]+-\d") -> set[str]:
    """What a page shows of a run: the lines of pods in its first block of output."""
    output = next(block.text for block in blocks(page) if block.language == "text")
    return _said_by_pods(output, pods)


def _environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "NO_COLOR")}


@pytest.fixture
def having() -> Having:
    """What the environment must say for a run with a framework; who has none is told that a test did not run."""

    def ask(framework: Framework, *, active: bool = False) -> dict[str, str]:
        found = find(framework, os.environ, ROOT)
        if found is None:
            (pytest.fail if IN_CI else pytest.skip)(f"no {framework.name}: make examples fetches it")
        # Where a plugin says what the job needs, `pumice run` finds what `make run` and `make examples` fetched.
        fetched = found.venv == str(private_environment(framework, os.environ))
        return _environ() if fetched and not active else environment(found, _environ())

    return ask


def test_the_pytorch_job_sends_a_number_around_all_ranks(having: Having, tmp_path: Path) -> None:
    done = _run(["examples/pytorch-job.yaml"], having(TORCH), tmp_path)
    assert done.returncode == 0, done.stderr
    # The readers of the first page and of the guide are shown these very lines.
    for page in (ROOT / "README.md", GUIDES / "pytorch-on-a-laptop.md"):
        shown = _shown(page)
        assert "master-0  ring closed: 42.0" in shown
        assert shown <= _said_by_pods(done.stdout)


def test_the_pytorch_job_finds_its_ranks_without_torch(tmp_path: Path) -> None:
    script = tmp_path / "ring.py"
    script.write_text(RING, encoding="utf-8")
    entrypoint = f"{IMAGE}=python3 {script}"
    done = _run(
        ["examples/pytorch-job.yaml", f"--mount={tmp_path}", f"--entrypoint={entrypoint}"], _environ(), tmp_path / "s"
    )
    assert done.returncode == 0, done.stderr
    assert "master-0  seen [1, 2]" in done.stdout.splitlines()


@pytest.mark.soak
def test_training_resumes_from_the_checkpoint_after_a_worker_died(having: Having, tmp_path: Path) -> None:
    done = _run(["examples/ddp-resume.yaml"], having(TORCH), tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    died, resumed = lines.index("worker-0  rank 1 dies in epoch 5"), lines.index("master-0  resumed from epoch 4")
    epochs = [re.findall(r"epoch +(\d+) of 10: loss", "\n".join(part)) for part in (lines[:died], lines[resumed:])]
    assert epochs == [["1", "2", "3", "4"], ["5", "6", "7", "8", "9", "10"]]
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", done.stdout)]
    assert losses[-1] < losses[0] / 5
    assert "worker-0 failed: exit code 1; PodFailed -> RestartJob" in done.stderr
    assert "attempt 2 of 3" in done.stderr
    assert "attempt 3" not in done.stderr
    # The claim is named in the output, and keeps what was written.
    [claim] = re.findall(r"^  claim \S+: (.+)$", done.stderr, re.MULTILINE)
    assert Path(claim, "checkpoint.pt").is_file()


@pytest.mark.soak
@pytest.mark.parametrize(
    ("file", "source"),
    [
        pytest.param("tensorflow-dist-mnist.yaml", "the host name, because TF_CONFIG is invalid", id="as documented"),
        pytest.param("tensorflow-dist-mnist-corrected.yaml", "TF_CONFIG", id="corrected"),
    ],
)
def test_the_tensorflow_job_learns_on_both_workers(having: Having, tmp_path: Path, file: str, source: str) -> None:
    done = _run([f"examples/{file}"], having(TENSORFLOW, active=examples.RUNNABLE[file].active), tmp_path)
    assert done.returncode == 0, done.stderr
    said = _said_by_pods(done.stdout)
    for task, index in (("ps", 0), ("worker", 0), ("worker", 1)):
        assert f"{task}-{index}  {task} {index} listens on port 2222 (by {source})" in said
    for index in (0, 1):
        learned = f"worker {index} of 2: 100 steps done, the model knows 100% of the digits"
        assert f"worker-{index}  {learned}" in said
    if file == "tensorflow-dist-mnist.yaml":
        assert _shown(GUIDES / "tensorflow-on-a-laptop.md") <= said


@pytest.mark.soak
def test_the_ray_job_computes_on_both_workers(having: Having, tmp_path: Path) -> None:
    done = _run(["examples/ray-job.yaml"], having(RAY), tmp_path)
    assert done.returncode == 0, done.stderr
    said = _said_by_pods(done.stdout, "driver-0")
    assert "driver-0  counted by ray-job-worker-0 ray-job-worker-1" in said
    assert _shown(GUIDES / "ray-on-a-laptop.md", "driver-0") <= said


@pytest.mark.needs("mpiexec", "sshd")
def test_the_mpi_job_says_hello_from_every_worker(tmp_path: Path) -> None:
    """Its result is read back from the layer of the master, which --keep keeps and names."""
    done = _run(["examples/lm-mpi-job.yaml", "--keep"], _environ(), tmp_path)
    assert done.returncode == 0, done.stderr
    # A master that was faster than the workers' sshd fails, and is restarted: the last one counts.
    result = max(tmp_path.rglob("home/re"))
    assert f"kept: {result.parent.parent}" in done.stderr.splitlines()
    hello = [
        f"Hello world from processor lm-mpi-job-mpiworker-{rank}, rank {rank} out of 2 processors" for rank in (0, 1)
    ]
    assert sorted(result.read_text(encoding="utf-8").splitlines()) == hello
    # Keys of this machine that pods do not see are no reason for sshd to warn.
    assert not re.search("host.key|UNPROTECTED", done.stdout), done.stdout


@pytest.mark.needs("mpiexec", "sshd")
def test_the_shells_of_the_mpi_workers_end_without_waiting_for_their_grace(tmp_path: Path) -> None:
    done = _run(["examples/lm-mpi-job.yaml", "--json"], _environ(), tmp_path)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert {event["pod"]: event["code"] for event in events if event.get("reason") == "Deleted"} == {
        "mpiworker-0": 143,
        "mpiworker-1": 143,
    }
    # Without --keep nothing of the pods is left.
    assert list(tmp_path.rglob("home/re")) == []


# What the other examples print, and how long the slow ones take.
SOAK = pytest.mark.soak
PRINTED = [
    pytest.param("torchrun.yaml", ["training on 4 ranks", r"trained 4 epochs: .* 6\d% .*"], marks=SOAK),
    pytest.param("gpu.yaml", [r"rank 1 of 2 uses c(pu|uda)", r"the largest eigenvalue is 1999\.0"], marks=SOAK),
    pytest.param("pytorch-job-basic.yaml", [r"ring closed: 42\.0"], marks=SOAK),
    pytest.param("pytorch-job-zh.yaml", [r"ring closed: 42\.0"], marks=SOAK),
    pytest.param("tensorflow-plugin.yaml", [r"worker 0 of 2: 100 steps done, .* 100% .*"], marks=SOAK),
    pytest.param("mpi-plugin.yaml", ["Hello world from processor lm-mpi-job-mpiworker-1, rank 3 out of 4 processors"]),
    pytest.param("mpi-pi.yaml", [r"pi is 3\.1415926536, computed by 2 ranks on mpi-pi-worker-0, mpi-pi-worker-1"]),
    pytest.param(
        "ray-tune.yaml", [*[r"step [\d.]+: loss [\d.]+"] * 8, r"best of 8: step 1\.5, loss 0\.0103"], marks=SOAK
    ),
    pytest.param("env-plugin.yaml", [f"shard {index} of 4" for index in range(4)]),
    pytest.param("svc-plugin.yaml", [r"lookup-client-0\.lookup", r"lookup-client-1\.lookup"]),
    pytest.param("volumes.yaml", ["1000", "1000"]),
    pytest.param("depends-on.yaml", ["load is request 1", "report is request 2"]),
    pytest.param("restarts.yaml", ["training-worker-1 works for 2 seconds"]),
    pytest.param("policies.yaml", ["careful-worker-7 works for 2 seconds"]),
    pytest.param("partitions.yaml", [f"partitioned-worker-{index} works for 2 seconds" for index in range(8)]),
]


@pytest.mark.parametrize(("name", "printed"), PRINTED)
def test_an_example_runs_with_what_the_table_says(
    having: Having, tmp_path: Path, name: str, printed: list[str]
) -> None:
    example = examples.RUNNABLE[name]
    if missing := [program for program in example.programs if not examples.is_installed(program)]:
        (pytest.fail if IN_CI else pytest.skip)(f"{', '.join(missing)} not installed")
    environ = having(example.framework) if example.framework is not None else _environ()
    done = _run([f"examples/{name}", *examples.flags(name)], environ, tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [line.partition("  ")[2].strip() for line in done.stdout.splitlines()]
    for pattern in dict.fromkeys(printed):
        found = [line for line in lines if re.fullmatch(pattern, line)]
        assert len(found) >= printed.count(pattern), f"{pattern}: {done.stdout}"


def test_every_example_is_run_by_a_test() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert [name for name in examples.RUNNABLE if f'"{name}"' not in source and f"examples/{name}" not in source] == []


def test_a_sweep_reports_the_best_and_leaves_its_results_in_the_claim(tmp_path: Path) -> None:
    done = _run(["examples/sweep.yaml"], _environ(), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "report-0  best of 8: trial 5, step 0.5, momentum 0.8" in done.stdout.splitlines()
    [claim] = re.findall(r"^  claim sweep-results: (.+)$", done.stderr, re.MULTILINE)
    assert sorted(file.name for file in Path(claim).iterdir()) == [f"{index}.json" for index in range(8)]


def test_a_gpu_job_is_refused_with_the_command_that_runs_it(tmp_path: Path) -> None:
    """With as many GPUs as no machine has: the tests may run on one that has some."""
    job = tmp_path / "gpu.yaml"
    text = (EXAMPLES / "gpu.yaml").read_text(encoding="utf-8")
    job.write_text(text.replace("nvidia.com/gpu: 1", "nvidia.com/gpu: 1000"), encoding="utf-8")
    done = _run([str(job)], _environ(), tmp_path)
    assert (done.returncode, done.stderr.splitlines()[-1].split()[-1]) == (2, "--fit")


def test_make_examples_knows_every_example() -> None:
    listed = [*examples.RUNNABLE, *examples.LEFT_OUT]
    assert sorted(listed) == sorted(file.name for file in EXAMPLES.glob("*.yaml"))
