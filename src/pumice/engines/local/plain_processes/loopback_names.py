"""Names of pods turned into addresses of this one machine, for jobs that run without networks of their own.

All pods share the machine's ports: each (pod, port) that a job mentions becomes one free port, the same wherever it is
mentioned. On Linux each pod has a loopback address of its own besides, because all of 127.0.0.0/8 is there unasked, and
programs that are given addresses only (mpiexec) can then tell pods apart. Elsewhere all of them are 127.0.0.1.
"""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Mapping
from typing import Final

_LOOPBACK: Final = "127.0.0.1"
_PORT_AFTER: Final = r"(?P<between>:|\s+port=| )(?P<port>[0-9]{2,5})(?![0-9])"


class Translation:
    def __init__(self, *, own_addresses: bool = sys.platform == "linux") -> None:
        self._own_addresses = own_addresses
        self._pods: dict[str, str] = {}
        self._ports: dict[tuple[str, int], int] = {}
        self._pattern = re.compile(r"(?!)")

    def learn(self, hosts: str) -> None:
        """Take the names from the text of an /etc/hosts, in which each pod has its line."""
        before = len(self._pods)
        for line in hosts.splitlines():
            address, *names = line.partition("#")[0].split() or [""]
            if "." in address and not address.startswith("127."):
                self._pods |= dict.fromkeys([address, *names], address)
        if len(self._pods) > before:
            # The longest first: one name may begin as another does.
            every = "|".join(re.escape(name) for name in sorted(self._pods, key=len, reverse=True))
            self._pattern = re.compile(rf"(?<![\w.-])(?P<name>{every})(?![\w-]|\.\w)(?:{_PORT_AFTER})?")

    def text(self, text: str) -> str:
        return self._pattern.sub(self._replaced, text)

    def env(self, env: Mapping[str, str], own: str = "") -> dict[str, str]:
        """MASTER_PORT stands alone, but belongs to the pod of MASTER_ADDR.

        HOSTNAME says who one is, not where, and so does any other variable that is no more than the pod's own name.
        """
        translated = {name: self.text(value) for name, value in env.items()}
        names = [name for name, value in env.items() if name == "HOSTNAME" or value == own]
        translated |= {name: env[name] for name in names if name != "MASTER_ADDR"}
        master = self._pods.get(env.get("MASTER_ADDR", ""))
        port = env.get("MASTER_PORT", "")
        if master is not None and port.isdecimal():
            translated["MASTER_PORT"] = str(self.port(master, int(port)))
        return translated

    def loopback(self, address: str) -> str:
        """Where the pod with this address is found."""
        return f"127.{address.partition('.')[2]}" if self._own_addresses else _LOOPBACK

    def names(self) -> dict[str, list[str]]:
        """The names of each pod, by its address."""
        names: dict[str, list[str]] = {}
        for name, address in self._pods.items():
            names.setdefault(address, []).append(name)
        return names

    def port(self, address: str, port: int) -> int:
        """The port of this machine that stands for a pod's; it is chosen at its first mention."""
        key = (address, port)
        if key not in self._ports:
            self._ports[key] = self._free_port()
        return self._ports[key]

    def known_port(self, address: str, port: int) -> int:
        """Of one that was never mentioned, the pod's programs know nothing else than its own number."""
        return self._ports.get((address, port), port)

    def _replaced(self, match: re.Match[str]) -> str:
        address = self._pods[match["name"]]
        port = "" if match["port"] is None else f"{match['between']}{self.port(address, int(match['port']))}"
        return self.loopback(address) + port

    def _free_port(self) -> int:
        """Not one that another pod of this job got and has not opened yet."""
        while True:
            with socket.socket() as probe:
                # On all addresses: many programs listen on all of them.
                probe.bind(("", 0))
                port: int = probe.getsockname()[1]
            if port not in self._ports.values():
                return port
