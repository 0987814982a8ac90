from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from pumice.runtime.key_pairs import make_key_pair
from tests.patience import PATIENCE


def test_rsa_in_the_form_that_every_ssh_reads() -> None:
    pair = make_key_pair("rsa")
    assert pair.private.startswith("-----BEGIN RSA PRIVATE KEY-----\n")
    key = serialization.load_pem_private_key(pair.private.encode(), password=None)
    assert isinstance(key, rsa.RSAPrivateKey)
    assert key.key_size == 3072


def test_ed25519_in_openssh_form() -> None:
    pair = make_key_pair("ed25519")
    assert pair.private.startswith("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    key = serialization.load_ssh_private_key(pair.private.encode(), password=None)
    assert isinstance(key, ed25519.Ed25519PrivateKey)


@pytest.mark.parametrize(("kind", "name"), [("rsa", "ssh-rsa"), ("ed25519", "ssh-ed25519")])
def test_both_halves_belong_together(kind: str, name: str) -> None:
    pair = make_key_pair(kind)
    load = serialization.load_pem_private_key if kind == "rsa" else serialization.load_ssh_private_key
    public = load(pair.private.encode(), password=None).public_key()
    form = (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    assert public.public_bytes(*form).decode() == pair.public.strip()
    assert pair.public.startswith(f"{name} ")
    assert pair.public.endswith("\n")
    assert pair.private.endswith("\n")


def test_each_pair_is_fresh() -> None:
    assert make_key_pair("ed25519") != make_key_pair("ed25519")


def keygen(*arguments: str | Path) -> list[str]:
    done = subprocess.run(["ssh-keygen", *arguments], check=True, capture_output=True, text=True, timeout=PATIENCE)
    return done.stdout.split()


@pytest.mark.needs("ssh-keygen")
@pytest.mark.parametrize(("kind", "bits", "name"), [("rsa", "3072", "(RSA)"), ("ed25519", "256", "(ED25519)")])
def test_openssh_reads_the_pair(tmp_path: Path, kind: str, bits: str, name: str) -> None:
    pair = make_key_pair(kind)
    private, public = tmp_path / "id", tmp_path / "id.pub"
    private.write_text(pair.private)
    private.chmod(0o600)
    public.write_text(pair.public)
    # With an empty passphrase given, ssh-keygen does not ask for one should the key have any.
    assert keygen("-y", "-P", "", "-f", private)[:2] == pair.public.split()
    assert keygen("-l", "-f", private)[:2] == keygen("-l", "-f", public)[:2]
    assert keygen("-l", "-f", public)[0] == bits
    assert keygen("-l", "-f", public)[-1] == name


@pytest.mark.parametrize("kind", ["rsa", "ed25519"])
def test_files_end_with_a_line_break(kind: str) -> None:
    """Ssh refuses a private key whose last line is not ended, and authorized_keys is a file of lines."""
    pair = make_key_pair(kind)
    assert pair.private.endswith(" PRIVATE KEY-----\n")
    assert pair.public.count("\n") == 1
    assert pair.public.endswith("\n")
