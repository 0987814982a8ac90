"""Translates pod names to loopback addresses, for jobs without a network of their own.

All pods share the machine's ports, so each (pod, port) that a job mentions becomes one free port, the same at every
mention. On Linux, where all of 127.0.0.0/8 is available, each pod also has its own loopback address, so that programs
that use addresses only (mpiexec) can tell pods apart. Elsewhere all pods are 127.0.0.1.
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
        """Add the names in the text of an /etc/hosts with one line per pod."""
        before = len(self._pods)
        for line in hosts.splitlines():
            address, *names = line.partition("#")[0].split() or [""]
            if "." in address and not address.startswith("127."):
                self._pods |= dict.fromkeys([address, *names], address)
        if len(self._pods) > before:
            # The longest first, because one name may be a prefix of another.
            every = "|".join(re.escape(name) for name in sorted(self._pods, key=len, reverse=True))
            self._pattern = re.compile(rf"(?<![\w.-])(?P<name>{every})(?![\w-]|\.\w)(?:{_PORT_AFTER})?")

    def text(self, text: str) -> str:
        return self._pattern.sub(self._replace, text)

    def env(self, env: Mapping[str, str], own: str = "") -> dict[str, str]:
        """Translate variables; MASTER_PORT is a port of the pod in MASTER_ADDR.

        HOSTNAME, and any other variable whose value is the pod's own name, is an identity, not an address.
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
        """The loopback address of the pod with this address."""
        return f"127.{address.partition('.')[2]}" if self._own_addresses else _LOOPBACK

    def names(self) -> dict[str, list[str]]:
        """The names of each pod, by its address."""
        names: dict[str, list[str]] = {}
        for name, address in self._pods.items():
            names.setdefault(address, []).append(name)
        return names

    def port(self, address: str, port: int) -> int:
        """The port of this machine that replaces a pod's, chosen at its first mention."""
        while (address, port) not in self._ports:
            with socket.socket() as probe:
                # On all addresses, because many programs listen on all.
                probe.bind(("", 0))
                free: int = probe.getsockname()[1]
            if free not in self._ports.values():
                self._ports[address, port] = free
        return self._ports[address, port]

    def known_port(self, address: str, port: int) -> int:
        """As `port`, but a port that was never mentioned stays itself: the pod's programs listen on that."""
        return self._ports.get((address, port), port)

    def _replace(self, match: re.Match[str]) -> str:
        address = self._pods[match["name"]]
        port = "" if match["port"] is None else f"{match['between']}{self.port(address, int(match['port']))}"
        return self.loopback(address) + port
