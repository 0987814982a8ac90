"""Where people and systems keep credentials: home directories, and the usual files in them and in /etc and /var."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

# Relative to a home. Directories and files of the usual tools: remote shells and clouds; hosts of code; containers and
# clusters; browsers, mail and keyrings; packages of languages; databases and storage; models and data; the display.
IN_HOMES: Final = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".oci", ".config/gcloud", ".config/doctl", ".config/hcloud", ".terraform.d"),
    *(".terraformrc", ".vault-token", ".config/op", ".config/sops", ".password-store", ".netrc"),
    *(".git-credentials", ".config/git/credentials", ".config/gh", ".config/hub", ".config/glab-cli"),
    *(".kube", ".docker", ".dockercfg", ".config/containers"),
    *(".mozilla", ".config/google-chrome", ".config/chromium", ".thunderbird"),
    *(".local/share/keyrings", ".local/share/kwalletd"),
    *(".npmrc", ".yarnrc.yml", ".pypirc", ".cargo/credentials", ".cargo/credentials.toml", ".gem/credentials"),
    *(".m2/settings.xml", ".gradle/gradle.properties"),
    *(".pgpass", ".my.cnf", ".s3cfg", ".boto", ".mc", ".config/rclone", ".databrickscfg"),
    *(".ngc", ".kaggle", ".config/kaggle", ".huggingface", ".config/huggingface", ".cache/huggingface/token"),
    *(".cache/huggingface/stored_tokens", ".Xauthority", ".ICEauthority"),
)
# Patterns of what only root can read on most machines.
OF_MACHINE: Final = (
    *("/etc/ssh/*_key", "/etc/*shadow*", "/etc/ssl/private", "/etc/pki/tls/private", "/etc/sudoers*"),
    *("/etc/krb5.keytab", "/etc/kubernetes", "/etc/rancher", "/etc/letsencrypt", "/etc/wireguard", "/etc/docker"),
    *("/etc/NetworkManager/system-connections", "/var/backups", "/var/spool/cron", "/var/lib/docker"),
    *("/var/lib/kubelet", "/var/lib/containerd", "/var/lib/containers", "/var/lib/rancher", "/var/lib/etcd"),
    "/var/lib/NetworkManager",
)
# Variables that name files with credentials, or directories with such files.
NAMED_BY: Final = (
    *("KUBECONFIG", "DOCKER_CONFIG", "REGISTRY_AUTH_FILE", "NETRC", "KRB5CCNAME", "KRB5_CLIENT_KTNAME", "PGPASSFILE"),
    *("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE", "AZURE_CONFIG_DIR"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG", "HF_TOKEN_PATH", "KAGGLE_CONFIG_DIR", "GNUPGHOME"),
)
_TICKETS: Final = Path("/tmp")  # noqa: S108 - only read
# Homes of system accounts, such as /usr/sbin, must stay visible.
_SYSTEM: Final = ("bin", "boot", "dev", "etc", "lib", "lib64", "proc", "run", "sbin", "sys", "usr")
_ACCOUNTS: Final = Path("/etc/passwd")
_FIELDS: Final = 7
_FIRST_USER: Final = 1000
_NOBODY: Final = 65534


def home_directories(home: Path | None, accounts: Path = _ACCOUNTS, top: Path = Path("/home")) -> tuple[Path, ...]:
    """Return the real paths of all homes: the caller's, root's, those of people's accounts, and what is in /home.

    Only the file with the accounts is read, because a directory service may take seconds to list its users.
    """
    found = [Path("/root"), *([home] if home is not None else [])]
    try:
        lines = accounts.read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    for line in lines:
        fields = line.split(":")
        if len(fields) == _FIELDS and fields[2].isdecimal() and _FIRST_USER <= int(fields[2]) != _NOBODY:
            found.append(Path(fields[5]))
    with suppress(OSError):
        # There may be no /home, or it is closed to this user.
        found += [path for path in top.iterdir() if path.is_dir()]
    real = dict.fromkeys(Path(os.path.realpath(path)) for path in found if path.is_absolute())
    homes = (path for path in real if len(path.parts) > 1 and path.parts[1] not in _SYSTEM)
    return tuple(path for path in homes if path != Path(tempfile.gettempdir()))


def credentials_in(homes: Iterable[Path]) -> Iterator[Path]:
    """Yield what exists of the credentials in these homes; of a link, also what it leads to."""
    for home in homes:
        for name in IN_HOMES:
            path = home / name
            if os.path.lexists(path):
                yield path
                if (real := Path(os.path.realpath(path))) != path:
                    yield real


def named_credentials(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return what exists of the files that the environment names, and of Kerberos tickets where they usually are."""
    named = [part for name in NAMED_BY for part in environ.get(name, "").removeprefix("FILE:").split(os.pathsep)]
    tickets = sorted(_TICKETS.glob("krb5cc*"))
    return (*(Path(path) for path in named if path.startswith("/") and os.path.lexists(path)), *tickets)


def credentials_of_machine() -> tuple[Path, ...]:
    return tuple(path for pattern in OF_MACHINE for path in sorted(Path("/").glob(pattern[1:])))
