"""The settings of a run without any flag: the working directory, the state directory and the active Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pumice.engines.local.container_spec.active_python import active_python, find_environment, user_pythons
from pumice.engines.local.host_access.access import is_within
from pumice.engines.local.sandbox.specs import SYSTEM_DIRECTORIES
from pumice.store.files.state_directory import state_directory
from pumice.store.never_shared import is_never_shared
from pumice.store.settings import HostAccess, Settings, home_directory, working_directory


def default_settings(
    environ: Mapping[str, str], plugins: Sequence[str] = (), project: Path | None = None, python: str = ""
) -> Settings:
    """Settings for a run in the working directory, with the Python that suits the job.

    Raises InvalidOption.
    """
    workdir = working_directory()
    chosen = active_python(environ, plugins, project, python)
    pythons = [chosen, *user_pythons(environ, project)]
    environments = dict.fromkeys(each for found in pythons for each in found.directories)
    home = home_directory(environ)
    own_environment = find_environment(workdir, environments)
    accesses = [HostAccess(each, True, ".venv beside the job file") for each in chosen.directories]
    own = [Path(os.path.realpath(project))] if project is not None else []
    inside = [*own, *(Path("/", name) for name in SYSTEM_DIRECTORIES)]
    return Settings(
        workdir=workdir,
        share_workdir=not is_never_shared(workdir),
        workdir_read_only=own_environment is not None,
        workdir_environment=own_environment,
        environments=tuple(path for path in environments if path != home),
        interpreters=tuple(dict.fromkeys(Path(found.bin, "python3") for found in pythons if found.bin)),
        state=state_directory(environ),
        python=chosen.directories,
        python_text=chosen.text(plugins, home),
        path=chosen.bin,
        host_accesses=tuple(each for each in accesses if chosen.of_project and not is_within(each.real, inside)),
    )
