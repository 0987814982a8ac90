"""TLS for the API server: the trusted authorities and the client certificate."""

from __future__ import annotations

import os
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from pumice.model.pumice_error import PumiceError


class CertificateError(PumiceError):
    """A certificate or key is unusable."""


def tls_context(authority: bytes | None, *, verify: bool = True) -> ssl.SSLContext:
    """Return a context that trusts this authority (PEM) or, without one, those of the system."""
    try:
        context = ssl.create_default_context(cadata=authority.decode("ascii") if authority is not None else None)
    except UnicodeDecodeError as error:
        raise CertificateError("is not a certificate authority in PEM form") from error
    except ssl.SSLError as error:
        raise CertificateError(f"is not a certificate authority in PEM form ({_reason(error)})") from error
    # Python 3.13 requires extensions that the authorities of many clusters lack, and refuses an intermediate authority
    # as the root of trust. Kubernetes' own clients do neither.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.set_alpn_protocols(["http/1.1"])
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def load_key_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Present this certificate from the next connection on."""
    with _file(certificate) as certificate_file, _file(key) as key_file:
        try:
            context.load_cert_chain(certificate_file, key_file, password=_no_passphrase)
        except ssl.SSLError as error:
            raise CertificateError(
                f"certificate and key are not in PEM form, or do not belong together ({_reason(error)})"
            ) from error


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """Return the path of a file with this content: Python's ssl module reads only files.

    On Linux it is in memory, because the pods of an installation have no writable directory.
    """
    on_linux = sys.platform == "linux"
    with os.fdopen(os.memfd_create("pumice"), "wb") if on_linux else tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}" if on_linux else file.name


def _no_passphrase() -> str:
    # Without this callback OpenSSL prompts on the terminal.
    raise CertificateError("the key is protected by a passphrase; store it without one")


def _reason(error: ssl.SSLError) -> str:
    return str(error.reason or error).replace("_", " ").lower()
