"""Which paths of the machine need consent, and which is the reason that the user reads."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.host_access.consent import ConsentFacts, host_volumes, normal_path, why_consent
from pumice.engines.local.host_access.credentials import home_directories
from pumice.store.settings import HostAccess

AROUND = ConsentFacts(
    writable=[Path("/home/me/project")],
    visible=[Path("/home/me/project"), Path("/home/me/venv"), Path("/usr"), Path("/etc"), Path("/var")],
    homes=[Path("/home/me"), Path("/data/homes/you")],
    credentials=[Path("/home/me/.ssh"), Path("/home/me/project/.netrc"), Path("/etc/ssh/ssh_host_rsa_key")],
    user=os.geteuid(),
)


@pytest.mark.parametrize(
    ("path", "read_only", "reason"),
    [
        pytest.param("/srv/set", False, "", id="data"),
        pytest.param("/opt/set", True, "", id="data beside programs"),
        pytest.param("/var/tmp/set", False, "", id="a directory for all"),
        pytest.param("/dev/shm", False, "", id="shared memory, of which a pod has its own"),
        pytest.param("/home/me/project/out", False, "", id="the working directory"),
        pytest.param("/home/me/project/.netrc", True, "holds credentials", id="credentials in the working directory"),
        pytest.param("/home/me/venv/bin", True, "", id="the Python environment"),
        pytest.param("/home/me/venv/bin", False, "is in the home directory /home/me", id="writing to the Python"),
        pytest.param("/etc/localtime", True, "", id="what pods see anyway"),
        pytest.param("/etc/localtime", False, "is in a system directory", id="writing to what pods see"),
        pytest.param("/etc/ssh/ssh_host_rsa_key", True, "holds credentials", id="a key of the machine"),
        pytest.param("/boot/efi", True, "is in a system directory", id="a system directory that pods do not see"),
        pytest.param("/home/me", True, "is a home directory", id="home"),
        pytest.param("/home/me/.ssh/id_rsa", True, "holds credentials", id="credentials"),
        pytest.param("/home/me/pictures", True, "is in the home directory /home/me", id="in a home"),
        pytest.param("/data", True, "contains the home directory /data/homes/you", id="above a home"),
        pytest.param("/data/homes/../set", True, "", id="a path with dots"),
    ],
)
def test_why_consent(path: str, reason: str, *, read_only: bool) -> None:
    assert why_consent(HostAccess(Path(path), read_only, "test"), AROUND) == reason


@pytest.mark.parametrize(("user", "reason"), [(0, "is in a system directory"), (1000, "")])
def test_only_root_can_change_programs_in_opt(user: int, reason: str) -> None:
    assert why_consent(HostAccess(Path("/opt/set"), False, "test"), ConsentFacts(user=user)) == reason


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/a/b/", "/a/b"), ("//a//b", "/a/b"), ("/a/../../b/.", "/b"), ("a/b", "a/b"), ("./a", "a"), ("/", "/")],
)
def test_one_text_for_a_path(path: str, expected: str) -> None:
    assert normal_path(path) == expected


def test_links_are_judged_by_where_they_lead(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/home/me/.ssh")
    access = HostAccess(tmp_path / "link", True, "hostPath of volume v")
    assert why_consent(access, AROUND) == "holds credentials"
    assert str(access) == f"{tmp_path}/link -> /home/me/.ssh (read-only, hostPath of volume v)"


def test_owners_and_sockets(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        assert why_consent(HostAccess(tmp_path / "s", True, ""), AROUND) == "is a socket of a program on this machine"
    me = tmp_path.stat().st_uid
    other = ConsentFacts(user=me + 1 if me else 0)
    expected = "belongs to another user, " if me else ""
    assert why_consent(HostAccess(tmp_path, True, ""), other).startswith(expected)
    if os.geteuid() == 0:
        os.chown(tmp_path, 4242, 4242)
        assert why_consent(HostAccess(tmp_path, True, ""), AROUND) == "belongs to another user, 4242"


def test_host_volumes() -> None:
    def pod(**mounts: bool) -> dict[str, Any]:
        volumes = [{"name": name, "hostPath": {"path": f"/{name}"}} for name in ("a", "b", "c")]
        listed = [{"name": name, "mountPath": "/x", "readOnly": read_only} for name, read_only in mounts.items()]
        return {"spec": {"volumes": [*volumes, {"name": "e"}], "containers": [{"name": "m", "volumeMounts": listed}]}}

    assert host_volumes([pod(a=True, b=True), pod(a=False), {"spec": {"containers": []}}]) == [
        HostAccess(Path("/a"), read_only=False, origin="hostPath of volume a"),
        HostAccess(Path("/b"), read_only=True, origin="hostPath of volume b"),
        HostAccess(Path("/c"), read_only=True, origin="hostPath of volume c"),
    ]


def test_home_directories(tmp_path: Path) -> None:
    (tmp_path / "homes" / "ann").mkdir(parents=True)
    accounts = tmp_path / "passwd"
    accounts.write_text(
        "daemon:x:1:1::/usr/sbin:/bin/sh\nbob:x:1001:1001::/data/bob:/bin/sh\nnobody:x:65534:1::/n:/s\nx\n"
    )
    found = home_directories(Path("/srv/me"), accounts, tmp_path / "homes")
    assert found == (Path("/root"), Path("/srv/me"), Path("/data/bob"), tmp_path / "homes" / "ann")
    assert home_directories(Path("/usr/sbin"), tmp_path / "none", tmp_path / "none") == (Path("/root"),)
    assert home_directories(Path("/"), tmp_path / "none", tmp_path / "none") == (Path("/root"),)
