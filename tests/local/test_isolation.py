"""Sandboxes of both kinds with their outbound routes and published ports."""

from __future__ import annotations

import asyncio
import errno
import functools
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from pumice.engines.local import isolation
from pumice.engines.local.isolation import open_sandbox, outbound_route
from pumice.engines.local.network.outbound import OutboundRoute, open_outbound
from pumice.engines.local.network.published_ports import published_ports
from pumice.engines.local.plain_processes.process_sandbox import ProcessSandbox
from pumice.engines.local.rpc.wire import Wire
from pumice.engines.local.sandbox.client import Sandbox
from pumice.engines.local.sandbox.diagnosis.kernel_support import Host, explain
from pumice.engines.local.sandbox.init import job_init
from pumice.engines.local.sandbox.protocol import FORMAT
from pumice.engines.local.sandbox.sandbox_errors import SandboxError
from pumice.store.events import PortPublished
from pumice.store.options import Isolation, Network, Publish
from pumice.store.run_errors import NoNamespacesError, RefusedError
from tests.local.sandbox import refusals
from tests.local.sandbox.boxes import AS_ROOT, need_namespaces, run
from tests.meta.tree import ROOT
from tests.patience import RUN_TIMEOUT

NAMES = ("job-a-0.job", "job-a-0", "10.77.0.10")


@pytest.mark.parametrize(
    ("wanted", "network", "kind", "proxied", "expected"),
    [
        pytest.param(Isolation.AUTO, Network.OUTBOUND, Sandbox, True, 1, id="namespaces, outbound"),
        pytest.param(Isolation.NAMESPACES, Network.JOB, Sandbox, False, 0, id="namespaces, job"),
        pytest.param(Isolation.PROCESS, Network.OUTBOUND, ProcessSandbox, False, 0, id="process, outbound"),
        pytest.param(Isolation.PROCESS, Network.JOB, ProcessSandbox, False, 1, id="process, job"),
    ],
)
def test_networks(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    wanted: Isolation,
    network: Network,
    kind: type,
    proxied: bool,
    expected: int,
) -> None:
    need_namespaces()
    # Whatever programs for it are installed: those have their own test.
    monkeypatch.setattr(isolation, "open_outbound", functools.partial(open_outbound, programs=()))

    async def story() -> None:
        warnings: list[str] = []
        sandbox = await open_sandbox("job", tmp_path / "stage", wanted, warnings.append)
        assert type(sandbox) is kind
        async with outbound_route(sandbox, network, NAMES, warnings.append, warnings.append) as route:
            assert ("https_proxy" in route.env) is proxied
            assert not proxied or set(NAMES) <= set(route.env["no_proxy"].split(","))
        await sandbox.close()
        assert len(warnings) == expected

    run(story())


@pytest.mark.parametrize("ends", [True, False], ids=["killed", "closed"])
def test_an_outbound_route_that_breaks_down_is_a_warning(ends: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the tunnel program were killed."""
    warnings: list[str] = []

    async def story() -> None:
        ended, closed = asyncio.Event(), asyncio.Event()

        async def over() -> None:
            await ended.wait()

        async def close() -> None:
            closed.set()
            ended.set()

        async def opened(*_: object, **_more: object) -> OutboundRoute:
            return OutboundRoute(close, ended=over)

        monkeypatch.setattr(isolation, "open_outbound", opened)
        sandbox = cast(Sandbox, SimpleNamespace(own_network=True))
        async with outbound_route(sandbox, Network.OUTBOUND, NAMES, warnings.append, warnings.append):
            if ends:
                ended.set()
            await asyncio.sleep(0.01)
        assert closed.is_set()
        await asyncio.sleep(0.01)

    run(story())
    assert warnings == ["the outbound network is down: from now on pods reach only each other"] * ends


async def _refuse(_name: str, _scratch: Path, _options: object) -> Sandbox:
    raise SandboxError("namespaces are refused")


def test_a_machine_that_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default the job runs as plain processes, with a warning; root's job only when told to."""
    monkeypatch.setattr(Sandbox, "start", _refuse)
    monkeypatch.setattr(isolation, "is_root", lambda: True)

    async def refused() -> None:
        with pytest.raises(NoNamespacesError, match="plain processes of root are not isolated"):
            await open_sandbox("job", tmp_path / "stage", Isolation.AUTO, lambda _: None)

    run(refused())
    monkeypatch.setattr(isolation, "is_root", lambda: False)

    async def story() -> None:
        warnings: list[str] = []
        sandbox = await open_sandbox("job", tmp_path / "stage", Isolation.AUTO, warnings.append)
        await sandbox.close()
        assert type(sandbox) is ProcessSandbox
        assert warnings[0].startswith(
            "this machine does not allow the namespaces that pods need: namespaces are refused"
        )
        with pytest.raises(RefusedError, match="does not allow"):
            await open_sandbox("job", tmp_path / "stage", Isolation.NAMESPACES, warnings.append)

    run(story())


@pytest.mark.parametrize("isolation", list(Isolation))
def test_no_further_process_is_allowed(isolation: Isolation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain processes would not help."""

    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)

    async def story() -> None:
        warnings: list[str] = []
        with pytest.raises(RefusedError, match="job: cannot be started: no further process is allowed: see ulimit -u"):
            await open_sandbox("job", tmp_path / "stage", isolation, warnings.append)
        assert warnings == []

    run(story())
    assert [path.name for path in (tmp_path / "stage").iterdir()] == ["lock"]


@pytest.mark.parametrize(
    ("number", "kind"),
    [pytest.param(errno.EAGAIN, "exhausted", id="no process"), pytest.param(errno.EPERM, "refused", id="no right")],
)
def test_the_supervisor_reports_why_it_ends(number: int, kind: str) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        job_init.refuse(theirs, OSError(number, os.strerror(number)))
        received = Wire(ours, FORMAT).receive()
    assert received is not None
    assert list(received[0]) == [kind]


def test_other_systems_than_linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "_ON_LINUX", False)
    monkeypatch.setattr(isolation, "is_root", lambda: False)
    monkeypatch.setattr(isolation, "check_kernel", lambda: explain({}, Host(linux=False)))

    async def story() -> None:
        warnings: list[str] = []
        sandbox = await open_sandbox("job", tmp_path / "stage", Isolation.AUTO, warnings.append)
        await sandbox.close()
        assert type(sandbox) is ProcessSandbox
        assert "this is not Linux\n  Linux: namespaces exist on Linux only\n" in warnings[0]

    run(story())


JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: trial}
spec:
  tasks:
  - {name: only, replicas: 1, template: {spec: {restartPolicy: Never, containers: [
      {name: c, image: none, command: [sh, -c, echo it ran]}]}}}
"""
# The guide shows this message.
GUIDE = (ROOT / "docs/guides/isolation-and-network.md").read_text(encoding="utf-8")
NO_NAMESPACES = GUIDE.partition("```text\n")[2].partition("```")[0]


@pytest.mark.parametrize(
    ("refusal", "isolation", "code", "out", "err"),
    [
        pytest.param(refusals.NONE_ALLOWED, "namespaces", 2, "", NO_NAMESPACES, id="none allowed"),
        pytest.param(refusals.NONE_ALLOWED, "auto", 0, "it ran", NO_NAMESPACES, id="none allowed, auto"),
        pytest.param(refusals.NONE_ALLOWED, "process", 0, "it ran", "", id="none allowed, process"),
        pytest.param(refusals.FILTERED, "namespaces", 2, "", "(EPERM)", id="filter"),
        pytest.param(refusals.FILTERED, "auto", 0, "it ran", "hint: docker run --security-opt", id="filter, auto"),
        pytest.param(refusals.NO_PROC, "namespaces", 2, "", "hint: sudo mount -t proc proc /proc", id="no proc"),
        pytest.param(refusals.NO_PROC, "auto", 0, "it ran", "/proc: nothing is mounted there", id="no proc, auto"),
        pytest.param(refusals.COVERED_PROC, "auto", 0, "it ran", "pods see all processes", id="covered proc"),
    ],
)
def test_pumice_run_where_something_is_refused(
    tmp_path: Path, *, refusal: refusals.Refusal, isolation: str, code: int, out: str, err: str
) -> None:
    """With a real refusal; the message names what is missing and the command that grants it."""
    need_namespaces()
    (tmp_path / "job.yaml").write_text(JOB)
    main = "import sys; from pumice.cli.program import main; sys.exit(main())"
    flags = ("--network=job", RUN_TIMEOUT, f"--isolation={isolation}")
    environ = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    command = (sys.executable, "-c", main, "run", *flags, str(tmp_path / "job.yaml"))
    done = refusals.run_refused(refusal, *command, environ=environ)
    falls_back = isolation == "auto" and refusal is not refusals.COVERED_PROC
    # Without /proc, root of a user namespace cannot be told from root of the machine.
    is_root = AS_ROOT or refusal is refusals.NO_PROC
    if falls_back and is_root:
        # Only when told to: the last line is the command that says so.
        code, out = 2, ""
        assert done.stderr.splitlines()[-1] == (
            f"pumice run {tmp_path}/job.yaml --network job --timeout 150s --isolation process"
        )
    assert done.returncode == code, done.stderr
    assert out in done.stdout
    assert err in done.stderr
    assert ("the pods run as plain processes" in done.stderr) == (falls_back and not is_root)


@pytest.mark.skipif(not AS_ROOT, reason="only root is refused")
def test_make_run_says_for_root_that_plain_processes_will_do() -> None:
    need_namespaces()
    environ = {"PYTHONPATH": f"{ROOT}:{ROOT}/src"}
    done = refusals.run_refused(refusals.FILTERED, sys.executable, "-m", "scripts.isolation", environ=environ)
    assert done.stdout == "--isolation process\n", done.stderr
    assert "$$($(python) -m scripts.isolation)" in (ROOT / "Makefile").read_text()


def test_plain_processes_are_published_on_another_port(tmp_path: Path) -> None:
    async def story() -> None:
        events: list[object] = []
        sandbox = await ProcessSandbox.start("job", tmp_path / "stage", warn=lambda _message: None)
        async with published_ports(sandbox, "job", [Publish("a-0", 34567)], events.append):
            (published,) = events
            assert isinstance(published, PortPublished)
            assert (published.pod, published.port) == ("a-0", 34567)
            assert published.address.startswith("127.0.0.1:")
            assert not published.address.endswith(":34567")
        await sandbox.close()

    run(story())


@pytest.mark.parametrize(
    ("text", "root"),
    [
        pytest.param("0 0 4294967295", True, id="the machine"),
        pytest.param("0 0 1", True, id="root in a namespace of its own"),
        pytest.param("0 1000 1", False, id="an ordinary user, root inside"),
        pytest.param("0 100000 65536", False, id="a container with users of its own"),
    ],
)
def test_is_root(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, root: bool) -> None:
    (tmp_path / "uid_map").write_text(f"         {text}\n")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert isolation.is_root(tmp_path / "uid_map") == root
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not isolation.is_root(tmp_path / "uid_map")
