"""Makes ssh key pairs: the one place where the ssh plugin's randomness comes from.

The library is imported when a key is made: to load it takes a sixth of the start of a command, and few commands make
one. Every run on this machine makes an ed25519 key, for sshd; what the library loads to write one as OpenSSH does takes
as long as the key itself, so it is written here (`benchmarks/startup.py` measures both).
"""

from __future__ import annotations

from base64 import b64encode
from textwrap import wrap

from pumice.model.objects import KeyPair

RSA_BITS = 3072
_ED25519 = b"ssh-ed25519"
_BLOCK = 8  # to whose multiple the private part is padded


def make_key_pair(kind: str) -> KeyPair:
    """A fresh pair: `rsa` in the form that every ssh reads, or `ed25519`."""
    return _ed25519() if kind == "ed25519" else _rsa()


def _rsa() -> KeyPair:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 - see above
    from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415 - see above

    key = rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS)
    form = serialization.PrivateFormat.TraditionalOpenSSL
    private = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return KeyPair(private.decode(), public.decode() + "\n")


def _ed25519() -> KeyPair:
    """OpenSSH's PROTOCOL.key describes the format."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415 - see above

    key = Ed25519PrivateKey.generate()
    open_half = key.public_key().public_bytes_raw()
    public = _strings(_ED25519, open_half)
    # Two equal numbers show a reader that it has decrypted the key; here nothing is encrypted.
    private = bytes(8) + public + _strings(key.private_bytes_raw() + open_half, b"")
    private += bytes(range(1, 1 + -len(private) % _BLOCK))
    file = b"openssh-key-v1\0" + _strings(b"none", b"none", b"") + (1).to_bytes(4) + _strings(public, private)
    lines = (
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        *wrap(b64encode(file).decode(), 70),
        "-----END OPENSSH PRIVATE KEY-----",
    )
    return KeyPair("\n".join(lines) + "\n", f"{_ED25519.decode()} {b64encode(public).decode()}\n")


def _strings(*values: bytes) -> bytes:
    return b"".join(len(value).to_bytes(4) + value for value in values)
