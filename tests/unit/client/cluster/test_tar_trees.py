"""What a hostile container sends as an answer to `cp`: nothing is written outside, and nothing ends in a traceback."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from pumice.client.cluster.pods.tar_trees import StreamError, TarTree

OUTSIDE = "/etc/passwd"


def _entry(name: str, kind: bytes = tarfile.REGTYPE, content: bytes = b"", link: str = "", **extended: str) -> bytes:
    about = tarfile.TarInfo(name)
    about.type, about.size, about.linkname, about.mode = kind, len(content), link, 0o6777
    about.pax_headers = extended
    return about.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape") + content + bytes(-len(content) % 512)


STREAMS: Mapping[str, bytes] = {
    "a link out, and a file through it": _entry("./a", tarfile.SYMTYPE, link="../../x") + _entry("./a/f", content=b"x"),
    "a link to a file, and that file by a hard link": (
        _entry("./f", content=b"mine") + _entry("./f", tarfile.SYMTYPE, link=OUTSIDE) + _entry("./g", b"1", link="./f")
    ),
    "a hard link out": _entry("./h", tarfile.LNKTYPE, link=OUTSIDE),
    "a name above": _entry("./../f", content=b"x"),
    "an absolute name": _entry("/tmp/f", content=b"x"),
    "a NUL in a name": _entry("./f", path="./a\0b"),
    "a NUL in a link": _entry("./f", tarfile.SYMTYPE, linkpath="a\0b"),
    "a device": _entry("./d", tarfile.CHRTYPE),
    "a pipe": _entry("./p", tarfile.FIFOTYPE),
    "more than there is": _entry("./f", size="999999999999999999"),
    "less than nothing": _entry("./f", size="-1"),
    "a tree that is too deep": _entry("./f", path="./" + "d/" * 5000 + "f"),
}


@pytest.mark.parametrize("stream", STREAMS)
def test_nothing_is_written_outside(tmp_path: Path, stream: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    source = io.BytesIO(_entry("./", tarfile.DIRTYPE) + STREAMS[stream] + bytes(1024))
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    told: list[tuple[str, str, bool]] = []
    refusal = ""
    try:
        TarTree(source, opened, "copy", lambda *each: told.append(each), ".").read()
    except StreamError as error:
        refusal = str(error)
    finally:
        os.close(opened)
    assert told or refusal
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]
    for each in folder.rglob("*"):
        assert not each.is_symlink()
        assert each.is_dir() or (each.is_file() and each.read_bytes() in (b"", b"mine"))
        assert not each.stat().st_mode & 0o6000
