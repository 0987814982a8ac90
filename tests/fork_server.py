"""Starts `pumice` quickly: one process has loaded all modules and forks a child for each command.

Loading Python and all modules takes more than half a second of processor time, a fork a hundredth of that. The child
has the arguments, environment, directory and streams that a shell would give it. What a user starts is Python,
though: tests of the program's own start, of terminals and of signals start a real one.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from tests.meta.tree import ROOT
from tests.patience import PATIENCE

# Between the server and each child stands a process that waits for the child and reports how it ended. All are in one
# process group, and die with the tests.
_SERVER = """
import gc, importlib, json, os, signal, socket, sys
from pumice.cli.program import main

for name in ("pumice.cli.main", *sys.argv[2:]):
    importlib.import_module(name)
gc.collect()
gc.freeze()
control = socket.socket(fileno=int(sys.argv[1]))
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
# As a shell in the foreground starts a program, also where the tests run in the background.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
while True:
    message, descriptors, _, _ = socket.recv_fds(control, 1 << 20, 4)
    if not message:
        os.killpg(0, signal.SIGKILL)
    *streams, report = descriptors
    if os.fork() == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        child = os.fork()
        if child == 0:
            break
        for descriptor in streams:
            os.close(descriptor)
        control.close()
        os.write(report, f"{child} ".encode())
        os.write(report, str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
        os._exit(0)
    for descriptor in descriptors:
        os.close(descriptor)
control.close()
os.close(report)
for number, descriptor in enumerate(streams):
    os.dup2(descriptor, number)
    os.close(descriptor)
# New ones: those of the server remember what they wrote to, such as a file.
sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)
sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)
request = json.loads(message)
os.chdir(request["cwd"])
os.environ.clear()
os.environ.update(request["env"])
sys.path[1:1] = os.environ.get("PYTHONPATH", "").split(os.pathsep)
sys.argv[1:] = request["argv"]
sys.exit(main())
"""


class Forked:
    """A child of the server; its methods do what those of `subprocess.Popen` do, but `kill` also waits for the end."""

    def __init__(self, report: int) -> None:
        self._report = report
        self._said = b""
        while b" " not in self._said:
            part = os.read(report, 32)
            assert part, "the fork server has ended"
            self._said += part
        self.pid = int(self._said.split()[0])
        self.returncode: int | None = None
        self._lock = threading.Lock()

    def wait(self, timeout: float | None = None) -> int:
        with self._lock:
            while self.returncode is None:
                if not select.select([self._report], [], [], timeout)[0]:
                    raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
                part = os.read(self._report, 32)
                self._said += part
                if not part:
                    self.returncode = int(self._said.split()[1])
                    os.close(self._report)
            return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
        self.wait()


class PipedFork(Forked):
    """A child whose output the test reads, as of a `subprocess.Popen`."""

    def __init__(self, report: int, stdout: int, stderr: int) -> None:
        super().__init__(report)
        self.stdout, self.stderr = open(stdout), open(stderr)  # noqa: SIM115 - `communicate` closes them

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read the rest of both streams, and wait for the end."""
        rest = ["", ""]

        def read(number: int, stream: TextIO) -> None:
            if not stream.closed:
                with stream:
                    rest[number] = stream.read()

        readers = [
            threading.Thread(target=read, args=each, daemon=True) for each in enumerate((self.stdout, self.stderr))
        ]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(timeout)
            if reader.is_alive():
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
        self.wait(timeout)
        return rest[0], rest[1]


class ForkServer:
    def __init__(self, *modules: str) -> None:
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SERVER, str(theirs.fileno()), *modules],
                stdin=subprocess.DEVNULL,
                env={"PATH": os.defpath, "HOME": "/nonexistent", "PYTHONPATH": str(ROOT / "src")},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def close(self) -> None:
        """End the server and all its children."""
        self._control.close()
        self._process.wait()

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        out: int,
        err: int | None = None,
        stdin: int | None = None,
    ) -> Forked:
        """Start `pumice` with these arguments, by default without input; the descriptors stay those of the caller."""
        return Forked(self._request(argv, cwd, env, [stdin, out, out if err is None else err]))

    def _request(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], streams: Sequence[int | None]) -> int:
        """Return the descriptor on which the end of the child is reported."""
        request = json.dumps({"argv": list(argv), "cwd": str(cwd), "env": dict(env)}).encode()
        report, theirs = os.pipe()
        null = os.open(os.devnull, os.O_RDONLY)
        try:
            with self._lock:
                socket.send_fds(
                    self._control, [request], [*(null if each is None else each for each in streams), theirs]
                )
        finally:
            os.close(null)
            os.close(theirs)
        return report

    def open(self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> PipedFork:
        """Start `pumice` with these arguments, and read what it prints."""
        (out, out_write), (err, err_write) = os.pipe(), os.pipe()
        try:
            report = self._request(argv, cwd, env, [None, out_write, err_write])
        finally:
            os.close(out_write)
            os.close(err_write)
        return PipedFork(report, out, err)

    def run(
        self, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `pumice` with these arguments to its end."""
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = self.start(argv, cwd=cwd, env=env, out=out.fileno(), err=err.fileno(), stdin=stdin)
            try:
                code = process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
            for stream in (out, err):
                stream.seek(0)
            return subprocess.CompletedProcess(argv, code, out.read(), err.read())


@functools.cache
def fork_server(*modules: str) -> ForkServer:
    """Return the server of this test process that has loaded these modules."""
    server = ForkServer(*modules)
    atexit.register(server.close)
    return server
