from __future__ import annotations

import gzip
import io
import json
import pwd
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from pumice.cli.main import main
from tests.unit.engines.local.images.archives import E, device, docker_files, layer, oci_files, tar_of, write_file

LAYER = layer(E("a", b"x" * 2000))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    files = docker_files([layer(E("a", b"x" * 2000), device("dev/x"))], Cmd=["/a"])
    return write_file(tmp_path / "box.tar", tar_of(files))


def test_add_list_and_remove(tmp_path: Path, archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["image", "add", f"box:1={archive}"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("box:1: sha256:")
    assert out.endswith(", 4 KiB\n")
    assert err == (
        f"{archive}: unpacking layer 1 of 1\n{archive}: warning: device files are left out; a pod has its own /dev\n"
    )
    (tmp_path / "root").mkdir()
    assert main(["image", "add", f"dir={tmp_path}/root"]) == 0
    assert capsys.readouterr().out == f"dir: the directory {tmp_path}/root\n"

    assert main(["image", "list"]) == 0
    # The path may have spaces.
    lines = [line.split(maxsplit=4) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == ["NAME", "DIGEST", "SIZE", "SOURCE"]
    assert lines[1][0] == "box:1"
    assert lines[1][2:] == ["4", "KiB", str(archive)]
    assert " ".join(lines[2]) == f"dir - - {tmp_path}/root"

    assert main(["image", "rm", "box:1", "dir"]) == 0
    assert capsys.readouterr().out == "box:1: removed\ndir: removed\n"
    assert main(["image", "list"]) == 0
    assert capsys.readouterr() == (
        "",
        "no images; add one with `pumice image add NAME=PATH` or `pumice image pull NAME`\n",
    )


def test_json(archive: Path, state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["image", "add", "--json", f"box={archive}"]) == 0
    added = json.loads(capsys.readouterr().out)
    assert main(["image", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert added == listed
    assert listed["name"] == "docker.io/library/box:latest"
    assert listed["root"] == f"{state}/pumice/images/{listed['digest'].removeprefix('sha256:')}/rootfs"
    assert (listed["source"], listed["size"]) == (str(archive), 4096)
    assert listed["config"]["cmd"] == ["/a"]
    assert main(["image", "rm", "--json", "box"]) == 0
    assert json.loads(capsys.readouterr().out) == {"removed": "box"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["list", "x"], "pumice image list: takes no operand", id="list"),
        pytest.param(["add"], "pumice image add: needs NAME=PATH", id="add without operand"),
        pytest.param(["rm"], "pumice image rm: needs NAME", id="rm without operand"),
        pytest.param(["add", "x"], "x: must be NAME=PATH", id="no path"),
        pytest.param(["add", "=x"], "=x: must be NAME=PATH", id="no name"),
        pytest.param(["add", "x="], "x=: must be NAME=PATH", id="empty path"),
        pytest.param(["add", "x=/nowhere/y.tar"], "/nowhere/y.tar: no such file or directory", id="no file"),
        pytest.param(["add", "X=/"], "X: is not a valid image name", id="bad name"),
        pytest.param(["rm", "x"], "x: there is no such image\n  hint: `pumice image list`", id="unknown"),
    ],
)
def test_bad_input(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["image", *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err


def test_other_operands_are_processed_after_a_failure(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["image", "add", "a=/nowhere", f"b={archive}"]) == 2
    assert capsys.readouterr().out.startswith("b: sha256:")


def test_no_state_directory(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    assert main(["image", "list"]) == 2
    assert "hint: set XDG_STATE_HOME" in capsys.readouterr().err


def test_home_of_an_unknown_user(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["image", "add", "box=~nobody-knows/box.tar"]) == 2
    assert "~nobody-knows/box.tar: no such file" in capsys.readouterr().err


class _Pipe(io.BytesIO):
    """Bytes that can be read only once, as from `docker save`."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: object) -> int:
        raise io.UnsupportedOperation

    tell = seek


def _pipe(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(_Pipe(data)))


@pytest.mark.parametrize(
    "archive",
    [
        pytest.param(tar_of(docker_files([LAYER], ["box:1"])), id="docker save"),
        pytest.param(tar_of(oci_files([LAYER])), id="podman save --format oci-archive"),
        pytest.param(gzip.compress(tar_of(docker_files([LAYER]))), id="gzip"),
    ],
)
@pytest.mark.parametrize("words", [["box:1", "-"], ["box:1=-"]])
def test_add_from_a_pipe(
    archive: bytes,
    words: list[str],
    state: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    _pipe(archive, monkeypatch)
    assert main(["image", "add", *words]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("box:1: sha256:")
    assert err == "standard input: unpacking layer 1 of 1\n"
    assert main(["image", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert listed["source"] == "standard input"
    assert (Path(listed["root"]) / "a").read_bytes() == b"x" * 2000
    assert not [path for path in (state / "pumice" / "images").iterdir() if path.name.startswith("tmp")]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"", "is empty\n  hint: the program that writes", id="empty"),
        pytest.param(b"Cannot connect to the Docker daemon", "is not an archive", id="no archive"),
        pytest.param(tar_of(docker_files([LAYER]))[:3000], "is cut short", id="cut short"),
        pytest.param(gzip.compress(tar_of(docker_files([LAYER])))[:-9], "is damaged or cut short", id="cut gzip"),
        pytest.param(tar_of({"x": b"y"}), "it has no manifest.json", id="another archive"),
    ],
)
def test_a_bad_pipe(
    data: bytes, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _pipe(data, monkeypatch)
    assert main(["image", "add", "box", "-"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("standard input: ")
    assert message in err


def test_a_pipe_takes_at_most_a_part_of_the_disk(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=10_000))
    _pipe(gzip.compress(tar_of({"x": bytes(1 << 20)})), monkeypatch)
    assert main(["image", "add", "box", "-"]) == 2
    assert "standard input: takes more than 9000 bytes" in capsys.readouterr().err


def test_a_terminal_is_no_archive(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["image", "add", "box", "-"]) == 2
    expected = "standard input: has no archive\n  hint: docker save IMAGE | pumice image add box -\n"
    assert capsys.readouterr().err == expected


def test_a_platform_is_for_pull(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["image", "add", "--platform", "arm64", "x=/"]) == 2
    assert capsys.readouterr().err == "pumice image add: takes no --platform; only pull does\n"
