"""Which of the user's Pythons has torch, tensorflow, ray or mpi4py, for `make run`, `make examples` and the tests.

The frameworks stay out of the project's own environment: each is larger than all else together, and the user may have
it already. So this probes the Pythons of the user, each in its own process, and then the private environment that
`scripts.fetching` may have made in the user's cache directory.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.user_cache import cache_directory


@dataclass(frozen=True, slots=True)
class Framework:
    name: str
    modules: tuple[str, ...]  # what the examples import
    packages: tuple[str, ...]
    download: str
    disk: int
    imports: str = ""  # a program that ends well where the examples can run
    has_cpu_build: bool = False  # a much smaller one, in an index of its own
    hint: str = ""

    @property
    def search(self) -> str:
        """A program that ends well where the modules are installed. It imports none of them: that takes seconds."""
        return f"""
import importlib.util, sys
if any(importlib.util.find_spec(name) is None for name in {self.modules}): sys.exit(1)
"""

    @property
    def probe(self) -> str:
        """A program that ends well where the examples can run."""
        return self.search + self.imports

    @property
    def variable(self) -> str:
        """Return the variable that names a Python for this framework alone; few users have all in one environment."""
        return f"{self.name.upper()}_PYTHON"

    @property
    def done(self) -> str:
        """A file of the private environment, written last: what was interrupted is continued and not trusted."""
        return f"{self.name}-is-complete"


TORCH = Framework(
    name="torch",
    modules=("torch",),
    imports="""
import torch.distributed as dist
sys.exit(not (dist.is_available() and dist.is_gloo_available()))
""",
    packages=("torch", "numpy"),
    download="2.9 GB",
    disk=5_200_000_000,
    has_cpu_build=True,
    hint="on Debian the small way is apt-get install python3-torch",
)
TENSORFLOW = Framework(
    name="tensorflow",
    modules=("tensorflow",),
    imports="""
import tensorflow.compat.v1 as tf
tf.train.Server
""",
    packages=("tensorflow-cpu",),
    download="315 MB",
    disk=1_500_000_000,
    hint="tensorflow-cpu is there for Python 3.11 to 3.13",
)
RAY = Framework(
    name="ray",
    # Ray starts its client server only where grpc is installed, and refuses the port of it otherwise. The others: Tune.
    modules=("ray", "grpc", "pandas", "pyarrow", "tensorboardX"),
    packages=("ray[client,tune]",),
    download="160 MB",
    disk=700_000_000,
)
MPI4PY = Framework(
    name="mpi4py",
    modules=("mpi4py",),
    packages=("mpi4py",),
    download="2 MB",
    disk=50_000_000,
)
# Other clients of a cluster, which the tests use as they are.
TORCHX = Framework(
    name="torchx",
    modules=("torchx", "kubernetes"),
    packages=("torchx==0.7.0", "kubernetes"),
    download="45 MB",
    disk=150_000_000,
)
FRAMEWORKS = {framework.name: framework for framework in (TORCH, TENSORFLOW, RAY, MPI4PY, TORCHX)}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A Python that may have a framework. `venv` is what VIRTUAL_ENV must say for a run with it, if anything."""

    python: str
    venv: str = ""


def candidates(framework: Framework, environ: Mapping[str, str], project: Path) -> Iterator[Candidate]:
    """The user's Pythons, in order: those named, the one of the active environment, the one on PATH."""
    active = environ.get("VIRTUAL_ENV", "")
    for named in filter(None, (environ.get(name) for name in (framework.variable, "PYTHON"))):
        if found := shutil.which(named, path=environ.get("PATH")):
            yield Candidate(found, venv_of(found))
    # The project's own environment never has a framework: do not probe it.
    if active and Path(active).resolve() != (project / ".venv").resolve():
        yield Candidate(str(Path(active, "bin", "python3")), active)
    if found := shutil.which("python3", path=environ.get("PATH")):
        yield Candidate(found, venv_of(found))


def venv_of(python: str) -> str:
    """The environment that an interpreter belongs to, or nothing."""
    folder = Path(python).absolute().parent.parent
    return str(folder) if (folder / "pyvenv.cfg").is_file() else ""


def can_run(framework: Framework, python: str) -> bool:
    """Whether this Python can do what the examples do; probed in its own process, because the import may crash.

    What is installed below the user's home directory does not count: pods do not see it.
    """
    return _ends_well(python, framework.probe)


def _ends_well(python: str, program: str) -> bool:
    try:
        done = subprocess.run([python, "-Ic", program], capture_output=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def private_environment(framework: Framework, environ: Mapping[str, str]) -> Path:
    """Where the framework is put if the user has none, for this run and all later ones."""
    return cache_directory(framework.name, environ)


def find(framework: Framework, environ: Mapping[str, str], project: Path) -> Candidate | None:
    """A Python that has it already."""
    probed = set()
    for candidate in candidates(framework, environ, project):
        if candidate.python not in probed and can_run(framework, candidate.python):
            return candidate
        probed.add(candidate.python)
    private = private_environment(framework, environ)
    python = str(private / "bin" / "python3")
    # One that was fetched for older examples may lack a module of the new ones.
    if (private / framework.done).is_file() and _ends_well(python, framework.search):
        return Candidate(python, str(private))
    return None


def environment(chosen: Candidate, environ: Mapping[str, str]) -> dict[str, str]:
    """What makes `pumice run` take the chosen Python: its environment active, or its directory first on PATH."""
    kept = {name: value for name, value in environ.items() if name != "VIRTUAL_ENV"}
    if chosen.venv:
        return {**kept, "VIRTUAL_ENV": chosen.venv}
    return {**kept, "PATH": f"{Path(chosen.python).parent}{os.pathsep}{environ.get('PATH', os.defpath)}"}
