"""RegistryError: the registry cannot be reached, or its answer cannot be used; the same command may work later."""

from __future__ import annotations

import os
import socket
import ssl

import aiohttp

from pumice.engines.local.images.errors import ImageError

# What aiohttp raises for a connection that fails and for an answer that is not HTTP.
NETWORK_ERRORS = (aiohttp.ClientError, TimeoutError, OSError, ValueError)


class RegistryError(ImageError):
    exit_code = 1


class TemporaryError(RegistryError):
    """Another attempt may work at once."""


def network_error(host: str, error: Exception) -> RegistryError:
    """Return the error in plain words. It names no URL, because the address of a layer may contain a signature."""
    if isinstance(error, TimeoutError):
        return TemporaryError(f"{host} does not answer in time")
    if isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError):
        return RegistryError(
            f"{host}: its certificate is not trusted: {_reason(error)}",
            "add the authority of the registry to this machine's certificates, or name its file in SSL_CERT_FILE",
        )
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return RegistryError(f"{host}: the proxy answers with {error.status}", "see HTTPS_PROXY and NO_PROXY")
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return TemporaryError(f"{host}: the proxy cannot be reached: {_reason(error)}", "see HTTPS_PROXY and NO_PROXY")
    if isinstance(error, aiohttp.ClientConnectorError):
        return TemporaryError(f"{host} cannot be reached: {_reason(error)}")
    if isinstance(error, aiohttp.ClientResponseError):
        return RegistryError(f"{host} does not answer with HTTP")
    if isinstance(error, aiohttp.InvalidURL | ValueError):
        return RegistryError(f"{host} answers with an address or a header that is not valid")
    return TemporaryError(f"{host}: the connection broke off")


def _reason(error: Exception) -> str:
    cause = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        return str(cause.verify_message)
    if isinstance(cause, ssl.SSLError):
        return str(cause.reason or cause).replace("_", " ").lower()
    if isinstance(cause, socket.gaierror):
        return str(cause.strerror).lower()
    # asyncio puts the address into the text of an error of the system.
    return (os.strerror(cause.errno) if isinstance(cause, OSError) and cause.errno else str(cause)).lower()
