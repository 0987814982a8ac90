"""A server of tokens for docker-registry, as registries of companies have one: users, passwords and signed tokens."""

from __future__ import annotations

import base64
import datetime as dt
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.x509.oid import NameOID

SERVICE = "tests"


@dataclass
class TokenServer:
    logins: Mapping[str, str]  # passwords by user
    address: str = ""
    asked: list[str] = field(default_factory=list)  # the scopes

    def __post_init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, SERVICE)])
        now = dt.datetime.now(dt.UTC)  # noqa: TID251 - the registry reads the same clock
        self._certificate = (
            x509.CertificateBuilder(name, name, self._key.public_key(), x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def auth(self, directory: Path) -> dict[str, Any]:
        """Return this part of the configuration of a registry."""
        bundle = directory / "authority.pem"
        bundle.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))
        realm = f"http://{self.address}/token"
        return {"token": {"realm": realm, "service": SERVICE, "issuer": SERVICE, "rootcertbundle": str(bundle)}}

    def answer(self, authorization: str, query: Mapping[str, list[str]]) -> tuple[int, dict[str, str]]:
        user, _, password = base64.b64decode(authorization.removeprefix("Basic ")).decode().partition(":")
        [scope] = query["scope"]
        self.asked.append(scope)
        if user and self.logins.get(user) != password:
            return 401, {}
        kind, name, actions = scope.split(":")
        # Who does not log in gets a token, too, which opens nothing.
        access = [{"type": kind, "name": name, "actions": actions.split(",")}] if user else []
        return 200, {"token": self._token(user, access)}

    def _token(self, user: str, access: list[dict[str, Any]]) -> str:
        now = int(dt.datetime.now(dt.UTC).timestamp())  # noqa: TID251 - the registry reads the same clock
        certificate = base64.b64encode(self._certificate.public_bytes(serialization.Encoding.DER)).decode()
        header = {"typ": "JWT", "alg": "ES256", "x5c": [certificate]}
        times = {"nbf": now - 60, "iat": now, "exp": now + 300}
        claims = {"iss": SERVICE, "sub": user, "aud": SERVICE, "jti": "1", "access": access, **times}
        signed = f"{_encoded(json.dumps(header).encode())}.{_encoded(json.dumps(claims).encode())}"
        r, s = utils.decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@contextmanager
def token_server(logins: Mapping[str, str]) -> Iterator[TokenServer]:
    found = TokenServer(logins)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)
            status, answer = found.answer(self.headers.get("Authorization", ""), query)
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.address = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
