"""Starts job-init from an interpreter that no pod can change, where a pod could change that of the user.

Between fork and exec a container is this program, so `/proc/self/exe` in its command, or in the first line of a script
of its image, leads to the interpreter, by the mount through which it was started (as CVE-2019-5736). Root of a pod of
an ordinary user owns the interpreters of conda, uv, pyenv and `venv --copies`. So this program mounts the interpreter
read-only, in a mount namespace of its own, and starts it again from there. Until then it loads hardly any module.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from contextlib import suppress

from pumice.engines.local.sandbox import syscalls
from pumice.engines.local.sandbox.init import idmap

_SELF = "/proc/self/exe"

# Type checkers know this name as that of the typing module, which takes long to import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn


def main() -> None:
    """The arguments are the settings of job-init and the descriptor of the connection for tunnels, and the users.

    The users are there, and the process for tunnels is, if `restart` started this program.
    """
    is_first = len(sys.argv) == 3  # noqa: PLR2004 - as the engine starts it
    if is_first and os.geteuid() != 0 and can_change_interpreter():
        fork_for_tunnels(int(sys.argv[2]))
        is_first = False
        # Where the kernel refuses it, job-init meets the same refusal, and reports it.
        with suppress(OSError):
            idmap.enter_user_namespace()
            restart("[false]")
    run = load_job_init()
    if is_first:
        fork_for_tunnels(int(sys.argv[2]))
    run()


def fork_for_tunnels(descriptor: int) -> None:
    """Fork the process that makes tunnels; it stays what this one is now."""
    if os.fork() == 0:
        try:
            import socket  # noqa: PLC0415 - needed in this process only, if it has to start again

            from pumice.engines.local.sandbox.net import tunnel  # noqa: PLC0415 - as above

            os.set_inheritable(descriptor, False)
            tunnel.serve(socket.socket(fileno=descriptor))
        finally:
            os._exit(1)
    os.close(descriptor)


def load_job_init() -> Callable[[], NoReturn]:
    """Return `main` of job-init, loaded so that a process that job-init forks has little to copy."""
    # What exists after this is never searched for garbage: each fork would copy the memory of it.
    gc.disable()
    # shutil would load the libraries of archives, which job-init does not read.
    for archive in ("bz2", "lzma", "zlib"):
        sys.modules[archive] = None  # type: ignore[assignment]  # the documented way to have no such module
    from pumice.engines.local.sandbox.init import job_init  # noqa: PLC0415 - see above

    gc.freeze()
    gc.enable()
    return job_init.main


def can_change_interpreter() -> bool:
    """Return whether the user of this process may change the file, or its mode, by the mount that it runs from."""
    is_own = os.stat(_SELF).st_uid == os.geteuid() or os.access(_SELF, os.W_OK)
    return is_own and not os.statvfs(_SELF).f_flag & os.ST_RDONLY


def restart(users: str) -> NoReturn:
    """Start this program again from a read-only mount; needs a user namespace. `users` are those of `job_init`."""
    syscalls.unshare(syscalls.NEWNS)
    syscalls.mount(None, "/", None, syscalls.MS_REC | syscalls.MS_PRIVATE)
    path = os.readlink(_SELF)
    tree = syscalls.clone_tree(path, below=False)
    syscalls.restrict_mount(tree, syscalls.READ_ONLY, below=False)
    # At its own path, from which the loader finds the libraries of the interpreter.
    syscalls.attach_tree(tree, path)
    os.close(tree)
    os.execv(sys.orig_argv[0], [*sys.orig_argv, users])  # noqa: S606 - our own program


def check() -> None:
    """Raise OSError if pods could change the interpreter. The mount that it was started from is needed no more."""
    if can_change_interpreter():
        raise PermissionError(errno.EPERM, f"{sys.executable} cannot be protected from pods")
    syscalls.detach(os.readlink(_SELF))
