"""Reads the flags of `pumice run` and the `pumice.toml` beside the Job file into RunOptions; flags win."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pumice.client.run_options import flags
from pumice.client.run_options.project_file import read_toml
from pumice.client.run_options.user_config import LIMITS, UserConfig, read_user_config
from pumice.engines.local.host_access.consent import is_ordinary
from pumice.engines.local.host_access.never_shared import is_never_shared
from pumice.engines.local.options import Isolation, Network, RunOptions
from pumice.engines.local.preparation.default_settings import default_settings, working_directory
from pumice.engines.local.run_errors import InvalidOption
from pumice.engines.local.state.settings import ExtraMount, Settings, config_directory
from pumice.model.problem import Position


class Flags(Struct, frozen=True):
    """The flags as texts. `file` is the Job file; `-` if there is none."""

    file: str = "-"
    image: Sequence[str] = ()
    entrypoint: Sequence[str] = ()
    env: Sequence[str] = ()
    env_file: Sequence[str] = ()
    mount: Sequence[str] = ()
    allow_host_path: Sequence[str] = ()
    ignore: Sequence[str] = ()
    scale: Sequence[str] = ()
    publish: Sequence[str] = ()
    kill: Sequence[str] = ()
    workdir_read_only: bool = False
    pull: bool = False
    priority: int | None = None
    documents: Sequence[str] = ()
    hold: bool = False
    no_wait: bool = False
    max_wait: str | None = None
    note: str | None = None
    python: str | None = None
    fit: bool = False
    network: str | None = None
    isolation: str | None = None
    unconfined: bool = False
    allow_nested_namespaces: bool = False
    pids_limit: str | None = None
    log_limit: str | None = None
    disk_limit: str | None = None
    timeout: str | None = None
    keep: bool = False


_READ_ONLY: Final = "workdir-read-only"
FLAGS: Final = tuple(field.name for field in msgspec.structs.fields(Flags))


def read_options(given: Flags, plugins: Sequence[str], environ: Mapping[str, str]) -> RunOptions:
    """Raises InvalidOption."""
    try:
        return _options(given, plugins, environ)
    except OSError as error:
        # A path that cannot be looked at: this user may not read a directory above it.
        raise InvalidOption((error.strerror or str(error)).lower(), where=Position(str(error.filename))) from error


def _options(given: Flags, plugins: Sequence[str], environ: Mapping[str, str]) -> RunOptions:
    project = (working_directory() / given.file).resolve().parent if given.file != "-" else None
    defaults = default_settings(environ, plugins, project, given.python or "")
    config = read_user_config(environ)
    here = defaults.workdir
    beside = project or here
    toml = read_toml(beside)
    user_mounts = [*config.mounts, *(flags.mount(text, here, "--mount") for text in given.mount)]
    mounts = [*toml.mounts, *user_mounts]
    inside = defaults.share_workdir and beside.is_relative_to(here)
    if not inside:
        whole = not is_never_shared(beside) and is_ordinary(beside, environ)
        mounts += [ExtraMount(path, read_only=True) for path in ([beside] if whole else toml.files_beside(beside))]
    images, entrypoints = flags.images(given.image), flags.entrypoints(given.entrypoint)
    settings = replace(
        defaults,
        images={**toml.images, **images},
        entrypoints={**toml.entrypoints, **entrypoints},
        programs=toml.programs,
        files=toml.files,
        env=config.env | flags.variables_of_files(given.env_file, environ) | flags.variables(given.env, environ),
        retention=config.retention,
        passed_on=flags.passed_on(given.env, given.env_file),
        mounts=tuple(mounts),
        keep=given.keep,
        workdir_read_only=any((defaults.workdir_read_only, given.workdir_read_only, _READ_ONLY in config.switches)),
        project=beside,
        config=config_directory(environ),
        host_accesses=(*defaults.host_accesses, *toml.accesses(beside)),
        own_accesses=toml.accesses(beside, inside=True),
        allowed=(
            *config.allowed,
            *(flags.host_prefix(text, here) for text in given.allow_host_path),
            *(each.path for each in user_mounts if not each.read_only),
        ),
        unconfined=given.unconfined or "unconfined" in config.switches,
        nested_namespaces=given.allow_nested_namespaces or "allow-nested-namespaces" in config.switches,
    )
    return RunOptions(
        _with_limits(settings, given, config),
        scale=flags.scale(given.scale),
        kills=tuple(flags.kill(text) for text in given.kill),
        publish=tuple(flags.publish(text) for text in given.publish),
        timeout=None if given.timeout is None else flags.timeout(given.timeout),
        wait=not given.no_wait,
        max_wait=None if given.max_wait is None else flags.seconds(given.max_wait, "--max-wait"),
        network=Network(given.network or config.network or Network.OUTBOUND),
        fit=given.fit or toml.fit,
        ignore=tuple(dict.fromkeys(given.ignore)),
        pull=given.pull,
        note=given.note or "",
        priority=given.priority,
        priorities=config.priorities,
        documents=tuple(here / file for file in given.documents if file != "-"),
        hold=given.hold,
        after_reboot=config.after_reboot,
        isolation=Isolation(given.isolation or config.isolation or Isolation.AUTO),
        required_images={"--image": tuple(images), "--entrypoint": tuple(entrypoints)},
    )


def _with_limits(settings: Settings, flags_given: Flags, config: UserConfig) -> Settings:
    """Return the settings with the limits that the user has set."""
    given = {name: getattr(flags_given, name.replace("-", "_")) or config.limits.get(name) for name in LIMITS}
    pids, log, disk = (given[name] for name in LIMITS)
    return replace(
        settings,
        pids=settings.pids if pids is None else flags.processes(pids, "--pids-limit"),
        log_size=settings.log_size if log is None else flags.size(log, "--log-limit"),
        disk=settings.disk if disk is None else flags.size(disk, "--disk-limit"),
    )
