"""Makes ssh key pairs: the one place where the ssh plugin's randomness comes from.

The library is imported when a key is made: to load it takes a sixth of the start of a command, and few commands make
one.
"""

from __future__ import annotations

from pumice.model.objects import KeyPair

RSA_BITS = 3072


def make_key_pair(kind: str) -> KeyPair:
    """A fresh pair: `rsa` in the form that every ssh reads, or `ed25519`."""
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - see above
    from cryptography.hazmat.primitives.asymmetric import ed25519, rsa  # noqa: PLC0415 - see above

    if kind == "ed25519":
        key: ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey = ed25519.Ed25519PrivateKey.generate()
        form = serialization.PrivateFormat.OpenSSH
    else:
        key = rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS)
        form = serialization.PrivateFormat.TraditionalOpenSSL
    private = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return KeyPair(private.decode(), public.decode() + "\n")
