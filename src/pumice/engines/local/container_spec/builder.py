"""Builds the ContainerSpec of a container: its manifest, its image and this machine put together."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from pumice.engines.local.container_env import complete_env, container_env, error_file_env, message_path
from pumice.engines.local.container_spec.etc_files import (
    account_files,
    home_of,
    host_key_files,
    name_files,
    supplemental_groups,
    user_and_group,
    violates_run_as_non_root,
)
from pumice.engines.local.container_spec.job_inputs import JobInputs
from pumice.engines.local.container_spec.nc_shim import nc_files, running_interpreter
from pumice.engines.local.container_spec.restrictions import (
    Processors,
    cpu_limit,
    granted_capabilities,
    memory_limit,
    no_new_privileges,
    threads_env,
)
from pumice.engines.local.host_access.consent import read_real
from pumice.engines.local.host_access.guards import GuardedPaths, guarded_paths
from pumice.engines.local.images.confined_directory import read_inside
from pumice.engines.local.images.store import Image
from pumice.engines.local.network.addresses import interface_env
from pumice.engines.local.sandbox.init.exec_command import DEFAULT_PATH
from pumice.engines.local.sandbox.sandbox_errors import INTERNAL, MOUNT, USER, StartError
from pumice.engines.local.sandbox.specs import (
    DEFAULT_CAPABILITIES,
    WAKE_ALARM,
    ContainerSpec,
    File,
    Mount,
    RootFs,
    Tmpfs,
)
from pumice.engines.local.scheduling.fit import gpu_env, gpu_shares
from pumice.engines.local.scheduling.machine import gpu_devices
from pumice.engines.local.volumes.apply import VolumeFiles
from pumice.engines.local.volumes.volume_plan import Volumes, pod_directory
from pumice.model.job import Manifest
from pumice.model.objects import KeyPair
from pumice.model.problem import FLAGS, Problem
from pumice.plugins import wait_for_master

# Added to the limit of a pod where the kernel counts the processes of the whole job.
_PROCESSES_PER_POD: Final = 256


class SandboxFacts(Struct, frozen=True, kw_only=True):
    """What an open sandbox and its network offer to containers."""

    all_users: bool = True
    only_user: str = ""  # without all_users: why every container runs as the same user
    kernel_limits: frozenset[str] = frozenset()  # the resources whose limits the kernel enforces
    env: Mapping[str, str] = msgspec.field(default_factory=dict)  # such as http_proxy
    nameservers: Sequence[str] = ()
    host_key: KeyPair = KeyPair("", "")  # of sshd


@dataclass(slots=True, kw_only=True)
class SpecBuilder:
    inputs: JobInputs
    sandbox: SandboxFacts
    warn: Callable[[str], None]
    gpus_of: Callable[[str], Sequence[str]] = lambda _pod: ()  # a pod's name -> the GPUs assigned to it
    processors: Processors = field(default_factory=lambda: Processors(()))
    guarded: GuardedPaths = field(init=False)
    files: VolumeFiles = field(init=False)
    _accounts: dict[Path, tuple[File, ...]] = field(default_factory=dict)  # by root directory, read once

    def __post_init__(self) -> None:
        self.files = VolumeFiles(self.inputs.scratch)
        self.guarded = guarded_paths(self.inputs.settings, os.environ)

    def spec(self, manifest: Manifest, uid: str, address: str, container: Manifest, attempt: int) -> ContainerSpec:
        """Return the spec of one start of one container. Raises StartError if it cannot start."""
        inputs, settings = self.inputs, self.inputs.settings
        image = inputs.image_of(str(container.get("image") or ""))
        facts = inputs.pod_facts(manifest, uid, address)
        sources, problems = inputs.config_sources()
        declared, missing = container_env(container, manifest, facts, sources)
        volumes = inputs.volumes(container, manifest, facts)
        self._report([*problems, *missing, *volumes.problems])
        self._report(self.files.prepare(volumes.steps))
        user, group = self._user(manifest, container, image)
        gpus = gpu_shares(manifest["spec"], self.gpus_of(facts.name)).get(str(container["name"]), ())
        env = complete_env(
            declared,
            facts.hostname,
            image.config.env if image is not None else {},
            defaults={
                "HOME": home_of(user, image),
                **({"PATH": f"{settings.path}:{DEFAULT_PATH}"} if image is None and settings.path else {}),
                **interface_env(),
                "PYTHONUNBUFFERED": "1",  # logs are live
                **(threads_env(container) | error_file_env(container, declared)),
                **self.sandbox.env,
                **(gpu_env(gpus) if gpus else {}),
            },
            given=settings.env,
        )
        waits = image is None and _waits_for_master(container)
        shim_files, shim_mounts = nc_files(env["PATH"], running_interpreter()) if waits else ([], [])
        name, mounts = facts.name, self._mounts(image, volumes, container)
        hidden, hidden_files = self.guarded.hidden_in_root() if image is None else ((), ())
        return ContainerSpec(
            id=f"{name}/{container['name']}",
            pod=name,
            argv=inputs.argv(container, image, {**declared, **settings.env}),
            env=env,
            cwd=str(container.get("workingDir") or self._cwd(container, image)),
            root=RootFs(
                None if image is None else str(image.root),
                str(inputs.scratch.parent / f"{name}.{container['name']}.{attempt}") if settings.keep else None,
                read_only=bool((container.get("securityContext") or {}).get("readOnlyRootFilesystem")),
            ),
            mounts=(*mounts, *shim_mounts, self._message_mount(uid, container, attempt)),
            files=(*self._etc_files(manifest, image), *self._stand_ins(container), *shim_files),
            uid=user,
            gid=group,
            groups=supplemental_groups(manifest) if self.sandbox.all_users else (),
            memory=memory_limit(container),
            cpu_quota=cpu_limit(container),
            pids=settings.pids,
            all_processes=settings.pids + _PROCESSES_PER_POD * inputs.job.total_replicas,
            cpus=self._cpus(manifest, container),
            devices=gpu_devices() if gpus else (),
            hidden=hidden,
            hidden_files=hidden_files,
            share_pid_with=holder_id(name) if manifest["spec"].get("shareProcessNamespace") else None,
            capabilities=granted_capabilities(container),
            confined=not settings.unconfined,
            no_new_privileges=no_new_privileges(container),
        )

    def holder(self, manifest: Manifest) -> ContainerSpec:
        """Return the spec of the process that holds the pid namespace the pod's containers share."""
        name, (hidden, hidden_files) = manifest["metadata"]["name"], self.guarded.hidden_in_root()
        return ContainerSpec(
            id=holder_id(name),
            pod=name,
            # A process that ignores SIGCHLD need not wait for its children, and exec keeps ignored signals ignored.
            argv=("/bin/sh", "-c", "trap '' CHLD; exec sleep infinity"),
            env={"PATH": DEFAULT_PATH},
            cwd="/",
            root=RootFs(None, None),
            hidden=hidden,
            hidden_files=hidden_files,
            # One more than containers have, who therefore cannot look at it: its root is not that of an image.
            capabilities=(*DEFAULT_CAPABILITIES, WAKE_ALARM),
        )

    def _report(self, problems: Sequence[Problem]) -> None:
        """Warn of each problem, up to the first that keeps the container from starting."""
        for problem in problems:
            if problem.fatal:
                raise StartError(INTERNAL, problem.spelled(FLAGS).text)
            self.warn(problem.spelled(FLAGS).text)

    def _cpus(self, manifest: Manifest, container: Manifest) -> tuple[int, ...]:
        """Return the CPUs to bind the container to; () where the kernel enforces its limit, or it has none."""
        limit = cpu_limit(container)
        if limit is None or "cpu" in self.sandbox.kernel_limits:
            return ()
        if limit == int(limit):
            return self.processors.bind(f"{manifest['metadata']['name']}/{container['name']}", int(limit))
        # Init containers, most of them added by plugins, end soon: not worth a warning.
        if container in manifest["spec"]["containers"]:
            self.warn(
                f"container {container['name']}: limits.cpu {limit:g} is not enforced: there are no control groups"
            )
        return ()

    def _cwd(self, container: Manifest, image: Image | None) -> str:
        # wait-for-master runs as user 65534, who may not be allowed to enter the user's directory.
        if image is not None or _waits_for_master(container):
            return (image.config.workdir if image is not None else "") or "/"
        return str(self.inputs.settings.workdir)

    def _mounts(self, image: Image | None, volumes: Volumes, container: Manifest) -> list[Mount | Tmpfs]:
        of_host, snapshot = self.inputs.host_mounts(image, container), self.inputs.snapshot
        live = filter(None, map(self.guarded.restrict, self.inputs.live_mounts()))
        mounts = (*of_host, *live, *volumes.mounts)
        guarded = [self.guarded.guard(mount) if isinstance(mount, Mount) else mount for mount in mounts]
        if snapshot is not None:
            # With the guards of what it is a copy of.
            guards = self.guarded.guard(of_host[0]).guards
            guarded[0] = of_host[0]._replace(source=str(snapshot.directory), volume="", guards=guards)
        return guarded

    def _message_mount(self, uid: str, container: Manifest, attempt: int) -> Mount:
        """Mount a termination message file even if none is named: programs write to the default path."""
        file = pod_directory(self.inputs.scratch, uid) / f"message.{container['name']}.{attempt}"
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch()
        file.chmod(0o666)
        return Mount(str(file), message_path(container))

    def _etc_files(self, manifest: Manifest, image: Image | None) -> list[File]:
        root = image.root if image is not None else Path("/")
        if root not in self._accounts:
            passwd, group = (read_inside(root, f"etc/{name}") for name in ("passwd", "group"))
            self._accounts[root] = account_files(passwd, group, single_id=not self.sandbox.all_users)
        return [
            *name_files(self.inputs.hosts(), manifest, self.sandbox.nameservers),
            *self._accounts[root],
            *host_key_files(self.sandbox.host_key, self.guarded.files if image is None else ()),
        ]

    def _stand_ins(self, container: Manifest) -> list[File]:
        """Return the user's replacements for files and programs of an image.

        Programs go to /usr/local/bin, which is also on the PATH of ssh logins.
        """
        image, settings = str(container.get("image") or ""), self.inputs.settings
        programs = {f"/usr/local/bin/{program.name}": program for program in settings.programs.get(image, ())}
        return [
            *(File(path, self._read(source), 0o755, shared=True) for path, source in programs.items()),
            *(
                File(path, self._read(source), 0o644, shared=True)
                for path, source in settings.files.get(image, {}).items()
                if source.is_file()
            ),
        ]

    def _read(self, path: Path) -> bytes:
        """Read a file as `_mount` mounts it."""
        try:
            return read_real(self.inputs.real_paths[str(path)])
        except OSError as error:
            reason = os.strerror(error.errno or 0).lower()
            if error.errno == errno.ELOOP:
                reason = "has a symbolic link, which is not followed"
            raise StartError(MOUNT, f"{path}: {reason}") from error

    def _user(self, manifest: Manifest, container: Manifest, image: Image | None) -> tuple[int | None, int | None]:
        user, group = user_and_group(manifest, container, image)
        if violates_run_as_non_root(manifest, container, user):
            if self.sandbox.all_users:
                raise StartError(USER, "runAsNonRoot is set, and it would run as root: set runAsUser")
            self.warn(f"container {container['name']}: runAsNonRoot is not honoured: no image names another user")
        if user not in (None, 0) and not self.sandbox.all_users:
            # The user of wait-for-master is the plugin's choice, and makes no difference.
            if not _waits_for_master(container):
                self.warn(f"runAsUser {user} is not honoured: {self.sandbox.only_user}")
            return None, None
        return user, group


def holder_id(pod: str) -> str:
    """Return an id that no container of the user's can have."""
    return f"{pod}/.processes"


def _waits_for_master(container: Manifest) -> bool:
    return bool(container.get("name") == wait_for_master.NAME)
