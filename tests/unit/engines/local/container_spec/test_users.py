from __future__ import annotations

import pytest

from pumice.engines.local.container_spec.etc_files import account_files, find_group, find_user, host_key_files
from pumice.model.objects import KeyPair

PASSWD = """\
root:x:0:0:root:/root:/bin/bash
daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin
sshd:x:105:65534::/run/sshd:/usr/sbin/nologin
ann:x:1000:1001:Ann:/home/ann:/bin/bash
odd:x:abc:1::/:/bin/sh
homeless:x:7:7:::/bin/sh
ann:x:2000:2000:second:/:/bin/sh
# comment:x:1:1:::
+nis::::::
short:x:1
"""
GROUP = "root:x:0:\nstaff:x:50:ann\nodd:x:abc:\n"


def files(*, single_id: bool, passwd: str = PASSWD, group: str = GROUP) -> dict[str, list[str]]:
    made = account_files(passwd, group, single_id=single_id)
    assert [file.mode for file in made] == [0o644, 0o644, 0o600]
    return {file.path: file.data.decode().splitlines() for file in made}


def test_a_single_id_is_also_that_of_sshd() -> None:
    found = files(single_id=True)
    assert "sshd:x:0:0:sshd:/run/sshd:/usr/sbin/nologin" in found["/etc/passwd"]
    assert "sshd:x:0:" in found["/etc/group"]
    assert "ann:x:1000:1001:Ann:/home/ann:/bin/bash" in found["/etc/passwd"]


def test_with_many_ids_sshd_keeps_its_own() -> None:
    found = files(single_id=False)
    assert "sshd:x:105:65534::/run/sshd:/usr/sbin/nologin" in found["/etc/passwd"]
    assert found["/etc/group"] == ["root:x:0:", "staff:x:50:ann", "odd:x:abc:", "nogroup:x:65534:"]


def test_an_empty_image_gets_the_accounts_daemons_need() -> None:
    found = files(single_id=False, passwd="", group="")
    assert [line.split(":")[0] for line in found["/etc/passwd"]] == ["root", "nobody", "sshd"]
    assert [line.split(":")[0] for line in found["/etc/group"]] == ["root", "nogroup"]


def test_accounts_are_not_locked_and_have_no_password() -> None:
    found = files(single_id=True)
    names = [line.split(":")[0] for line in found["/etc/passwd"]]
    assert [line.split(":")[:2] for line in found["/etc/shadow"]] == [[name, "*"] for name in names]
    assert len(names) == len(set(names))
    assert not {"+nis", "# comment", "short"} & set(names)


def test_host_key() -> None:
    public, private = host_key_files(KeyPair("secret", "open"))
    assert (private.path, private.data, private.mode) == ("/etc/ssh/ssh_host_ed25519_key", b"secret", 0o600)
    assert (public.path, public.data) == ("/etc/ssh/ssh_host_ed25519_key.pub", b"open")
    hidden = ("/etc/shadow", "/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ed25519_key")
    files = host_key_files(KeyPair("secret", "open"), hidden)
    assert [(file.path, file.data, file.mode) for file in files] == [
        ("/etc/ssh/ssh_host_ed25519_key.pub", b"open", 0o644),
        ("/etc/ssh/ssh_host_ed25519_key", b"secret", 0o600),
        ("/etc/ssh/ssh_host_rsa_key.pub", b"open", 0o644),
        ("/etc/ssh/ssh_host_rsa_key", b"secret", 0o600),
    ]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        pytest.param("ann", (1000, 1001, "/home/ann"), id="name"),
        pytest.param("1000", (1000, 1001, "/home/ann"), id="number"),
        pytest.param("4242", (4242, 0, "/"), id="unknown number"),
        pytest.param("homeless", (7, 7, "/"), id="no home"),
        pytest.param("unknown", None, id="unknown name"),
        pytest.param("odd", None, id="account without a number"),
    ],
)
def test_find_user(wanted: str, found: tuple[int, int, str] | None) -> None:
    assert find_user(PASSWD, wanted) == found


@pytest.mark.parametrize(("wanted", "found"), [("staff", 50), ("77", 77), ("none", None), ("odd", None)])
def test_find_group(wanted: str, found: int | None) -> None:
    assert find_group(GROUP, wanted) == found
