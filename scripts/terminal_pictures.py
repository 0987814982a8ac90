"""What `make pictures` does: types commands on real terminals and draws what they print as docs/images/*.svg.

The commands are real, and so is what they print. A picture is written again only if its text changed: times, addresses
and paths differ in every run, and `comparable` leaves them out. tests/docs/test_terminal_pictures.py compares the same.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.fetching import FetchError, fetch
from scripts.frameworks import TORCH, Candidate, Framework, environment, find
from scripts.terminal import output_on_terminal, show
from scripts.terminal_svg import svg, text

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
PROMPT = "$ "


@dataclass(frozen=True, slots=True)
class Picture:
    name: str
    command: str
    columns: int = 100
    framework: Framework | None = None

    @property
    def file(self) -> Path:
        return IMAGES / f"{self.name}.svg"


PICTURES = (
    Picture("run", "pumice run examples/ddp-resume.yaml", columns=110, framework=TORCH),
    Picture("failure", "pumice run average.yaml"),
    Picture("explain", "pumice explain examples/pytorch-job.yaml worker-1"),
    Picture("shortage-80", "pumice run llama.yaml", columns=80),
    Picture("shortage-200", "pumice run llama.yaml", columns=200),
)

# What differs from run to run and from machine to machine.
_DIFFERS = (
    (r"^(\S+ )?python .*", "python"),  # which one, with which framework
    (r"[\w.~-]*/[\w./~-]*/runs/\S+", "DIRECTORY"),
    (r"-[0-9a-f]{8}\b|-pvc-[0-9a-z]{12}\b", "-UID"),
    (r"\b(\d+(\.\d+)?s|\d+m(\d\ds)?)( +)", "TIME "),
    (r"\b\d+(\.\d+)?s\b|\b\d+m(\d\ds)?\b", "TIME"),
    (r"\b\d+(\.\d+)? (KiB|MiB|GiB|TiB)\b|\b\d+\.\d+\b", "NUMBER"),
    (r"\d+ succeeded(, \d+ ended by CompleteJob)?", "all ended"),  # a quick pod succeeds before it is ended
    (r"(Running) +\d+/\d+", r"\1"),  # a pod that ends at once is not counted
    (r" +", " "),
)
_OF_A_POD = re.compile(r"[a-z][a-z0-9-]*-\d+ ")


def comparable(lines: Sequence[str]) -> list[str]:
    """Return the lines of each pod together, since pods run side by side, and without what differs from run to run."""
    found: dict[str, list[str]] = {}
    for line in lines:
        same = line.strip()
        for pattern, word in _DIFFERS:
            same = re.sub(pattern, word, same)
        if same == "TIME Running":
            # A pod that fails at once may do so before its job is said to run.
            continue
        pod = _OF_A_POD.match(line)
        group = found.setdefault(pod[0] if pod else "", [])
        if not group or group[-1] != same:
            group.append(same)
    # Where messages are broken depends on the length of paths.
    messages = " ".join(found.pop("", []))
    return [messages, *(line for pod in sorted(found) for line in found[pod])]


def drawn(picture: Picture, environ: Mapping[str, str]) -> str:
    """Type the command of a picture in a fresh home directory, and return the picture."""
    with tempfile.TemporaryDirectory(prefix="pumice-picture-") as directory:
        home = Path(directory).resolve() / "home"
        project = home / "train"
        shutil.copytree(ROOT / "examples", project / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        for job in IMAGES.glob("*.yaml"):
            shutil.copy(job, project)
        program, *words = shlex.split(picture.command)
        argv = [str(Path(sys.executable).with_name(program)), *words]
        output = output_on_terminal(_on_two_cores(argv), picture.columns, project, _environ(picture, home, environ))
        for real in (home, Path.home()):
            output = output.replace(f"{real}/", "~/")
        # A directory of this machine may have a name that needs quotes.
        output = re.sub(r"'(~/[^'\s]*)'", r"\1", output)
    lines = show(f"{PROMPT}\x1b[1m{picture.command}\x1b[0m\r\n{output}", picture.columns)
    return svg(picture.command, lines, picture.columns)


def _environ(picture: Picture, home: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a user who has activated the Python of a project."""
    if picture.framework is None:
        venv = home / "train" / ".venv"
        subprocess.run([sys.executable, "-I", "-m", "venv", "--without-pip", venv], check=True)
        chosen = Candidate(str(venv / "bin" / "python"), str(venv))
    else:
        chosen = find(picture.framework, environ, ROOT) or fetch(picture.framework, environ, ROOT)
    return {
        "PATH": os.defpath,
        "LANG": "C.UTF-8",
        "TERM": "xterm",
        "HOME": str(home),
        "CUDA_VISIBLE_DEVICES": "",  # a laptop without a GPU
        **{name: value for name, value in environment(chosen, {"PATH": environ["PATH"]}).items() if name != "COLUMNS"},
    }


def _on_two_cores(argv: Sequence[str]) -> list[str]:
    """Return the command with the processors of a small laptop, so that it prints the same on a large machine."""
    limit = "os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])"
    limited = f"import os, sys; {limit}; os.execv(sys.argv[1], sys.argv[1:])"
    return [sys.executable, "-c", limited, *argv]


def _is_current(old: str, new: str) -> bool:
    """Return whether two pictures have the same text and style, though not the same times."""
    styles = [picture.partition("<style>")[2].partition("</style>")[0] for picture in (old, new)]
    return styles[0] == styles[1] and comparable(text(old)) == comparable(text(new))


def main() -> int:
    for picture in PICTURES:
        try:
            new = drawn(picture, os.environ)
        except FetchError as error:
            print(f"pictures: {picture.name}: {error}", file=sys.stderr)
            return 1
        old = picture.file.read_text(encoding="utf-8") if picture.file.is_file() else ""
        if not _is_current(old, new):
            picture.file.write_text(new, encoding="utf-8")
            print(f"pictures: wrote {picture.file.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
