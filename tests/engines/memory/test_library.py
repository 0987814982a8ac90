"""The scenarios of examples/scenarios: each plays with the job that its first line names, and is met."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.cli.main import main
from tests.meta.tree import ROOT, shown

SCENARIOS = sorted((ROOT / "examples" / "scenarios").glob("*.yaml"))
WANTED = (
    "abort-and-resume controller-away deadline depends-on eviction exit-code out-of-memory pending-timeout "
    "retries-exhausted scale slow-termination suspend task-completed ttl unknown-group worker-dies"
)


def test_the_library_has_what_people_look_for() -> None:
    assert set(WANTED.split()) <= {file.stem for file in SCENARIOS}


@pytest.mark.parametrize("file", SCENARIOS, ids=shown)
def test_a_scenario_says_what_it_is_and_comes_true(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, *_ = file.read_text(encoding="utf-8").splitlines()
    program, *words = first.removeprefix("# ").split()
    assert (program, words[0], words[-1]) == ("pumice", "simulate", f"examples/scenarios/{file.name}")
    assert second.startswith("description: ")
    monkeypatch.chdir(ROOT)
    assert main(words) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    verdicts = [line for line in printed.out.splitlines() if line.startswith("expect ")]
    assert verdicts
    assert all("  ok (" in line for line in verdicts)
