from __future__ import annotations

import errno

import pytest

from pumice.engines.local.images.errors import ImageError, from_os_error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(OSError(errno.EACCES, "Permission denied", "/x"), "f: /x: permission denied", id="with a file"),
        pytest.param(OSError(errno.EACCES, "Permission denied", "f"), "f: permission denied", id="the same file"),
        pytest.param(OSError(errno.EIO, "I/O error"), "f: i/o error", id="without a file"),
        pytest.param(OSError("Invalid data"), "f: invalid data", id="without a number"),
        pytest.param(
            OSError(errno.ENOSPC, "No space left"),
            "f: the disk is full: no space left\n  hint: free some space (`pumice image list` shows what is stored), "
            "or move the store with XDG_STATE_HOME",
            id="full disk",
        ),
        pytest.param(OSError(errno.EDQUOT, "Quota exceeded"), "f: the disk is full: quota exceeded", id="quota"),
    ],
)
def test_from_os_error(error: OSError, text: str) -> None:
    assert from_os_error(error, "f").problem.text.startswith(text)


def test_within() -> None:
    assert ImageError("a", "b", "f").within("layer 1").problem.text == "f: layer 1: a\n  hint: b"
