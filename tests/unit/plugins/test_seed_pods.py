"""The examples of Volcano's own documentation, rendered: every object of each of them, in full.

The expected documents follow from the contract with Volcano's users, not from what the program printed. In them the
script of wait-for-master is named rather than repeated, `<wait-for-master HOST PORT SECONDS>`: it is run for real in
test_wait_for_master.py.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from pumice.cli.main import main
from pumice.plugins.wait_for_master import waiting_container
from tests.meta.tree import ROOT

EXPECTED = ROOT / "tests" / "unit" / "plugins" / "expected"


@pytest.mark.parametrize(
    ("example", "expected"),
    [
        ("pytorch-job-basic", "pytorch-job-basic"),
        ("pytorch-job", "pytorch-job"),
        ("pytorch-job-zh", "pytorch-job"),
        ("tensorflow-dist-mnist", "tensorflow-dist-mnist"),
        ("lm-mpi-job", "lm-mpi-job"),
    ],
)
def test_every_object_of_a_seed(example: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["render", str(ROOT / "examples" / f"{example}.yaml")]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    wanted = [with_scripts(each) for each in yaml.safe_load_all((EXPECTED / f"{expected}.yaml").read_text())]
    assert list(yaml.safe_load_all(printed.out)) == wanted


def with_scripts(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: with_scripts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_scripts(item) for item in value]
    if isinstance(value, str) and value.startswith("<wait-for-master "):
        host, port, seconds = value.strip("<>").split()[1:]
        return waiting_container(host, int(port), int(seconds), "any", None)["command"][2]
    return value
