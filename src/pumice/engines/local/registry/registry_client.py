"""Requests to one repository of a registry: redirects, authentication, and answers of bounded size.

Credentials go to the registry and to the token server that it names, over TLS. Plain HTTP is used with registries on
this machine's loopback addresses only, as docker does.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import socket
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self

import aiohttp
import msgspec
from yarl import URL

from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.registry.auth_files import RegistryLogin, find_login
from pumice.engines.local.registry.image_reference import ImageReference
from pumice.runtime.proxies import is_loopback, proxy_for

_REDIRECTS: Final = (301, 302, 303, 307, 308)
_MOST_REDIRECTS: Final = 10
_OK, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _TOO_MANY, _SERVER_ERROR = 200, 401, 403, 404, 429, 500
_CONNECT_SECONDS: Final = 30
_SILENT_SECONDS: Final = 60  # a download may take any time, but not without a byte
_DOCUMENT_SECONDS: Final = 60
_PROBE_SECONDS: Final = 5
_LARGEST_TOKEN: Final = 1 << 20
_BUFFER: Final = 1 << 20
_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")
_LONGEST_CHALLENGE: Final = 8192
_WORD: Final = r"[A-Za-z0-9!#$%&'*+.^_`|~-]+"
_PARAMETER: Final = re.compile(rf'[\s,]*({_WORD})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|({_WORD}))')
_SCHEME: Final = re.compile(rf"[\s,]*({_WORD})(?:\s+|$)")
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


def challenges(headers: Iterable[str]) -> dict[str, Mapping[str, str]]:
    """Return the parameters of each scheme, in lower case; what cannot be parsed is left out."""
    found: dict[str, Mapping[str, str]] = {}
    for header in headers:
        position = 0
        while position < len(header) <= _LONGEST_CHALLENGE and (scheme := _SCHEME.match(header, position)):
            position = scheme.end()
            parameters: dict[str, str] = {}
            while parameter := _PARAMETER.match(header, position):
                position = parameter.end()
                quoted = parameter[2]
                value = parameter[3] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
                parameters.setdefault(parameter[1].lower(), value)
            found.setdefault(scheme[1].lower(), parameters)
    return found


class RegistryClient:
    def __init__(self, image: ImageReference, environ: Mapping[str, str]) -> None:
        self.image = image
        self._environ = environ
        self._base = URL(f"https://{image.api_host}/v2/")
        self._authorization = ""
        self._logging_in = asyncio.Lock()

    async def __aenter__(self) -> Self:
        context = ssl.create_default_context()
        # Python 3.13 requires extensions that the certificates of many private authorities lack.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_SILENT_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            # A digest is that of the bytes as they are sent, and what is not decompressed cannot be a bomb.
            auto_decompress=False,
            headers={"User-Agent": "pumice", "Accept-Encoding": "identity"},
            read_bufsize=_BUFFER,
        )
        try:
            await self._choose_scheme()
        except BaseException:
            await self._session.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def document(self, path: str, accept: str, most: int) -> tuple[bytes, Mapping[str, str]]:
        """Return the body and the headers of a document of at most this size."""
        async with self.get(path, {"Accept": accept}) as response:
            self.check_status(response)
            return await _body(response, most, self.image.host), response.headers

    @asynccontextmanager
    async def get(self, path: str, headers: Mapping[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open the response for a path below the repository, after logging in if the registry asks for it.

        Raises RegistryError if the connection fails, also while the response is read.
        """
        url = self._base.join(URL(f"{self.image.repository}/{path}"))
        host = self.image.host
        try:
            sent = self._authorization
            response = await self._send(url, headers, sent)
            try:
                if response.status == _UNAUTHORIZED and response.url.origin() == self._base.origin():
                    asked = challenges(response.headers.getall("WWW-Authenticate", []))
                    response.close()
                    await self._log_in(asked, sent)
                    response = await self._send(url, headers, self._authorization)
                yield response
            finally:
                response.close()
        except NETWORK_ERRORS as error:
            raise network_error(host, error) from None

    def check_status(self, response: aiohttp.ClientResponse, what: str = "") -> None:
        """Raises ImageError for what does not exist or is denied, RegistryError for other failures."""
        status, host = response.status, self.image.host
        if status < _REDIRECTS[0]:
            return
        if status in (_UNAUTHORIZED, _FORBIDDEN):
            raise self._denied(f"answers with {status}")
        if status == _NOT_FOUND and not what:
            raise ImageError(f"{host} has no such image")
        if status == _TOO_MANY:
            hint = f"wait, or log in with `docker login {host}` or `podman login {host}`"
            raise TemporaryError(f"{host} has had too many requests from here", hint)
        kind = TemporaryError if status >= _SERVER_ERROR else RegistryError
        raise kind(f"{host} answers with {status}{f' for {what}' if what else ''}")

    async def _choose_scheme(self) -> None:
        """A registry on a loopback address may speak plain HTTP."""
        if not is_loopback(self._base.host or ""):
            return
        plain = self._base.with_scheme("http")
        for url in (plain, self._base):
            try:
                async with asyncio.timeout(_PROBE_SECONDS):
                    response = await self._session.get(url, allow_redirects=False)
            except aiohttp.ClientConnectorCertificateError as error:
                raise network_error(self.image.host, error) from None
            except NETWORK_ERRORS:
                continue
            response.close()
            if response.status in (_OK, _UNAUTHORIZED):
                self._base = url
                return
        # Neither looks like a registry; the next answer says what is wrong.
        self._base = plain

    async def _send(
        self, url: URL, headers: Mapping[str, str], authorization: str, form: Mapping[str, str] | None = None
    ) -> aiohttp.ClientResponse:
        """Follow redirects. The authorization goes to the first host only."""
        origin = url.origin()
        for _ in range(_MOST_REDIRECTS):
            own = {**headers, "Authorization": authorization} if authorization and url.origin() == origin else headers
            response = await self._session.request(
                "GET" if form is None else "POST",
                url,
                headers=own,
                data=form,
                allow_redirects=False,
                **self._proxy(url),
            )
            if response.status not in _REDIRECTS or form is not None:
                return response
            location = response.headers.get("Location", "")
            response.close()
            # Signed addresses stay as they are, character by character.
            target = URL(location, encoded=_VISIBLE.fullmatch(location) is not None)
            url = self._checked(url.join(target), "redirects to")
        raise RegistryError(f"{self.image.host} redirects more than {_MOST_REDIRECTS} times")

    def _checked(self, url: URL, what: str) -> URL:
        """Return an address that the registry named, if it may be used."""
        local = url.scheme == "http" and is_loopback(url.host or "") and self._base.scheme == "http"
        if (url.scheme != "https" and not local) or not url.host:
            raise RegistryError(f"{self.image.host} {what} an address that is not https")
        return url.with_user(None).with_password(None)

    def _proxy(self, url: URL) -> dict[str, Any]:
        found = proxy_for(str(url.origin()), self._environ)
        if found is None:
            return {}
        proxy = URL(found)
        if proxy.scheme not in ("http", "https"):
            raise RegistryError(f"the proxy for {url.host} is of a kind that is not supported: {proxy.scheme}")
        headers = {}
        if proxy.user is not None:
            secret = base64.b64encode(f"{proxy.user}:{proxy.password or ''}".encode()).decode()
            headers["Proxy-Authorization"] = f"Basic {secret}"
        return {"proxy": proxy.with_user(None), "proxy_headers": headers}

    async def _log_in(self, asked: Mapping[str, Mapping[str, str]], sent: str) -> None:
        """Set the authorization, once for all requests that were refused with the old one."""
        async with self._logging_in:
            if self._authorization != sent:
                return
            login = await asyncio.to_thread(find_login, self.image.host, self.image.repository, self._environ)
            if "bearer" in asked:
                self._authorization = f"Bearer {await self._token(asked['bearer'], login)}"
            elif "basic" in asked and login is not None and login.username:
                self._authorization = login.basic
            else:
                raise self._denied("asks for a login")

    async def _token(self, asked: Mapping[str, str], login: RegistryLogin | None) -> str:
        if login is not None and login.registry_token:
            return login.registry_token
        realm = self._checked(URL(asked.get("realm", "")), "names for tokens")
        query = {"service": asked["service"]} if "service" in asked else {}
        query["scope"] = f"repository:{self.image.repository}:pull"
        if login is not None and login.identity_token:
            form = {"grant_type": "refresh_token", "client_id": "pumice", "refresh_token": login.identity_token}
            response = await self._send(realm, {}, "", {**query, **form})
        else:
            authorization = login.basic if login is not None else ""
            response = await self._send(realm.update_query(query), {}, authorization)
        try:
            if response.status in (_UNAUTHORIZED, _FORBIDDEN):
                raise self._denied(f"refuses the login of {login.source}" if login is not None else "asks for a login")
            if response.status != _OK:
                kind = TemporaryError if response.status >= _SERVER_ERROR else RegistryError
                raise kind(f"{realm.host} answers with {response.status} to the request for a token")
            return _read_token(await _body(response, _LARGEST_TOKEN, realm.host or ""), realm.host or "")
        finally:
            response.close()

    def _denied(self, why: str) -> ImageError:
        host = self.image.host
        hint = f"check the name, or log in with `docker login {host}` or `podman login {host}`"
        return ImageError(f"{host} {why}: there is no such image, or it is private", hint)


async def _body(response: aiohttp.ClientResponse, most: int, host: str) -> bytes:
    """Read a short document; a server that sends it byte by byte does not get forever."""
    data = bytearray()
    async with asyncio.timeout(_DOCUMENT_SECONDS):
        async for part in response.content.iter_any():
            data += part
            if len(data) > most:
                raise RegistryError(f"{host} answers with more than {most} bytes, where a short document is expected")
    return bytes(data)


def _read_token(body: bytes, host: str) -> str:
    # The answer is secret, and never shown.
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        answer = None
    found = (answer.get("token") or answer.get("access_token")) if isinstance(answer, dict) else None
    if not isinstance(found, str) or not _VISIBLE.fullmatch(found):
        raise RegistryError(f"{host} answers the request for a token without one")
    return found
