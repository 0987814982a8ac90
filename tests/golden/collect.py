"""Shows everything once: `python -m tests.golden.collect PART FOLDER` writes what the goldens are compared with.

A process of its own, because it stops its clock. PART is `cli`, `page` or `offline`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pumice.cli.main import COMMANDS, load_command
from tests.golden.console import Console, Goldens, command_goldens
from tests.golden.frozen_machine import freeze
from tests.golden.offline import offline_goldens
from tests.golden.page_server import open_page
from tests.golden.page_views import Views, empty_page, page_goldens
from tests.golden.sections import write_golden
from tests.golden.store_archive import recorded_stories, unpacked
from tests.meta.tree import ROOT

PARTS = ("cli", "page", "offline")
NOT_ASKED = "not-asked"


def gather(folder: Path) -> None:
    """Write all goldens as they are now, in one process for each part."""
    started = [
        subprocess.Popen([sys.executable, "-m", "tests.golden.collect", part, str(folder)], cwd=ROOT, text=True)
        for part in PARTS
    ]
    assert [process.wait() for process in started] == [0] * len(PARTS)


def collect(part: str, folder: Path, root: Path) -> Goldens:
    home = root / "home" / "ada"
    project = home / "train"
    project.mkdir(parents=True)
    os.environ.clear()
    os.environ |= {
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "PATH": "/usr/bin:/bin",
        "TZ": "UTC",
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_RUNTIME_DIR": str(home),
        "XDG_STATE_HOME": str(home / "state"),
    }
    time.tzset()
    for command in COMMANDS:
        load_command(command)
    freeze(root / "machine")
    console = Console(root)
    if part == "offline":
        examples = ROOT / "examples"
        os.chdir(examples)
        return offline_goldens(console, examples)
    os.chdir(project)
    stories = recorded_stories()
    if part == "cli":
        with unpacked(home / "state" / "pumice"):
            return command_goldens(console, stories)
    with open_page(root / "empty") as page:
        found = empty_page(Views(page, console))
    with unpacked(home / "state" / "pumice"), open_page(root / "page") as page:
        views = Views(page, console, {run.uid: run.ref for runs in stories.values() for run in runs if run.uid})
        found |= page_goldens(views, stories)
    (folder / NOT_ASKED).write_text("".join(f"{route}\n" for route in views.not_asked()))
    return found


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="golden-") as made:
        target = Path(sys.argv[2]).resolve()
        for name, sections in collect(sys.argv[1], target, Path(made).resolve()).items():
            write_golden(name, sections, target)
        os.chdir("/")
