"""The certificates and tokens of a test cluster: one authority, one serving certificate, a key pair for tokens."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_AGE = dt.timedelta(days=1)
# Servers and clients in Python 3.13 refuse certificates without this, and without the identifiers of the keys.
_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)
_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True)
class Pki:
    """`folder` holds ca.crt, ca.key, server.crt, server.key, sa.pub and sa.key."""

    folder: Path
    authority: x509.Certificate
    authority_key: ec.EllipticCurvePrivateKey

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def client_certificate(self, user: str, group: str, now: dt.datetime) -> tuple[bytes, bytes]:
        """Return certificate and key of a user in one group."""
        subject = _name(user, group)
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self.authority.subject, key.public_key(), now)
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        certificate = builder.add_extension(_issuer(self.authority_key), critical=False).sign(
            self.authority_key, hashes.SHA256()
        )
        return certificate.public_bytes(serialization.Encoding.PEM), _pem(key)


def make_pki(folder: Path, now: dt.datetime) -> Pki:
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("pumice tests", "")
    authority = (
        _builder(name, name, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_SIGNS_CERTIFICATES, critical=True)
        .sign(key, hashes.SHA256())
    )
    serving_key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.DNSName(each) for each in _NAMES]
    addresses = [x509.IPAddress(ipaddress.ip_address(each)) for each in ("127.0.0.1", "10.0.0.1")]
    serving = (
        _builder(_name("kube-apiserver", ""), name, serving_key.public_key(), now)
        .add_extension(x509.SubjectAlternativeName([*names, *addresses]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(_issuer(key), critical=False)
        .sign(key, hashes.SHA256())
    )
    tokens_key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = tokens_key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    files = {
        "ca.crt": authority.public_bytes(serialization.Encoding.PEM),
        "ca.key": _pem(key),
        "server.crt": serving.public_bytes(serialization.Encoding.PEM),
        "server.key": _pem(serving_key),
        "sa.key": _pem(tokens_key),
        "sa.pub": public,
    }
    for file, content in files.items():
        _write(folder / file, content)
    return Pki(folder, authority, key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: dt.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _AGE)
        .not_valid_after(now + _AGE)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _issuer(authority_key: ec.EllipticCurvePrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())


def _name(common: str, organization: str) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if organization:
        parts.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(parts)


def _pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
