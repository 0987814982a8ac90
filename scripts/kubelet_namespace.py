"""pid 1 of the namespaces of `make kubelet`: hides the host's directories, makes a network, and starts the tests.

Programs that kubelet and containerd start become children of this process, which reaps them. When it ends, the kernel
kills every process of the namespaces and removes their mounts and network devices.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from scripts.kubelet_settings import NODE_ADDRESS, SERVICE_ADDRESS, Settings

# kubelet sets these for the whole machine. It finds them as it wants them, and so changes nothing.
KERNEL_SETTINGS = {
    "kernel/keys/root_maxbytes": "25000000",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
}


def isolate(settings: Settings) -> None:
    """Hide what the programs would write on the host, and connect the node."""
    for name, value in KERNEL_SETTINGS.items():
        file = settings.folder / name.replace("/", "-")
        file.write_text(value + "\n")
        _call(f"mount --bind {shlex.quote(str(file))} /proc/sys/{name}")
    upper, work = (settings.folder / name for name in ("upper", "work"))
    upper.mkdir()
    work.mkdir()
    # /var/lib stays readable, because the user's cache may be there.
    layers = "lowerdir=/var/lib,upperdir=upper,workdir=work"
    _call(f"cd {shlex.quote(str(settings.folder))} && mount -t overlay overlay -o {layers} /var/lib")
    for folder in ("/run", "/var/log"):
        _call(f"mount -t tmpfs -o mode=755 tmpfs {folder}")
    _call("hostname node")
    # The address of the Service `kubernetes` belongs to the node: the API server listens on it, so no proxy is needed.
    _call(f"ip link set lo up && ip address add {SERVICE_ADDRESS}/32 dev lo")
    _call(f"ip link add cni0 type bridge && ip address add {NODE_ADDRESS}/24 dev cni0 && ip link set cni0 up")


def run(command: Sequence[str]) -> int:
    """Start a command, reap every other process, and return the exit code of the command."""
    # Ctrl-C is for the tests. SIG_IGN would be handed down to them, a handler is not.
    signal.signal(signal.SIGINT, lambda *_: None)
    started = os.posix_spawnp(command[0], [*command], os.environ)
    while True:
        process, status = os.wait()
        if process == started:
            return os.waitstatus_to_exitcode(status) & 0xFF


def _call(command: str) -> None:
    subprocess.run(["sh", "-c", command], check=True)


def main(arguments: Sequence[str]) -> int:
    isolate(Settings.read(Path(arguments[0])))
    return run(arguments[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
