"""ssh between pods that are plain processes: every pod's sshd has its own port, and ssh finds it by the pod's name.

Two wrapper scripts come first in PATH. `sshd` starts the machine's sshd with a configuration for this pod: its port,
its keys, and nothing that needs root. `ssh` starts the machine's ssh with a configuration of every pod's port. The
login user is the one that runs the job, because an sshd without root accepts no other.
"""

from __future__ import annotations

import os
import pwd
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

from pumice.engines.local.plain_processes.files import PROGRAMS, VARIABLE, ContainerFiles
from pumice.engines.local.plain_processes.loopback_names import Translation
from pumice.engines.local.sandbox.specs import ContainerSpec, File, Mount

_PORT: Final = 22
_HOST_KEY: Final = "/etc/ssh/ssh_host_ed25519_key"
_SERVER: Final = "/etc/ssh/sshd_config"
_CLIENT: Final = "/etc/ssh/ssh_config"
_SERVER_PATH: Final = "/usr/sbin:/usr/bin:/sbin:/usr/local/sbin"
# sshd -D stays in the pod's process group, so it ends with the pod. The port and configuration that the job names are
# dropped.
_START_SERVER: Final = """\
#!/bin/sh
skip= stay=
for word do
  shift
  if [ -n "$skip" ]; then skip=; continue; fi
  case $word in
    -p | -f | -h) skip=1 ;;
    -p* | -f* | -h*) ;;
    -*D*) stay=1 ;;
    *) set -- "$@" "$word" ;;
  esac
done
[ -z "$stay" ] || exec {program} -D -f {config} "$@"
{program} -D -f {config} "$@" &
"""
_START_CLIENT: Final = '#!/bin/sh\nexec {program} -F {config} "$@"\n'


def keys_of(spec: ContainerSpec) -> str:
    """The path at which the job's ssh keys are mounted; empty if there are none."""
    targets = (mount.target for mount in spec.mounts if isinstance(mount, Mount))
    return next((target for target in targets if PurePosixPath(target).name == ".ssh"), "")


def configure_ssh(
    files: ContainerFiles, spec: ContainerSpec, translation: Translation, address: str, env: Mapping[str, str]
) -> None:
    """`address` is the pod's; `env` is its container's, whose PATH also applies to logins."""
    keys = Path(files.host_path(keys_of(spec)))
    if os.geteuid() != 0:
        # Jobs create it for root's sshd; an ordinary user cannot, and need not.
        for path in ("/run/sshd", "/var/run/sshd"):
            files.add_directory(path)
    for file in spec.files:
        if file.path == _HOST_KEY:
            files.add(file)
    client, server = shutil.which("ssh"), shutil.which("sshd", path=_SERVER_PATH)
    if client is not None:
        config = "\n".join(_client_lines(keys, translation)) + "\n"
        _add_program(files, "ssh", client, _START_CLIENT, File(_CLIENT, config.encode()))
    if server is not None:
        lines = _server_lines(files, keys, (translation.loopback(address), translation.port(address, _PORT)), env)
        _add_program(files, "sshd", server, _START_SERVER, File(_SERVER, ("\n".join(lines) + "\n").encode(), 0o600))


def _add_program(files: ContainerFiles, name: str, program: str, script: str, config: File) -> None:
    """Add a wrapper script, also at the full paths that jobs use."""
    files.add(config)
    text = script.format(program=program, config=f"'{files.host_path(config.path)}'").encode()
    for path in dict.fromkeys((f"{PROGRAMS}/{name}", f"/usr/bin/{name}", f"/usr/sbin/{name}", program)):
        files.add(File(path, text, 0o755))


def _client_lines(keys: Path, translation: Translation) -> Iterator[str]:
    for address, names in translation.names().items():
        loopback = translation.loopback(address)
        yield f"Host {' '.join(dict.fromkeys([*names, loopback]))}"
        yield f"  HostName {loopback}"
        yield f"  Port {translation.port(address, _PORT)}"
        # Host keys are generated for every run.
        yield "  StrictHostKeyChecking no"
        yield "  UserKnownHostsFile /dev/null"
    yield "Host *"
    yield f"  User {pwd.getpwuid(os.geteuid()).pw_name}"
    yield from (f'  IdentityFile "{keys / name}"' for name in ("id_rsa", "id_ed25519") if (keys / name).exists())


def _server_lines(files: ContainerFiles, keys: Path, listen: tuple[str, int], env: Mapping[str, str]) -> Iterator[str]:
    yield f"ListenAddress {listen[0]}:{listen[1]}"
    yield f'HostKey "{files.host_path(_HOST_KEY)}"'
    yield f'AuthorizedKeysFile "{keys / "authorized_keys"}"'
    # The keys are in a private directory, but not in the user's home, where StrictModes wants them.
    yield "StrictModes no"
    yield "PidFile none"
    yield "PasswordAuthentication no"
    yield "KbdInteractiveAuthentication no"
    # PAM needs root; without PAM, root's sshd considers an account without password locked.
    yield f"UsePAM {'yes' if os.geteuid() == 0 else 'no'}"
    yield f'SetEnv "PATH={env.get("PATH", os.defpath)}" "{VARIABLE}={files.root}"'
