from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from pumice.store.code import selection
from pumice.store.code.beneath import Directory
from pumice.store.code.selection import MOST_LISTED, Checkout, scan_code, select_files
from pumice.store.code.snapshots import select_code
from pumice.store.run_errors import InvalidOption
from pumice.store.settings import Settings
from tests.unit.store.code.deep_trees import deep_tree
from tests.unit.store.code.repositories import git, make_repository, write

FILES = {
    ".gitignore": "*.log\ndata/\n",
    "train.py": "",
    "lib/model.py": "",
    "lib/.gitignore": "*.tmp\n!/keep.log\n",
    "forced.log": "",
}


def paths(directory: Path) -> list[str]:
    return [file.path for file in select_files(str(directory)).files]


@pytest.mark.needs("git")
def test_selects_what_git_lists(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "a b", FILES)
    git(top, "add", "-f", "forced.log")
    write(top, {"new.py": "", "x.log": "", "data/big": "", "lib/keep.log": "", "lib/x.tmp": "", "lib/new.py": ""})
    (top / ".git" / "info" / "exclude").write_text("private*\n")
    write(top, {"private.py": "", "data/forced.py": ""})
    git(top, "add", "-f", "data/forced.py")
    (top / "train.py").unlink()
    listed = set(git(top, "ls-files", "-z", "-co", "--exclude-standard").split("\0")[:-1]) - {"train.py"}
    assert paths(top) == sorted(listed)
    below = git(top / "lib", "ls-files", "-z", "-co", "--exclude-standard").split("\0")[:-1]
    assert paths(top / "lib") == sorted(below)


def test_without_a_repository_selects_all(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "", "x.log": "", ".gitignore": "*.log", "sub/a.py": "", "__pycache__/a.pyc": ""})
    write(tmp_path, {"venv/pyvenv.cfg": "", "venv/lib/x.py": "", "conda/conda-meta/x": "", ".pumiceignore": "sub/\n"})
    assert paths(tmp_path) == [".gitignore", ".pumiceignore", "train.py", "x.log"]


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        ".env.local",
        "server.pem",
        "id_rsa",
        "id_ed25519.pub",
        ".netrc",
        ".aws/config",
        "kubeconfig",
        "prod.kubeconfig",
        "server.key",
        ".docker/config",
        ".pgpass",
        "pip.conf",
        "application_default_credentials.json",
        "access_tokens.db",
    ],
)
def test_credentials_are_left_out_by_name(tmp_path: Path, name: str) -> None:
    write(tmp_path, {name: "secret", "id_mapping.py": "", "environment.py": ""})
    found = select_files(str(tmp_path))
    assert [file.path for file in found.files] == ["environment.py", "id_mapping.py"]
    assert found.credentials == (name.replace("config", "") if "/" in name else name,)


def test_links_that_lead_out_are_named(tmp_path: Path) -> None:
    write(tmp_path, {"top/a.py": "", "secret": "secret"})
    (tmp_path / "top" / "good").symlink_to("a.py")
    (tmp_path / "top" / "bad").symlink_to("../secret")
    (tmp_path / "top" / "dir").symlink_to("/etc")
    found = select_files(str(tmp_path / "top"))
    assert [(file.path, file.link) for file in found.files] == [("a.py", ""), ("good", "a.py")]
    assert found.outside == ("bad", "dir")


@pytest.mark.needs("git")
def test_submodules_and_other_repositories_are_named(tmp_path: Path) -> None:
    inner = make_repository(tmp_path / "inner", {"y.py": ""})
    top = make_repository(tmp_path / "top", {"x.py": ""})
    git(top, "submodule", "add", str(inner), "module")
    make_repository(top / "nested", {"z.py": ""})
    found = select_files(str(top))
    assert [file.path for file in found.files] == [".gitmodules", "x.py"]
    commit = git(inner, "rev-parse", "HEAD")[:12]
    assert found.missing == (
        f"module is a submodule (commit {commit}), not recorded with it",
        "nested is another repository, not recorded with this one",
    )


def test_rules_behind_a_link_are_not_read(tmp_path: Path) -> None:
    write(tmp_path, {"rules": "*.py\n", "top/a.py": ""})
    (tmp_path / "top" / ".pumiceignore").symlink_to("../rules")
    found = select_files(str(tmp_path / "top"))
    assert [file.path for file in found.files] == ["a.py"]
    assert found.missing == (".pumiceignore cannot be read: too many levels of symbolic links",)


def test_names_that_cannot_be_shown_are_named(tmp_path: Path) -> None:
    for name in (b"a\nb", b"\xff", b"\x1b[31m"):
        Path(os.fsdecode(bytes(tmp_path) + b"/" + name)).touch()
    found = select_files(str(tmp_path))
    assert (found.files, len(found.missing)) == ((), 3)
    assert all(text.isprintable() for text in found.missing)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads every directory")
def test_a_directory_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "", "closed/b.py": ""})
    (tmp_path / "closed").chmod(0)
    try:
        found = select_files(str(tmp_path))
    finally:
        (tmp_path / "closed").chmod(0o700)
    assert found.missing == ("closed cannot be read: permission denied",)


def test_more_files_than_can_be_listed_are_said(tmp_path: Path) -> None:
    for number in range(MOST_LISTED + 1):
        (tmp_path / f"{number:06}").touch()
    found = select_files(str(tmp_path))
    assert (len(found.files), found.missing) == (MOST_LISTED, ("more than 10000 files: only the first are listed",))


@pytest.mark.needs("git")
def test_rules_that_take_too_long_stop_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod may have written them."""
    git(tmp_path, "init")
    write(tmp_path, {".gitignore": "".join(f"*a*b*{number}\n" for number in range(100))})
    for number in range(500):
        (tmp_path / f"ab{number:03}x").touch()
    monkeypatch.setattr(selection, "_MOST_MATCHED", 20_000)
    found = select_files(str(tmp_path))
    assert (found.is_complete, found.missing) == (False, ("the rest of .: the time was up",))
    assert 100 < len(found.files) < 300
    with pytest.raises(InvalidOption, match="has too many rules, and not all would be copied"):
        select_code(Settings(workdir=tmp_path, state=tmp_path / "state"))


def test_the_time_is_looked_at_within_a_directory(tmp_path: Path) -> None:
    for number in range(MOST_LISTED - 1):
        (tmp_path / f"{number:06}").touch()
    calls = iter([False, True])
    with Directory(str(tmp_path)) as directory:
        scan = scan_code(directory, Checkout(), lambda: next(calls, True))
    assert (scan.is_complete, scan.was_late) == (False, True)
    assert len(scan.stats) < MOST_LISTED - 1


def test_a_tree_of_any_depth_is_listed(tmp_path: Path) -> None:
    """Pods can make directories deeper than this process can call."""
    write(tmp_path, {"a.py": ""})
    with ExitStack() as stack:
        for number in range(71):
            stack.enter_context(deep_tree(tmp_path, f"deep{number}", 200 if number else 1100))
        found = select_files(str(tmp_path))
    assert [file.path for file in found.files] == ["a.py"]
    assert (len(found.missing), len(found.others)) == (71, 71)
    assert all(each.endswith("is more than 128 directories deep") for each in found.missing)


@pytest.mark.needs("git")
def test_long_rules_everywhere_stop_the_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init")
    write(tmp_path, {f"{number}/.gitignore": f"{number}" * 1000 for number in range(100)})
    monkeypatch.setattr(selection, "_MOST_MATCHED", 100_000)
    found = select_files(str(tmp_path))
    assert not found.is_complete
    assert len(found.files) < 50
