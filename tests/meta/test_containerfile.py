"""The image runs as the user that the manifests name, and copies only what is there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from pumice.engines.kubernetes.install.manifests import USER
from tests.meta.tree import ROOT

TEXT = (ROOT / "Containerfile").read_text()
LINES = [line for line in TEXT.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]


def test_it_does_not_run_as_root() -> None:
    assert [line for line in LINES if line.startswith("USER")] == [f"USER {USER}:{USER}"]
    assert f"--uid {USER} --gid {USER}" in TEXT


def test_the_user_is_made_without_a_warning(tmp_path: Path) -> None:
    """`useradd` warns of a uid above its UID_MAX; where it can be run, it is."""
    [command] = re.findall(r"useradd .*?(?=$| &&)", "\n".join(LINES), re.MULTILINE)
    words = command.split()
    assert int(words[words.index("--key") + 1].removeprefix("UID_MAX=")) >= USER
    if shutil.which("useradd") is None or os.geteuid() != 0:
        return
    (tmp_path / "etc").mkdir()
    for name in ("passwd", "shadow", "group", "gshadow", "login.defs"):
        (tmp_path / "etc" / name).write_text(f"pumice:x:{USER}:\n" if name == "group" else "")
    done = subprocess.run([*words, "--prefix", str(tmp_path)], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")
    assert f":{USER}:{USER}::/nonexistent:" in (tmp_path / "etc" / "passwd").read_text()


def test_it_runs_pumice() -> None:
    assert LINES[-2:] == ['ENTRYPOINT ["pumice"]', 'CMD ["--help"]']


def test_it_has_two_stages_of_one_origin() -> None:
    origins = [re.split(r"\s+", line)[1] for line in LINES if line.startswith("FROM")]
    assert len(origins) == 2
    assert len(set(origins)) == 1


def test_what_it_copies_is_there_and_let_through() -> None:
    ignored = (ROOT / ".containerignore").read_text().splitlines()
    sources = [
        word for line in LINES if line.startswith("COPY ") and "--from" not in line for word in line.split()[1:-1]
    ]
    assert sources
    for source in sources:
        assert (ROOT / source).exists()
        assert f"!{source}" in ignored


def test_everything_that_is_installed_is_pinned() -> None:
    for command in re.findall(r"pip install [^&]*", " ".join(LINES)):
        assert "--require-hashes" in command or "--no-deps --no-build-isolation" in command
