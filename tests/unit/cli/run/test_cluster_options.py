"""Options that apply to one machine, or to clusters, typed where they do not apply: refused with what to use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pumice.cli.main import main
from pumice.client.run_options.row import Row, Scope
from pumice.client.run_options.table import ROWS, option_name
from pumice.model.problem import FLAGS, spell
from tests.meta.tree import ROOT

_VALUES = {"mount": "/tmp", "kill": "worker-0@1s", "publish": "80", "image": "a=b"}
JOB = ROOT / "examples" / "env-plugin.yaml"


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The context `prod`, of a server that is never asked."""
    config = {
        "contexts": [{"name": "prod", "context": {"cluster": "prod", "user": "me"}}],
        "clusters": [{"name": "prod", "cluster": {"server": "https://prod.invalid"}}],
        "users": [{"name": "me", "user": {"token": "t"}}],
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("PUMICE_ON", raising=False)


def _of(scope: Scope) -> list[tuple[str, Row]]:
    return [(name, row) for name, row in ROWS.items() if row.scope is scope and row.has_flag]


def _typed(name: str, row: Row) -> list[str]:
    """Return a flag as it is typed, with a value if it needs one."""
    flag = f"--{option_name(name)}"
    if row.kind.action in ("store_true", "optional"):
        return [flag]
    return [flag, row.kind.choices[0] if row.kind.choices else _VALUES.get(name, "1")]


@pytest.mark.usefixtures("kubeconfig")
@pytest.mark.parametrize("command", ["run", "submit"])
def test_options_of_this_machine_on_a_cluster(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = _of(Scope.MACHINE)
    assert len(rows) > 20
    for name, row in rows:
        assert main([command, str(JOB), "--on", "prod", *_typed(name, row)]) == 2, name
        flag = f"--{option_name(name)}"
        words = {"only for runs on this machine", "only for runs in the background"}
        err = capsys.readouterr().err
        assert err.startswith(f"{flag}: "), err
        assert any(each in err for each in words), err
        assert "  hint: " in err
        if "this machine" in err:
            assert err.endswith(f"  hint: {spell(row.instead, FLAGS)}\n")


@pytest.mark.usefixtures("kubeconfig")
def test_options_of_a_cluster_on_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    rows = _of(Scope.CLUSTER)
    assert len(rows) > 8
    for name, row in rows:
        assert main(["run", str(JOB), *_typed(name, row)]) == 2, name
        expected = f"--{option_name(name)}: is only for runs on a cluster\n  hint: name one: --on CONTEXT\n"
        assert capsys.readouterr().err == expected
