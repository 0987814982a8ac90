from __future__ import annotations

import datetime as dt
import ssl

import pytest
from cryptography import x509
from cryptography.x509 import verification

from pumice.engines.kubernetes.auth.tls import load_key_pair
from pumice.engines.kubernetes.webhook.certificates import (
    AUTHORITY_LIFE,
    CERTIFICATE_LIFE,
    Credentials,
    is_due,
    renewed,
)

NOW = dt.datetime(2026, 7, 1, tzinfo=dt.UTC)
NAMES = ["pumice-webhook.pumice-system.svc"]
DAY = dt.timedelta(days=1)
FIRST = renewed(None, NAMES, NOW)


def trusts(authority: bytes, credentials: Credentials, now: dt.datetime, name: str = NAMES[0]) -> bool:
    store = verification.Store(x509.load_pem_x509_certificates(authority))
    verifier = verification.PolicyBuilder().store(store).time(now).build_server_verifier(x509.DNSName(name))
    try:
        verifier.verify(x509.load_pem_x509_certificate(credentials.certificate), [])
    except verification.VerificationError:
        return False
    return True


def test_the_authority_verifies_the_certificate() -> None:
    assert trusts(FIRST.authority, FIRST, NOW)
    assert not trusts(FIRST.authority, FIRST, NOW, "another.name")
    assert not trusts(renewed(None, NAMES, NOW).authority, FIRST, NOW)


def test_a_tls_server_can_load_it() -> None:
    load_key_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), FIRST.certificate, FIRST.key)


def test_a_strict_client_trusts_it() -> None:
    """As clients in Python 3.13 and later are by default: they require the extensions of RFC 5280."""
    served = renewed(None, NAMES, dt.datetime.now(dt.UTC))  # noqa: TID251 - TLS knows no other time
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_key_pair(server, served.certificate, served.key)
    client = ssl.create_default_context(cadata=served.authority.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=NAMES[0]),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while ends:
        end = ends.pop(0)
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            ends.append(end)


@pytest.mark.parametrize("names", [["127.0.0.1"], ["::1"], ["localhost", "10.0.0.1"]], ids=str)
def test_names_and_addresses(names: list[str]) -> None:
    made = renewed(None, names, NOW)
    assert not is_due(made, names, NOW)
    assert is_due(made, NAMES, NOW)


@pytest.mark.parametrize(
    ("after", "due"),
    [
        pytest.param(dt.timedelta(), False, id="new"),
        pytest.param(CERTIFICATE_LIFE * 2 / 3 - DAY, False, id="less than two thirds"),
        pytest.param(CERTIFICATE_LIFE * 2 / 3 + DAY, True, id="more than two thirds"),
        pytest.param(CERTIFICATE_LIFE + DAY, True, id="expired"),
        pytest.param(-2 * DAY, True, id="not valid yet"),
    ],
)
def test_is_due_depends_on_the_remaining_lifetime(after: dt.timedelta, due: bool) -> None:
    assert is_due(FIRST, NAMES, NOW + after) is due


def test_renewal_keeps_the_authority() -> None:
    later = NOW + CERTIFICATE_LIFE * 2 / 3 + DAY
    second = renewed(FIRST, NAMES, later)
    assert second.authority == FIRST.authority
    assert (second.certificate, second.key) != (FIRST.certificate, FIRST.key)
    assert not is_due(second, NAMES, later)


def test_a_new_authority_is_bundled_with_the_old_one() -> None:
    before = NOW + AUTHORITY_LIFE * 2 / 3 - DAY
    old = renewed(FIRST, NAMES, before)
    assert old.authority == FIRST.authority
    later = before + 2 * DAY
    new = renewed(old, NAMES, later)
    assert new.authority != old.authority
    assert trusts(new.authority, new, later)
    # The bundle of the new authority also verifies the old certificate.
    assert trusts(new.authority, old, later)
    assert not trusts(old.authority, new, later)
    assert len(x509.load_pem_x509_certificates(new.authority)) == 2


def test_expired_authorities_are_removed_from_the_bundle() -> None:
    later = NOW + AUTHORITY_LIFE + DAY
    assert len(x509.load_pem_x509_certificates(renewed(FIRST, NAMES, later).authority)) == 1


def test_the_certificate_is_valid_and_trusted_at_any_time_in_ten_years() -> None:
    credentials, now = FIRST, NOW
    for _ in range(10 * 52):
        now += 7 * DAY
        if is_due(credentials, NAMES, now):
            after = renewed(credentials, NAMES, now)
            assert trusts(after.authority, credentials, now)
            credentials = after
        assert trusts(credentials.authority, credentials, now)
        assert not is_due(credentials, NAMES, now)


OTHER = renewed(None, NAMES, NOW)
# A key on secp112r1, a curve that is no longer supported.
UNSUPPORTED = (
    b"-----BEGIN PRIVATE KEY-----\n"
    b"ME4CAQAwEAYHKoZIzj0CAQYFK4EEAAYENzA1AgEBBA7HZQBLdyvG5rPs89X86KEg\n"
    b"Ax4ABHEANJXNSQIpJMLl2Pkwoeih3il7GNLa7yPD/i8=\n"
    b"-----END PRIVATE KEY-----\n"
)


@pytest.mark.parametrize(
    "damaged",
    [
        pytest.param(Credentials(b"", FIRST.authority_key, FIRST.certificate, FIRST.key), id="no authority"),
        pytest.param(Credentials(b"x", b"x", b"x", b"x"), id="not PEM"),
        pytest.param(
            Credentials(OTHER.authority, OTHER.authority_key, FIRST.certificate, FIRST.key),
            id="certificate of another authority",
        ),
        pytest.param(Credentials(FIRST.authority, FIRST.authority_key, FIRST.certificate, OTHER.key), id="wrong key"),
        pytest.param(Credentials(FIRST.authority, b"x", FIRST.certificate, b"x"), id="keys not PEM"),
        pytest.param(Credentials(FIRST.authority, UNSUPPORTED, FIRST.certificate, UNSUPPORTED), id="unsupported keys"),
        pytest.param(
            Credentials(OTHER.authority, FIRST.authority_key, FIRST.certificate, FIRST.key),
            id="authority and key differ",
        ),
        pytest.param(
            Credentials(FIRST.authority, OTHER.authority_key, FIRST.certificate, OTHER.key),
            id="keys of another authority",
        ),
    ],
)
def test_damaged_credentials_are_replaced(damaged: Credentials) -> None:
    assert is_due(damaged, NAMES, NOW)
    repaired = renewed(damaged, NAMES, NOW)
    assert not is_due(repaired, NAMES, NOW)
    assert trusts(repaired.authority, repaired, NOW)
