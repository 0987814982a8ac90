from __future__ import annotations

import asyncio
import base64
import datetime as dt
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import UnreachableError
from pumice.engines.kubernetes.api.resources import PODS
from pumice.engines.kubernetes.auth import exec_plugin
from pumice.engines.kubernetes.auth.access import Access, find_access
from tests.cluster.pki import make_pki
from tests.unit.engines.kubernetes.auth.test_credentials import Guard
from tests.unit.engines.kubernetes.auth.test_tls import NameRecorder, server_side
from tests.unit.engines.kubernetes.kubeconfigs import config, plugin, write
from tests.unit.engines.kubernetes.played_api import good, play, played, serving

VERSION = "client.authentication.k8s.io/v1"
NOW = dt.datetime.now(dt.UTC)  # noqa: TID251 - when a token expires is said in the world's time


class Program:
    """A plugin that counts its runs and prints the file next to it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.command = folder / "program"
        script = folder / "program.py"
        script.write_text(
            "import os, sys, pathlib\n"
            f"here = pathlib.Path({str(folder)!r})\n"
            "with open(here / 'runs', 'a') as runs: runs.write('x')\n"
            "(here / 'info').write_text(os.environ['KUBERNETES_EXEC_INFO'])\n"
            "(here / 'called').write_text(' '.join(sys.argv[1:]) + ' ' + os.environ.get('PLUGIN_WORD', ''))\n"
            "sys.stdout.write((here / 'answer').read_text())\n"
        )
        # The path of an interpreter with a space in it cannot stand in a `#!` line.
        self.command.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, str(script)])} "$@"\n')
        self.command.chmod(0o755)

    @property
    def runs(self) -> int:
        runs = self.folder / "runs"
        return len(runs.read_text()) if runs.exists() else 0

    @property
    def info(self) -> Any:
        return json.loads((self.folder / "info").read_text())

    def answers(self, token: str | None = None, *, expires: dt.datetime | None = None, **more: str) -> None:
        status: dict[str, str] = dict(more)
        if token is not None:
            status["token"] = token
        if expires is not None:
            status["expirationTimestamp"] = expires.strftime("%Y-%m-%dT%H:%M:%SZ")
        self.says(json.dumps({"apiVersion": VERSION, "kind": "ExecCredential", "status": status}))

    def says(self, text: str) -> None:
        (self.folder / "answer").write_text(text)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def _access(program: Program, port: int, cluster: dict[str, Any] | None = None, **more: Any) -> Access:
    content = config(
        {"server": f"http://127.0.0.1:{port}"} | (cluster or {}), plugin(**{"command": str(program.command)} | more)
    )
    return find_access(write(program.folder / "config", content))


@played
async def test_the_program_runs_once_for_many_requests_and_again_after_401(program: Program) -> None:
    guard = Guard("a")
    program.answers("a", expires=NOW + dt.timedelta(hours=1))
    async with serving(guard) as port, Client(_access(program, port)) as client:
        await asyncio.gather(*(client.get(PODS, "n", "p") for _ in range(20)))
        assert program.runs == 1
        guard.right = "b"
        program.answers("b")
        await asyncio.gather(*(client.get(PODS, "n", "p") for _ in range(20)))
        assert program.runs == 2
    assert set(guard.shown[:20]) == {"Bearer a"}
    assert guard.shown[-1] == "Bearer b"


@played
async def test_a_late_401_for_an_old_token_keeps_the_new_one(program: Program) -> None:
    credentials = _access(program, 1).credentials
    program.answers("a")
    old = await credentials.renew()
    assert credentials.refused(old)
    program.answers("b")
    new = await credentials.renew()
    assert credentials.refused(old)
    assert credentials.current() is new
    assert new == {"Authorization": "Bearer b"}


@played
async def test_it_runs_again_before_the_token_expires(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = Guard("a")
    program.answers("a", expires=NOW + dt.timedelta(hours=1))
    expires = int(NOW.timestamp()) + 3600
    async with serving(guard) as port, Client(_access(program, port)) as client:
        for clock, runs in ((expires - 3600.0, 1), (expires - 12.0, 1), (expires - 9.0, 2)):
            monkeypatch.setattr(exec_plugin, "_wall_clock", lambda clock=clock: clock)
            await client.get(PODS, "n", "p")
            assert program.runs == runs


def test_environment_of_the_program(program: Program, tmp_path: Path) -> None:
    program.answers("a")
    pki = make_pki(tmp_path / "pki", NOW)
    authority = Path(pki.path("ca.crt")).read_bytes()
    cluster = {
        "certificate-authority": "pki/ca.crt",
        "tls-server-name": "kubernetes",
        "extensions": [
            {"name": "other", "extension": 1},
            {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}},
        ],
    }

    async def story() -> int:
        async with serving(good) as port:
            more = {
                "provideClusterInfo": True,
                "args": ["get", "token"],
                "env": [{"name": "PLUGIN_WORD", "value": "w"}],
            }
            async with Client(_access(program, port, cluster, **more)) as client:
                await client.get(PODS, "n", "p")
            return port

    port = play(story())
    assert program.info == {
        "apiVersion": VERSION,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {
                "server": f"http://127.0.0.1:{port}",
                "tls-server-name": "kubernetes",
                "certificate-authority-data": base64.b64encode(authority).decode(),
                "config": {"audience": "x"},
            },
        },
    }
    assert (tmp_path / "called").read_text() == "get token w"


@played
async def test_a_relative_command_starts_at_the_kubeconfig(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    program.answers("a")
    monkeypatch.chdir("/")
    async with serving(Guard("a")) as port, Client(_access(program, port, command="./program")) as client:
        await client.get(PODS, "n", "p")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param("", "wrote no ExecCredential to stdout", id="nothing"),
        pytest.param("s3cr3t", "wrote no ExecCredential to stdout", id="no JSON"),
        pytest.param(
            {"apiVersion": VERSION + "beta1", "kind": "ExecCredential", "status": {"token": "s3cr3t"}},
            f"wrote ExecCredential of {VERSION}beta1; the kubeconfig announces ExecCredential of {VERSION}",
            id="other version",
        ),
        pytest.param({"apiVersion": VERSION, "kind": "Pod"}, "wrote Pod of", id="other kind"),
        pytest.param(
            {"apiVersion": VERSION, "kind": "ExecCredential"},
            "wrote neither a token nor a client certificate",
            id="no status",
        ),
        pytest.param(
            {"apiVersion": VERSION, "kind": "ExecCredential", "status": {"clientKeyData": "s3cr3t"}},
            "wrote only one of clientCertificateData and clientKeyData",
            id="certificate without key",
        ),
        pytest.param(
            {
                "apiVersion": VERSION,
                "kind": "ExecCredential",
                "status": {"token": "s3cr3t", "expirationTimestamp": "tomorrow"},
            },
            "wrote no ExecCredential to stdout",
            id="invalid timestamp",
        ),
    ],
)
@played
async def test_unusable_output(answer: Any, message: str, program: Program) -> None:
    program.says(answer if isinstance(answer, str) else json.dumps(answer))
    with pytest.raises(UnreachableError, match=message) as caught:
        async with Client(_access(program, 1)) as client:
            await client.get(PODS, "n", "p")
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        pytest.param(
            {"command": "no-such-plugin", "installHint": "Install it from there.\n"},
            "the credential plugin 'no-such-plugin' of the kubeconfig was not found; Install it from there.$",
            id="not installed",
        ),
        pytest.param({"command": "no-such-plugin"}, "was not found$", id="not installed, no hint"),
        pytest.param(
            {"command": "/bin/sh", "args": ["-c", "echo log in first >&2; exit 3"]},
            "the credential plugin '/bin/sh' failed with code 3: log in first$",
            id="failed",
        ),
        pytest.param({"command": "/bin/sh", "args": ["-c", "exit 4"]}, "failed with code 4$", id="failed silently"),
        pytest.param({"interactiveMode": "Always"}, "needs a terminal .* and there is none", id="no terminal"),
    ],
)
@played
async def test_a_program_that_fails(more: dict[str, Any], message: str, program: Program) -> None:
    with pytest.raises(UnreachableError, match=message):
        async with Client(_access(program, 1, **more)) as client:
            await client.get(PODS, "n", "p")


@played
async def test_a_program_without_an_interpreter(program: Program) -> None:
    program.command.write_text("no line that names one\n")
    with pytest.raises(UnreachableError, match=r"the credential plugin '.*' cannot be run: exec format error$"):
        async with Client(_access(program, 1)) as client:
            await client.get(PODS, "n", "p")


@played
async def test_a_program_that_hangs_is_killed(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exec_plugin, "_TIMEOUT", 0.3)
    with pytest.raises(UnreachableError, match="did not answer in time"):
        # `exec`, so that there is no child left to hold the pipe.
        async with Client(_access(program, 1, command="/bin/sh", args=["-c", "exec sleep 60"])) as client:
            await client.get(PODS, "n", "p")


@played
async def test_a_cancelled_caller_does_not_stop_the_program(program: Program) -> None:
    program.answers("a")
    async with serving(Guard("a")) as port, Client(_access(program, port)) as client:
        impatient = asyncio.ensure_future(client.get(PODS, "n", "p"))
        patient = asyncio.ensure_future(client.get(PODS, "n", "p"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        impatient.cancel()
        await patient
        assert program.runs == 1


@played
async def test_a_failed_program_runs_again(program: Program) -> None:
    program.says("")
    async with serving(Guard("a")) as port, Client(_access(program, port)) as client:
        asked = asyncio.ensure_future(client.get(PODS, "n", "p", attempts=None))
        while program.runs < 2:  # noqa: ASYNC110 - another process counts
            await asyncio.sleep(0.01)
        program.answers("a")
        await asked


@played
async def test_the_program_returns_a_certificate_and_later_another(program: Program, tmp_path: Path) -> None:
    pki, recorder = make_pki(tmp_path / "pki", NOW), NameRecorder()

    def answer(name: str) -> None:
        certificate, key = pki.client_certificate(name, "people", NOW)
        program.answers(
            clientCertificateData=certificate.decode(), clientKeyData=key.decode(), expires=NOW - dt.timedelta(hours=1)
        )

    async with serving(recorder, server_side(pki, wants_certificate=True)) as port:
        cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": "pki/ca.crt"}
        async with Client(_access(program, port, cluster)) as client:
            for name in ("first", "second"):
                answer(name)
                await client.get(PODS, "n", "p")
    assert recorder.names == ["first", "second"]


@played
async def test_an_unusable_certificate(program: Program) -> None:
    program.answers(clientCertificateData="no", clientKeyData="no")
    with pytest.raises(UnreachableError, match="returned an unusable certificate"):
        async with Client(_access(program, 1, {"server": "https://127.0.0.1:1"})) as client:
            await client.get(PODS, "n", "p")
