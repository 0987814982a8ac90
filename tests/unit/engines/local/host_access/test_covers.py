"""What stays hidden in a container, wherever a mount would show it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.engines.local.host_access.covers import Covers, HiddenPaths, hidden_paths
from pumice.engines.local.sandbox.specs import Mount
from pumice.engines.local.state.settings import Settings

HIDDEN = HiddenPaths(
    ["/home/me/.ssh", "/home/me/.config/gcloud", "/var/lib/docker"],
    ["/home/me/.netrc", "/etc/shadow-"],
    ["/var/jenkins"],
)


@pytest.mark.parametrize(
    ("mounts", "host", "expected"),
    [
        pytest.param(
            [], True, Covers(("/home", "/root", "/var/jenkins", "/var/lib/docker"), ("/etc/shadow-",)), id="the machine"
        ),
        pytest.param([], False, Covers(), id="an image"),
        pytest.param([Mount("/data", "/data")], False, Covers(), id="data"),
        pytest.param([Mount("/home/me/.ssh", "/keys")], False, Covers(), id="credentials that were named"),
        pytest.param(
            [Mount("/home/me", "/v", read_only=True)],
            False,
            Covers(("/v/.ssh", "/v/.config/gcloud"), ("/v/.netrc",)),
            id="home",
        ),
        pytest.param(
            [Mount("/home/me", "/v")],
            False,
            Covers(("/v/.ssh", "/v/.config/gcloud"), ("/v/.netrc",), (Mount("/home/me/.config", "/v/.config"),)),
            id="a writable home: its directories cannot be moved",
        ),
    ],
)
def test_covers(mounts: list[Mount], expected: Covers, *, host: bool) -> None:
    assert HIDDEN.covers(mounts, host_is_image=host) == expected


def test_hidden_paths_are_those_that_exist(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in (".ssh", ".config/gcloud", "state/pumice"):
        (home / name).mkdir(parents=True)
    (home / ".netrc").write_text("canary")
    (tmp_path / "elsewhere").mkdir()
    (home / ".aws").symlink_to(tmp_path / "elsewhere")
    settings = Settings(workdir=home, state=home / "state" / "pumice", config=home / ".config" / "pumice")
    found = hidden_paths(settings, {"HOME": str(home)})
    below = {path for path in found.directories if path.startswith(str(tmp_path))}
    names = ("home/.ssh", "home/.config/gcloud", "home/.config/pumice", "home/state/pumice", "elsewhere")
    assert below == {str(tmp_path / name) for name in names}
    assert str(home / ".netrc") in found.files
    # Or a pod could write the user's own settings.
    assert (home / ".config" / "pumice").is_dir()
