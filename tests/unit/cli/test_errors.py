from __future__ import annotations

import pytest

from pumice.cli.errors import shortage
from pumice.cli.main import main
from pumice.cli.offline import schema

THREADS = RuntimeError("can't start new thread")


@pytest.mark.parametrize(
    ("error", "named"),
    [
        pytest.param(MemoryError(), "ulimit -v", id="memory"),
        pytest.param(THREADS, "ulimit -u", id="threads"),
        pytest.param(ImportError("a.so: failed to map segment from shared object"), "ulimit -v", id="library"),
        pytest.param(ExceptionGroup("tasks", [ValueError(), ExceptionGroup("", [THREADS])]), "ulimit -u", id="group"),
        pytest.param(RuntimeError("something else"), "", id="another error"),
        pytest.param(ImportError("no module named x"), "", id="another import"),
        pytest.param(ExceptionGroup("tasks", [ValueError()]), "", id="another group"),
    ],
)
def test_messages(error: Exception, named: str) -> None:
    found = shortage(error)
    assert named in found
    assert bool(found) == bool(named)


def _failing(error: Exception) -> object:
    def run(_args: object) -> int:
        raise error

    return run


def test_a_message_instead_of_a_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(schema, "run", _failing(THREADS))
    assert main(["schema"]) == 2
    assert capsys.readouterr().err.startswith("pumice: no further process is allowed: see ulimit -u")


def test_other_errors_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "run", _failing(RuntimeError("ours")))
    with pytest.raises(RuntimeError, match="ours"):
        main(["schema"])
