"""What is fuzzed. Each target takes a source of random choices, and raises if Pumice does what it must never do."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import json
import logging
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from pumice.cli.main import main
from pumice.engines.kubernetes.api.client import Client
from pumice.engines.kubernetes.api.errors import ApiError
from pumice.engines.kubernetes.api.http1 import ProtocolError, ResponseReader
from pumice.engines.kubernetes.install.crds import job_schema
from pumice.engines.kubernetes.webhook.reviews import Answer, MalformedReviewError, mutated, validated
from pumice.engines.local.images.errors import ImageError
from pumice.engines.local.images.store import ImageStore
from pumice.model.job import PUMICE_FIELDS
from tests.builders import a_context
from tests.fuzz.mutations import mutated_bytes, mutated_document
from tests.hostile_jobs import SHAPES
from tests.meta.tree import ROOT
from tests.unit.engines.kubernetes.played_api import access_to
from tests.unit.engines.local.images.archives import (
    E,
    directory,
    docker_files,
    hard_link,
    layer,
    oci_files,
    symlink,
    tar_of,
)

COMMANDS: Final = (("validate",), ("render",), ("explain",), ("simulate",))
BASE: Final = layer(directory("etc"), E("etc/motd", b"one"), E("gone", b"x" * 2000), symlink("sh", "/bin/busybox"))
TOP: Final = layer(E("etc/motd", b"two"), E(".wh.gone"), hard_link("etc/same", "etc/motd"), directory("shut", 0o500))
ANSWERS: Final = (
    b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{"kind":"Pod"}'[:-1],
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3;a=b\r\n{}\n\r\n0\r\nTrailer: x\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 409 Conflict\r\nConnection: close\r\n\r\n" + b'{"kind":"Status"}',
    b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 2\r\n\r\n{}",
    b'HTTP/1.0 404 Not Found\r\n\r\n{"kind":"Status","reason":"NotFound","code":404,"message":"m"}',
)


class Defect(Exception):  # noqa: N818 - of Pumice, not of the program
    pass


@functools.cache
def job_texts() -> Sequence[bytes]:
    files = sorted((ROOT / "examples").glob("**/*.yaml"))
    return [file.read_bytes() for file in files]


@functools.cache
def jobs() -> Sequence[Any]:
    found = [each for text in job_texts() for each in yaml.load_all(text, yaml.CSafeLoader)]
    bases = json.loads((ROOT / "tests" / "conformance" / "data" / "bases.json").read_text())
    return [*found, *bases.values(), *(shape(count) for shape in SHAPES.values() for count in (2, 30))]


def fuzz_commands(draw: random.Random) -> None:
    """The commands that read a Job end with 0, 1 or 2, and without a traceback."""
    if draw.random() < 0.4:
        text = mutated_bytes(draw.choice(job_texts()), draw)
    else:
        text = json.dumps(mutated_document(draw.choice(jobs()), draw)).encode("utf-8", "surrogatepass")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "job.yaml"
        file.write_bytes(text)
        for command in COMMANDS:
            printed = io.BytesIO()
            out = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace")
            err = io.TextIOWrapper(printed, "utf-8", "backslashreplace")
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    code = main([*command, str(file)])
                except SystemExit as ending:
                    code = ending.code if isinstance(ending.code, int) else 1
            err.flush()
            if code not in (0, 1, 2) or b"Traceback" in printed.getvalue():
                raise Defect(f"pumice {command[0]} ended with {code}")


def fuzz_reviews(draw: random.Random) -> None:
    """The webhook answers every review, or says that it is none."""
    job, before = mutated_document(draw.choice(jobs()), draw), draw.choice(jobs())
    request = {"uid": "u-1", "operation": draw.choice(("CREATE", "UPDATE")), "object": job, "namespace": "a"}
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": request | {"oldObject": before},
    }
    if draw.random() < 0.3:
        review = mutated_document(review, draw)
    body = json.dumps(review).encode()
    if draw.random() < 0.2:
        body = mutated_bytes(body, draw)
    context = a_context()
    answers: tuple[Callable[[], Answer], ...] = (
        functools.partial(mutated, body, context, job_schema()),
        functools.partial(validated, body, context, PUMICE_FIELDS),
    )
    for answer_review in answers:
        try:
            answer = json.loads(answer_review()[0])
        except MalformedReviewError:
            continue
        if answer["response"].get("status", {}).get("reason") == "InternalError":
            raise Defect("the webhook answered with an internal error")


def fuzz_http(draw: random.Random) -> None:
    """An answer is read, or is a protocol error; the client reports it as an error of the API."""
    answer = mutated_bytes(draw.choice(ANSWERS), draw)
    reader, taken, rest = ResponseReader(), 0, answer
    try:
        while rest:
            size = draw.choice((1, 7, 100, 100_000))
            piece, rest = rest[:size], rest[size:]
            reader.feed(piece)
            taken += len(reader.take())
        reader.feed_end()
    except ProtocolError:
        return
    finally:
        if taken > len(answer):
            raise Defect("the body is longer than the answer")
    if draw.random() < 0.2:
        asyncio.run(_ask(answer))


async def _ask(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, asyncio.timeout(5), Client(access_to(server.sockets[0].getsockname()[1])) as client:
        with contextlib.suppress(ApiError):
            await client.request("GET", "/api/v1/pods")


def fuzz_images(draw: random.Random) -> None:
    """An archive is unpacked inside its store, or is an error of the image."""
    layers = [mutated_bytes(each, draw) if draw.random() < 0.5 else each for each in (BASE, TOP)]
    make = draw.choice((docker_files, oci_files))
    files = make(layers, Cmd=["/sh"], Env=["A=1"], WorkingDir="/w")
    if draw.random() < 0.4:
        name = draw.choice(sorted(files))
        files[name] = mutated_bytes(files[name], draw)
    archive = tar_of(files)
    if draw.random() < 0.4:
        archive = mutated_bytes(archive, draw)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "image.tar"
        file.write_bytes(archive)
        with contextlib.suppress(ImageError):
            ImageStore(Path(folder) / "state").add("example.com/a:1", file, lambda _: None)
        if extra := {each.name for each in Path(folder).iterdir()} - {"image.tar", "state"}:
            raise Defect(f"the image wrote outside of its store: {sorted(extra)}")


TARGETS: Final[Mapping[str, Callable[[random.Random], None]]] = {
    "commands": fuzz_commands,
    "reviews": fuzz_reviews,
    "http": fuzz_http,
    "images": fuzz_images,
}
logging.getLogger("pumice").addHandler(logging.NullHandler())
