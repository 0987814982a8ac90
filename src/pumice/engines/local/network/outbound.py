"""Connects a job's network to the outside (`--network outbound`): by pasta or slirp4netns, else by a proxy.

Both programs connect TCP, UDP and DNS; they give the job one address in an otherwise unused network, and serve DNS at
another. Neither gives access to the host's loopback: servers there trust everyone on the machine.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import shutil
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

from msgspec import Struct, field

from pumice.engines.local.network.addresses import GATEWAY, NETWORK, proxy_env
from pumice.engines.local.network.proxy import Permits, Proxy, outside
from pumice.engines.local.sandbox.net.tunnel import INTERFACE, READY
from pumice.engines.local.sandbox.sandbox_port import SandboxPort
from pumice.model.problem import Problem
from pumice.model.pumice_error import PumiceError

_PORT: Final = 3128
URL: Final = f"http://{GATEWAY}:{_PORT}"
NOTE: Final = (
    "pods reach the outside through a proxy (http_proxy, https_proxy): programs that ignore these variables, UDP and "
    "ping have no access"
)
HINT: Final = "\n  hint: install passt or slirp4netns for full access"
# Reserved for documentation (RFC 5737), so no real network is hidden.
_ADDRESS, _GATEWAY, _DNS = "198.51.100.100", "198.51.100.2", "198.51.100.3"
_MTU: Final = "65520"
_DEVICE: Final = Path("/dev/net/tun")
_RESOLV_CONF: Final = Path("/etc/resolv.conf")
_SECONDS: Final = 15


class TunnelError(PumiceError):
    """The program is installed and does not work; the message says why."""


class TunnelProgram(Struct, frozen=True):
    """In its arguments, NETWORK is replaced by the path of the job's network namespace."""

    name: str
    arguments: Callable[[], Sequence[str]]

    def path(self) -> str | None:
        """Return the program's path, also from directories that an ordinary user's PATH may lack."""
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/bin", "/usr/sbin", "/sbin"])
        return shutil.which(self.name, path=path)


def _pasta() -> Sequence[str]:
    none = [word for flag in ("-t", "-u", "-T", "-U") for word in (flag, "none")]
    address = ["-4", "-a", _ADDRESS, "-n", "24", "-g", _GATEWAY, "-I", INTERFACE, "--mtu", _MTU, "--config-net"]
    # Started by root it would switch to the user nobody, who may not enter the job's network.
    user = ["--runas", "0"] if os.geteuid() == 0 else []
    namespace = ["--netns-only", "--netns", "NETWORK"]
    return ["--foreground", "--quiet", *address, "--dns-forward", _DNS, "--no-map-gw", *none, *user, *namespace]


def _slirp4netns() -> Sequence[str]:
    network = str(ipaddress.ip_network(f"{_ADDRESS}/24", strict=False))
    namespace = ["--netns-type=path", "NETWORK", INTERFACE]
    confined = ["--enable-sandbox", "--enable-seccomp"]
    return [*confined, "--configure", f"--mtu={_MTU}", f"--cidr={network}", "--disable-host-loopback", *namespace]


PROGRAMS: Final = (TunnelProgram("pasta", _pasta), TunnelProgram("slirp4netns", _slirp4netns))


def tun_device_problem(device: Path = _DEVICE) -> Problem | None:
    """Return why neither program can make an interface; None if the device is usable."""
    if not device.exists():
        return Problem(f"there is no {device}", "sudo modprobe tun")
    if not os.access(device, os.R_OK | os.W_OK):
        return Problem(f"no permission to open {device}", f"sudo setfacl -m u:{os.getuid()}:rw {device}")
    return None


def nameservers(resolv_conf: Path = _RESOLV_CONF) -> tuple[str, ...]:
    """Return the program's DNS server, which asks the machine's; () without one, as each unknown name takes seconds."""
    try:
        lines = resolv_conf.read_text(errors="replace").splitlines()
    except OSError:
        return ()
    servers = [words[1] for line in lines if len(words := line.split()) > 1 and words[0] == "nameserver"]
    return (_DNS,) if any(":" not in server for server in servers) else ()


class Tunnel:
    """A running program, made by `start`. It ends with `close`, with the sandbox, or with this process."""

    def __init__(self, keeper: int, output: asyncio.StreamReader) -> None:
        self._keeper: int | None = keeper  # the process ends when this is closed
        self._output = output
        self._ended: asyncio.Task[bytes] | None = None

    @classmethod
    async def start(cls, sandbox: SandboxPort, program: TunnelProgram, path: str, refused: Sequence[str] = ()) -> Self:
        """Raises TunnelError."""
        pods = list(ipaddress.ip_network(NETWORK).network_address.packed[:2])
        config = {"pid": sandbox.pid, "command": [path, *program.arguments()], "pods": pods, "refused": list(refused)}
        errors = os.memfd_create(program.name, os.MFD_CLOEXEC)
        (inputs, keeper), (printed, output) = os.pipe(), os.pipe()
        reader = asyncio.StreamReader()
        tunnel = cls(keeper, reader)
        try:
            await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(printed, "rb", buffering=0)
            )
            with suppress(OSError):  # the sandbox has ended, and the end of the output says so
                sandbox.start_tunnel(config, (inputs, output, errors))
            os.close(inputs)
            os.close(output)
            try:
                async with asyncio.timeout(_SECONDS):
                    line = (await reader.readline()).decode(errors="replace").strip()
            except TimeoutError:
                line = f"no answer in {_SECONDS} s"
            if line == READY:
                return tunnel
            await tunnel.close()
            end = os.pread(errors, 4096, max(0, os.fstat(errors).st_size - 4096)).decode(errors="replace")
            raise TunnelError("".join(end.strip().splitlines()[-1:]) or line or "it ended at once")
        finally:
            os.close(errors)

    async def wait(self) -> None:
        """Return when the process has ended, and with it the program."""
        if self._ended is None:
            self._ended = asyncio.create_task(self._output.read())
        await asyncio.shield(self._ended)

    async def close(self) -> None:
        """Close the process's input, which ends it and the program."""
        if self._keeper is not None:
            os.close(self._keeper)
            self._keeper = None
        await self.wait()


class OutboundRoute(Struct, frozen=True):
    """`env` and `nameservers` are for pods; `note` names limitations. Close it before the sandbox."""

    close: Callable[[], Awaitable[None]]
    env: Mapping[str, str] = field(default_factory=dict)
    nameservers: Sequence[str] = ()
    note: str = ""
    ended: Callable[[], Awaitable[None]] | None = None  # returns when the route has ended by itself


async def open_outbound(
    sandbox: SandboxPort,
    names: Iterable[str],
    programs: Sequence[TunnelProgram] = PROGRAMS,
    permits: Permits = outside,
    refused: Sequence[str] = (),
) -> OutboundRoute:
    """Use the first program that works, else the proxy; the note names each program that failed, and why.

    The programs do not reach the networks of `refused`; the proxy reaches what it permits.
    """
    installed = [(program, path) for program in programs if (path := program.path()) is not None]
    device = tun_device_problem() if installed else None
    failures = [] if device is None else [f"\n  cannot use {installed[0][0].name}: {device.text}"]
    for program, path in [] if device is not None else installed:
        try:
            tunnel = await Tunnel.start(sandbox, program, path, refused)
        except TunnelError as error:
            failures.append(f"\n  cannot use {program.name}: {error}")
        else:
            return OutboundRoute(tunnel.close, nameservers=nameservers(), ended=tunnel.wait)
    proxy = Proxy(await sandbox.listen(GATEWAY, _PORT), permits)
    await proxy.start()
    return OutboundRoute(proxy.close, proxy_env(URL, NETWORK, names), note=NOTE + ("".join(failures) or HINT))
