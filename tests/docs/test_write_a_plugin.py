"""The guide to plugins works as shown: its commands are typed in order, and its package is really installed by pip."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.docs import console
from tests.docs.markdown import blocks
from tests.meta.tree import ROOT

GUIDE = ROOT / "docs" / "guides" / "write-a-plugin.md"


@pytest.mark.soak
def test_the_guide_works_as_shown(tmp_path: Path) -> None:
    environment = tmp_path / "an environment"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True, capture_output=True)
    # The reader has Pumice, and an index with pytest and hatchling; here they come from the environment of the tests.
    site = sysconfig.get_path("purelib", vars={"base": str(environment)})
    Path(site, "environment-of-the-tests.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT / 'src'}\n")
    # As pip writes it: a script, so that Python does not look for modules in the working directory.
    pumice, main = environment / "bin" / "pumice", environment / "bin" / "pumice-main.py"
    main.write_text("import sys\nfrom pumice.cli.program import main\nsys.exit(main())\n")
    pumice.write_text(f'#!/bin/sh\nexec "{environment}/bin/python" "{main}" "$@"\n')
    pumice.chmod(0o755)
    folder = tmp_path / "pumice scratch"
    folder.mkdir()
    environ = {
        "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "PYTHONUNBUFFERED": "1",  # both streams in the order of a terminal
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip reads this as --no-build-isolation
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
    }
    typed = []
    for block in blocks(GUIDE):
        if block.file:
            (folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            done = subprocess.run(
                ["sh", "-ec", block.text], cwd=folder, env=environ, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, done.stdout + done.stderr
            typed.append(block.text.strip())
        elif block.language == "console":
            for exchange in console.exchanges(block):
                output = subprocess.run(
                    ["sh", "-c", exchange.command],
                    cwd=folder,
                    env=environ,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    check=False,
                ).stdout
                assert console.matches(exchange.expected, output.splitlines()), f"{exchange.command}\n{output}"
                typed.append(exchange.command)
    assert typed[0] == "pip install -e '.[test]'"
    assert typed[-1] == "python -m pytest -q test_scratch.py"
