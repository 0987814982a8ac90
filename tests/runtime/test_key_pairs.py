from __future__ import annotations

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from pumice.runtime.key_pairs import make_key_pair


def test_rsa_in_the_form_that_every_ssh_reads() -> None:
    pair = make_key_pair("rsa")
    assert pair.private.startswith("-----BEGIN RSA PRIVATE KEY-----\n")
    key = serialization.load_pem_private_key(pair.private.encode(), password=None)
    assert isinstance(key, rsa.RSAPrivateKey)
    assert key.key_size == 2048


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
