"""What sshd, su and whoami need of a pod's accounts, where the host's own files are no use.

An ordinary user cannot read the host's keys and passwords, and in a user namespace with a single id every account that
a daemon switches to must be that id.
"""

from __future__ import annotations

from typing import Final

from pumice.engines.local.sandbox.specs import File
from pumice.model.objects import KeyPair

HOST_KEY: Final = "/etc/ssh/ssh_host_ed25519_key"
_ROOT: Final = "root:x:0:0:root:/root:/bin/sh"
_DAEMON: Final = "sshd:x:{uid}:{gid}:sshd:/run/sshd:/usr/sbin/nologin"
_NOBODY: Final = "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin"
_ACCOUNT_FIELDS: Final = 7
_GROUP_FIELDS: Final = 4
# A password that nobody can type, but no locked account: sshd lets keys in.
_SHADOW: Final = "{name}:*:19000:0:99999:7:::"


def host_key_files(key: KeyPair) -> tuple[File, ...]:
    return File(HOST_KEY, key.private.encode(), 0o600), File(f"{HOST_KEY}.pub", key.public.encode())


def account_files(passwd: str, group: str, *, single_id: bool) -> tuple[File, ...]:
    """Accounts of the image or host, with those added that daemons want; with a single id, all system accounts are it.

    /etc/shadow is always made anew: it holds no password, and the one of the host could not be read.
    """
    accounts = _rows(passwd, _ACCOUNT_FIELDS)
    groups = _rows(group, _GROUP_FIELDS)
    _add(accounts, _ROOT.split(":"))
    _add(groups, ["root", "x", "0", ""])
    _add(accounts, _NOBODY.split(":"))
    _add(groups, ["nogroup", "x", "65534", ""])
    if single_id:
        accounts["sshd"] = _DAEMON.format(uid=0, gid=0).split(":")
        groups["sshd"] = ["sshd", "x", "0", ""]
    else:
        _add(accounts, _DAEMON.format(uid=100, gid=65534).split(":"))
    shadow = "".join(_SHADOW.format(name=name) + "\n" for name in accounts)
    return (
        File("/etc/passwd", _text(accounts).encode("utf-8", "surrogateescape")),
        File("/etc/group", _text(groups).encode("utf-8", "surrogateescape")),
        File("/etc/shadow", shadow.encode("utf-8", "surrogateescape"), 0o600),
    )


def find_user(passwd: str, wanted: str) -> tuple[int, int, str] | None:
    """Number, group and home of an account by name or number; None if a name is unknown.

    A number that has no account belongs to group 0 and lives in /, as container runtimes have it.
    """
    for row in _rows(passwd, _ACCOUNT_FIELDS).values():
        if wanted in {row[0], row[2]} and row[2].isdigit() and row[3].isdigit():
            return int(row[2]), int(row[3]), row[5] or "/"
    return (int(wanted), 0, "/") if wanted.isdigit() else None


def find_group(group: str, wanted: str) -> int | None:
    for row in _rows(group, _GROUP_FIELDS).values():
        if row[0] == wanted and row[2].isdigit():
            return int(row[2])
    return int(wanted) if wanted.isdigit() else None


def _rows(text: str, fields: int) -> dict[str, list[str]]:
    """The lines by name; the first of a name counts, and what is no account is left out."""
    rows: dict[str, list[str]] = {}
    for line in text.splitlines():
        row = line.split(":")
        if len(row) == fields and row[0] and row[0][0] not in "#+-":
            rows.setdefault(row[0], row)
    return rows


def _add(rows: dict[str, list[str]], row: list[str]) -> None:
    rows.setdefault(row[0], row)


def _text(rows: dict[str, list[str]]) -> str:
    return "".join(":".join(row) + "\n" for row in rows.values())
