"""The keys are read back by OpenSSH itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pumice.runtime.key_pairs import make_key_pair


def keygen(*arguments: str | Path) -> str:
    return subprocess.run(["ssh-keygen", *arguments], check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.mark.needs("ssh-keygen")
@pytest.mark.parametrize(("kind", "bits", "name"), [("rsa", "2048", "(RSA)"), ("ed25519", "256", "(ED25519)")])
def test_openssh_reads_the_pair(tmp_path: Path, kind: str, bits: str, name: str) -> None:
    pair = make_key_pair(kind)
    private, public = tmp_path / "id", tmp_path / "id.pub"
    private.write_text(pair.private)
    private.chmod(0o600)
    public.write_text(pair.public)
    # An empty passphrase, so that a key that has one is not asked for it.
    assert keygen("-y", "-P", "", "-f", private).split()[:2] == pair.public.split()
    public_size, public_print = keygen("-l", "-f", public).split()[:2]
    private_size, private_print = keygen("-l", "-f", private).split()[:2]
    assert (public_size, public_print) == (private_size, private_print)
    assert public_size == bits
    assert keygen("-l", "-f", public).split()[-1] == name


@pytest.mark.parametrize(
    ("kind", "header", "prefix"),
    [("rsa", "RSA PRIVATE KEY", "ssh-rsa "), ("ed25519", "OPENSSH PRIVATE KEY", "ssh-ed25519 ")],
)
def test_the_form_of_the_files(kind: str, header: str, prefix: str) -> None:
    pair = make_key_pair(kind)
    lines = pair.private.splitlines()
    assert (lines[0], lines[-1]) == (f"-----BEGIN {header}-----", f"-----END {header}-----")
    # ssh refuses a private key whose last line is not ended; authorized_keys is a file of lines.
    assert pair.private.endswith("-----\n")
    assert pair.public.startswith(prefix)
    assert pair.public.count("\n") == 1
    assert pair.public.endswith("\n")


def test_no_two_pairs_are_alike() -> None:
    assert make_key_pair("ed25519") != make_key_pair("ed25519")
