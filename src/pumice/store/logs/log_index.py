"""The index of a log: when, in which order and on which stream its batches were printed.

Beside every segment `CONTAINER.R.log` of plain text, `CONTAINER.R.idx` has one record of 32 bytes for each batch that
was read from a pipe: sequence number, wall time, end of the batch in the text, number of lines and flags, checksum. The
sequence numbers come from one counter per run, so they order all batches of all containers, even if the clock is set.

The checksum starts with the residue of CRC-32, the checksum of whatever ends with its own checksum. So any number of
whole records has the residue as its checksum, and one call verifies a block.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from zlib import crc32

from msgspec import Struct

RECORD: Final = 32  # bytes
STDERR: Final = 1
GAP: Final = 2  # the text says what is missing here
_BODY: Final = struct.Struct("<QQQI")
_RESIDUE: Final = 0x2144DF1C
_COLUMNS: Final = 4  # of 64 bits: flags and checksum share the last
_FLAGS: Final = 0xFF
_LINES: Final = 8  # bits below the number of lines
_MOST_LINES: Final = (1 << 24) - 1


def index_of(log: Path) -> Path:
    return log.with_suffix(".idx")


def encode_record(sequence: int, time: int, end: int, lines: int, flags: int = 0) -> bytes:
    """`time` is in nanoseconds since 1970, `end` in bytes of the text."""
    body = _BODY.pack(sequence, max(time, 0), end, min(lines, _MOST_LINES) << _LINES | flags)
    return body + crc32(body, _RESIDUE).to_bytes(4, "little")


class Records(Struct, frozen=True):
    """Records of an index, in columns, because there may be hundreds of thousands of them."""

    sequence: Sequence[int]
    times: Sequence[int]
    ends: Sequence[int]
    lines: Sequence[int]
    flags: Sequence[int]


def decode_records(block: bytes, begin: int) -> Records:
    """Decode the whole records of a block; `begin` is the end of the record before them.

    A damaged record has the end of the one before it, so its text belongs to the record that follows.
    """
    block = block[: len(block) - len(block) % RECORD]
    if crc32(block, _RESIDUE) != _RESIDUE:
        block = _mended(block, begin)
    words = array("Q", block)
    if sys.byteorder == "big":
        words.byteswap()
    return Records(
        words[0::_COLUMNS].tolist(),
        words[1::_COLUMNS].tolist(),
        words[2::_COLUMNS].tolist(),
        [word >> _LINES & _MOST_LINES for word in words[3::_COLUMNS]],
        [word & _FLAGS for word in words[3::_COLUMNS]],
    )


def _mended(block: bytes, begin: int) -> bytes:
    last = encode_record(0, 0, begin, 0)
    records = []
    for start in range(0, len(block), RECORD):
        record = block[start : start + RECORD]
        if crc32(record, _RESIDUE) == _RESIDUE:
            last = record
            records.append(record)
        else:
            # It has no text, and so no lines.
            sequence, time, end, more = _BODY.unpack(last[: _BODY.size])
            records.append(encode_record(sequence, time, end, 0, more & _FLAGS))
    return b"".join(records)
