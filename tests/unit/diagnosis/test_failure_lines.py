"""The line of a log that says why a process ended, and what counts as a consequence of another failure."""

from __future__ import annotations

import pytest

from pumice.diagnosis.failure_lines import cause_line, error_file_message, is_collateral, missing_module, waited_in_vain
from pumice.model.snapshot import ContainerEnd

TRACEBACK = ["Traceback (most recent call last):", '  File "x.py", line 1, in <module>', "    f()"]
GLOO_CLOSED = "RuntimeError: [gloo/transport/tcp/pair.cc:561] Connection closed by peer [10.0.0.2]:15269."
GLOO_TIMEOUT = "RuntimeError: [unbound_buffer.cc:78] Timed out waiting 4000ms for recv operation to complete"
NCCL_TIMEOUT = (
    "[rank0]:[E1117 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=2, OpType=ALLREDUCE, Timeout(ms)=60000) ran for 60003 milliseconds before timing out."
)
THREADS_LEFT = "terminate called without an active exception"
THREADS_LEFT_WORDS = (
    f"{THREADS_LEFT}: threads still ran when the process ended, maybe after its work was done; "
    "a torch program ends with torch.distributed.destroy_process_group(), "
    "and after DistributedDataParallel with os._exit(0)"
)
CHILD_FAILED = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "


def _rank(number: int, *lines: str) -> list[str]:
    return [f"[rank{number}]: {line}" for line in lines]


def _torchrun(rank: int, *details: str) -> list[str]:
    return [
        *TRACEBACK,
        CHILD_FAILED,
        "=" * 60,
        "t.py FAILED",
        "Failures:",
        "[1]:",
        "  rank      : 0 (local_rank: 0)",
        "  exitcode  : -15 (pid: 7)  (SIGTERM)",
        "  traceback : Signal 15 (SIGTERM) received by PID 7",
        "-" * 60,
        "Root Cause (first observed failure):",
        "[0]:",
        f"  rank      : {rank} (local_rank: {rank})",
        *details,
        "=" * 60,
    ]


NO_FILE = ["  exitcode  : 1 (pid: 8)", "  traceback : To enable traceback see: https://pytorch.org/"]


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        pytest.param([], "", id="nothing printed"),
        pytest.param(["one", " two "], "two", id="last line"),
        pytest.param([*TRACEBACK, "ValueError: no", *"abcdefgh"], "ValueError: no", id="traceback, then more"),
        pytest.param([*TRACEBACK, "queue.Empty"], "queue.Empty", id="traceback of an exception that is no Error"),
        pytest.param(TRACEBACK, "f()", id="traceback that was cut off"),
        pytest.param([*TRACEBACK, "KeyError: 1", *TRACEBACK, "ValueError: 2", "bye"], "ValueError: 2", id="chained"),
        pytest.param(
            [*_rank(1, *TRACEBACK, "ValueError: no"), "terminate called without an active exception"],
            "[rank1]: ValueError: no",
            id="abort after an exception",
        ),
        pytest.param(["epoch 3", THREADS_LEFT], THREADS_LEFT_WORDS, id="abort at the end, with threads"),
        pytest.param(
            ["epoch 3", THREADS_LEFT, "Segmentation fault (core dumped)"],
            THREADS_LEFT_WORDS,
            id="segmentation fault at the end, as a shell reports it",
        ),
        pytest.param(
            [*_rank(0, *TRACEBACK, GLOO_CLOSED), *_rank(1, *TRACEBACK, "ValueError: no")],
            "[rank1]: ValueError: no",
            id="two ranks in one pod, the one that followed printed first",
        ),
        pytest.param(
            [*_rank(0, *TRACEBACK, GLOO_CLOSED), *_rank(1, *TRACEBACK, GLOO_CLOSED)],
            f"[rank0]: {GLOO_CLOSED}",
            id="two ranks that lost a third",
        ),
        pytest.param(
            [*TRACEBACK, "ValueError: bad batch", "W torch Sending process 7 closing signal", *_torchrun(1, *NO_FILE)],
            "rank 1: ValueError: bad batch",
            id="torchrun",
        ),
        pytest.param(
            [*_rank(0, *TRACEBACK, GLOO_CLOSED), *_rank(2, *TRACEBACK, "KeyError: 3"), *_torchrun(2, *NO_FILE)],
            "rank 2: KeyError: 3",
            id="torchrun, by rank",
        ),
        pytest.param(
            _torchrun(3, "  exitcode  : 1 (pid: 8)", "  traceback : " + TRACEBACK[0], "    f()", "  OSError: 9"),
            "rank 3: OSError: 9",
            id="torchrun with an error file",
        ),
        pytest.param(
            _torchrun(1, "  exitcode  : -9 (pid: 8)", "  traceback : Signal 9 (SIGKILL) received by PID 8"),
            "rank 1: Signal 9 (SIGKILL) received by PID 8",
            id="torchrun, a rank was killed",
        ),
        pytest.param(
            [THREADS_LEFT, *_torchrun(1, "  exitcode  : -6 (pid: 8)", "  traceback : Signal 6 (SIGABRT) received")],
            f"rank 1: {THREADS_LEFT_WORDS}",
            id="torchrun, abort at the end of a rank",
        ),
        pytest.param(_torchrun(1, *NO_FILE), "rank 1: exit code 1", id="torchrun, a rank without a traceback"),
        pytest.param(
            [
                "-" * 60,
                "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD",
                "with errorcode 3.",
                "You may or may not see output from other processes, depending on",
            ],
            "MPI_ABORT was invoked on rank 1 with errorcode 3",
            id="MPI abort",
        ),
        pytest.param(
            ["MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD", "  Proc: [[1,1],2]", "  Errorcode: 5"],
            "MPI_ABORT was invoked on rank 2 with errorcode 5",
            id="MPI abort, Open MPI 5",
        ),
        pytest.param(
            ["MPI_ABORT was invoked on rank 2"], "MPI_ABORT was invoked on rank 2", id="MPI abort that was cut off"
        ),
        pytest.param(
            ["mpirun noticed that process rank 1 with PID 0 on node w-1 exited on signal 9 (Killed).", "-" * 9],
            "mpirun noticed that process rank 1 with PID 0 on node w-1 exited on signal 9 (Killed).",
            id="mpirun, a rank was killed",
        ),
        pytest.param(
            [
                "mpirun detected that one or more processes exited with non-zero status, thus causing",
                "the job to be terminated. The first process to do so was:",
                "  Process name: [[24406,1],1]",
                "  Exit code:    4",
                "-" * 9,
            ],
            "rank 1 ended with exit code 4",
            id="mpirun, a rank failed",
        ),
        pytest.param(["one or more processes exited with non-zero status", "bye"], "bye", id="mpirun that was cut off"),
        pytest.param(
            ["waiting for m:1 (up to 2s)", "gave up on m:1: no answer in 2s", "check that the master runs"],
            "gave up on m:1: no answer in 2s",
            id="wait-for-master",
        ),
        pytest.param([NCCL_TIMEOUT, "frame #0: c10::Error", "frame #1: x"], NCCL_TIMEOUT, id="NCCL watchdog"),
        pytest.param(
            ["dd: error writing 'x': No space left on device", "1+0 records in", "0+0 records out"],
            "dd: error writing 'x': No space left on device",
            id="disk full",
        ),
        pytest.param(
            ["terminate called after throwing an instance of 'std::runtime_error'", "  what():  no data", "x"],
            "what():  no data",
            id="C++",
        ),
    ],
)
def test_the_line_that_says_why(lines: list[str], cause: str) -> None:
    assert cause_line(lines) == cause


@pytest.mark.parametrize(
    ("end", "collateral"),
    [
        pytest.param(ContainerEnd("c", 1, last_line=f"[rank0]: {GLOO_CLOSED}"), True, id="gloo lost a peer"),
        pytest.param(ContainerEnd("c", 1, last_line=GLOO_TIMEOUT), True, id="gloo timeout"),
        pytest.param(ContainerEnd("c", 134, signal=6, last_line=NCCL_TIMEOUT), True, id="NCCL watchdog"),
        pytest.param(ContainerEnd("c", 1, last_line="BrokenPipeError: [Errno 32] Broken pipe"), True, id="pipe"),
        pytest.param(ContainerEnd("c", 143, signal=15, last_line="epoch 3"), True, id="SIGTERM by a launcher"),
        pytest.param(ContainerEnd("c", 141), True, id="SIGPIPE as a shell reports it"),
        pytest.param(ContainerEnd("c", 143, "DeadlineExceeded", 15), False, id="SIGTERM with a reason"),
        pytest.param(ContainerEnd("c", 143, signal=15, last_line="ValueError: x"), False, id="SIGTERM after an error"),
        pytest.param(ContainerEnd("c", 137, signal=9, last_line="epoch 3"), False, id="SIGKILL"),
        pytest.param(ContainerEnd("c", 134, signal=6, last_line="[rank1]: ValueError: x"), False, id="abort at exit"),
        pytest.param(ContainerEnd("c", 139, signal=11, last_line=THREADS_LEFT_WORDS), False, id="crash at exit"),
        pytest.param(ContainerEnd("c", 1, last_line="ValueError: bad batch"), False, id="exception"),
        pytest.param(ContainerEnd("c", 3), False, id="exit code"),
    ],
)
def test_who_only_followed(end: ContainerEnd, collateral: bool) -> None:
    assert is_collateral(end) is collateral


def test_a_peer_that_did_not_come() -> None:
    assert waited_in_vain(GLOO_TIMEOUT)
    assert waited_in_vain(NCCL_TIMEOUT)
    assert not waited_in_vain(GLOO_CLOSED)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            '{"message": {"message": "ValueError: a \\"b\\"\\nmore", "extraInfo": {"py_callstack": "Traceb',
            'ValueError: a "b"',
            id="of torch, cut off",
        ),
        pytest.param('{"message": "RuntimeError: x"}', "RuntimeError: x", id="of an older torch"),
        pytest.param("my own words", "my own words", id="of a program"),
    ],
)
def test_error_files(text: str, message: str) -> None:
    assert error_file_message(text) == message


@pytest.mark.parametrize(
    ("line", "missing"),
    [
        pytest.param("ModuleNotFoundError: No module named 'torch'", "torch", id="import"),
        pytest.param("ModuleNotFoundError: No module named 'torch.distributed'", "torch", id="part of a package"),
        pytest.param("/usr/bin/python3: No module named torch", "torch", id="python3 -m"),
        pytest.param("sh: 1: python3.12: not found", "python3.12", id="interpreter, in dash"),
        pytest.param("bash: line 1: python: command not found", "python", id="interpreter, in bash"),
        pytest.param("ValueError: no", "", id="another error"),
    ],
)
def test_missing_module(line: str, missing: str) -> None:
    assert missing_module(line) == missing
