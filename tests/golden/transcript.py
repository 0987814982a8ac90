"""Runs commands in this process, and returns what a terminal would show of them."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

from pumice.cli.main import main


def transcript(*words: str) -> tuple[bytes, str, int]:
    """Return what a command writes to stdout and to stderr, and its exit code."""
    streams = (sys.stdout, sys.stderr)
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    sys.stdout, sys.stderr = out, err
    try:
        code = main(words)
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.stdout, sys.stderr = streams
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue())
    return texts[0], texts[1].decode(), code
