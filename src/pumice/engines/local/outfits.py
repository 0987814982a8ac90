"""What a container is started with: its manifest, its image and this machine put together into a `ContainerSpec`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pumice.engines.local.companions import read_companions
from pumice.engines.local.containers import StartError
from pumice.engines.local.environment import complete_env, container_env
from pumice.engines.local.expansion import expand_all
from pumice.engines.local.facts import PodFacts
from pumice.engines.local.hosts import hosts_text, name_files, named_pod, pod_hostname
from pumice.engines.local.logins import account_files, find_group, find_user, host_key_files
from pumice.engines.local.network_env import interface_env
from pumice.engines.local.problems import Problem
from pumice.engines.local.sandbox.specs import ContainerSpec, File, Mount, RootFs
from pumice.engines.local.settings import Settings
from pumice.engines.local.volume_files import VolumeFiles
from pumice.engines.local.volumes import volume_mounts
from pumice.model.job import Job, Manifest
from pumice.model.objects import KeyPair
from pumice.model.quantity import Quantity
from pumice.model.slot import slots

HOMES = ("/home", "/root")


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
class Outfitter:
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
    nameservers: Sequence[str] = ()
    extra_env: Mapping[str, str] = field(default_factory=dict)
    files: VolumeFiles = field(init=False)

    def __post_init__(self) -> None:
        self.files = VolumeFiles(self.scratch)

    def spec(self, manifest: Manifest, uid: str, address: str, container: Manifest, attempt: int) -> ContainerSpec:
        """Everything about one start of one container. Raises StartError with what keeps it from starting."""
        image = self.image_of(str(container.get("image") or ""))
        facts = self._facts(manifest, uid, address)
        companions, problems = read_companions([*self.documents, *self.objects()], self.claims)
        declared, missing = container_env(container, manifest, facts, companions)
        volumes = volume_mounts(container, manifest, facts, companions, self.scratch)
        self._settle(container, [*problems, *missing, *volumes.problems])
        self._settle(container, self.files.prepare(volumes.steps))
        env = complete_env(
            declared,
            facts.hostname,
            image.env if image is not None else {},
            defaults={**self._host_env(image), **interface_env(), **self.extra_env},
            given=self.settings.env,
        )
        user, group = self._user(manifest, container, image)
        name = manifest["metadata"]["name"]
        return ContainerSpec(
            id=f"{name}/{container['name']}",
            pod=name,
            argv=self._argv(container, image, env),
            env=env,
            cwd=str(container.get("workingDir") or (image.workdir if image is not None else "") or self._cwd(image)),
            root=RootFs(str(image.root) if image is not None else None, self._upper(manifest, container, attempt)),
            mounts=(*self._own_mounts(image), *volumes.mounts),
            files=(*self._files(manifest, image),),
            uid=user,
            gid=group,
            memory=_bytes(container),
            cpu_quota=_cpus(container),
            hidden=HOMES if image is None else (),
        )

    def hosts(self) -> str:
        """/etc/hosts, as all pods of the job have it."""
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
        )

    def _settle(self, container: Manifest, problems: Sequence[Problem]) -> None:
        """Tell what does not matter much; stop at what does."""
        for problem in problems:
            if problem.fatal:
                raise StartError(f"container {container['name']}: {problem}")
            self.warn(str(problem))

    def _argv(self, container: Manifest, image: ImageConfig | None, env: Mapping[str, str]) -> tuple[str, ...]:
        command = expand_all(container.get("command") or [], env)
        args = expand_all(container.get("args") or [], env)
        name = str(container.get("image") or "")
        if not command:
            command = self.settings.entrypoints.get(name, ())
        if not command and image is not None:
            # As in Kubernetes: arguments of the container replace those of the image.
            command, args = tuple(image.entrypoint), args or tuple(image.command)
        if not (command or args):
            raise StartError(
                f"container {container['name']} has no command, and this machine has no image {name}\n"
                f'  hint: --image {name}=PATH (a directory or archive), or --entrypoint {name}="COMMAND"'
            )
        return (*command, *args)

    def _host_env(self, image: ImageConfig | None) -> dict[str, str]:
        if image is not None or not self.settings.path:
            return {}
        from pumice.engines.local.environment import DEFAULT_PATH  # noqa: PLC0415

        return {"PATH": f"{self.settings.path}:{DEFAULT_PATH}"}

    def _cwd(self, image: ImageConfig | None) -> str:
        return str(self.settings.workdir) if image is None else "/"

    def _own_mounts(self, image: ImageConfig | None) -> list[Mount]:
        mounts = [Mount(str(self.settings.workdir), str(self.settings.workdir))]
        if image is None:
            mounts += [Mount(str(path), str(path), read_only=True) for path in self.settings.python]
        mounts += [Mount(str(extra.path), str(extra.path), extra.read_only) for extra in self.settings.mounts]
        return mounts

    def _upper(self, manifest: Manifest, container: Manifest, attempt: int) -> str | None:
        if not self.settings.keep:
            return None
        name = f"{manifest['metadata']['name']}.{container['name']}.{attempt}"
        return str(self.scratch.parent / "kept" / name)

    def _files(self, manifest: Manifest, image: ImageConfig | None) -> list[File]:
        root = image.root if image is not None else Path("/")
        passwd, group = (_read(root / "etc" / name) for name in ("passwd", "group"))
        return [
            *name_files(self.hosts(), manifest, self.nameservers),
            *account_files(passwd, group, single_id=not self.all_users),
            *host_key_files(self.host_key),
        ]

    def _user(
        self, manifest: Manifest, container: Manifest, image: ImageConfig | None
    ) -> tuple[int | None, int | None]:
        contexts = (container.get("securityContext") or {}, manifest["spec"].get("securityContext") or {})
        user = next((context["runAsUser"] for context in contexts if context.get("runAsUser") is not None), None)
        group = next((context["runAsGroup"] for context in contexts if context.get("runAsGroup") is not None), None)
        if user is None and image is not None and image.user:
            named, _, named_group = image.user.partition(":")
            user, found = _image_user(named, _read(image.root / "etc" / "passwd"))
            group = group if group is not None else _image_group(named_group, image.root) or found
        if user not in (None, 0) and not self.all_users:
            self.warn(f"runAsUser {user} is not honoured: without root all containers run as one user (root inside)")
            return None, None
        return user, group


def _image_user(name: str, passwd: str) -> tuple[int | None, int | None]:
    found = find_user(passwd, name)
    if found is not None:
        return found[0], found[1]
    return (int(name), None) if name.isdecimal() else (None, None)


def _image_group(name: str, root: Path) -> int | None:
    return find_group(_read(root / "etc" / "group"), name) if name else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _limit(container: Manifest, name: str) -> Quantity | None:
    amount = ((container.get("resources") or {}).get("limits") or {}).get(name)
    return None if amount is None else Quantity.parse(amount)


def _bytes(container: Manifest) -> int | None:
    limit = _limit(container, "memory")
    return None if limit is None else limit.value()


def _cpus(container: Manifest) -> float | None:
    limit = _limit(container, "cpu")
    return None if limit is None else math.ceil(limit.milli_value()) / 1000
