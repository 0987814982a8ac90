"""The stories of made-up runs: one of every kind that the page shows.

`python -m scripts.made_stories DIRECTORY` fills a state directory (`XDG_STATE_HOME=DIRECTORY`), and stays until Ctrl-C,
because runs that are active belong to a process.
"""

from __future__ import annotations

import datetime as dt
import math
import signal
import sys
from pathlib import Path
from typing import Final

from pumice.model.findings import SPEC
from pumice.store.files.run_store import RunStore
from pumice.store.sample_file import Usage
from scripts.made_jobs import JOBS
from scripts.made_runs import Ends, RunMaker, Story, Try

_GIB: Final = 1 << 30
RESTART_JOB: Final = SPEC / "policies" / 1
_OUT_OF_MEMORY: Final = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 23.65 GiB in total, "
    "1.12 GiB is free"
)
_LOST: Final = "[rank0] Connection closed by peer [10.77.0.14]:43211"
_HOSTILE: Final = (
    '<script>fetch("//evil")</script> <img src=x onerror=alert(1)> '
    '\x1b[31mred\x1b[0m \u202etxt.exe\u202c \x07 & "quoted"'
)


def bert() -> Story:
    """Eight pods, three attempts, the same pod runs out of memory each time."""

    def attempt(seconds: float, *more: Ends) -> Try:
        others = ("master-0", "worker-0", "worker-1", "worker-2", "worker-4", "worker-5", "worker-6")
        ends = [Ends("worker-3", seconds - 1.5, 1, _OUT_OF_MEMORY)]
        ends += [Ends(pod, seconds - 1.2 + 0.1 * index, 1, _LOST) for index, pod in enumerate(others)]
        return Try(seconds, (*more, *ends), RESTART_JOB)

    def lines(pod: str, attempt: int) -> list[tuple[float, str, str]]:
        length = (243.0, 317.0, 252.0)[attempt - 1]
        if pod == "master-0":
            steps = range(50, 500, 50)
            return [
                (
                    2.2 + length * step / 520,
                    "stdout",
                    f"step {step:>6}/12000  loss {10.5 - step / 250:.4f}  lr {step / 1e7:.1e}",
                )
                for step in steps
            ]
        found = [(2.0, "stdout", "wait-for-master  master answered after 1s")]
        if pod == "worker-3":
            begin = length - 1.6
            frames = [
                "Traceback (most recent call last):",
                '  File "/app/bert/train.py", line 214, in main',
                "    loss = step(model, batch)",
            ]
            found += [(begin + index * 0.01, "stderr", text) for index, text in enumerate(frames)]
        return found

    restart = Ends("worker-5", 96.0, 42, "retryable error", restart=True)
    tries = [attempt(243.0), attempt(317.0, restart), attempt(252.0)]
    message = "all 3 attempts failed (maxRetry); the last cause: worker-3 failed first: exit code 1"
    return Story("bert-pretrain", tries, "Failed", 10_800, 400.0, message, lines, training_use)


def training_use(pod: str, _attempt: int, at: float) -> Usage:
    wave = math.sin(at / 9 + hash(pod) % 7) / 4
    full = pod == "worker-3"
    memory = int((11.5 + wave) * _GIB)
    return Usage(
        at * 3.7 + 2 * math.sin(at / 20 + hash(pod) % 5),
        memory,
        1,
        94.0 + wave * 8,
        int((18 + wave + (at / 50 if full else 0)) * _GIB),
    )


def sweep(pods: int = 1000) -> Story:
    """Many pods: most run, many are done, three have failed on their own, four wait."""
    failed = {417: (960.0, "val_loss is nan", 1), 23: (1840.0, "val_loss is nan", 1), 790: (2470.0, "", 137)}
    ends = [
        Ends(f"trial-{index}", after, code, line, "OOMKilled" if code == 137 else "")  # noqa: PLR2004 - SIGKILL
        for index, (after, line, code) in failed.items()
        if index < pods
    ]
    ends += [Ends(f"trial-{index}", 1200.0 + index * 1.5) for index in range(3, pods, 3) if index not in failed]
    late = {f"trial-{index}": 0.4 + index * 0.4 for index in range(pods)}
    late |= {f"trial-{index}": math.inf for index in range(pods - 4, pods)}

    def lines(pod: str, _attempt: int) -> list[tuple[float, str, str]]:
        index = int(pod.rpartition("-")[2])
        start = late[pod]
        return [
            (start + 1 + 60 * epoch + index % 60, "stdout", f"epoch {epoch}/40  val_acc {0.7 + epoch / 200:.4f}")
            for epoch in range(1, 8)
            if start < math.inf
        ]

    text = JOBS["sweep-1000"].replace("1000", str(pods)).replace("950", str(pods * 19 // 20))
    return Story("sweep-1000", [Try(None, ends, late=late)], "Running", 2900, 1.0, "", lines, _small_use, text=text)


def _small_use(pod: str, _attempt: int, at: float) -> Usage:
    index = int(pod.rpartition("-")[2])
    grows = at / 1500 if index == 790 else 0.0  # noqa: PLR2004 - the pod that is killed
    return Usage(at * (0.9 + index % 10 / 100), int((0.6 + index % 7 / 50 + grows) * _GIB))


def _steps(_pod: str, _attempt: int) -> list[tuple[float, str, str]]:
    return [(1.0 + 30 * step, "stdout", f"step {step * 10}/6000 loss {2.0 - step / 100:.4f}") for step in range(60)]


def _hostile(_pod: str, _attempt: int) -> list[tuple[float, str, str]]:
    return [(1.0, "stderr", _HOSTILE), (1.1, "stdout", "x" * 20_000), (1.2, "stdout", "\u2028 line \u0000 zero")]


def stories() -> list[Story]:
    """One of every kind that the page shows."""
    three = [Ends("master-0", 5.2), Ends("worker-0", 5.0), Ends("worker-1", 5.1)]
    flaky = Try(60.0, [Ends("worker-0", 58.0, 1, "RuntimeError: NCCL error")], SPEC / "policies" / 0)
    four, evil = [Ends(f"worker-{index}", 88.0) for index in range(4)], [Ends("task-0", 8.0, 3, _HOSTILE)]
    return [
        Story("llama-ft", [Try(None)], "Running", 7900, 20.0, "", _steps, training_use),
        sweep(),
        Story("qwen-sft", (), "Pending", 1860),
        Story("eval-mmlu", (), "Pending", 720),
        Story("dlrm-nightly", [Try(600.0)], "Aborted", 11_000, 2.0, "", _steps),
        Story("pytorch-job", [Try(5.5, three)], "Completed", 2040, 1.0, "", _steps, training_use),
        bert(),
        Story("hostile", [Try(9.0, evil)], "Failed", 3480, 1.0, _HOSTILE, _hostile, note=_HOSTILE),
        Story("horovod", [flaky, Try(90.0, four)], "Completed", 90_000),
    ]


def main() -> None:
    state = Path(sys.argv[1]) / "pumice"
    maker = RunMaker(RunStore(state), Path(sys.argv[1]) / "jobs", dt.datetime.now(dt.UTC))
    for story in stories():
        print(maker.make(story).ref, flush=True)
    signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    main()
