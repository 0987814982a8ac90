"""What `make examples` does: every job of examples/ that can run here, one line each, and what was left out and why.

The frameworks that they need are found or fetched as for `make run`. What a job printed is shown only if it failed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.fetching import FetchError, fetch
from scripts.frameworks import MPI4PY, RAY, TENSORFLOW, TORCH, Candidate, Framework, environment, find
from scripts.isolation import isolation_flags

PROJECT = Path(__file__).resolve().parent.parent
EXAMPLES = PROJECT / "examples"
LONGEST = "5m"
BAD_INPUT, TOO_SMALL = 2, "fit on this machine"


@dataclass(frozen=True, slots=True)
class Example:
    """What a job needs besides `pumice run`; the table of examples/README.md says the same."""

    framework: Framework | None = None
    programs: tuple[str, ...] = ()
    fit: str = ""  # where it needs --fit
    active: bool = False  # no plugin names the framework, so `pumice run` does not look for it

    @property
    def needs(self) -> str:
        names = [self.framework.name + " in the active environment" * self.active] if self.framework else []
        flags = [f"`--fit` {self.fit}"] if self.fit else []
        return ", ".join([*names, *(f"`{program}`" for program in self.programs), *flags]) or "nothing"


_MPI = ("mpiexec", "sshd")
RUNNABLE: dict[str, Example] = {
    "ddp-resume.yaml": Example(TORCH),
    "torchrun.yaml": Example(TORCH),
    "gpu.yaml": Example(TORCH, fit="without GPUs"),
    "pytorch-job.yaml": Example(TORCH),
    "pytorch-job-basic.yaml": Example(TORCH),
    "pytorch-job-zh.yaml": Example(TORCH),
    "tensorflow-dist-mnist.yaml": Example(TENSORFLOW, active=True),
    "tensorflow-dist-mnist-corrected.yaml": Example(TENSORFLOW, active=True),
    "tensorflow-plugin.yaml": Example(TENSORFLOW),
    "lm-mpi-job.yaml": Example(programs=_MPI),
    "mpi-plugin.yaml": Example(programs=_MPI, fit="below 4 cores"),
    "mpi-pi.yaml": Example(MPI4PY, programs=_MPI),
    "ray-job.yaml": Example(RAY),
    "ray-tune.yaml": Example(RAY),
    "sweep.yaml": Example(),
    "env-plugin.yaml": Example(),
    "svc-plugin.yaml": Example(programs=("wget",)),
    "volumes.yaml": Example(),
    "depends-on.yaml": Example(),
    "restarts.yaml": Example(),
    "policies.yaml": Example(),
    "partitions.yaml": Example(),
}
# These show how a file is written. What they need is not part of the examples.
LEFT_OUT: dict[str, str] = {
    "hcclrank-plugin.yaml": "Ascend processors, and your `train.py`",
    "ray-plugin.yaml": "ray, `--fit` below 6 cores, and an end: Ctrl-C or `--timeout`",
    "ssh-plugin.yaml": "an image with an sshd for ordinary users",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    name: str
    word: str  # ok, FAILED or skipped
    text: str = ""
    seconds: float | None = None

    def __str__(self) -> str:
        took = "" if self.seconds is None else f"{self.seconds:.1f} s"
        return f"  {self.word:8}{took:>8}  {self.name:38}{self.text}".rstrip()


def outcomes(environ: Mapping[str, str]) -> Iterator[Outcome]:
    pythons: dict[str, Candidate | str] = {}
    for name, example in RUNNABLE.items():
        missing = [program for program in example.programs if not is_installed(program)]
        framework = example.framework
        if framework is not None and framework.name not in pythons:
            pythons[framework.name] = _python(framework, environ)
        python = pythons[framework.name] if framework is not None else None
        if missing:
            yield Outcome(name, "skipped", f"{', '.join(missing)} not installed")
        elif isinstance(python, str):
            yield Outcome(name, "skipped", python)
        else:
            yield run(name, environ if python is None else environment(python, environ))
    for name, needs in LEFT_OUT.items():
        yield Outcome(name, "skipped", f"needs {needs}")


def flags(name: str) -> list[str]:
    return ["--fit"] if RUNNABLE[name].fit else []


def run(name: str, environ: Mapping[str, str]) -> Outcome:
    """Run one job; show its last line, unless that is a warning of some program."""
    pumice = str(Path(sys.executable).with_name("pumice"))
    started = time.monotonic()
    done = subprocess.run(
        [pumice, "run", f"--timeout={LONGEST}", f"examples/{name}", *flags(name), *isolation_flags()],
        cwd=PROJECT,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    seconds = time.monotonic() - started
    if done.returncode == BAD_INPUT and TOO_SMALL in done.stderr:
        return Outcome(name, "skipped", done.stderr.splitlines()[0].partition(": ")[2])
    if done.returncode:
        said = "\n".join(f"      {line}" for line in (done.stdout + done.stderr).splitlines()[-30:])
        return Outcome(name, "FAILED", f"exit code {done.returncode}\n{said}", seconds)
    lines = [line for line in done.stdout.splitlines() if "Warning:" not in line]
    return Outcome(name, "ok", lines[-1] if lines else "", seconds)


def _python(framework: Framework, environ: Mapping[str, str]) -> Candidate | str:
    """The Python to run with, or why there is none."""
    try:
        return find(framework, environ, PROJECT) or fetch(framework, environ, PROJECT)
    except FetchError as error:
        return f"{framework.name} is not available: {error}"


def is_installed(program: str) -> bool:
    return shutil.which(program, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin") is not None


def main(_: Sequence[str]) -> int:
    started = time.monotonic()
    counts: dict[str, int] = {}
    try:
        for outcome in outcomes(os.environ):
            print(outcome, flush=True)
            counts[outcome.word] = counts.get(outcome.word, 0) + 1
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    total = ", ".join(f"{counts.get(word, 0)} {word}" for word in ("ok", "FAILED", "skipped"))
    print(f"{total} in {time.monotonic() - started:.0f} s")
    return 1 if counts.get("FAILED") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
