"""Jobs for scripts: `pumice init train.py` writes one as a file, `pumice run train.py` runs it."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from pumice.client.job_templates import FRAMEWORKS, STARTED_BY, NewJob, job_file
from pumice.model.problem import Position
from pumice.model.suggestions import nearest
from pumice.model.syntax import dns_label_error
from pumice.model.text import printable
from pumice.store.run_errors import InvalidOption

DEFAULT_WORKERS: Final = "2"
DEFAULT_GPUS: Final = "0"
_LONGEST_NAME: Final = 40  # the names of pods and Services are longer
_LONGEST_READ: Final = 1 << 20  # imports are at the beginning of a script
# By framework, the modules that need it. A script that imports several gets the first: Ray and MPI start the others.
_MODULES: Final = {
    "ray": {"ray"},
    "mpi": {"mpi4py", "horovod"},
    "torch": {"torch", "accelerate", "deepspeed", "lightning", "pytorch_lightning", "transformers"},
    "tensorflow": {"tensorflow", "keras"},
}
# What every Job file has, in UTF-8, or begins with in another encoding.
_JOB_WORDS: Final = re.compile(rb"apiVersion|kind|metadata|\A(?:\xff\xfe|\xfe\xff|\xef\xbb\xbf|\0)")
_COLLECTIVE: Final = "MultiWorkerMirroredStrategy"  # waits for ever where TF_CONFIG names a parameter server
_IMPORT: Final = re.compile(r"^[ \t]*(?:from[ \t]+(\w+)|import[ \t]+([\w., \t]+))", re.MULTILINE)
_LOCAL_RANK: Final = re.compile(r"""\b(?:environ\s*(?:\[|\.get\s*\()|getenv\s*\()\s*["']LOCAL_RANK["']""")


JOB_SUFFIXES: Final = (".yaml", ".yml", ".json")
_HEAD: Final = 1 << 16  # bytes that say what a file is


def is_script(file: str) -> bool:
    """Return whether a file that is to run is a script or a program; else it is a Job file. Raises InvalidOption."""
    try:
        return file != "-" and _is_script(Path(file), file)
    except (OSError, ValueError):
        # Who reads it as a Job file says why it cannot be read.
        return False


def _is_script(path: Path, file: str) -> bool:
    """Raises OSError, ValueError and InvalidOption."""
    if not os.path.lexists(file):
        _refuse_missing(path, file)
    if path.suffix.lower() in JOB_SUFFIXES:
        return False
    if path.is_dir():
        raise _refused(file, "is a directory", "name a script or a Job file in it")
    if not path.is_file():
        return False
    is_named = path.suffix in STARTED_BY
    with path.open("rb") as stream:
        head = stream.read(_HEAD)
    is_program = head.startswith((b"#!", b"\x7fELF"))
    if is_named and not head.strip():
        raise _refused(file, "is empty", "write the program first")
    if b"\0" in head and (is_named or not is_program) and not _JOB_WORDS.search(head):
        raise _refused(file, "is neither a Job file nor a script: it is not text", "")
    if is_program and not is_named and not os.access(path, os.X_OK):
        raise _refused(file, "is a program that is not executable", f"chmod +x {shlex.quote(file)}")
    if not is_named and not is_program and head.strip() and not _JOB_WORDS.search(head):
        hint = "a Job file is YAML, such as train.yaml; a script ends with .py or .sh, or is executable"
        raise _refused(file, "is neither a Job file nor a script", hint)
    return is_named or is_program


def _refuse_missing(path: Path, file: str) -> None:
    """Raises InvalidOption for a file that does not exist, if a script may be meant."""
    first, _, rest = file.partition(" ")
    if rest and Path(first).is_file():
        again = f"pumice run {shlex.quote(first)} -- {rest}"
        raise _refused(file, "no such file", f"arguments of the program go after --: {again}")
    plain, is_job = path.with_suffix(""), path.suffix.lower() in JOB_SUFFIXES
    scripts = [path.with_suffix(each) for each in STARTED_BY if path.with_suffix(each).is_file()]
    if is_job and scripts:
        script = shlex.quote(str(scripts[0]))
        raise _refused(file, "no such file", f"pumice run {script} runs the script; pumice init {script} writes it")
    others = [path.with_name(f"{path.name}{each}") for each in (*STARTED_BY, *JOB_SUFFIXES)]
    others += [plain] if is_job and plain.suffix in STARTED_BY else []
    others += scripts if path.suffix not in STARTED_BY else []
    if similar := next((each for each in others if each.is_file()), None):
        raise _refused(file, "no such file", f"did you mean {similar}?")
    if path.suffix in STARTED_BY:
        names: list[str] = []
        with suppress(OSError):
            names += [each.name for each in path.parent.iterdir() if each.suffix in (*STARTED_BY, *JOB_SUFFIXES)]
        other = nearest(path.name, names)
        hint = f"did you mean {path.with_name(other)}?" if other else "name a script, such as train.py, or a Job file"
        raise _refused(file, "no such file", hint)


def _refused(file: str, message: str, hint: str) -> InvalidOption:
    return InvalidOption(message, hint, Position(file))


class ScriptOptions(Struct, frozen=True):
    """Options of a script, as they are typed; None if they are not given."""

    name: str | None = None
    workers: str | None = None
    gpus: str | None = None
    framework: str | None = None

    def problems(self) -> Iterator[str]:
        """Yield what is wrong with them."""
        for flag, text, least in (("--workers", self.workers, 1), ("--gpus", self.gpus, 0)):
            if text and (error := number_error(text, least=least)):
                yield f"{flag}: {printable(text)}: {error}"
        if self.name is not None:
            if error := dns_label_error(self.name):
                yield f"--name: {printable(self.name)}: {error}\n  hint: for example {job_name(self.name)}"
            elif not self.name[0].isalpha():
                yield f"--name: {self.name}: must begin with a letter\n  hint: for example {job_name(self.name)}"


class ScriptJob(Struct, frozen=True):
    """The Job of a script. `why` says how its framework is known, if it was not given."""

    name: str
    text: str
    ranks: str
    framework: str
    why: str


def script_job(script: str, options: ScriptOptions, args: tuple[str, ...] = (), file: str = "") -> ScriptJob:
    """Return the Job of a script, from options without problems. `file` is the name of its file; default NAME.yaml."""
    path = script_path(script)
    name = options.name or job_name(path)
    workers, gpus = int(options.workers or DEFAULT_WORKERS), int(options.gpus or DEFAULT_GPUS)
    framework, why = (options.framework, "") if options.framework else guess(Path(path))
    if why.startswith(";") and not options.workers:
        why += ", --workers the number of ranks"
    text = _text(Path(path))
    serves, reads_rank = _COLLECTIVE not in text, _LOCAL_RANK.search(text) is not None
    new = NewJob(name, path, workers, gpus, file or f"{name}.yaml", args, serves, reads_rank)
    written = job_file(framework, new)
    return ScriptJob(name, written.text, written.ranks, framework, why)


def job_name(script: str) -> str:
    """The name of a script without its suffix, made a name that Kubernetes accepts."""
    name = re.sub("[^a-z0-9]+", "-", Path(script).stem.lower()).strip("-")
    if not name[:1].isalpha():
        name = f"job-{name}"
    return name[:_LONGEST_NAME].strip("-")


def _text(script: Path) -> str:
    """Return the text of a script, which is read and never run; empty if it cannot be read."""
    try:
        with script.open(encoding="utf-8", errors="replace") as file:
            return file.read(_LONGEST_READ) if script.is_file() else ""
    except OSError:
        return ""


def guess(script: Path) -> tuple[str, str]:
    """The framework that a script imports, and how that is known."""
    text = _text(script)
    names = [name for found in _IMPORT.findall(text) for name in (found[0], *found[1].split(","))]
    modules = {name.strip().partition(".")[0].partition(" ")[0] for name in names}
    for framework, known in _MODULES.items():
        if found := sorted(modules & known):
            return framework, f", because {script} imports {found[0]}"
    others = ", ".join(FRAMEWORKS[1:-1])
    return FRAMEWORKS[0], f"; --framework chooses {others} or {FRAMEWORKS[-1]}"


def number_error(text: str, *, least: int) -> str:
    # Not isdecimal, which accepts the digits of all scripts.
    good = re.fullmatch("[0-9]{1,3}", text) and int(text) >= least
    return "" if good else f"must be a number from {least} to 999"


def script_path(script: str) -> str:
    """The path of a script as pods find it: relative to the working directory, which they share."""
    path = os.path.normpath(script)
    here = str(Path.cwd())
    return os.path.relpath(path, here) if path.startswith(f"{here}{os.sep}") else path


def script_warnings(script: str) -> Iterator[str]:
    """What keeps the job of a script from running in the working directory."""
    path = script_path(script)
    if not Path(path).exists():
        yield "does not exist yet"
    elif not path.endswith(tuple(STARTED_BY)) and not os.access(path, os.X_OK):
        yield f"is not executable: chmod +x {shlex.quote(path)}"
    if path.startswith(("/", "..")):
        yield "is outside of the working directory, and pods may not see it: call init in its directory"
