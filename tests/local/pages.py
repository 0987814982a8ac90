"""A page of `pumice ui` in a process of its own, and a browser without a window."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.fork_server import Forked, fork_server
from tests.patience import PATIENCE

MODULES = ("pumice.ui.server",)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclass
class Page:
    """A browser that keeps the cookie. `address` is what the command printed."""

    address: str
    process: Forked
    cookie: str = ""

    @property
    def host(self) -> str:
        return urlsplit(self.address).netloc

    def open(self) -> Page:
        """Exchange the token for the cookie."""
        target = self.address.partition(self.host)[2]
        answer = self.get(target)
        assert (answer.status, answer.headers["Location"], answer.body) == (303, "/", b"")
        self.cookie = answer.headers["Set-Cookie"].partition(";")[0]
        return self

    def get(self, target: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> Answer:
        sent = {"Cookie": self.cookie} if self.cookie else {}
        connection = http.client.HTTPConnection(self.host, timeout=PATIENCE)
        try:
            connection.request(method, target, headers={**sent, **(headers or {})})
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())
        finally:
            connection.close()

    def post(self, target: str, headers: Mapping[str, str]) -> Answer:
        return self.get(target, {"Content-Length": "0", **headers}, "POST")

    def data(self, target: str) -> Any:
        answer = self.get(target)
        assert answer.status == 200, answer
        return answer.json

    def until(self, target: str, condition: Callable[[Any], bool]) -> Any:
        """Ask until the data is as expected, and return it."""
        deadline = time.monotonic() + PATIENCE
        while not condition(found := self.data(target)):
            assert time.monotonic() < deadline, found
            time.sleep(0.05)
        return found

    @contextmanager
    def stream(self, target: str = "/api/stream", last: str = "") -> Iterator[Iterator[tuple[str, Any, str]]]:
        """Yield the events of a stream: kind, data, id."""
        connection = http.client.HTTPConnection(self.host, timeout=PATIENCE)
        try:
            headers = {"Cookie": self.cookie, **({"Last-Event-ID": last} if last else {})}
            connection.request("GET", target, headers=headers)
            answer = connection.getresponse()
            assert (answer.status, answer.headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
            yield _events(answer)
        finally:
            connection.close()

    def token(self) -> Mapping[str, str]:
        """Return the headers of a request that changes something, as the script of the page sends them."""
        found = self.get("/").text.partition('name="pumice-token" content="')[2].partition('"')[0]
        assert found
        return {"Origin": f"http://{self.host}", "X-Pumice-Token": found}


def _events(answer: http.client.HTTPResponse) -> Iterator[tuple[str, Any, str]]:
    fields: dict[str, str] = {}
    while line := answer.readline():
        text = line.decode().rstrip("\n")
        if text:
            name, _, value = text.partition(": ")
            fields[name] = value
        elif "event" in fields:
            yield fields["event"], json.loads(fields["data"]), fields.get("id", "")
            fields = {}


@dataclass
class Pages:
    """Starts pages, which end with the test."""

    directory: Path
    env: Mapping[str, str]
    started: list[Forked] = field(default_factory=list)

    def start(self, *words: str) -> Page:
        out = self.directory / f"page-{len(self.started)}"
        with out.open("w") as stream:
            server = fork_server(*MODULES)
            process = server.start(["ui", "--no-open", *words], cwd=self.directory, env=self.env, out=stream.fileno())
        self.started.append(process)
        deadline = time.monotonic() + PATIENCE
        while "\n" not in out.read_text():
            assert process.poll() is None, out.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return Page(out.read_text().splitlines()[0], process)

    def stop(self) -> None:
        for process in self.started:
            process.send_signal(signal.SIGTERM)
            assert process.wait(PATIENCE) == 0


def as_another_user(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python as the user `nobody`, if the tests run as root."""
    return subprocess.run(
        ["/usr/bin/env", "python3", "-I", "-c", code, *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        user="nobody" if os.getuid() == 0 else None,
        env={"PATH": os.defpath},
        cwd="/",
    )
