"""Makes ssh key pairs: the one place where the ssh plugin's randomness comes from."""

from __future__ import annotations

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from pumice.model.objects import KeyPair

RSA_BITS = 3072


def make_key_pair(kind: str) -> KeyPair:
    """A fresh pair: `rsa` in the form that every ssh reads, or `ed25519`."""
    if kind == "ed25519":
        key: ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey = ed25519.Ed25519PrivateKey.generate()
        form = serialization.PrivateFormat.OpenSSH
    else:
        key = rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS)
        form = serialization.PrivateFormat.TraditionalOpenSSL
    private = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return KeyPair(private.decode(), public.decode() + "\n")
