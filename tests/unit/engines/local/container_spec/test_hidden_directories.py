from __future__ import annotations

from pathlib import Path

import pytest

from pumice.engines.local.container_spec.hidden_directories import hidden_directories

STATE = "/data/state/pumice"


@pytest.mark.parametrize(
    ("home", "host", "expected"),
    [
        pytest.param("/home/me", True, ("/home", "/root", "/home/me", STATE), id="usual"),
        pytest.param("/root", True, ("/home", "/root", STATE), id="root"),
        pytest.param("/data/me", True, ("/home", "/root", "/data/me", STATE), id="elsewhere"),
        pytest.param("/var/lib/me", True, ("/home", "/root", "/var/lib/me", STATE), id="service"),
        pytest.param("/usr/sbin", True, ("/home", "/root", STATE), id="where the programs are"),
        pytest.param("/", True, ("/home", "/root", STATE), id="no home"),
        pytest.param("/home/me", False, (STATE,), id="image"),
    ],
)
def test_hidden(home: str, *, host: bool, expected: tuple[str, ...]) -> None:
    assert hidden_directories(Path(home), Path(STATE), host_is_image=host) == expected
