from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pumice.store.code.git_index import GitError
from pumice.store.code.git_repository import open_repository
from tests.unit.store.code.repositories import git, make_repository, write

MOST = 1 << 30


def _plain(path: Path) -> Path:
    return make_repository(path / "repository", {"x.py": "x"})


def _worktree(path: Path) -> Path:
    git(_plain(path), "worktree", "add", str(path / "tree"), "-b", "other")
    return path / "tree"


def _submodule(path: Path) -> Path:
    outer = make_repository(path / "outer", {"y.py": "y"})
    git(outer, "submodule", "add", str(_plain(path)), "inner")
    return outer / "inner"


def _packed(path: Path) -> Path:
    git(_plain(path), "pack-refs", "--all")
    return path / "repository"


def _detached(path: Path) -> Path:
    git(_plain(path), "checkout", "--detach")
    return path / "repository"


def _below(path: Path) -> Path:
    (_plain(path) / "a directory" / "sub").mkdir(parents=True)
    return path / "repository" / "a directory" / "sub"


def _shallow(path: Path) -> Path:
    git(path, "clone", "--depth=1", f"file://{_plain(path)}", str(path / "clone"))
    return path / "clone"


@pytest.mark.needs("git")
@pytest.mark.parametrize("make", [_plain, _worktree, _submodule, _packed, _detached, _below, _shallow])
def test_reads_the_commit_and_the_branch(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    directory = make(tmp_path)
    with open_repository(str(directory), MOST) as repository:
        assert repository is not None
        assert repository.commit == git(directory, "rev-parse", "HEAD").strip()
        assert repository.branch == git(directory, "branch", "--show-current").strip()
        assert repository.top == git(directory, "rev-parse", "--show-toplevel").strip()
        assert [entry.path for entry in repository.index()] == git(Path(repository.top), "ls-files", "-z").split("\0")[
            :-1
        ]


@pytest.mark.needs("git")
def test_a_repository_without_commits(tmp_path: Path) -> None:
    git(tmp_path, "init")
    with open_repository(str(tmp_path), MOST) as repository:
        assert repository is not None
        assert (repository.commit, repository.branch, repository.index()) == ("", "main", [])


def test_no_repository(tmp_path: Path) -> None:
    with open_repository(str(tmp_path), MOST) as repository:
        assert repository is None


@pytest.mark.needs("git")
def test_an_index_that_cannot_be_read_is_replaced_by_the_commit(tmp_path: Path) -> None:
    git(_plain(tmp_path), "update-index", "--split-index")
    with open_repository(str(tmp_path / "repository"), MOST) as repository:
        assert repository is not None
        assert [entry.path for entry in repository.index()] == ["x.py"]


def _link(top: Path, other: Path) -> None:
    (top / ".git").symlink_to(other / ".git")


def _file(top: Path, other: Path) -> None:
    (top / ".git").write_text(f"gitdir: {other}/.git\n")


def _file_of_worktree(top: Path, other: Path) -> None:
    git(other, "worktree", "add", str(other.parent / "tree"))
    (top / ".git").write_bytes((other.parent / "tree" / ".git").read_bytes())


def _file_of_submodule(top: Path, other: Path) -> None:
    outer = make_repository(other.parent / "outer", {})
    git(outer, "submodule", "add", str(other), "inner")
    (top / ".git").write_text(f"gitdir: {outer}/.git/modules/inner\n")


def _common_directory(top: Path, other: Path) -> None:
    git(top, "init")
    (top / ".git" / "commondir").write_text(f"{other}/.git\n")


def _other_tree(top: Path, other: Path) -> None:
    git(top, "init")
    git(top, "config", "core.worktree", str(other))


def _link_to_head(top: Path, other: Path) -> None:
    git(top, "init")
    (top / ".git" / "HEAD").unlink()
    (top / ".git" / "HEAD").symlink_to(other / ".git" / "HEAD")


def _link_to_refs(top: Path, other: Path) -> None:
    git(top, "init")
    (top / ".git" / "refs").rename(top / ".git" / "mine")
    (top / ".git" / "refs").symlink_to(other / ".git" / "refs")


def _ref_outside(top: Path, other: Path) -> None:
    git(top, "init")
    (top / ".git" / "HEAD").write_text(f"ref: refs/../../../{other.name}/.git/refs/heads/main\n")


def _circle(top: Path, _other: Path) -> None:
    git(top, "init")
    (top / ".git" / "refs" / "heads" / "main").write_text("ref: refs/heads/main\n")


@pytest.mark.needs("git")
def test_refs_behind_a_link_are_not_read(tmp_path: Path) -> None:
    top = tmp_path / "work"
    top.mkdir()
    _link_to_refs(top, make_repository(tmp_path / "other", {"secret.py": "secret"}))
    with open_repository(str(top), MOST) as repository:
        assert repository is not None
        assert repository.commit == ""


@pytest.mark.needs("git")
@pytest.mark.parametrize(
    "plant",
    [
        _link,
        _file,
        _file_of_worktree,
        _file_of_submodule,
        _common_directory,
        _other_tree,
        _link_to_head,
        _ref_outside,
        _circle,
    ],
)
def test_another_repository_is_refused(tmp_path: Path, plant: Callable[[Path, Path], None]) -> None:
    other = make_repository(tmp_path / "other", {"secret.py": "secret"})
    top = tmp_path / "work"
    write(top, {"x.py": ""})
    plant(top, other)
    with pytest.raises(GitError), open_repository(str(top), MOST):
        pass


@pytest.mark.needs("git")
def test_a_configuration_of_spaces_takes_no_time(tmp_path: Path) -> None:
    """A pod may have written it. Many branches make a large one, too."""
    top = make_repository(tmp_path / "work", {"x.py": ""})
    config = top / ".git" / "config"
    branches = "".join(f'[branch "b{number}"]\n\tremote = origin\n' for number in range(5000))
    config.write_text(f"{config.read_text()}{branches}{' ' * 300_000}\n[x] worktrees = {' ' * 300_000}y\n")
    with open_repository(str(top), MOST) as repository:
        assert repository is not None
        assert repository.commit
    config.write_text(f"{config.read_text()}[core]{' ' * 40_000}WorkTree{' ' * 40_000}=/etc\n")
    with pytest.raises(GitError, match=r"core\.worktree"), open_repository(str(top), MOST):
        pass
