"""Sockets of the machine's programs, from the kernel's table."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from pumice.engines.local.host_access.guards import HostSockets

TABLE = """Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 111 /run/dbus/system bus
0000000000000000: 00000002 00000000 00010000 0001 01 112 @/abstract
0000000000000000: 00000003 00000000 00000000 0001 03 113
0000000000000000: 00000002 00000000 00010000 0001 01 114 relative
0000000000000000: 00000002 00000000 00010000 0001 01 116 ../elsewhere/./real/t
0000000000000000: 00000002 00000000 00010000 0001 01 115 LINK/s
"""


def test_sockets_below_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "table").write_text(TABLE.replace("LINK", str(tmp_path / "link")))
    now = [0.0]
    sockets = HostSockets(tmp_path / "table", lambda: now[0])
    assert sockets.below("/run") == ["/dbus/system bus"]
    assert sockets.below(str(tmp_path)) == ["/real/s"]
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("relative")
        assert sorted(sockets.below(str(tmp_path))) == ["/real/s", "/relative"]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("real/t")
        assert sockets.below(str(tmp_path / "real")) == ["/s", "/t"]
        assert sorted(sockets.below(str(tmp_path))) == ["/real/s", "/real/t", "/relative"]
    # It is read again only after a while.
    os.truncate(tmp_path / "table", 0)
    assert sockets.below("/run") == ["/dbus/system bus"]
    now[0] = 1.0
    assert sockets.below("/run") == []
    assert HostSockets(tmp_path / "none").below("/run") == []
