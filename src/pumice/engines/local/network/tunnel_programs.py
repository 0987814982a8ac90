"""Programs of the machine that lead a job's network out with everything that pods may send: TCP, UDP, names.

Both give the job one address in a network that is used nowhere else, and answer questions for names at another. Neither
leads to the host's loopback: what listens there trusts whoever is on the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from pumice.engines.local.network.addresses import NETWORK
from pumice.engines.local.sandbox.net.tunnel import INTERFACE, READY
from pumice.engines.local.sandbox.python_start import python_start

# For documentation (RFC 5737), so nobody's own network can be hidden behind it.
_OWN, _GATEWAY, _NAMES = "198.51.100.100", "198.51.100.2", "198.51.100.3"
_MTU: Final = "65520"
_DEVICE: Final = Path("/dev/net/tun")
_RESOLV_CONF: Final = Path("/etc/resolv.conf")
_SECONDS: Final = 15


class TunnelError(Exception):
    """The program is there and does not lead out; the text says why."""


@dataclass(frozen=True, slots=True)
class Kind:
    """NETWORK in its arguments stands for the path of the job's network namespace."""

    program: str
    arguments: Callable[[], Sequence[str]]


def _pasta() -> Sequence[str]:
    none = [word for flag in ("-t", "-u", "-T", "-U") for word in (flag, "none")]
    address = ["-4", "-a", _OWN, "-n", "24", "-g", _GATEWAY, "-I", INTERFACE, "--mtu", _MTU, "--config-net"]
    # As root of all users it would become nobody, who may not enter the job's network.
    user = ["--runas", "0"] if os.geteuid() == 0 else []
    where = ["--netns-only", "--netns", "NETWORK"]
    return ["--foreground", "--quiet", *address, "--dns-forward", _NAMES, "--no-map-gw", *none, *user, *where]


def _slirp4netns() -> Sequence[str]:
    network = str(ipaddress.ip_network(f"{_OWN}/24", strict=False))
    where = ["--netns-type=path", "NETWORK", INTERFACE]
    return ["--configure", f"--mtu={_MTU}", f"--cidr={network}", "--disable-host-loopback", *where]


KINDS: Final = (Kind("pasta", _pasta), Kind("slirp4netns", _slirp4netns))


def installed(kind: Kind) -> str | None:
    """Its path; an ordinary user's PATH does not lead everywhere."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/bin", "/usr/sbin", "/sbin"])
    return shutil.which(kind.program, path=path)


def tun_device_problem(device: Path = _DEVICE) -> str:
    """What keeps both programs from making an interface, and the command that grants it; empty if nothing does."""
    if not device.exists():
        return f"there is no {device}\n  hint: sudo modprobe tun"
    if not os.access(device, os.R_OK | os.W_OK):
        return f"{device} is closed to this user\n  hint: sudo chmod 666 {device}"
    return ""


def nameservers(resolv_conf: Path = _RESOLV_CONF) -> tuple[str, ...]:
    """The one that asks the machine's own. Where there is none to ask, each unknown name would cost seconds."""
    try:
        lines = resolv_conf.read_text(errors="replace").splitlines()
    except OSError:
        return ()
    servers = [words[1] for line in lines if len(words := line.split()) > 1 and words[0] == "nameserver"]
    return (_NAMES,) if any(":" not in server for server in servers) else ()


class Tunnel:
    """Made by `start`; ends with `close`, with the sandbox, or with this process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, sandbox: int, kind: Kind, program: str) -> Self:
        """`sandbox` is the pid of its job-init. Raises TunnelError."""
        pods = list(ipaddress.ip_network(NETWORK).network_address.packed[:2])
        config = {"pid": sandbox, "command": [program, *kind.arguments()], "pods": pods}
        errors = os.memfd_create(kind.program, os.MFD_CLOEXEC)
        try:
            tunnel = cls(await _start(config, errors))
            try:
                async with asyncio.timeout(_SECONDS):
                    said = (await tunnel._output.readline()).decode(errors="replace").strip()
            except TimeoutError:
                said = f"no answer in {_SECONDS} s"
            if said == READY:
                return tunnel
            await tunnel.close()
            raise TunnelError(_last_line(errors) or said or "it ended at once")
        finally:
            os.close(errors)

    @property
    def _output(self) -> asyncio.StreamReader:
        if self._process.stdout is None:
            raise AssertionError("a pipe was asked for")
        return self._process.stdout

    async def over(self) -> None:
        """Returns when it leads nowhere any more."""
        await self._process.wait()

    async def close(self) -> None:
        """The end of its input ends it, and with it the program."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            await self._process.wait()


async def _start(config: dict[str, object], errors: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *python_start("sandbox.net.tunnel", json.dumps(config)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        cwd="/",
        # Ctrl-C at the terminal is for the engine.
        start_new_session=True,
    )


def _last_line(errors: int) -> str:
    size = os.fstat(errors).st_size
    lines = os.pread(errors, 4096, max(0, size - 4096)).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
