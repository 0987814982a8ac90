"""Files as a stream: what one side sends, the other creates, and a hostile stream creates nothing elsewhere."""

from __future__ import annotations

import io
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from pumice.engines.local.sandbox.tree_stream import StreamError, receive, send

DIRECTORY = {"kind": "directory", "path": [], "mode": 0o755}
END = {"kind": "end"}


class Copied:
    def __init__(self, directory: Path) -> None:
        self.target = directory / "target"
        self.skipped: list[tuple[str, str, bool]] = []

    def __call__(self, stream: bytes, name: str = "data") -> None:
        receive(io.BytesIO(stream), str(self.target), name, lambda *each: self.skipped.append(each))


@pytest.fixture
def copied(tmp_path: Path) -> Copied:
    return Copied(tmp_path)


def stream(*entries: dict[str, Any] | bytes) -> bytes:
    parts = [each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in entries]
    return b"".join(parts)


def content(data: bytes) -> bytes:
    return len(data).to_bytes(4, "little") + data + bytes(4)


def sent(path: Path) -> bytes:
    out = io.BytesIO()
    send(str(path), out)
    return out.getvalue()


def test_a_tree_arrives_as_it_was(tmp_path: Path, copied: Copied) -> None:
    source = tmp_path / "source"
    (source / "sub" / os.fsdecode(b"not utf-8 \xff")).mkdir(parents=True)
    (source / "big").write_bytes(os.urandom(1_000_000))
    (source / "sub" / "empty").touch()
    (source / "sub" / "program").write_text("#!/bin/sh\n")
    (source / "sub" / "program").chmod(0o755)
    (source / "link").symlink_to("sub/program")
    (source / "sub" / "up").symlink_to("../big")
    copied(sent(source))
    found = sorted(path.relative_to(copied.target) for path in copied.target.rglob("*"))
    assert found == sorted(path.relative_to(source) for path in source.rglob("*"))
    assert (copied.target / "sub" / "up").read_bytes() == (source / "big").read_bytes()
    assert (copied.target / "sub" / "program").stat().st_mode & 0o100
    assert copied.skipped == []


def test_into_a_directory_that_exists_and_over_a_file(tmp_path: Path, copied: Copied) -> None:
    source = tmp_path / "data"
    source.write_text("new")
    copied.target.mkdir()
    (copied.target / "data").write_text("old and longer")
    copied(sent(source), "/pod/data")
    assert (copied.target / "data").read_text() == "new"


def test_pipes_and_devices_are_left_out(tmp_path: Path, copied: Copied) -> None:
    source = tmp_path / "source"
    source.mkdir()
    os.mkfifo(source / "pipe")
    (source / "away").symlink_to("/etc/passwd")
    (source / "up").symlink_to("../outside")
    (source / "set").write_text("")
    (source / "set").chmod(0o6755)
    copied(sent(source))
    assert [path.name for path in copied.target.iterdir()] == ["set"]
    assert stat.S_IMODE((copied.target / "set").stat().st_mode) & 0o7000 == 0
    assert {name for name, _, _ in copied.skipped} == {"pipe", "away", "up"}
    with pytest.raises(OSError, match="neither a file nor a directory"):
        sent(source / "pipe")


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "/etc", "a\0b", 7, None])
def test_an_invalid_name_ends_the_copy(name: object, copied: Copied) -> None:
    with pytest.raises(StreamError):
        copied(stream(DIRECTORY, {"kind": "file", "path": [name], "mode": 0o644}, content(b"x"), END))


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param([b"{]\n"], id="not JSON"),
        pytest.param([b"[" * 50_000 + b"\n"], id="deep"),
        pytest.param([b"3\n"], id="no entry"),
        pytest.param([{"kind": "device", "path": []}, END], id="a device"),
        pytest.param([{"kind": "file", "path": ["a"]}, content(b""), END], id="no root"),
        pytest.param([DIRECTORY, DIRECTORY, END], id="a second root"),
        pytest.param([DIRECTORY], id="no end"),
        pytest.param([{"kind": "file", "path": []}, b"\xff\xff\xff\xff"], id="a huge chunk"),
        pytest.param([{"kind": "file", "path": []}, b"\5\0\0\0abc"], id="a torn chunk"),
        pytest.param([DIRECTORY, {"kind": "directory", "path": ["a"] * 300}, END], id="too deep"),
    ],
)
def test_an_invalid_stream_ends_the_copy(entries: list[Any], copied: Copied) -> None:
    with pytest.raises(StreamError):
        copied(stream(*entries))


@pytest.mark.parametrize(
    ("before", "left"),
    [pytest.param(None, None, id="a new file"), pytest.param("before", "", id="one that was there")],
)
def test_a_file_that_comes_only_in_part_is_removed_if_it_is_new(
    copied: Copied, before: str | None, left: str | None
) -> None:
    whole: list[dict[str, Any] | bytes] = [DIRECTORY, {"kind": "file", "path": ["whole"]}, content(b"all")]
    target = copied.target / "torn"
    if before is not None:
        copied.target.mkdir()
        target.write_text(before)
    with pytest.raises(StreamError):
        copied(stream(*whole, {"kind": "file", "path": ["torn"]}, b"\5\0\0\0abc"), "..")
    assert (copied.target / "whole").read_text() == "all"
    assert (target.read_text() if target.exists() else None) == left


def test_nothing_is_written_through_a_link(tmp_path: Path, copied: Copied) -> None:
    """A link of the stream, and one that was there before."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "canary").write_text("sings")
    copied.target.mkdir()
    (copied.target / "data").mkdir()
    (copied.target / "data" / "old").symlink_to(outside)
    (copied.target / "data" / "file").symlink_to(outside / "canary")
    through: list[dict[str, Any] | bytes] = [
        {"kind": "link", "path": ["new"], "target": str(outside)},
        {"kind": "file", "path": ["new", "planted"], "mode": 0o777},
        content(b"x"),
        {"kind": "file", "path": ["old", "planted"], "mode": 0o777},
        content(b"x"),
        {"kind": "directory", "path": ["old"], "mode": 0},
        {"kind": "file", "path": ["file"], "mode": 0o777},
        content(b"x"),
        {"kind": "file", "path": ["good"], "mode": 0o644},
        content(b"good"),
    ]
    copied(stream(DIRECTORY, *through, END))
    assert [path.name for path in outside.iterdir()] == ["canary"]
    assert (outside / "canary").read_text() == "sings"
    assert (copied.target / "data" / "good").read_text() == "good"
    assert len(copied.skipped) == 5


@pytest.mark.parametrize(
    ("links", "made"),
    [
        pytest.param({"a": "b/../c"}, ["a"], id="inside"),
        pytest.param({"a": ".."}, [], id="up"),
        pytest.param({"a": "b/../../c"}, [], id="down and up"),
        pytest.param({"a": "."}, ["a"], id="itself"),
        # `d/e/..` is the root, whose parent is outside.
        pytest.param({"d/e": "..", "z": "d/e/../x"}, ["d/e"], id="up through another link"),
        pytest.param({"a": "/etc"}, [], id="absolute"),
    ],
)
def test_links_stay_inside(links: dict[str, str], made: list[str], copied: Copied) -> None:
    entries = [{"kind": "link", "path": path.split("/"), "target": target} for path, target in links.items()]
    copied(stream(DIRECTORY, {"kind": "directory", "path": ["d"], "mode": 0o755}, *entries, END))
    assert [path for path in links if (copied.target / path).is_symlink()] == made


def test_a_pipe_in_the_way_does_not_block(copied: Copied) -> None:
    copied.target.mkdir()
    (copied.target / "data").mkdir()
    os.mkfifo(copied.target / "data" / "pipe")
    copied(stream(DIRECTORY, {"kind": "file", "path": ["pipe"]}, content(b"x"), END))
    assert [name for name, _, _ in copied.skipped] == ["pipe"]
