"""Images from a real registry, Debian's docker-registry; hostile answers are in unit/engines/local/registry/."""

from __future__ import annotations

import base64
import datetime as dt
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from pumice.cli.main import main
from pumice.engines.local.images.store import ImageStore
from tests.cluster.pki import make_pki
from tests.docs.markdown import blocks
from tests.local.connect_proxy import connect_proxy
from tests.local.registry import PushedImage, Registry, registry
from tests.local.roots import small_root
from tests.local.running import Workspace, job, task
from tests.local.sandbox.boxes import need_namespaces
from tests.local.slow_link import slow_link
from tests.local.token_server import TokenServer, token_server
from tests.meta.tree import ROOT
from tests.patience import PATIENCE
from tests.unit.engines.local.images.archives import E, directory, layer

pytestmark = pytest.mark.needs("docker-registry")

USER, PASSWORD = "trainer", "secret-of-test"
# docker-registry accepts bcrypt only.
HTPASSWD = f"{USER}:$2b$04$bk3Gd4oBjEqrJiyRTi6MOuO8vcUkdqhc9c499u2Qy68.9RZ4afp9K\n"
BIG = random.Random(1).randbytes(6 << 20)


@dataclass(frozen=True)
class Registries:
    """The same images behind three doors."""

    open: Registry
    password: Registry
    token: Registry
    tokens: TokenServer
    small: PushedImage
    big: PushedImage


@pytest.fixture(scope="module")
def registries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registries]:
    base = tmp_path_factory.mktemp("registries")
    with ExitStack() as stack:
        plain = stack.enter_context(registry(base / "open"))
        (base / "htpasswd").write_text(HTPASSWD)
        auth = {"htpasswd": {"realm": "tests", "path": str(base / "htpasswd")}}
        password = stack.enter_context(registry(base / "password", auth, plain.root))
        tokens = stack.enter_context(token_server({USER: PASSWORD}))
        token = stack.enter_context(registry(base / "token", tokens.auth(base), plain.root))
        small = plain.push("team/small", "1", [layer(E("a", b"one")), layer(E("b", b"two"))], Cmd=["/a"])
        big = plain.push("team/big", "1", [layer(E("big", BIG)), layer(E("end", b"x"))], compressed=False)
        foreign = plain.push("team/small", "", [layer(E("a", b"foreign"))], architecture="s390x")
        platform = f"linux/{json.loads(plain.blob(small.config).read_bytes())['architecture']}"
        plain.push_index("team/small", "multi", {platform: small, "linux/s390x": foreign})
        yield Registries(plain, password, token, tokens, small, big)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An ordinary user's, without logins."""
    for name in ("REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "DOCKER_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def _log_in(home: Path, host: str, password: str = PASSWORD) -> None:
    (home / ".docker").mkdir(exist_ok=True)
    auth = base64.b64encode(f"{USER}:{password}".encode()).decode()
    (home / ".docker" / "config.json").write_text(json.dumps({"auths": {host: {"auth": auth}}}))


def _images(home: Path) -> Path:
    return home / "state" / "pumice" / "images"


def _partial_files(home: Path) -> list[Path]:
    return list(_images(home).glob(".downloads/*/blobs/sha256/*.partial"))


def test_pull_by_tag_digest_and_platform(
    registries: Registries, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"{registries.open.host}/team/small"
    assert main(["image", "pull", f"{name}:1"]) == 0
    out, err = capsys.readouterr()
    assert out == f"{name}:1: {registries.small.config[:19]}, 4 KiB\n"
    lines = err.splitlines()
    assert lines[0].startswith(f"{name}:1: pulling from {registries.open.host}: 2 layers, ")
    assert lines[-3].startswith(f"{name}:1: 2 of 2 layers, ")
    assert lines[-2:] == [f"{name}:1: unpacking layer 1 of 2", f"{name}:1: unpacking layer 2 of 2"]

    assert main(["image", "pull", "--json", f"{name}@{registries.small.manifest}", f"{name}:multi"]) == 0
    out, err = capsys.readouterr()
    found = [json.loads(line) for line in out.splitlines()]
    assert [each["digest"] for each in found] == [registries.small.config] * 2
    assert (Path(found[0]["root"]) / "b").read_bytes() == b"two"
    assert err.count("is up to date") == 2

    assert main(["image", "pull", f"{name}:multi", "--platform", "linux/s390x"]) == 0
    out, err = capsys.readouterr()
    assert "warning: is for s390x" in err
    assert main(["image", "list", "--json"]) == 0
    listed = {each["name"]: each for each in map(json.loads, capsys.readouterr().out.splitlines())}
    assert (Path(listed[f"{name}:multi"]["root"]) / "a").read_bytes() == b"foreign"
    assert listed[f"{name}:1"]["source"] == f"{name}:1"
    assert list((_images(home) / ".downloads").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        pytest.param("HOST/team/small:2", 2, "HOST has no such image", id="tag"),
        pytest.param("HOST/nobody/nothing", 2, "HOST has no such image", id="repository"),
        pytest.param("HOST/Team/small", 2, "is not a valid image name", id="name"),
        pytest.param("HOST/team/small:multi --platform mips", 2, "does not exist for linux/mips", id="architecture"),
        pytest.param("HOST/team/small:1 --platform x/y/z/w", 2, "must be OS/ARCHITECTURE", id="platform"),
        pytest.param("127.0.0.1:1/x", 1, "127.0.0.1:1 cannot be reached: connection refused", id="unreachable"),
        pytest.param("registry.invalid/x", 1, "registry.invalid cannot be reached: ", id="no such host"),
    ],
)
@pytest.mark.usefixtures("home")
def test_exit_codes(
    registries: Registries, capsys: pytest.CaptureFixture[str], words: str, code: int, message: str
) -> None:
    assert main(["image", "pull", *words.replace("HOST", registries.open.host).split()]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert message.replace("HOST", registries.open.host) in err


@pytest.mark.parametrize("door", ["password", "token"])
def test_logins(registries: Registries, home: Path, capsys: pytest.CaptureFixture[str], door: str) -> None:
    host = getattr(registries, door).host
    name = f"{host}/team/small:1"
    assert main(["image", "pull", name]) == 2
    _, err = capsys.readouterr()
    assert "there is no such image, or it is private" in err
    assert f"`docker login {host}` or `podman login {host}`" in err
    _log_in(home, host, "wrong-secret")
    assert main(["image", "pull", name]) == 2
    wrong = capsys.readouterr().err
    _log_in(home, host)
    assert main(["image", "pull", name]) == 0
    right = capsys.readouterr()
    said = wrong + right.out + right.err
    stored = b"".join(path.read_bytes() for path in _images(home).rglob("*") if path.is_file())
    for secret in (PASSWORD, "wrong-secret", base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode(), "Bearer"):
        assert secret not in said
        assert secret.encode() not in stored
    if door == "token":
        assert set(registries.tokens.asked) == {"repository:team/small:pull"}


def test_tls_and_a_proxy(
    registries: Registries, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registry with the certificate of a private authority, on this machine and behind a proxy with a password."""
    pki = make_pki(home / "pki", dt.datetime.now(dt.UTC))  # noqa: TID251 - OpenSSL reads the same clock
    tls = {"certificate": pki.path("server.crt"), "key": pki.path("server.key")}
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with (
        registry(home / "tls", root=registries.open.root, tls=tls) as server,
        connect_proxy(server.host) as (proxy, asked),
    ):
        local = f"{server.host}/team/small:1"
        assert main(["image", "pull", local]) == 1
        _, err = capsys.readouterr()
        assert err.startswith(f"{local}: {server.host}: its certificate is not trusted: ")
        assert "name its file in SSL_CERT_FILE" in err
        monkeypatch.setenv("SSL_CERT_FILE", pki.path("ca.crt"))
        assert main(["image", "pull", local]) == 0

        monkeypatch.setenv("HTTPS_PROXY", f"http://me:s%40cret@{proxy}")
        monkeypatch.setenv("NO_PROXY", "example.com")
        assert main(["image", "rm", local]) == 0
        far = "kubernetes.default.svc/team/small:1"
        assert main(["image", "pull", far]) == 0
        assert set(asked) == {("kubernetes.default.svc:443", f"Basic {base64.b64encode(b'me:s@cret').decode()}")}
        monkeypatch.setenv("HTTPS_PROXY", "http://me:s%40cret@127.0.0.1:1")
        capsys.readouterr()
        assert main(["image", "pull", far]) == 1
        _, err = capsys.readouterr()
        assert err.startswith(f"{far}: kubernetes.default.svc: the proxy cannot be reached: connection refused")
        assert "cret" not in err


def test_a_download_that_was_killed_continues(
    registries: Registries, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only what is missing is fetched again."""
    with slow_link(registries.open.host, len(BIG) // 2) as link:
        script = "import sys; from pumice.cli.program import main; sys.exit(main())"
        command = [sys.executable, "-c", script, "image", "pull", f"{link.address}/team/big:1"]
        process = subprocess.Popen(command, env=dict(os.environ), stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        assert link.stalled.wait(PATIENCE)
        # A line each second says that it goes on.
        waiting = [line for line in (process.stderr.readline() for _ in range(3)) if " of 2 layers, " in line]
        process.kill()
        process.communicate()
    assert len(waiting) == 2
    kept = sum(path.stat().st_size for path in _partial_files(home))
    assert kept > len(BIG) // 4
    with slow_link(registries.open.host, 1 << 40) as link:
        assert main(["image", "pull", f"{link.address}/team/big:1"]) == 0
    assert link.carried < len(BIG) - kept + 100_000
    assert capsys.readouterr().out.startswith(f"{link.address}/team/big:1: {registries.big.config[:19]}")
    assert list((_images(home) / ".downloads").iterdir()) == []


@pytest.mark.usefixtures("home")
def test_ctrl_c_ends_the_unpacking_at_once(registries: Registries, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = []

    def unpack_for_long(*_: object, **_named: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(20)
        goes_on.append(True)

    monkeypatch.setattr(ImageStore, "add", unpack_for_long)
    assert main(["image", "pull", f"{registries.open.host}/team/small:1"]) == 130
    assert goes_on == []


def test_a_wrong_digest_is_refused_and_removed(
    registries: Registries, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    image = registries.open.push("team/damaged", "1", [layer(E("a", b"some text"))])
    blob = registries.open.blob(image.layers[0])
    data = blob.read_bytes()
    blob.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    assert main(["image", "pull", f"{registries.open.host}/team/damaged:1"]) == 1
    err = capsys.readouterr().err
    assert "layer 1 of 1: its digest is sha256:" in err
    assert f"not {image.layers[0]}; it is refused" in err
    assert _partial_files(home) == []
    assert main(["image", "list"]) == 0
    assert "no images" in capsys.readouterr().err


def _shown_in_the_guide() -> list[str]:
    """What the guide shows of a pull."""
    [text] = [block.text for block in blocks(ROOT / "docs/guides/own-images.md") if "pulling from" in block.text]
    return [line for line in text.splitlines() if line.startswith(("image ", "  pulled "))]


def _shapes(lines: list[str]) -> set[str]:
    """Return lines without names, digests and numbers."""
    found = [re.sub(r"\S+/team/\w+:\w+", "NAME", line) for line in lines]
    found = [re.sub(r"(?<=from )[\w.:]+(?=:)", "HOST", line) for line in found]
    found = [re.sub(r"sha256:\w+|[\d.]+(?: (?:[KMG]i)?B)?", "N", line) for line in found]
    return {line.replace("layers", "layer") for line in found}


def test_run_pulls_what_is_missing(registries: Registries, tmp_path: Path) -> None:
    need_namespaces()
    root = small_root(tmp_path / "root", {"sh": "sh"})
    paths = sorted(root.rglob("*"))
    entries = [
        directory(str(path.relative_to(root)))
        if path.is_dir()
        else E(str(path.relative_to(root)), path.read_bytes(), mode=0o755)
        for path in paths
    ]
    tag = registries.open.push("team/shell", "1", [layer(*entries)], Env=["WHO=an image"])
    name = f"{registries.open.host}/team/shell:1"
    pod = task("w", "echo hello from $WHO", container={"image": name})
    workspace = Workspace(tmp_path)

    missing = f"{registries.open.host}/team/nothing:1"
    refused = workspace.run(job(task("w", "true", container={"image": missing})), flags=["--pull"])
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == f"image {missing}: {registries.open.host} has no such image\n"
    unreachable = workspace.run(job(task("w", "true", container={"image": "127.0.0.1:1/x"})), flags=["--pull"])
    assert (unreachable.code, unreachable.out) == (1, "")

    no_command = job(task("w", "", container={"image": name, "command": []}))
    unknown = workspace.run(no_command)
    assert unknown.code == 2
    assert f"hint: `pumice image pull {name}` or --pull fetches it" in unknown.err

    not_found = workspace.run(job(task("w", "exec no-such-program")))
    assert not_found.code == 127
    assert "`pumice image pull nowhere` fetches them" in not_found.err

    done = workspace.run(job(pod), flags=["--pull"])
    assert (done.code, done.out) == (0, "w-0  hello from an image\n")
    lines = done.err.splitlines()
    assert lines[0].startswith(f"image {name}: pulling from {registries.open.host}: 1 layer, ")
    [header] = [line for line in lines if line.startswith("  pulled ")]
    assert header.startswith(f"  pulled {name} from {registries.open.host}: {tag.config[:19]}, ")
    assert any(line.endswith(f"images: {name}") for line in lines)
    assert _shapes(_shown_in_the_guide()) <= _shapes(lines)
    again = workspace.run(job(pod), flags=["--pull"])
    assert (again.code, again.out) == (0, "w-0  hello from an image\n")
    assert "pulled" not in again.err
    assert "pulling" not in again.err
