"""ssh: lets the pods of a job log in to each other without a password.

Creates one Secret with a key pair, `authorized_keys` and a client `config`, and mounts it in every container and init
container. The keys are generated once, when the Secret is created, and live as long as the job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from pumice.model import naming
from pumice.model.findings import SPEC, Finding, Path, warning
from pumice.model.job import Job, Manifest
from pumice.model.objects import KeyMaker, Once, owned
from pumice.model.pod import Pod, containers_with_paths
from pumice.model.slot import Slot
from pumice.plugins.base import Base, option, port_option

ROOT_PATH: Final = "/root/.ssh"
# Secret files belong to root. Root's ssh refuses a private key that others can read; other users need read access, and
# their ssh accepts the key.
ROOT_MODE: Final = 0o600
USER_MODE: Final = 0o644
KEY_FILES: Final = {"rsa": "id_rsa", "ed25519": "id_ed25519"}
AUTHORIZED_KEYS: Final = "authorized_keys"
CONFIG: Final = "config"


@dataclass(frozen=True, slots=True)
class Ssh(Base):
    name: ClassVar[str] = "ssh"
    summary: ClassVar[str] = "lets the pods of a job log in to each other without a password"
    example: ClassVar[tuple[str, ...]] = ("--ssh-key-file-path=/home/mpi/.ssh",)

    ssh_key_file_path: str = option(ROOT_PATH, "directory of the keys; the home of the user that the containers run as")
    ssh_private_key: str = option("", "a private key of your own, instead of a fresh one", secret=True)
    ssh_public_key: str = option("", "the public key that belongs to it", secret=True)
    ssh_port: int = port_option(22, "port of sshd in the pods")
    ssh_key_type: str = option("rsa", "kind of a fresh key: rsa or ed25519", choices=("rsa", "ed25519"))

    def check(self, job: Job) -> Iterator[Finding]:
        at = SPEC / "plugins" / self.name
        yield from self._check_given_keys(at)
        if not self.ssh_key_file_path.startswith("/") or ":" in self.ssh_key_file_path:
            # Not shown: it may be a key that was passed to the wrong flag.
            yield Finding(at, "--ssh-key-file-path must be an absolute path without ':'")
            return
        for position, task in enumerate(job.spec.tasks):
            yield from self._check_users(task.pod_spec, SPEC / "tasks" / position / "template" / "spec")

    def objects(self, job: Job) -> Iterator[Once]:
        body = {"type": "Opaque", "stringData": {CONFIG: self._config(job)}}
        secret = owned(job, "v1", "Secret", naming.ssh_secret(job.name), body)
        yield Once(secret, self._keys, given=bool(self.ssh_private_key))

    def shape_pod(self, pod: Pod, slot: Slot) -> Pod:
        name = naming.ssh_secret(slot.job.name)
        files = (self._key_file, f"{self._key_file}.pub", AUTHORIZED_KEYS, CONFIG)
        secret = {
            "secretName": name,
            "items": [{"key": file, "path": f".ssh/{file}"} for file in files],
            "defaultMode": ROOT_MODE if self.ssh_key_file_path == ROOT_PATH else USER_MODE,
        }
        mount = {"name": name, "mountPath": self.ssh_key_file_path, "subPath": ".ssh"}
        return pod.with_volume({"name": name, "secret": secret}, [mount])

    def why(self, slot: Slot) -> Mapping[str, str]:
        name = naming.ssh_secret(slot.job.name)
        return {
            f"volume {name}": "key pair, authorized_keys and config",
            f"mount {self.ssh_key_file_path}": "keys that let the pods log in to each other",
        }

    @property
    def _key_file(self) -> str:
        return "id_rsa" if self.ssh_private_key else KEY_FILES[self.ssh_key_type]

    def _keys(self, maker: KeyMaker) -> Mapping[str, str]:
        if self.ssh_private_key:
            private, public = self.ssh_private_key, self.ssh_public_key
        else:
            pair = maker(self.ssh_key_type)
            private, public = pair.private, pair.public
        return {self._key_file: private, f"{self._key_file}.pub": public, AUTHORIZED_KEYS: public}

    def _config(self, job: Job) -> str:
        """Name the hosts by one pattern per task, so that the config holds for any number of pods.

        It must hold without a rewrite: the Secret is mounted by subPath, and kubelet would empty that directory in
        running pods.
        """
        # Host keys change with every pod, so checking them within a job is of no use.
        options = (f"  Port {self.ssh_port}", "  StrictHostKeyChecking no", "  UserKnownHostsFile /dev/null")
        lines: list[str] = []
        # ssh takes the first value that it finds, so a fixed host name comes before patterns that match it, too.
        for task in sorted(job.spec.tasks, key=lambda task: not naming.fixed_hostname(task)):
            domain = naming.subdomain(job, task)
            if fixed := naming.fixed_hostname(task):
                lines += (f"Host {fixed}", f"  HostName {fixed}.{domain}", f"Host {fixed} {fixed}.{domain}", *options)
                continue
            # An index has no dash or dot: not `train-worker-gpu-0` of the task worker-gpu, nor `train-worker-0.other`.
            pods = naming.pod(job.name, task.name, 0)[:-1] + "*"
            lines += (f"Host {pods} !{pods}-* !*.*", f"  HostName %h.{domain}", *options)
            lines += (f"Host {pods}.{domain} !{pods}-*.{domain} !*.*.*", *options)
        return "\n".join(lines) + "\n"

    def _check_given_keys(self, at: Path) -> Iterator[Finding]:
        if self.ssh_public_key and not self.ssh_private_key:
            yield warning(at, "--ssh-public-key is ignored without --ssh-private-key; a fresh pair is made")
        if self.ssh_private_key and not self.ssh_public_key:
            yield warning(
                at,
                "--ssh-private-key without --ssh-public-key: authorized_keys will be empty, so no pod can log in",
                hint="give --ssh-public-key, too, or neither of them",
            )
        if self.ssh_private_key and not _is_private_key(self.ssh_private_key):
            yield warning(at, "--ssh-private-key is not a private key that can be read; it is used as it is")
        if self.ssh_private_key and self.ssh_public_key and not _is_public_key(self.ssh_public_key):
            yield warning(at, "--ssh-public-key is not a public key in OpenSSH's form; it is used as it is")

    def _check_users(self, spec: Manifest, at: Path) -> Iterator[Finding]:
        for here, container in containers_with_paths(spec, at):
            root = _runs_as_root(spec, container)
            if root is False and self.ssh_key_file_path == ROOT_PATH:
                yield warning(
                    here,
                    f"does not run as root, but the ssh keys are in {ROOT_PATH}, which only root can read",
                    hint="ssh: ['--ssh-key-file-path=/home/<user>/.ssh'] with the home of that user",
                )
            if root is True and self.ssh_key_file_path != ROOT_PATH:
                yield warning(
                    here,
                    f"runs as root, whose ssh refuses keys that all can read, as in {self.ssh_key_file_path}",
                    hint=f"ssh: ['--ssh-key-file-path={ROOT_PATH}']",
                )


def _runs_as_root(spec: Manifest, container: Manifest) -> bool | None:
    """Return whether the container runs as root; None if its image decides."""
    for context in (container.get("securityContext") or {}, spec.get("securityContext") or {}):
        if context.get("runAsUser") is not None:
            return bool(context["runAsUser"] == 0)
        if context.get("runAsNonRoot"):
            return False
    return None


def _is_private_key(text: str) -> bool:
    # Imported here because it is slow to load and few jobs bring their own keys.
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - see above

    data = text.encode()
    load = serialization.load_ssh_private_key if b"OPENSSH" in data else serialization.load_pem_private_key
    return _loads(lambda: load(data, password=None))


def _is_public_key(text: str) -> bool:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - see `_is_private_key`

    return _loads(lambda: serialization.load_ssh_public_key(text.encode()))


def _loads(load: Callable[[], object]) -> bool:
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415 - see `_is_private_key`

    try:
        load()
    except TypeError:
        # A key with a passphrase is still a key.
        return True
    except (ValueError, UnsupportedAlgorithm):
        return False
    return True
