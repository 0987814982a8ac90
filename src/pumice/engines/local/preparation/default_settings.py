"""The settings of a run without any flag: the working directory, the state directory, and the Python that pods get.

Where this machine serves as image, pods get a Python of the user's. Environments are read (`pyvenv.cfg`, `*.dist-
info`), never run: a project's own may have been made by anybody.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from pumice.engines.local.host_access.consent import is_within
from pumice.engines.local.sandbox.specs import SYSTEM_DIRECTORIES
from pumice.model.problem import Position
from pumice.store.files.state_directory import state_directory
from pumice.store.never_shared import is_never_shared
from pumice.store.run_errors import InvalidOption
from pumice.store.settings import HostAccess, Settings, home_directory, working_directory

# By plugin, the distributions of which one must be there.
_FRAMEWORKS: Final = {
    "pytorch": ("torch",),
    "tensorflow": ("tensorflow", "tensorflow_cpu"),
    "ray": ("ray",),
    "mpi": ("mpi4py",),
}
_OPTIONAL: Final = {"mpi"}  # an MPI program need not be Python: an environment with it is preferred, none is missing
_METADATA: Final = re.compile(r"([A-Za-z0-9_.]+)-([0-9][^-]*?)(?:-py[0-9.]+)?\.(?:dist|egg)-info")
_KNOWN: Final = (*(name for names in _FRAMEWORKS.values() for name in names), "pumice")


class ActivePython(Struct, frozen=True):
    """`bin` goes to the front of PATH; `directories` are all that this Python needs to run."""

    bin: str = ""
    directories: tuple[Path, ...] = ()
    version: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)  # frameworks and Pumice, with their versions
    of_project: bool = False  # the `.venv` beside the Job file

    def has(self, plugin: str) -> bool:
        return any(name in self.packages for name in _FRAMEWORKS[plugin])

    def text(self, plugins: Sequence[str], home: Path | None) -> str:
        """`~/train/.venv/bin/python 3.12, torch 2.9.1`."""
        if not self.bin:
            return ""
        name = next((name for name in ("python", "python3") if Path(self.bin, name).exists()), "python3")
        path = f"{self.bin}/{name}"
        if home is not None and Path(path).is_relative_to(home):
            path = f"~/{Path(path).relative_to(home)}"
        found = [f"{each} {version}" for each, version in sorted(self.packages.items()) if each != "pumice"]
        needed = [plugin for plugin in _wanted(plugins) if plugin not in _OPTIONAL]
        missing = [f"no {_FRAMEWORKS[plugin][0]}" for plugin in needed if not self.has(plugin)]
        return ", ".join([f"{path} {self.version}".rstrip(), *found, *missing])


def active_python(
    environ: Mapping[str, str], plugins: Sequence[str] = (), project: Path | None = None, named: str = ""
) -> ActivePython:
    """Return `named`, else the first that has what the plugins need, else the first that has not only Pumice.

    Raises InvalidOption.
    """
    wanted = _wanted(plugins)
    if named:
        # An interpreter, or the directory of an environment.
        path = f"{named}/bin/python3" if Path(named).is_dir() else named
        program = shutil.which(path, path=environ.get("PATH"))
        if program is None:
            hint = "name an interpreter, such as .venv/bin/python, or the directory of an environment"
            raise InvalidOption(f"{named}: no such Python", hint, Position(option="python"))
        # `../env` is shown and mounted without the dots. The interpreter may be a link, into another environment.
        return read_python(Path(program).parent.resolve() / Path(program).name)
    found = [read_python(path, of_project=of_project) for path, of_project in _usable(environ, wanted, project)]
    complete = [each for each in found if wanted and all(map(each.has, wanted))]
    # Pumice's own checkout has a `.venv` as well: a job beside it does not ask for that one.
    needs = set(wanted) - _OPTIONAL
    others = [each for each in found if "pumice" not in each.packages or not (needs or each.of_project)]
    return next(iter([*complete, *others, *found]), ActivePython())


def python_with(module: str, environ: Mapping[str, str], project: Path | None = None) -> str:
    """Return a Python of this machine that has a module; empty if none is known."""
    for path, _ in _usable(environ, tuple(_FRAMEWORKS), project):
        layout = _layout(path)
        for library in _libraries(layout.prefixes, layout.version):
            if (library / module).is_dir() or (library / f"{module}.py").is_file():
                return str(path)
    return ""


def _usable(environ: Mapping[str, str], wanted: Sequence[str], project: Path | None) -> Iterator[tuple[Path, bool]]:
    for path, of_project in dict.fromkeys(_candidates(environ, wanted, project)):
        if os.access(path, os.X_OK) and path.is_file():
            yield path, of_project


def _wanted(plugins: Iterable[str]) -> list[str]:
    return [plugin for plugin in plugins if plugin in _FRAMEWORKS]


def _candidates(environ: Mapping[str, str], wanted: Sequence[str], project: Path | None) -> Iterator[tuple[Path, bool]]:
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if environ.get(name):
            yield Path(environ[name], "bin", "python3"), False
    if project is not None:
        yield project / ".venv" / "bin" / "python3", True
    for directory in environ.get("PATH", os.defpath).split(os.pathsep):
        path = Path(directory or ".", "python3").absolute()
        # Access comes first: below a directory that the user may not enter, is_file raises an error.
        if os.access(path, os.R_OK) and path.is_file() and (real := _behind_shim(path, environ)) is not None:
            yield real, False
            break
    home = home_directory(environ)
    cache = Path(environ.get("XDG_CACHE_HOME") or (home / ".cache" if home is not None else "/nonexistent"))
    for plugin in wanted:
        # The environment that `make run` fetched; the file is written last.
        name = _FRAMEWORKS[plugin][0]
        if (cache / "pumice" / name / f"{name}-is-complete").is_file():
            yield cache / "pumice" / name / "bin" / "python3", False


def _behind_shim(path: Path, environ: Mapping[str, str]) -> Path | None:
    """Return the interpreter itself; of a version manager's script, the one that it starts, if its files say so."""
    with path.open("rb") as file:
        if file.read(2) != b"#!":
            return path
    root = path.parent.parent
    version = environ.get("PYENV_VERSION", "")
    if not version and (root / "version").is_file():
        version = (root / "version").read_text().partition("\n")[0].strip()
    found = root / "versions" / version / "bin" / "python3"
    return found if version and found.is_file() else None


def read_python(path: Path, *, of_project: bool = False) -> ActivePython:
    """Read what an environment is from its files."""
    layout = _layout(path)
    paths = [each for directory in layout.needed for each in (directory, Path(os.path.realpath(directory)))]
    directories = dict.fromkeys(each for each in paths if each.is_dir() and each not in (Path("/usr"), Path("/")))
    packages = {}
    for library in _libraries(layout.prefixes, layout.version):
        for name in _KNOWN:
            for found in library.glob(f"{name}-*-info"):
                if (match := _METADATA.fullmatch(found.name)) and match[1] == name:
                    packages[name] = match[2]
    return ActivePython(str(path.parent), tuple(directories), layout.version, packages, of_project)


class _Layout(Struct, frozen=True):
    version: str
    prefixes: Sequence[Path]  # with its packages
    needed: Sequence[Path]  # the directories that it needs to run


def _layout(path: Path) -> _Layout:
    try:
        lines = (path.parent.parent / "pyvenv.cfg").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    pairs = (line.partition("=") for line in lines if "=" in line)
    config = {name.strip().lower(): value.strip() for name, _, value in pairs}
    real = Path(os.path.realpath(path))
    prefix = path.parent.parent if config or real.name == path.name else real.parent.parent
    home = Path(config.get("home", "") or real.parent)
    bases = [home.parent, Path(os.path.realpath(home)).parent, real.parent.parent]
    version = config.get("version", "") or config.get("version_info", "")
    minor = ".".join(version.split(".")[:2])
    if not minor and (match := re.fullmatch(r"python(3\.[0-9]+).*", real.name)):
        minor = match[1]
    elif not minor:
        found = sorted((real.parent.parent / "lib").glob("python3.*"))
        minor = found[-1].name.removeprefix("python") if found else ""
    with_bases = not config or config.get("include-system-site-packages") == "true"
    return _Layout(minor, [prefix, *(bases if with_bases else ())], [prefix, *bases])


def find_environment(directory: Path, environments: Iterable[Path]) -> Path | None:
    """Return the environment, virtual or of conda, that a directory is or is in."""
    real = Path(os.path.realpath(directory))
    found = (each for each in environments if real.is_relative_to(os.path.realpath(each)))
    return next((each for each in found if (each / "pyvenv.cfg").exists() or (each / "conda-meta").exists()), None)


def _libraries(prefixes: Iterable[Path], version: str) -> Iterator[Path]:
    for prefix in dict.fromkeys(prefixes):
        roots = [prefix, prefix / "local"]
        parents = [root / lib / f"python{version}" for root in roots for lib in ("lib", "lib64")]
        for parent in (*parents, prefix / "lib" / "python3"):
            yield from (parent / kind for kind in ("site-packages", "dist-packages"))


def default_settings(
    environ: Mapping[str, str], plugins: Sequence[str] = (), project: Path | None = None, python: str = ""
) -> Settings:
    """Settings for a run in the working directory, with the Python that suits the job.

    Raises InvalidOption.
    """
    workdir = working_directory()
    chosen = active_python(environ, plugins, project, python)
    # And every Python that the user may start next, whichever of them pods get.
    pythons = [chosen, *(read_python(path) for path, _ in _usable(environ, (), project))]
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
