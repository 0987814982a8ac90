"""Creates and renews the webhook's certificate authority and the serving certificate that it signs.

The serving certificate is valid for three months, the authority for three years; both are renewed when a third of
their lifetime is left. A new authority is published together with the old ones for an hour, so that replicas that
still serve an old certificate stay trusted.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

AUTHORITY_LIFE: Final = dt.timedelta(days=3 * 365)
CERTIFICATE_LIFE: Final = dt.timedelta(days=90)
# How long the authorities before a new one stay trusted. Replicas follow within a minute.
OVERLAP: Final = dt.timedelta(hours=1)
# Tolerance for clocks that differ between machines.
_CLOCK_SKEW: Final = dt.timedelta(hours=1)
_AUTHORITY_NAME: Final = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pumice webhook authority")])


class Credentials(Struct, frozen=True):
    """All in PEM. `authority` has the current authority first, then older ones that must stay trusted."""

    authority: bytes
    authority_key: bytes
    certificate: bytes
    key: bytes

    @property
    def issuer(self) -> bytes:
        """The authority that signed the certificate."""
        return _pem(_authorities(self)[0])


def is_due(credentials: Credentials, names: Sequence[str], now: dt.datetime) -> bool:
    """Whether to renew: close to expiry, for other names, or damaged."""
    try:
        authority, certificate = _authorities(credentials)[0], x509.load_pem_x509_certificate(credentials.certificate)
        certificate.verify_directly_issued_by(authority)
        key = serialization.load_pem_private_key(credentials.key, None)
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, IndexError, InvalidSignature, UnsupportedAlgorithm, x509.ExtensionNotFound):
        return True
    if key.public_key() != certificate.public_key() or set(alternatives) != {_general_name(name) for name in names}:
        return True
    return _is_expiring(certificate, now) or _is_expiring(authority, now)


def expiry(credentials: Credentials) -> dt.datetime:
    return x509.load_pem_x509_certificate(credentials.certificate).not_valid_after_utc


def is_overlapping(credentials: Credentials, now: dt.datetime) -> bool:
    """Whether replicas may still serve a certificate of an earlier authority."""
    return now < _authorities(credentials)[0].not_valid_before_utc + _CLOCK_SKEW + OVERLAP


def merged(*bundles: bytes) -> bytes:
    """Return every readable authority of the bundles once, in order."""
    return b"".join(dict.fromkeys(_pem(one) for bundle in bundles for one in _readable(bundle)))


def count(bundle: bytes) -> int:
    return len(_readable(bundle))


def renewed(
    previous: Credentials | None, names: Sequence[str], now: dt.datetime, *, trusted: bytes = b""
) -> Credentials:
    """Return a new certificate, signed by the previous authority if it is valid for long enough, else by a new one.

    The `trusted` authorities stay in the bundle, also if those of `previous` are lost or damaged.
    """
    bundle = merged(previous.authority if previous is not None else b"", trusted)
    older = [one for one in _readable(bundle) if one.not_valid_after_utc > now]
    if previous is not None and older:
        try:
            known = serialization.load_pem_private_key(previous.authority_key, None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            known = None
        # Key and authority are stored side by side, and may not belong together.
        is_usable = not _is_expiring(older[0], now)
        if is_usable and isinstance(known, ec.EllipticCurvePrivateKey) and known.public_key() == older[0].public_key():
            return _signed(older, known, names, now)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(key, _AUTHORITY_NAME, now, AUTHORITY_LIFE)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return _signed([builder.sign(key, hashes.SHA256()), *older], key, names, now)


def _is_expiring(certificate: x509.Certificate, now: dt.datetime) -> bool:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return now < begin or end - now < (end - begin) / 3


def _authorities(credentials: Credentials) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(credentials.authority)


def _readable(bundle: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(bundle)
    except ValueError:
        return []


def _signed(
    authorities: Sequence[x509.Certificate],
    authority_key: ec.EllipticCurvePrivateKey,
    names: Sequence[str],
    now: dt.datetime,
) -> Credentials:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "pumice webhook")])
    builder = _builder(key, subject, now, CERTIFICATE_LIFE)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    for extension, critical in (
        (x509.BasicConstraints(ca=False, path_length=None), True),
        (_usage(signs_certificates=False), True),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.SubjectAlternativeName([_general_name(name) for name in names]), False),
        # Old and new authority have the same name; this identifier tells them apart.
        (identifier, False),
    ):
        builder = builder.add_extension(extension, critical=critical)
    certificate = builder.sign(authority_key, hashes.SHA256())
    return Credentials(
        authority=b"".join(_pem(authority) for authority in authorities),
        authority_key=_key_pem(authority_key),
        certificate=_pem(certificate),
        key=_key_pem(key),
    )


def _builder(
    key: ec.EllipticCurvePrivateKey, subject: x509.Name, now: dt.datetime, life: dt.timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(_AUTHORITY_NAME)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
