"""Where the service of a state directory has its socket."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.engines.local.service import service_paths
from pumice.engines.local.service.service_paths import ServicePaths


@pytest.mark.parametrize("home", ["me", "another"])
def test_two_homes_of_a_user_have_a_service_each(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where one of them, or both, are named by HOME only."""
    monkeypatch.setattr(service_paths, "account_home", lambda: tmp_path / "me")
    environ = {"HOME": str(tmp_path / home), "XDG_RUNTIME_DIR": str(tmp_path)}
    sockets = {
        ServicePaths(tmp_path / each / ".local" / "state" / "pumice").socket(environ) for each in ("me", "another")
    }
    assert len(sockets) == 2
    assert tmp_path / "pumice" / "service.sock" in sockets
