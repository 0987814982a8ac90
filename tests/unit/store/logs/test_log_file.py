"""The log of a container: private, in segments, with an index; a full disk leaves a gap."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pumice.store.journal import SequenceNumbers
from pumice.store.logs.log_file import LogFile
from pumice.store.logs.log_index import GAP, STDERR, decode_records, index_of


def _log(path: Path, warnings: list[str] | None = None, most: int | None = None, segment: int = 1 << 20) -> LogFile:
    warn = pytest.fail if warnings is None else warnings.append
    return LogFile(path, warn, SequenceNumbers().next, most, segment, clock=lambda: 5)


def _records(path: Path) -> list[tuple[int, int, int, int]]:
    found = decode_records(index_of(path).read_bytes(), 0)
    return list(zip(found.sequence, found.ends, found.lines, found.flags, strict=True))


@contextmanager
def _most_bytes(size: int) -> Iterator[None]:
    """Limit the size of files, which fails as a full disk does: with an error, after the part that fits."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_text_is_plain_and_private_and_each_batch_has_a_record(tmp_path: Path) -> None:
    log = _log(tmp_path / "logs" / "w.0.log")
    assert not log.path.exists()
    log.write(b"")
    assert (log.path.read_bytes(), index_of(log.path).exists()) == (b"", False)
    log.write(b"words\n")
    log.write(b"a\nb\n", "stderr")
    log.close()
    assert log.path.read_bytes() == b"words\na\nb\n"
    assert _records(log.path) == [(1, 6, 1, 0), (2, 10, 2, STDERR)]
    modes = {path.stat().st_mode & 0o777 for path in (log.path, index_of(log.path))}
    assert (modes, log.path.parent.stat().st_mode & 0o777) == ({0o600}, 0o700)


def test_a_full_disk_leaves_a_marked_gap_and_the_log_resumes(tmp_path: Path) -> None:
    warnings: list[str] = []
    log = _log(tmp_path / "w.0.log", warnings)
    log.write(b"before\n")
    with _most_bytes(10):
        log.write(b"lost 1\n")
        log.write(b"lost two\n", "stderr")
        assert log.path.read_bytes() == b"before\n"
    log.write(b"after\n", "stderr")
    log.write(b"and more\n")
    log.close()
    assert log.path.read_text() == "before\n[pumice: 16 bytes are missing here: file too large]\nafter\nand more\n"
    ends = [7, 59, 65, 74]
    assert _records(log.path) == list(zip((1, 2, 3, 4), ends, (1, 1, 1, 1), (0, GAP, STDERR, 0), strict=True))
    assert warnings == [f"logs are shown but no longer written to {tmp_path}: file too large"]


def test_a_gap_at_the_end_is_mentioned_when_the_log_is_closed(tmp_path: Path) -> None:
    warnings: list[str] = []
    log = _log(tmp_path / "w.0.log", warnings)
    with _most_bytes(0):
        log.write(b"lost\n")
    log.close()
    assert log.path.read_text() == "[pumice: 5 bytes are missing here: file too large]\n"
    assert [flags for *_, flags in _records(log.path)] == [GAP]
    assert len(warnings) == 1


def test_an_index_that_cannot_be_written_costs_no_text(tmp_path: Path) -> None:
    log = _log(tmp_path / "w.0.log")
    log.write(b"a\n")
    log.write(b"b\n")
    # The index is longer than the text.
    with _most_bytes(70):
        log.write(b"c\n")
    log.write(b"d\n")
    log.close()
    assert log.path.read_bytes() == b"a\nb\nc\nd\n"
    assert [(number, end) for number, end, *_ in _records(log.path)] == [(1, 2), (2, 4), (4, 8)]


def test_a_log_that_cannot_be_created_is_created_later(tmp_path: Path) -> None:
    warnings: list[str] = []
    (tmp_path / "pod").write_text("in the way")
    log = _log(tmp_path / "pod" / "w.0.log", warnings)
    log.write(b"lost\n")
    (tmp_path / "pod").unlink()
    log.write(b"kept\n")
    log.close()
    assert log.path.read_text() == "[pumice: 5 bytes are missing here: not a directory]\nkept\n"
    assert len(warnings) == 1


def test_devices_without_room(tmp_path: Path) -> None:
    warnings: list[str] = []
    full = _log(Path("/dev/full"), warnings)
    full.write(b"words\n")
    full.write(b"words\n")
    full.close()
    assert warnings == ["logs are shown but no longer written to /dev: no space left on device"]
    assert not os.path.lexists("/dev/full.idx")


def test_a_long_log_keeps_its_first_segment_and_the_newest(tmp_path: Path) -> None:
    log = _log(tmp_path / "c.0.log", most=40, segment=10)
    for number in range(10):
        log.write(f"line {number}..\n".encode())
    log.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    segments = ("c.0", "c.0.7", "c.0.8", "c.0.9")
    assert names == sorted(f"{name}.{kind}" for name in segments for kind in ("log", "idx"))
    missing = "[pumice: 54 bytes are missing here: the log is larger than 40 bytes]"
    assert (tmp_path / "c.0.log").read_text() == f"line 0..\n{missing}\n"
    assert (tmp_path / "c.0.9.log").read_text() == "line 9..\n"
    assert [_records(tmp_path / f"{name}.log") for name in segments] == [
        [(number, 9, 1, 0)] for number in (1, 8, 9, 10)
    ]


def test_a_log_below_its_limit_is_whole(tmp_path: Path) -> None:
    log = _log(tmp_path / "c.0.log", most=100, segment=50)
    for number in range(9):
        log.write(f"line {number}..\n".encode())
    log.close()
    parts = [(tmp_path / name).read_text() for name in ("c.0.log", "c.0.1.log")]
    assert "".join(parts) == "".join(f"line {number}..\n" for number in range(9))
