"""Every command on runs, and the Python API, on a backend in memory: they need nothing beyond the port.

What they show of the same runs is what they show of this machine.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import pumice
from pumice.cli.control import service as cli_service
from pumice.cli.main import COMMANDS, load_command
from pumice.cli.runs import arguments
from pumice.cli.runs.arguments import RunCommand
from pumice.client import backends
from pumice.client.backend import (
    Backend,
    Change,
    DetachRun,
    Feature,
    RemoveRun,
    RestartRun,
    ResumeRun,
    RunRef,
    ScaleRun,
    Selection,
    StopRun,
    SuspendRun,
    complete,
)
from pumice.client.local.local_backend import LocalBackend
from pumice.client.local.run_reader import ref_of
from pumice.store.files.run_store import RunStore
from pumice.store.history.run_history import RunHistory
from pumice.store.journal import read_journal
from pumice.store.logs.log_reader import LogReader
from pumice.store.sample_file import read_samples
from scripts.made_jobs import JOBS
from scripts.made_runs import Ends, RunMaker, Story, Try
from scripts.made_stories import training_use
from tests.unit.cli.conftest import terminal as terminal  # noqa: PLC0414 - a fixture
from tests.unit.cli.running import Terminal
from tests.unit.client.memory_backend import MemoryBackend, MemoryRun

NOW = dt.datetime(2026, 11, 17, 12, tzinfo=dt.UTC)


def _lines(pod: str, _attempt: int) -> list[tuple[float, str, str]]:
    return [(1.0 + step, "stdout", f"{pod} step {step}") for step in range(3)]


@pytest.fixture
def local(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> LocalBackend:
    """Two runs in files."""
    monkeypatch.setenv("XDG_STATE_HOME", str(terminal.folder / "state"))
    store = RunStore(terminal.folder / "state" / "pumice")
    maker = RunMaker(store, terminal.folder / "jobs", NOW)
    ends = [Ends("master-0", 5.2), Ends("worker-0", 5.0), Ends("worker-1", 5.1)]
    for ago in (7200, 3600):
        maker.make(Story("pytorch-job", [Try(5.5, ends)], ago=ago, lines=_lines, samples=training_use))
    return LocalBackend(now=lambda: NOW)


@pytest.fixture
def memory(local: LocalBackend, monkeypatch: pytest.MonkeyPatch) -> MemoryBackend:
    """The same runs in memory; commands that ask for a backend get it."""
    backend: Backend = memory_of(local)
    monkeypatch.setattr(arguments, "open_backend", lambda **_options: backend)
    monkeypatch.setattr(backends, "open_backend", lambda *_address, **_options: backend)
    assert isinstance(backend, MemoryBackend)
    return backend


def memory_of(local: LocalBackend) -> MemoryBackend:
    found = []
    for stored in local.store.all_runs():
        ref = ref_of(stored)
        batches = [batch for part in LogReader(stored.directory).read() for batch in part]
        pods = ["", *(life.name for life in stored.history().lives.values())]
        run = MemoryRun(
            ref,
            local.summary(stored),
            stored.record,
            read_journal(stored.directory).entries,
            batches,
            list({each.pod: each for each in read_samples(stored.directory) if each.memory}.values()),
            {pod: complete(local.why(ref, pod)) for pod in pods},
        )
        found.append(run)
    return MemoryBackend(NOW, sorted(found, key=lambda run: (run.status.created, run.ref.uid), reverse=True))


READS = [
    "ps -a -o wide",
    "ps -a -o json",
    "ps -a -o name",
    "get",
    "get pytorch-job:1 -o json --exit-code",
    "logs",
    "logs pytorch-job:2 --json",
    "logs master-0 --no-prefix",
    "why",
    "why pytorch-job:1/master-0 -o json",
    "wait pytorch-job:1 pytorch-job:2",
    "history",
    "history pytorch-job:2",
    "history pytorch-job:1 --events",
    "history @last --events -o json",
    "top pytorch-job:1",
    "attach",
    "attach --json",
    "replay pytorch-job:1",
]


@pytest.mark.parametrize("command", READS)
def test_what_is_shown_does_not_depend_on_the_backend(
    command: str, terminal: Terminal, local: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = []
    for backend in (local, memory_of(local)):
        monkeypatch.setattr(arguments, "open_backend", lambda backend=backend, **_options: backend)
        code, out, err = terminal.run(*command.split())
        # Events of an attached run have the time at which they are printed.
        shown.append((code, re.sub('"time":"[^"]*",', "", out) if command == "attach --json" else out, err))
    here, elsewhere = shown
    assert elsewhere == here
    assert here[1] or here[2]


@pytest.mark.usefixtures("memory")
def test_attach_reads_the_history_of_an_ended_run_once(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a long run takes seconds."""
    read: list[RunRef] = []
    history = MemoryBackend.history

    async def counted(backend: MemoryBackend, run: RunRef) -> RunHistory:
        read.append(run)
        return await history(backend, run)

    monkeypatch.setattr(MemoryBackend, "history", counted)
    assert terminal.run("attach").err
    assert len(read) == 1


CHANGES: list[tuple[str, list[tuple[str, Change]], str]] = [
    ("stop --all --grace 5s", [], ""),
    ("stop pytorch-job:1 --force", [("pytorch-job:1", StopRun(force=True))], "pytorch-job:1 Stopped\n"),
    ("suspend pytorch-job", [("pytorch-job:2", SuspendRun())], "pytorch-job:2 Suspended\n"),
    ("resume pytorch-job:1 --env A=b", [("pytorch-job:1", ResumeRun({"A": "b"}, []))], "pytorch-job:1\n"),
    ("restart @last", [("pytorch-job:2", RestartRun())], "pytorch-job:2: all pods restart; it costs no retry\n"),
    ("scale @last worker=3", [("pytorch-job:2", ScaleRun({"worker": 3}))], "pytorch-job:2: worker 2 -> 3\n"),
    ("detach pytorch-job:1", [("pytorch-job:1", DetachRun())], "pytorch-job:1\n"),
    ("rm pytorch-job:1", [("pytorch-job:1", RemoveRun())], "pytorch-job:1\n"),
]


@pytest.mark.parametrize(("command", "changes", "out"), CHANGES)
def test_commands_change_runs_through_the_port(
    command: str, changes: list[tuple[str, Change]], out: str, terminal: Terminal, memory: MemoryBackend
) -> None:
    result = terminal.run(*command.split())
    assert (result.code, result.out) == (0, out)
    kept = "warning: pods that run keep their WORLD_SIZE, PET_NNODES\n"
    assert result.err.startswith(kept) if command.startswith("scale") else not result.err
    assert memory.changes == changes


def test_commands_in_pods_and_copies_go_through_the_port(terminal: Terminal, memory: MemoryBackend) -> None:
    terminal.write("weights", "model.pt")
    assert terminal.run("cp", "model.pt", "master-0:/data/model.pt").code == 0
    done = terminal.run("cp", "master-0:/data/model.pt", "back.pt")
    assert (done.code, done.err) == (0, "not copied: /dev/null: it is a device\n")
    assert (terminal.folder / "back.pt").read_text() == "weights"
    assert terminal.run("export", "pytorch-job:1").out == "pytorch-job-1.tar.gz\n"
    assert (terminal.folder / "pytorch-job-1.tar.gz").read_bytes() == b"archive of pytorch-job:1, logs: True"
    assert terminal.run("open", "pytorch-job-1.tar.gz") == (0, "pytorch-job:2@file\n", "")
    assert terminal.run("open", "pytorch-job-1.tar.gz") == (0, "pytorch-job:2@file\n", "it was opened before\n")


def test_exec_relays_the_streams_of_any_backend(
    terminal: Terminal, memory: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[bytes] = []

    def write(_target: int, data: bytes) -> bool:
        written.append(data)
        return True

    monkeypatch.setattr("pumice.cli.control.relay._write", write)
    saved = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    try:
        assert terminal.run("exec", "master-0", "--", "echo", "hello").code == 3
    finally:
        os.dup2(saved, 0)
        os.close(saved)
        os.close(null)
    assert b"".join(written) == b"echo hello\n"


def test_forward_prints_the_address_and_ends_with_the_run(terminal: Terminal, memory: MemoryBackend) -> None:
    memory.files["master-0", "6006"] = b"board"
    done = terminal.run("forward", "pytorch-job:1/master-0", "6006")
    assert done.code == 0
    assert re.fullmatch(r"127\.0\.0\.1:\d+\n", done.out)
    assert done.err.endswith("pytorch-job:1 Succeeded: the port is closed\n")
    assert terminal.run("forward", "pytorch-job:1/worker-7", "6006").code == 2
    for bad in ("0", "6006:", "6006:0", "65536", "x", "1:2:3"):
        said = f"{bad}: must be PORT or PORT:LOCAL, with ports from 1 to 65535\n"
        assert terminal.run("forward", "master-0", bad) == (2, "", said)


def test_programs_forward_ports(memory: MemoryBackend) -> None:
    memory.files["master-0", "6006"] = b"board"
    run = pumice.Run(pumice.AsyncRun(memory, memory.all_runs[0].ref))
    with run.forward("master-0", 6006) as forwarded:
        assert forwarded.address == f"127.0.0.1:{forwarded.port}"
        with socket.create_connection(("127.0.0.1", forwarded.port)) as client:
            assert client.makefile("rb").read() == b"board"
    for ports in ((0, 0), (6006, -1), ("6006", 0)):
        with pytest.raises(pumice.InvalidOption, match="must be a port from 1 to 65535"):
            run.forward("master-0", ports[0], local=ports[1])  # type: ignore[arg-type]  # the mistake


def test_a_backend_says_what_it_cannot_do(terminal: Terminal, memory: MemoryBackend) -> None:
    memory.lacks = frozenset(Feature)
    for command in (
        "clean",
        "top",
        "export",
        "cp master-0:/a b",
        "exec master-0 -- ls",
        "forward master-0 80",
        "open a.tar.gz",
    ):
        done = terminal.run(*command.split())
        assert done.code == 1
        assert done.err.startswith("memory has no ")


def test_nodes_uses_the_port(terminal: Terminal, memory: MemoryBackend) -> None:
    done = terminal.run("nodes")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[1].split() == ["memory-0", "Ready", "?/8", "?/16", "GiB"]


def test_submit_uses_the_port(terminal: Terminal, memory: MemoryBackend) -> None:
    terminal.write(JOBS["pytorch-job"].replace("name: pytorch-job", "name: other"))
    done = terminal.run("submit", "job.yaml", "--fit")
    assert (done.code, done.out) == (0, "other:1\n"), done.err
    assert done.err.endswith("submitted to memory\n")


def test_every_command_on_runs_is_played() -> None:
    names = {name for name in COMMANDS if isinstance(load_command(name), RunCommand)}
    played = {each.split()[0] for each in READS} | {each.split()[0] for each, _, _ in CHANGES}
    assert names == played | {"cp", "exec", "export", "clean", "forward", "open", "nodes"}


RUN = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: trial}
spec:
  tasks:
  - name: w
    template: {spec: {containers: [{name: w, image: busybox, command: [echo, hello]}], restartPolicy: Never}}
"""


DETACHED = """\
warning: if its process is killed, it is not started again: nothing is kept
submitted to memory
trial:1 keeps running; reattach with pumice attach trial:1, end it with pumice stop trial:1
"""


def test_run_uses_the_port(terminal: Terminal, memory: MemoryBackend) -> None:
    terminal.write(RUN)
    done = terminal.run("run", "job.yaml", "--json")
    assert done.code == 0, done.err
    assert [json.loads(line)["type"] for line in done.out.splitlines()] == ["plan", "log", "verdict"]
    assert memory.all_runs[0].status.outcome == "Succeeded"


@pytest.fixture
def _signals_as_before() -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    handlers = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("_signals_as_before")
@pytest.mark.parametrize(
    ("number", "expected", "outcome"),
    [
        pytest.param(signal.SIGTERM, (143, "w-0  hello\n", ""), "Stopped", id="SIGTERM stops it"),
        pytest.param(signal.SIGQUIT, (0, "w-0  hello\ntrial:1\n", DETACHED), "Running", id="SIGQUIT detaches it"),
    ],
)
def test_signals_reach_a_run_through_the_port(
    number: signal.Signals, expected: tuple[int, str, str], outcome: str, terminal: Terminal, memory: MemoryBackend
) -> None:
    terminal.write(RUN)
    memory.holds = True
    memory.held = lambda: os.kill(os.getpid(), number)
    code, out, err = terminal.run("run", "job.yaml")
    assert (code, out, err[-len(expected[2]) :] if expected[2] else "") == expected, err
    assert memory.all_runs[0].status.outcome == outcome


def test_clean_uses_the_port(terminal: Terminal, memory: MemoryBackend) -> None:
    assert terminal.run("clean", "--yes").out == "pytorch-job:2\npytorch-job:1\n"
    assert memory.all_runs == []


def test_completion_uses_the_port(terminal: Terminal, memory: MemoryBackend) -> None:
    assert terminal.run("completion", "--names", "runs").out.split() == [
        *("@last", "pytorch-job", "pytorch-job:2", "pytorch-job:1")
    ]
    assert terminal.run("completion", "--names", "pods").out.split() == ["master-0", "worker-0", "worker-1"]


@pytest.mark.parametrize("command", ["service status", "service install"])
def test_what_only_this_machine_has_is_refused_elsewhere(
    command: str, terminal: Terminal, memory: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_service, "open_backend", lambda **_options: memory)
    done = terminal.run(*command.split())
    assert (done.code, done.err.partition(":")[0]) == (1, "memory")
    assert done.err.endswith("is only for runs on this machine\n")


def test_a_client_of_any_backend_starts_and_finds_runs(
    memory: MemoryBackend, capsys: pytest.CaptureFixture[str]
) -> None:
    job = pumice.job("trial", tasks=[pumice.task("w", command=["echo", "hello"])])
    client = pumice.Client(backend=memory)
    assert client.run(job).ok
    assert capsys.readouterr().out == "w-0  hello\n"
    assert client.get("trial").ref == "trial:1"
    assert client.submit(job).ref == "trial:2"
    assert [run.ref for run in client.runs("trial")] == ["trial:2", "trial:1"]
    memory.holds = True
    with client.start(job) as run:
        assert (run.ref, run.status().outcome) == ("trial:3", "Running")
    assert run.status().outcome == "Stopped"
    with client.start(job) as run:
        run.detach()
    assert run.status().outcome == "Running"
    with pytest.raises(pumice.Unsupported, match=r"memory: `shut_down` is only for runs on this machine"):
        client.shut_down()


def test_an_asynchronous_client_of_any_backend_starts_runs(memory: MemoryBackend) -> None:
    job = pumice.job("trial", tasks=[pumice.task("w", command=["echo", "hello"])])

    async def story() -> None:
        client = pumice.AsyncClient(backend=memory)
        assert (await client.run(job)).ok
        memory.holds = True
        async with await client.start(job) as run:
            assert (await run.status()).outcome == "Running"
        assert (await run.status()).outcome == "Stopped"

    asyncio.run(story())


def test_connect_returns_a_client_of_the_backend_that_it_opens(
    memory: MemoryBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pumice.client.sync_client.open_backend", lambda *_address: memory)
    assert pumice.connect("prod").get("@last").ref == "pytorch-job:2"


def test_programs_use_the_port(memory: MemoryBackend, tmp_path: Path) -> None:
    found = asyncio.run(memory.runs(Selection())).runs
    assert [each.run for each in found] == ["pytorch-job:2", "pytorch-job:1"]
    run = pumice.Run(pumice.AsyncRun(memory, memory.all_runs[0].ref))
    assert (run.ref, run.status().outcome, run.wait().ok) == ("pytorch-job:2", "Succeeded", True)
    assert [line.pod for line in run.logs(follow=False)]
    assert {event.type for event in run.events(follow=False)} >= {"plan", "phase", "pod", "verdict"}
    assert {pod.phase for pod in run.pods()} == {"Succeeded"}
    assert [each.number for each in run.history()] == [1]
    assert (run.why().code, len(run.top()) > 0) == ("Completed", True)
    assert run.exec("master-0", ["ls"]).returncode == 3
    (tmp_path / "file").write_text("content")
    assert run.copy_to(tmp_path / "file", "master-0", "/file") == []
    assert run.copy_from("master-0", "/file", tmp_path / "back") == ["/dev/null: it is a device"]
    assert "Succeeded" in run._repr_html_()
    run.scale({"worker": 2})
    run.restart()
    assert run.kill("master-0")
    run.detach()
    assert run.suspend().outcome == "Suspended"
    run.resume()
    assert run.stop().outcome == "Stopped"
    run.remove()
    with pytest.raises(pumice.NoSuchRun):
        run.status()
