from __future__ import annotations

import bz2
import gzip
import hashlib
import importlib.util
import io
import lzma

import pytest

from pumice.engines.local.images.blobs import COMPRESSION_ERRORS, Forward, Skipping, Window, decompressed
from pumice.engines.local.images.errors import ImageError

DATA = bytes(range(256)) * 300
ZSTD = importlib.util.find_spec("compression") is not None


def test_forward_counts_and_hashes_skipped_bytes() -> None:
    stream = Forward(io.BytesIO(DATA))
    assert stream.readable()
    assert stream.seekable()
    assert stream.read(10) == DATA[:10]
    assert stream.seek(1000) == 1000
    assert stream.read(5) == DATA[1000:1005]
    assert stream.tell() == 1005
    assert stream.digest() == f"sha256:{hashlib.sha256(DATA).hexdigest()}"
    assert stream.tell() == len(DATA)


def test_forward_without_a_hash() -> None:
    assert Forward(io.BytesIO(DATA), hashed=False).digest() == ""


def test_forward_stops_at_the_end() -> None:
    stream = Forward(io.BytesIO(DATA))
    assert stream.seek(10**9) == len(DATA)
    assert stream.read(10) == b""


def test_forward_joins_short_reads() -> None:
    class Dripping:
        def __init__(self) -> None:
            self.left = DATA

        def read(self, size: int, /) -> bytes:
            part, self.left = self.left[:7], self.left[7:]
            return part[:size]

    assert Forward(Dripping()).read(100) == DATA[:100]


@pytest.mark.parametrize("size", [-1, 1 << 25])
def test_forward_refuses_impossible_sizes(size: int) -> None:
    with pytest.raises(ImageError, match="impossible size"):
        Forward(io.BytesIO(DATA)).read(size)


@pytest.mark.parametrize(("offset", "whence"), [(3, 0), (0, 1), (0, 2)])
def test_forward_does_not_go_back(offset: int, whence: int) -> None:
    stream = Forward(io.BytesIO(DATA))
    stream.read(10)
    with pytest.raises(ImageError, match="backwards"):
        stream.seek(offset, whence)


def test_windows_of_one_file_are_independent() -> None:
    file = io.BytesIO(DATA)
    one, two = Window(file, 10, 20), Window(file, 100, 5)
    assert one.read(5) == DATA[10:15]
    assert two.read(50) == DATA[100:105]
    assert one.read(50) == DATA[15:30]
    assert one.read(50) == b""


def test_skipping() -> None:
    stream = Skipping(Window(io.BytesIO(DATA), 0, len(DATA)))
    assert stream.seek(500) == 500
    assert stream.read(3) == DATA[500:503]
    assert stream.seek(10**9) == len(DATA)


@pytest.mark.parametrize(
    "packed",
    [
        pytest.param(DATA, id="plain"),
        pytest.param(b"", id="empty"),
        pytest.param(gzip.compress(DATA), id="gzip"),
        pytest.param(gzip.compress(DATA[:100]) + gzip.compress(DATA[100:]), id="gzip in parts"),
        pytest.param(bz2.compress(DATA), id="bzip2"),
        pytest.param(lzma.compress(DATA), id="xz"),
    ],
)
def test_decompressed(packed: bytes) -> None:
    assert Forward(decompressed(io.BytesIO(packed))).read(len(DATA) + 1) == (DATA if packed else b"")


@pytest.mark.parametrize(
    "packed",
    [
        pytest.param(gzip.compress(DATA)[:-20], id="truncated gzip"),
        pytest.param(gzip.compress(DATA)[:50] + b"\xff" * 50, id="gzip overwritten"),
        pytest.param(lzma.compress(DATA)[:40] + b"x" * 99, id="xz overwritten"),
    ],
)
def test_damaged(packed: bytes) -> None:
    with pytest.raises(COMPRESSION_ERRORS):
        Forward(decompressed(io.BytesIO(packed))).digest()


@pytest.mark.skipif(ZSTD, reason="this Python reads zstd")
def test_zstd_needs_python_3_14() -> None:
    with pytest.raises(ImageError, match="zstd, which only Python") as caught:
        decompressed(io.BytesIO(b"\x28\xb5\x2f\xfd1234"))
    assert "skopeo" in caught.value.hint


@pytest.mark.skipif(not ZSTD, reason="this Python does not read zstd")
def test_zstd_is_read() -> None:
    from compression import zstd  # type: ignore[import-not-found, unused-ignore] # only from Python 3.14 on

    assert Forward(decompressed(io.BytesIO(zstd.compress(DATA)))).read(len(DATA)) == DATA
