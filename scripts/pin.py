"""Write requirements/*.txt: names, versions and hashes of every package, for every Python and platform at once.

No address of a package index gets in, neither one that the user has set nor the public one: where packages come from is
the business of whoever installs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from scripts.frameworks import FRAMEWORKS

COMPILE = (
    "pip",
    "compile",
    "--quiet",
    "--upgrade",
    "--universal",
    "--python-version=3.11",
    "--generate-hashes",
    "--no-emit-index-url",
    "--no-emit-find-links",
    "--custom-compile-command=make pin",
)

# In this order: what `make run` installs is a part of what `make test` installs, in the same versions. So is what the
# unit tests need on other Pythons.
PROJECT = ("pyproject.toml", "--extra=controller")
FILES = {
    "test": (*PROJECT, "--group=test"),
    "unit": (*PROJECT, "--group=unit", "--constraints=requirements/test.txt"),
    "run": (*PROJECT, "--group=build", "--constraints=requirements/test.txt"),
}
# Each in an environment of its own.
ALONE = {"uv": ("uv",), "pipx": ("pipx",)} | {name: framework.packages for name, framework in FRAMEWORKS.items()}


def main() -> int:
    uv = shutil.which("uv") or shutil.which(Path(sys.executable).with_name("uv"))
    if uv is None:
        print("pin: uv is needed, and is neither on PATH nor in .venv", file=sys.stderr)
        print("hint: install it, or let set-up fetch it: make clean pin", file=sys.stderr)
        return 1
    for name, sources in [*FILES.items(), *((name, ("-",)) for name in ALONE)]:
        output = f"requirements/{name}.txt"
        command = [uv, *COMPILE, *sources, f"--output-file={output}"]
        packages = "\n".join(ALONE.get(name, ()))
        subprocess.run(command, input=packages, text=True, stdout=subprocess.DEVNULL, check=True)
        print(f"pin: wrote {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
