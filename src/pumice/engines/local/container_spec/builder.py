"""What a container is started with: its manifest, its image and this machine put together into a `ContainerSpec`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pumice.engines.local.container_spec.accounts import account_files, host_key_files
from pumice.engines.local.container_spec.config_sources import ConfigSources, read_config_sources
from pumice.engines.local.container_spec.env import DEFAULT_PATH, complete_env, container_env
from pumice.engines.local.container_spec.etc_hosts import hosts_text, name_files, named_pod, pod_hostname
from pumice.engines.local.container_spec.expansion import expand_all
from pumice.engines.local.container_spec.hidden_directories import hidden_directories
from pumice.engines.local.container_spec.nc_shim import nc_files, running_interpreter
from pumice.engines.local.container_spec.pod_facts import PodFacts
from pumice.engines.local.container_spec.resource_limits import Processors, cpu_limit, memory_limit, threads_env
from pumice.engines.local.container_spec.users import home_of, supplemental_groups, user_and_group, wrongly_root
from pumice.engines.local.images.file_in_image import read_inside
from pumice.engines.local.kubelet.container import DEFAULT_MESSAGE_PATH
from pumice.engines.local.network.network_env import interface_env
from pumice.engines.local.sandbox.sandbox_errors import IMAGE, INTERNAL, USER, StartError
from pumice.engines.local.sandbox.specs import ContainerSpec, File, Mount, RootFs
from pumice.engines.local.scheduling.fit import gpu_env, gpu_shares
from pumice.engines.local.scheduling.machine import gpu_devices
from pumice.engines.local.state.settings import Settings, home_directory
from pumice.engines.local.volumes.apply import VolumeFiles
from pumice.engines.local.volumes.plan import pod_directory, volume_mounts
from pumice.model.job import Job, Manifest
from pumice.model.objects import KeyPair
from pumice.model.problem import Problem
from pumice.model.quantity import Quantity
from pumice.model.slot import slots
from pumice.plugins import wait_for_master


class ImageConfig(Protocol):
    """What an image says about its containers."""

    @property
    def root(self) -> Path: ...

    @property
    def entrypoint(self) -> Sequence[str]: ...

    @property
    def command(self) -> Sequence[str]: ...

    @property
    def env(self) -> Mapping[str, str]: ...

    @property
    def workdir(self) -> str: ...

    @property
    def user(self) -> str: ...


@dataclass(slots=True)
class SpecBuilder:
    job: Job
    settings: Settings
    scratch: Path
    documents: Sequence[Manifest]  # ConfigMaps and Secrets of the user's files
    objects: Callable[[], Sequence[Manifest]]  # those of the plugins, as they are now
    claims: Mapping[str, Path]
    address_of: Callable[[str], str]  # a pod's short name -> its address
    image_of: Callable[[str], ImageConfig | None]  # None: the host serves
    host_key: KeyPair
    warn: Callable[[str], None]
    all_users: bool = True
    only_user: str = ""  # where not all users can be had: who containers run as instead
    nameservers: Sequence[str] = ()
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)
    extra_env: Mapping[str, str] = field(default_factory=dict)
    gpus_of: Callable[[str], Sequence[str]] = lambda _pod: ()  # those that a pod, by its name, was given
    kernel_limits: frozenset[str] = frozenset()  # what the sandbox can have the kernel enforce
    processors: Processors = field(default_factory=lambda: Processors(()))
    files: VolumeFiles = field(init=False)
    _known: tuple[list[Manifest], ConfigSources, list[Problem]] | None = None
    _hosts: str = ""
    _accounts: dict[Path, tuple[File, ...]] = field(default_factory=dict)  # of the hosts and images, read once

    def __post_init__(self) -> None:
        self.files = VolumeFiles(self.scratch)

    def spec(self, manifest: Manifest, uid: str, address: str, container: Manifest, attempt: int) -> ContainerSpec:
        """Everything about one start of one container. Raises StartError with what keeps it from starting."""
        image = self.image_of(str(container.get("image") or ""))
        facts = self._facts(manifest, uid, address)
        config_sources, problems = self._read_config_sources()
        declared, missing = container_env(container, manifest, facts, config_sources)
        volumes = volume_mounts(container, manifest, facts, config_sources, self.scratch)
        self._settle([*problems, *missing, *volumes.problems])
        self._settle(self.files.prepare(volumes.steps))
        user, group = self._user(manifest, container, image)
        gpus = gpu_shares(manifest["spec"], self.gpus_of(facts.name)).get(str(container["name"]), ())
        env = complete_env(
            declared,
            facts.hostname,
            image.env if image is not None else {},
            defaults={
                "HOME": home_of(user, image),
                **self._host_env(image),
                **interface_env(),
                **threads_env(container),
                **self.extra_env,
                **(gpu_env(gpus) if gpus else {}),
            },
            given=self.settings.env,
        )
        nc_files, nc_mounts = self._nc_files(container, image, env)
        name = manifest["metadata"]["name"]
        shares = bool(manifest["spec"].get("shareProcessNamespace"))
        return ContainerSpec(
            id=f"{name}/{container['name']}",
            pod=name,
            argv=self._argv(container, image, declared),
            env=env,
            cwd=str(container.get("workingDir") or self._cwd(container, image)),
            root=RootFs(
                str(image.root) if image is not None else None,
                self._upper(manifest, container, attempt),
                read_only=bool((container.get("securityContext") or {}).get("readOnlyRootFilesystem")),
            ),
            mounts=(
                *self._own_mounts(image),
                *nc_mounts,
                *volumes.mounts,
                *self._message_mount(uid, container, attempt),
            ),
            files=(*self._files(manifest, image), *self._stand_ins(container), *nc_files),
            uid=user,
            gid=group,
            groups=supplemental_groups(manifest) if self.all_users else (),
            memory=memory_limit(container),
            cpu_quota=cpu_limit(container),
            cpus=self._cpus(manifest, container),
            devices=gpu_devices() if gpus else (),
            hidden=self._hidden(image),
            share_pid_with=holder_id(name) if shares else None,
        )

    def holder(self, manifest: Manifest) -> ContainerSpec:
        """What holds the pid namespace that the pod's containers share, and takes care of orphans in it."""
        name = manifest["metadata"]["name"]
        # Who ignores this signal of its children need not wait for them; a program that is executed inherits that.
        argv = ("/bin/sh", "-c", "trap '' CHLD; exec sleep infinity")
        env = {"PATH": DEFAULT_PATH}
        return ContainerSpec(
            id=holder_id(name),
            pod=name,
            argv=argv,
            env=env,
            cwd="/",
            root=RootFs(None, None),
            hidden=self._hidden(None),
        )

    def problems(self, manifest: Manifest, container: Manifest) -> list[Problem]:
        """What would keep the container from starting, as far as it can be known beforehand."""
        facts = self._facts(manifest, "", "")
        config_sources, problems = self._read_config_sources()
        _, missing = container_env(container, manifest, facts, config_sources)
        volumes = volume_mounts(container, manifest, facts, config_sources, self.scratch)
        found = [*problems, *missing, *volumes.problems]
        try:
            self._argv(container, self.image_of(str(container.get("image") or "")), {})
        except StartError as error:
            found.append(Problem(error.message))
        return found

    def _read_config_sources(self) -> tuple[ConfigSources, list[Problem]]:
        """Read anew only when the plugins have made something else: a large job asks for every container."""
        objects = list(self.objects())
        if self._known is None or self._known[0] != objects:
            self._known = (objects, *read_config_sources([*self.documents, *objects], self.claims))
            self._hosts = ""
        return self._known[1], self._known[2]

    def hosts(self) -> str:
        """/etc/hosts, as all pods of the job have it."""
        self._read_config_sources()
        if not self._hosts:
            self._hosts = self._hosts_text()
        return self._hosts

    def _hosts_text(self) -> str:
        named = []
        for slot in slots(self.job):
            spec = {"hostname": slot.hostname, "subdomain": slot.subdomain}
            labels = {"volcano.sh/job-name": self.job.name, "volcano.sh/job-namespace": self.job.namespace}
            labels["volcano.sh/task-spec"] = slot.task.name
            pod: Manifest = {"metadata": {"name": slot.pod_name, "labels": labels}, "spec": spec}
            named.append(named_pod(pod, self.address_of(slot.short_name)))
        services = [manifest for manifest in self.objects() if manifest["kind"] == "Service"]
        return hosts_text(named, services, self.job.namespace)

    def _facts(self, manifest: Manifest, uid: str, address: str) -> PodFacts:
        return PodFacts(
            name=manifest["metadata"]["name"],
            namespace=self.job.namespace,
            uid=uid,
            ip=address,
            hostname=pod_hostname(manifest),
            node_name="localhost",
            host_ip="127.0.0.1",
            allocatable=self.allocatable,
        )

    def _settle(self, problems: Sequence[Problem]) -> None:
        """Tell what does not matter much; stop at what does."""
        for problem in problems:
            if problem.fatal:
                raise StartError(INTERNAL, problem.text)
            self.warn(problem.text)

    def _argv(self, container: Manifest, image: ImageConfig | None, env: Mapping[str, str]) -> tuple[str, ...]:
        command = expand_all(container.get("command") or [], env)
        args = expand_all(container.get("args") or [], env)
        name = str(container.get("image") or "")
        if not command:
            command = self.settings.entrypoints.get(name, ())
        if not command and image is not None:
            # As in Kubernetes: arguments of the container replace those of the image.
            command, args = tuple(image.entrypoint), args or tuple(image.command)
        # Without an entry point the arguments are the command, but no program has the name of an option.
        if not command and (not args or args[0].startswith("-")):
            lack = f"this machine has no image {name}" if image is None else f"its image {name} names none"
            raise StartError(
                IMAGE,
                f"has no command, and {lack}\n"
                f'  hint: --image {name}=PATH (a directory or archive), or --entrypoint {name}="COMMAND"',
            )
        return (*command, *args)

    def _cpus(self, manifest: Manifest, container: Manifest) -> tuple[int, ...]:
        """The processors of a container whose share the kernel does not limit; () where it does, or need not."""
        limit = cpu_limit(container)
        if limit is None or "cpu" in self.kernel_limits:
            return ()
        if limit == int(limit):
            return self.processors.bind(f"{manifest['metadata']['name']}/{container['name']}", int(limit))
        # That of an init container, most often one of a plugin, is over soon: not worth a warning.
        if container in manifest["spec"]["containers"]:
            self.warn(f"container {container['name']}: limits.cpu {limit:g} is not enforced: no control groups here")
        return ()

    def _host_env(self, image: ImageConfig | None) -> dict[str, str]:
        if image is not None or not self.settings.path:
            return {}
        return {"PATH": f"{self.settings.path}:{DEFAULT_PATH}"}

    def _cwd(self, container: Manifest, image: ImageConfig | None) -> str:
        """Who waits for a master runs as nobody, to whom the user's directory may be closed."""
        if image is not None or container.get("name") == wait_for_master.NAME:
            return (image.workdir if image is not None else "") or "/"
        return str(self.settings.workdir)

    def _hidden(self, image: ImageConfig | None) -> tuple[str, ...]:
        home = home_directory(os.environ) or Path("/")
        return hidden_directories(home, self.settings.state, host_is_image=image is None)

    def _own_mounts(self, image: ImageConfig | None) -> list[Mount]:
        mounts = [Mount(str(self.settings.workdir), str(self.settings.workdir))]
        if image is None:
            mounts += [Mount(str(path), str(path), read_only=True) for path in self.settings.python]
        mounts += [Mount(str(extra.path), str(extra.path), extra.read_only) for extra in self.settings.mounts]
        return mounts

    def _message_mount(self, uid: str, container: Manifest, attempt: int) -> list[Mount]:
        """A file for the container's last words: programs write to the usual path without having named it."""
        file = pod_directory(self.scratch, uid) / "messages" / f"{container['name']}.{attempt}"
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.touch()
        file.chmod(0o666)
        return [Mount(str(file), str(container.get("terminationMessagePath") or DEFAULT_MESSAGE_PATH))]

    def _upper(self, manifest: Manifest, container: Manifest, attempt: int) -> str | None:
        if not self.settings.keep:
            return None
        name = f"{manifest['metadata']['name']}.{container['name']}.{attempt}"
        return str(self.scratch.parent / name)

    def _files(self, manifest: Manifest, image: ImageConfig | None) -> list[File]:
        root = image.root if image is not None else Path("/")
        if root not in self._accounts:
            passwd, group = (read_inside(root, f"etc/{name}") for name in ("passwd", "group"))
            self._accounts[root] = account_files(passwd, group, single_id=not self.all_users)
        return [
            *name_files(self.hosts(), manifest, self.nameservers),
            *self._accounts[root],
            *host_key_files(self.host_key),
        ]

    def _stand_ins(self, container: Manifest) -> list[File]:
        """What stands in for files and programs of an image. Logins by ssh have a PATH of their own: a usual place."""
        image = str(container.get("image") or "")
        programs = {f"/usr/local/bin/{program.name}": program for program in self.settings.programs.get(image, ())}
        return [
            *(File(path, source.read_bytes(), 0o755) for path, source in programs.items()),
            *(File(path, source.read_bytes(), 0o644) for path, source in self.settings.files.get(image, {}).items()),
        ]

    def _nc_files(
        self, container: Manifest, image: ImageConfig | None, env: Mapping[str, str]
    ) -> tuple[list[File], list[Mount]]:
        """For the container that waits for a master: the host that serves as its image may have no nc."""
        if image is not None or container.get("name") != wait_for_master.NAME:
            return [], []
        return nc_files(env["PATH"], running_interpreter())

    def _user(
        self, manifest: Manifest, container: Manifest, image: ImageConfig | None
    ) -> tuple[int | None, int | None]:
        user, group = user_and_group(manifest, container, image)
        # Who waits for a master has a user of the plugin's choice, whom nobody misses.
        ours = container.get("name") == wait_for_master.NAME
        if wrongly_root(manifest, container, user):
            if image is not None and self.all_users:
                raise StartError(USER, "runAsNonRoot is set, and it would run as root: set runAsUser")
            self.warn(f"container {container['name']}: runAsNonRoot is not honoured: no image says who else it is")
        if user not in (None, 0) and not self.all_users:
            if not ours:
                self.warn(f"runAsUser {user} is not honoured: {self.only_user}")
            return None, None
        return user, group


def holder_id(pod: str) -> str:
    """No container of the user's can have such a name."""
    return f"{pod}/.processes"
