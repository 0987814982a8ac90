"""The scenarios of examples/scenarios: each plays with the job that its first line names, and is met."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from pumice.cli.main import main
from pumice.client.job_files import load
from pumice.engines.memory.scenario_reader import ScenarioReader
from pumice.runtime.offline_context import offline_context
from tests.docs.markdown import blocks
from tests.meta.tree import ROOT, shown

SCENARIOS = sorted((ROOT / "examples" / "scenarios").glob("*.yaml"))
GUIDE = ROOT / "docs" / "guides" / "rehearse-a-policy.md"
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
    # No finding; the verdict on a story that is to fail.
    assert printed.err == "" or printed.err.startswith("\n")
    verdicts = [line for line in printed.out.splitlines() if line.startswith("expect ")]
    assert verdicts
    assert all("  ok (" in line for line in verdicts)


@pytest.mark.parametrize("page", [GUIDE, GUIDE.parent / "zh" / GUIDE.name], ids=shown)
def test_the_guide_names_every_scenario_and_shows_good_ones(page: Path) -> None:
    listed = re.findall(
        r"^\| \[([a-z-]+)\]\(\S+/scenarios/\1\.yaml\) \|", page.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert listed == [file.stem for file in SCENARIOS]
    [entry] = load(str(ROOT / "examples" / "restarts.yaml"), offline_context()).jobs
    for block in blocks(page):
        if block.language == "yaml":
            reader = ScenarioReader(entry.admitted.job)
            reader.read(yaml.safe_load(block.text))
            assert bool(reader.findings) is (block.file == "wrong.yaml"), block.position


def test_the_guide_says_of_each_scenario_what_it_says_itself() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    for file in SCENARIOS:
        assert f"| {yaml.safe_load(file.read_text(encoding='utf-8'))['description']} |" in text
