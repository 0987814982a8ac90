"""Which runs end at logout. The files of systemd are made up, because this machine may have none."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.engines.local.daemon.logout import ends_at_logout

SESSION = "0::/user.slice/user-1000.slice/session-2.scope\n"
SHIPPED = "[Login]\n#NAutoVTs=6\n#KillUserProcesses={}\n#KillExcludeUsers=root\n"


@pytest.mark.parametrize(
    ("files", "user", "ends"),
    [
        pytest.param({"etc/systemd/logind.conf": "[Login]\nKillUserProcesses=yes\n"}, "ann", True, id="set"),
        pytest.param({"etc/systemd/logind.conf": SHIPPED.format("yes")}, "ann", True, id="the default, in a comment"),
        pytest.param({"etc/systemd/logind.conf": SHIPPED.format("no")}, "ann", False, id="the default of Debian"),
        pytest.param(
            {
                "etc/systemd/logind.conf": "[Login]\nKillUserProcesses=no\n",
                "usr/lib/systemd/logind.conf.d/10-a.conf": "[Login]\nKillUserProcesses=no\n",
                "etc/systemd/logind.conf.d/20-b.conf": "[Login]\nKillUserProcesses=true\n",
            },
            "ann",
            True,
            id="a later part",
        ),
        pytest.param(
            {"etc/systemd/logind.conf": "[Login]\nKillUserProcesses=yes\n", "var/lib/systemd/linger/ann": ""},
            "ann",
            False,
            id="linger",
        ),
        pytest.param({"etc/systemd/logind.conf": "[Login]\nKillUserProcesses=yes\n"}, "root", False, id="root"),
        pytest.param(
            {"etc/systemd/logind.conf": "[Login]\nKillUserProcesses=yes\nKillOnlyUsers=bob\n"},
            "ann",
            False,
            id="only others",
        ),
        pytest.param(
            {
                "etc/systemd/logind.conf": "[Login]\nKillUserProcesses=yes\n",
                "proc/self/cgroup": "0::/system.slice/cron.service\n",
            },
            "ann",
            False,
            id="no login",
        ),
        pytest.param({"etc/systemd/logind.conf": "no section\n"}, "ann", False, id="damaged"),
        pytest.param({}, "ann", False, id="no configuration"),
    ],
)
def test_which_processes_end_at_logout(tmp_path: Path, files: dict[str, str], user: str, ends: bool) -> None:
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    for name, text in {"proc/self/cgroup": SESSION, **files}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert ends_at_logout(user, tmp_path) == ends


def test_without_systemd_nothing_is_known(tmp_path: Path) -> None:
    assert not ends_at_logout("ann", tmp_path)
