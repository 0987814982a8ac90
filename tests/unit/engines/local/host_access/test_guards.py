"""What stays hidden or read-only in a container, wherever a mount would show it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.engines.local.host_access.guards import GuardedPaths, guarded_paths
from pumice.engines.local.sandbox.specs import EMPTY_DIRECTORY, EMPTY_FILE, PINNED, READ_ONLY, Guard, Mount
from pumice.store.settings import Settings

GUARDED = GuardedPaths(
    ["/home/me/.ssh", "/home/me/.config/gcloud", "/var/lib/docker"],
    ["/home/me/.netrc", "/etc/shadow-"],
    ["/home/me/project/envs/venv", "/home/me/project/data.csv"],
    ["/var/jenkins"],
)
HIDDEN = [Guard(".config/gcloud", EMPTY_DIRECTORY), Guard(".netrc", EMPTY_FILE), Guard(".ssh", EMPTY_DIRECTORY)]


@pytest.mark.parametrize(
    ("mount", "expected"),
    [
        pytest.param(Mount("/data", "/data"), [], id="data"),
        pytest.param(Mount("/home/me/.ssh", "/keys"), [], id="credentials that were named"),
        pytest.param(Mount("/home/me", "/v", read_only=True), HIDDEN, id="home"),
        pytest.param(
            Mount("/home/me", "/v"),
            [
                Guard(".config", PINNED),
                *HIDDEN,
                Guard("project", PINNED),
                Guard("project/data.csv", READ_ONLY),
                Guard("project/envs", PINNED),
                Guard("project/envs/venv", READ_ONLY),
            ],
            id="a writable home: its directories cannot be moved",
        ),
        pytest.param(
            Mount("/home/me/project", "/x"),
            [Guard("data.csv", READ_ONLY), Guard("envs", PINNED), Guard("envs/venv", READ_ONLY)],
            id="a writable directory above a read-only one",
        ),
        pytest.param(Mount("/home/me/project/envs/venv", "/x"), [], id="a read-only directory that was named"),
        pytest.param(Mount("/home/me/project/envs/venv/lib", "/x"), [], id="a part of a read-only directory"),
    ],
)
def test_guards_follow_from_the_source_of_a_mount(mount: Mount, expected: list[Guard]) -> None:
    assert GUARDED.guard(mount) == mount._replace(guards=tuple(expected))


def test_what_is_hidden_where_this_machine_serves_as_image() -> None:
    directories = ("/home", "/root", "/var/jenkins", "/var/lib/docker")
    assert GUARDED.hidden_in_root() == (directories, ("/etc/shadow-",))


def test_hidden_paths_are_those_that_exist(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in (".ssh", ".config/gcloud", "state/pumice"):
        (home / name).mkdir(parents=True)
    (home / ".netrc").write_text("canary")
    (tmp_path / "elsewhere").mkdir()
    (home / ".aws").symlink_to(tmp_path / "elsewhere")
    settings = Settings(workdir=home, state=home / "state" / "pumice", config=home / ".config" / "pumice")
    found = guarded_paths(settings, {"HOME": str(home)})
    below = {path for path in found.directories if path.startswith(str(tmp_path))}
    names = ("home/.ssh", "home/.config/gcloud", "home/.config/pumice", "home/state/pumice", "elsewhere")
    assert below == {str(tmp_path / name) for name in names}
    assert str(home / ".netrc") in found.files
    # Or a pod could write the user's own settings.
    assert (home / ".config" / "pumice").is_dir()
