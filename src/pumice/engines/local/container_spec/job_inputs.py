"""What the containers of a job are built from, as far as it is known before the sandbox is open, and what ends them."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from pumice.engines.local.container_env import (
    ConfigSources,
    PodFacts,
    container_env,
    expand_all,
    read_config_sources,
)
from pumice.engines.local.container_spec.etc_files import (
    NamedPod,
    hosts_text,
    names_by_address,
    pod_hostname,
    truncated,
)
from pumice.engines.local.container_spec.restrictions import refused_restrictions
from pumice.engines.local.host_access.consent import ConsentFacts, normal_path, real_paths, refuse_writing, write_facts
from pumice.engines.local.images.store import Image
from pumice.engines.local.sandbox.sandbox_errors import IMAGE, StartError
from pumice.engines.local.sandbox.specs import Mount, SandboxOptions
from pumice.engines.local.volumes.volume_plan import Volumes, volume_mounts
from pumice.model import keys
from pumice.model.job import Job, Manifest
from pumice.model.problem import FLAGS, Option, Problem
from pumice.model.quantity import Quantity
from pumice.model.slot import slots
from pumice.store.code.snapshots import Snapshot
from pumice.store.settings import HostAccess, Settings

# `SIGINT`, `INT`, `SIGRTMIN+3` or a number, as in the configuration of an image.
_NAME: Final = re.compile(r"(?:SIG)?([A-Z][A-Z0-9]*)([+-]\d{1,2})?", re.IGNORECASE)
_NUMBER: Final = re.compile(r"[0-9]{1,2}")


@dataclass(slots=True, kw_only=True)
class JobInputs:
    job: Job
    settings: Settings
    scratch: Path
    documents: Sequence[Manifest]  # ConfigMaps and Secrets of the user's files
    objects: Callable[[], Sequence[Manifest]]  # the plugins' objects in their current state
    claims: Mapping[str, Path]
    host_accesses: Sequence[HostAccess] = ()  # what the user has consented to
    address_of: Callable[[str], str]  # a pod's short name -> its address
    image_of: Callable[[str], Image | None]  # None: the host's file system serves as image
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)
    snapshot: Snapshot | None = None  # what pods get in place of the working directory
    _sources: tuple[list[Manifest], ConfigSources, list[Problem]] | None = None
    _hosts: bytes = b""
    real_paths: Mapping[str, str] = field(init=False)  # where paths of this machine lead
    _write_facts: ConsentFacts = field(init=False)

    def __post_init__(self) -> None:
        self._write_facts = write_facts(self.settings)
        self.real_paths = real_paths(self.host_accesses, self.settings.shared_paths())

    def config_sources(self) -> tuple[ConfigSources, list[Problem]]:
        """Parse again only after the plugins' objects changed: large jobs ask once per container."""
        objects = list(self.objects())
        if self._sources is None or self._sources[0] != objects:
            found = read_config_sources([*self.documents, *objects], self.claims, self.real_paths)
            self._sources = (objects, *found)
            self._hosts = b""
        return self._sources[1], self._sources[2]

    def names(self) -> Mapping[str, Iterable[str]]:
        """Map each pod's address to the names that lead to it."""
        named = []
        for slot in slots(self.job):
            labels = {
                keys.JOB_NAME: self.job.name,
                keys.JOB_NAMESPACE: self.job.namespace,
                keys.TASK_SPEC: slot.task.name,
            }
            address = self.address_of(slot.short_name)
            named.append(NamedPod(address, truncated(slot.hostname), slot.subdomain, labels))
        services = [manifest for manifest in self.objects() if manifest["kind"] == "Service"]
        return names_by_address(named, services, self.job.namespace)

    def hosts(self) -> bytes:
        """Return the part of /etc/hosts that all pods of the job share."""
        self.config_sources()
        if not self._hosts:
            self._hosts = hosts_text(self.names()).encode()
        return self._hosts

    def resize(self, job: Job) -> None:
        """Use another size of the job for the pods that start from now on."""
        self.job, self._hosts = job, b""

    def sandbox_options(self, manifests: Iterable[Manifest]) -> SandboxOptions:
        """With the paths of this machine that containers mount, as far as the user and the job name them."""
        settings = self.settings
        volumes = (volume for manifest in manifests for volume in manifest["spec"].get("volumes") or [])
        paths = [
            *([settings.workdir] if settings.share_workdir else []),
            *([self.snapshot.directory] if self.snapshot is not None else []),
            *settings.python,
            *(mount.path for mount in settings.mounts),
            *self.claims.values(),
            *(normal_path(str(volume["hostPath"].get("path"))) for volume in volumes if volume.get("hostPath")),
        ]
        return SandboxOptions(list(dict.fromkeys(map(str, paths))), settings.nested_namespaces)

    def host_mounts(self, image: Image | None, container: Manifest) -> list[Mount]:
        """Return what a container mounts of this machine besides its volumes.

        Mounted is where a path led before the first pod ran. Links that pods have made since are not followed.
        """
        settings = self.settings
        files = settings.files.get(str(container.get("image") or ""), {})
        wanted = [
            *([(settings.workdir, settings.workdir, settings.workdir_read_only)] if settings.share_workdir else []),
            *((path, path, True) for path in settings.python if image is None),
            *((mount.path, mount.target, mount.read_only) for mount in settings.mounts),
            *((source, path, True) for path, source in files.items() if source.is_dir()),
        ]
        return [
            Mount(self.real_paths[str(path)], str(target), read_only, volume="/") for path, target, read_only in wanted
        ]

    def live_mounts(self) -> list[Mount]:
        """Return what stays live in the snapshot of the working directory."""
        here, read_only = self.settings.workdir, self.settings.workdir_read_only
        paths = () if self.snapshot is None else self.snapshot.live
        real = self.real_paths[str(here)]
        return [Mount(f"{real}/{path}", f"{here}/{path}", read_only, volume="/") for path in paths]

    def volumes(self, container: Manifest, manifest: Manifest, facts: PodFacts) -> Volumes:
        """Plan the volumes of a container; one that would write to what is read-only is a problem."""
        sources, _ = self.config_sources()
        planned = volume_mounts(container, manifest, facts, sources, self.scratch)
        mounts = (mount for mount in planned.mounts if isinstance(mount, Mount))
        refused = [problem for each in mounts if (problem := refuse_writing(each, self.settings, self._write_facts))]
        return msgspec.structs.replace(planned, problems=(*planned.problems, *refused)) if refused else planned

    def pod_facts(self, manifest: Manifest, uid: str, address: str) -> PodFacts:
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

    def argv(self, container: Manifest, image: Image | None, env: Mapping[str, str]) -> tuple[str, ...]:
        """Return the container's command line. Raises StartError if there is none."""
        name = str(container.get("image") or "")
        command = expand_all(container.get("command") or [], env) or self.settings.entrypoints.get(name, ())
        args = expand_all(container.get("args") or [], env)
        argv = (*command, *args) if image is None else image.config.argv(command, args)
        # Without an entrypoint the arguments are the command, but no program is named like an option.
        if not argv or argv[0].startswith("-"):
            lack, fetch = f"its image {name} names none", tuple[str | Option, ...]()
            if image is None:
                lack = f"this machine has no image {name}"
                fetch = (f"`pumice image pull {name}` or ", Option("pull", True), " fetches it; else ")
            path, entrypoint = Option("image", {name: "PATH"}), Option("entrypoint", {name: "COMMAND"})
            hint = (*fetch, path, " (a directory or archive), or ", entrypoint)
            raise NoCommandError(Problem(f"has no command, and {lack}", hint))
        return argv

    def problems(self, manifest: Manifest, container: Manifest) -> list[Problem]:
        """Return what would keep the container from starting, as far as it is known before the sandbox is open."""
        facts = self.pod_facts(manifest, "", "")
        sources, problems = self.config_sources()
        _, missing = container_env(container, manifest, facts, sources)
        volumes = self.volumes(container, manifest, facts)
        found = [*problems, *missing, *volumes.problems, *refused_restrictions(manifest, container)]
        try:
            self.argv(container, self.image_of(str(container.get("image") or "")), {})
        except NoCommandError as error:
            found.append(error.detail)
        return found


class NoCommandError(StartError):
    def __init__(self, problem: Problem) -> None:
        super().__init__(IMAGE, problem.spelled(FLAGS).text)
        self.detail = problem


def stop_signal(container: Manifest, image: Image | None) -> int:
    """Return the number of the signal; SIGTERM where an image names none that exists."""
    text = str(
        (container.get("lifecycle") or {}).get("stopSignal") or ("" if image is None else image.config.stop_signal)
    )
    if _NUMBER.fullmatch(text):
        number = int(text)
    elif found := _NAME.fullmatch(text):
        number = int(getattr(signal, f"SIG{found[1].upper()}", 0))
        number += int(found[2] or 0) if number else 0
    else:
        number = 0
    return number if 0 < number < signal.NSIG else int(signal.SIGTERM)
