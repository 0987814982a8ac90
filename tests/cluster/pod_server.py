"""Serves commands in pods and ports of pods to the API server, as a kubelet does: by processes of this machine.

A pod is a directory: commands run there, with the programs that the test puts into its `bin`. The node declares that
its kubelet takes WebSockets, so that the API server passes them on as they are.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import json
import os
import shutil
import signal
import ssl
import struct
import sys
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from aiohttp import WSMsgType, web

from tests.cluster.api import Object
from tests.cluster.background_thread import BackgroundThread
from tests.cluster.cluster import Cluster

FEATURE: Final = "ExtendWebSocketsToKubelet"
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
_CLOSE = 255
_PROGRAMS = ("sh", "cat", "test", "ls", "head", "sleep", "stty", "echo", "env", "kill", "tar", "python3")


class PodServer(BackgroundThread):
    """`answers` replaces the output of a program, by its name: what a hostile container sends."""

    def __init__(self, cluster: Cluster, folder: Path, node: str, protocols: Sequence[str] = (V5, V4)) -> None:
        super().__init__()
        self.cluster = cluster
        self.folder = folder
        self.node = node
        self.protocols = protocols
        self.ports: dict[int, int] = {}  # of pods, and of this machine
        self.answers: dict[str, bytes] = {}
        self.started: list[tuple[str, list[str], Mapping[str, str]]] = []  # the protocol, the command and its streams
        self.signals: list[str] = []  # what happened to commands
        self.running: set[int] = set()  # process groups of commands
        self.port = 0

    def pod_folder(self, pod: str, programs: Sequence[str] = _PROGRAMS) -> Path:
        """Return the directory of a pod, which is made with links to programs."""
        folder = self.folder / pod
        if not folder.exists():
            (folder / "bin").mkdir(parents=True)
            for name in programs:
                found = sys.executable if name == "python3" else shutil.which(name, path=os.defpath)
                if found is not None:
                    (folder / "bin" / name).symlink_to(Path(found).resolve() if name == "python3" else found)
        return folder

    def add_node(self) -> None:
        """Create the node of this server."""
        api = self.cluster.api()
        self.cluster.make_node(self.node)
        endpoints = {"kubeletEndpoint": {"Port": self.port}}
        addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
        status = {"addresses": addresses, "daemonEndpoints": endpoints, "declaredFeatures": [FEATURE]}
        api.patch("Node", "", self.node, {"status": status}, "status")

    def bind(self, namespace: str, pod: str) -> None:
        binding: Object = {"metadata": {"name": pod}, "target": {"kind": "Node", "name": self.node}}
        self.cluster.api().call("POST", f"/api/v1/namespaces/{namespace}/pods/{pod}/binding", binding)

    def kill_commands(self) -> None:
        """Kill the commands, as the kubelet does with all that runs in a container that ends."""
        for each in list(self.running):
            with suppress(ProcessLookupError):
                os.killpg(each, signal.SIGKILL)

    async def main(self) -> None:
        app = web.Application()
        app.router.add_get("/exec/{namespace}/{pod}/{container}", self._exec)
        app.router.add_get("/portForward/{namespace}/{pod}", self._forward)
        runner = web.AppRunner(app, shutdown_timeout=1)
        await runner.setup()
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(self.cluster.pki.path("server.crt"), self.cluster.pki.path("server.key"))
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        self.port = runner.addresses[0][1]
        self.mark_ready()
        try:
            await asyncio.Event().wait()
        finally:
            self.kill_commands()
            await runner.cleanup()

    # --- commands -------------------------------------------------------------------------------------------------

    async def _exec(self, request: web.Request) -> web.WebSocketResponse:
        answer = web.WebSocketResponse(protocols=self.protocols, max_msg_size=0)
        await answer.prepare(request)
        argv = request.query.getall("command")
        streams = {name: request.query.get(name, "") for name in ("input", "output", "error", "tty")}
        self.started.append((answer.ws_protocol or "", argv, streams))
        folder = self.pod_folder(request.match_info["pod"])
        program = folder / "bin" / argv[0]
        if argv[0] in self.answers:
            for start in range(0, len(self.answers[argv[0]]), 1 << 15):
                await answer.send_bytes(b"\1" + self.answers[argv[0]][start : start + (1 << 15)])
            await _end(answer, 0)
        elif "/" not in argv[0] and not program.exists():
            text = f'OCI runtime exec failed: exec failed: unable to start container process: exec: "{argv[0]}": '
            await _refuse(answer, text + "executable file not found in $PATH: unknown")
        elif streams["tty"]:
            await self._on_terminal(answer, argv, folder)
        else:
            await self._with_streams(answer, argv, folder, has_input=bool(streams["input"]))
        await answer.close()
        return answer

    async def _with_streams(
        self, answer: web.WebSocketResponse, argv: Sequence[str], folder: Path, *, has_input: bool
    ) -> None:
        pipe = asyncio.subprocess.PIPE
        source = pipe if has_input else asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=source, stdout=pipe, stderr=pipe, cwd=folder, env=_environ(folder), start_new_session=True
        )
        assert process.stdout is not None
        assert process.stderr is not None
        self.running.add(process.pid)
        feeding = asyncio.create_task(self._feed(answer, process))
        try:
            await asyncio.gather(_copy(process.stdout, answer, 1), _copy(process.stderr, answer, 2))
            await _end(answer, await process.wait())
        finally:
            self.running.discard(process.pid)
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)

    async def _feed(self, answer: web.WebSocketResponse, process: asyncio.subprocess.Process) -> None:
        async for message in answer:
            if message.type is not WSMsgType.BINARY or process.stdin is None:
                continue
            if message.data[0] == _CLOSE:
                process.stdin.close()
            elif message.data[0] == 0:
                with suppress(OSError):
                    process.stdin.write(message.data[1:])
                    await process.stdin.drain()
        self.signals.append("left")
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGHUP)

    async def _on_terminal(self, answer: web.WebSocketResponse, argv: Sequence[str], folder: Path) -> None:
        ours, theirs = os.openpty()
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=folder,
            env=_environ(folder),
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)
        feeding = asyncio.create_task(self._type(answer, ours, process))
        try:
            while data := await asyncio.to_thread(_read_terminal, ours):
                await answer.send_bytes(b"\1" + data)
            await _end(answer, await process.wait())
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            os.close(ours)

    async def _type(self, answer: web.WebSocketResponse, terminal: int, process: asyncio.subprocess.Process) -> None:
        async for message in answer:
            if message.type is not WSMsgType.BINARY:
                continue
            if message.data[0] == 4:
                size = json.loads(message.data[1:])
                self.signals.append(f"{size['Height']}x{size['Width']}")
                fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size["Height"], size["Width"], 0, 0))
            elif message.data[0] == 0:
                os.write(terminal, message.data[1:])
        self.signals.append("left")
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGHUP)

    # --- ports ----------------------------------------------------------------------------------------------------

    async def _forward(self, request: web.Request) -> web.WebSocketResponse:
        answer = web.WebSocketResponse(protocols=(V4,), max_msg_size=0)
        await answer.prepare(request)
        port = int(request.query["port"])
        self.started.append((answer.ws_protocol or "", ["port", str(port)], {}))
        for stream in (0, 1):
            await answer.send_bytes(bytes((stream,)) + port.to_bytes(2, "little"))
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.ports.get(port, 1))
        except OSError:
            await answer.send_bytes(b"\1" + f"dial tcp4 127.0.0.1:{port}: connect: connection refused".encode())
            await answer.close()
            return answer
        back = asyncio.create_task(_copy_and_close(reader, answer))
        try:
            async for message in answer:
                if message.type is WSMsgType.BINARY and message.data[0] == 0:
                    writer.write(message.data[1:])
                    await writer.drain()
        finally:
            back.cancel()
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        return answer


def _environ(folder: Path) -> dict[str, str]:
    return {"PATH": str(folder / "bin"), "HOME": str(folder), "LC_ALL": "C"}


async def _copy(source: asyncio.StreamReader, answer: web.WebSocketResponse, stream: int) -> None:
    while data := await source.read(1 << 15):
        with suppress(OSError):
            await answer.send_bytes(bytes((stream,)) + data)


async def _copy_and_close(source: asyncio.StreamReader, answer: web.WebSocketResponse) -> None:
    await _copy(source, answer, 0)
    await answer.close()


def _read_terminal(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 15)
    except OSError as error:
        if error.errno == errno.EIO:
            return b""
        raise


async def _end(answer: web.WebSocketResponse, code: int) -> None:
    code = 128 - code if code < 0 else code
    status: dict[str, Any] = {"metadata": {}, "status": "Success"}
    if code:
        causes = [{"reason": "ExitCode", "message": str(code)}]
        message = f"command terminated with non-zero exit code: exit status {code}"
        status |= {"status": "Failure", "reason": "NonZeroExitCode", "message": message, "details": {"causes": causes}}
    with suppress(OSError):
        await answer.send_bytes(b"\3" + json.dumps(status).encode())


async def _refuse(answer: web.WebSocketResponse, text: str) -> None:
    status = {"metadata": {}, "status": "Failure", "reason": "InternalError", "message": text, "code": 500}
    await answer.send_bytes(b"\3" + json.dumps(status).encode())
