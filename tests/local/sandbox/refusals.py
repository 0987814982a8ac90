"""Refuses namespaces for real: by settings that apply in a user namespace, or by a seccomp filter."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field

from tests.meta.tree import ROOT
from tests.patience import PATIENCE

# Answers EPERM to unshare(), either with the flag NEWUSER or without it.
_FILTER = """
import ctypes, os, struct, sys
numbers = {"x86_64": (0xC000003E, 272), "aarch64": (0xC00000B7, 97)}
architecture, unshare = numbers[os.uname().machine]
with_user = sys.argv[1] == "with"
load, equal, bit, give = 0x20, 0x15, 0x45, 0x06
allow, refuse, new_user = 0x7FFF0000, 0x00050001, 0x10000000
program = [
    (load, 0, 0, 4), (equal, 0, 5, architecture), (load, 0, 0, 0), (equal, 0, 3, unshare), (load, 0, 0, 16),
    (bit, *((0, 1) if with_user else (1, 0)), new_user), (give, 0, 0, refuse), (give, 0, 0, allow),
]
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in program))
described = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(code)))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.c_void_p(ctypes.addressof(described))) == 0, os.strerror(ctypes.get_errno())
os.execvp(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True)
class Refusal:
    """A script that runs in a user namespace first, and a prefix of the command."""

    setup: str = "true"
    before: tuple[str, ...] = ()
    environ: dict[str, str] = field(default_factory=dict)


NONE_ALLOWED = Refusal("echo 0 > /proc/sys/user/max_user_namespaces")
NO_PROC = Refusal("mount -t tmpfs none /proc")
COVERED_PROC = Refusal("mount -t tmpfs none /proc/acpi")
FILTERED = Refusal(before=(sys.executable, "-c", _FILTER, "with"))
WITHOUT_RIGHTS = Refusal(before=(sys.executable, "-c", _FILTER, "without"))
IN_A_CONTAINER = Refusal(before=FILTERED.before, environ={"container": "docker"})


def run_refused(
    refusal: Refusal, *command: str, environ: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    shell = ("unshare", "-Urmpf", "--mount-proc", "sh", "-ec", f'{refusal.setup}; exec "$@"', "sh")
    variables = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(ROOT / "src")}
    return subprocess.run(
        [*shell, *refusal.before, *command],
        env={**variables, **refusal.environ, **(environ or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
