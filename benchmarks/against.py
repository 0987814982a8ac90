"""How long commands take now, compared with another commit: `python -m benchmarks.against COMMIT [PART...]`.

The commit gets a worktree in a temporary directory, and both get an environment there, with the packages of a user.
Both run each command in turns, so
that a busy moment of the machine affects both. Printed are the medians of the time that passes and of the processor
time of all processes of the command, also of those that outlive it, and the ratio now / then of both. On a machine
that does other work, only the processor time says something.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.local import job_of
from benchmarks.runs import store_finished_runs
from pumice.engines.local.sandbox import syscalls
from scripts.measuring import processor_time
from scripts.setup import Python, ensure

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 9
EXAMPLE = str(ROOT / "examples" / "pytorch-job.yaml")
PARTS = {
    "help": ["--help"],
    "validate": ["validate", EXAMPLE],
    "render": ["render", EXAMPLE],
    "ps": ["ps"],
    "run-1": ["run", "1.json"],
    "run-256": ["run", "256.json"],
}
LONGEST = 300


@contextlib.contextmanager
def worktree(commit: str, parent: Path) -> Iterator[Path]:
    """Check the commit out, and yield its environment."""
    tree = parent / "tree"
    subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), commit], cwd=ROOT, check=True)
    try:
        subprocess.run([sys.executable, "scripts/setup.py", "run"], cwd=tree, check=True)
        yield tree / ".venv"
    finally:
        subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)


def measure(command: Sequence[str], directory: Path, environ: dict[str, str]) -> tuple[float, float]:
    """Return the seconds that pass until the command ends, and the processor time until all its processes have."""
    with processor_time() as spent:
        began = time.perf_counter()
        subprocess.run(
            command,
            cwd=directory,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LONGEST,
            check=True,
        )
        took = time.perf_counter() - began
        with contextlib.suppress(ChildProcessError):
            # Processes that outlive their parent are children of this one, see `main`.
            while True:
                os.wait()
        return took, spent()


def compare(part: str, environments: dict[str, Path], environ: dict[str, str], rounds: int) -> None:
    took: dict[str, list[tuple[float, float]]] = {name: [] for name in environments}
    for number in range(rounds + 1):
        for name, environment in environments.items():
            with tempfile.TemporaryDirectory() as home:
                own = environ if part == "ps" else {**environ, "XDG_STATE_HOME": home}
                command = [str(environment / "bin" / "pumice"), *PARTS[part]]
                # Both in one directory that has little: a run records the files that it finds there.
                result = measure(command, Path(environ["PWD"]), own)
            if number:  # the first round fills caches
                took[name].append(result)
    wall, processor = (
        {name: statistics.median(each[index] for each in took[name]) for name in environments} for index in (0, 1)
    )
    line = f"  {part:<10}"
    for seconds in (wall, processor):
        now, then = (1000 * seconds[name] for name in ("now", "then"))
        line += f"{then:>9.0f} {now:>7.0f} {now / then:>7.2f}  "
    print(line, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit", nargs="?", metavar="COMMIT")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"only these of {', '.join(PARTS)}")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of each part; the default is %(default)s")
    args = parser.parse_args()
    if unknown := [part for part in args.parts if part not in PARTS]:
        parser.error(f"{unknown[0]}: must be one of {', '.join(PARTS)}")
    if args.commit is None:
        print("compares with another commit: .venv/bin/python -m benchmarks.against COMMIT")
        return 0
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    with tempfile.TemporaryDirectory() as name, worktree(args.commit, Path(name)) as then:
        now = Path(name, "now")
        # The environment of the checkout has more packages, some of which do something at each start of Python.
        ensure(ROOT, Python.of_this_process(), "run", now)
        home, work = Path(name, "home"), Path(name, "work")
        home.mkdir()
        work.mkdir()
        places = {"PWD": str(work), "XDG_RUNTIME_DIR": str(home), "XDG_STATE_HOME": str(home / "state")}
        environ = {**os.environ, **places}
        # Without bytecode each start would compile all modules.
        environ.pop("PYTHONDONTWRITEBYTECODE", None)
        for pods in (1, 256):
            (work / f"{pods}.json").write_text(job_of(pods, ("sh", "-c", "echo up")))
        store_finished_runs(environ)
        environments = {"then": then, "now": now}
        print("                    ms passed             ms of a processor")
        print("  part           then     now   ratio       then     now   ratio")
        for part in args.parts or PARTS:
            compare(part, environments, environ, args.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
