"""Help texts and pages use the usual technical terms, which readers search for.

Messages are compared in the tests of their modules: `tests/unit/reconcile/test_reasons.py`,
`tests/unit/yaml/test_bad_files.py`, `tests/unit/cli/offline/test_validate.py`, `tests/local/test_tunnel_programs.py`,
`tests/meta/test_frameworks.py`.
"""

from __future__ import annotations

import re

import pytest

from pumice.cli.main import main
from tests.docs.markdown import pages
from tests.meta.tree import ROOT, shown

HELP = {
    "run": [
        "print one JSON object per event",
        "override a task's number of pods",
        "kill a pod this long after the job starts, to test policies",
        "mount this host path into every pod, at the same path",
        "A pumice.toml beside FILE sets options",
        "The logs and events of a run stay in ~/.local/state/pumice/runs",
    ],
    "explain": ["print one JSON object per line"],
    "validate": ["print one JSON object per finding"],
    "install": ["with --check or --upgrade: kubeconfig of the cluster"],
}
TEXTS = {
    "README.md": [
        "the controller and the admission webhook; run in the cluster or outside it",
        "verbatim",
        "Run the same Volcano Job file, unchanged, on your laptop and on Kubernetes.",
        "To install the `pumice` command from the checkout",
    ],
    "docs/guides/install.md": ["## Check the installation"],
    "docs/guides/look-before-you-run.md": ["None of this needs a cluster"],
    "docs/guides/mpi-on-a-laptop.md": ["verbatim"],
    "docs/guides/operations.md": ["debug` logs the outcome of every reconcile"],
    "docs/guides/permissions.md": ["To rule this out as well, serve only some namespaces"],
    "docs/guides/pytorch-on-a-laptop.md": ["verbatim"],
    "docs/guides/share-the-machine.md": [
        "schedules pods by their resource requests",
        "The number of open files per process is limited.",
    ],
    "docs/guides/tensorflow-on-a-laptop.md": ["verbatim"],
    "docs/guides/validate-in-ci.md": ["Checks across fields (names, sums, plugin arguments) need `pumice validate`"],
    "docs/reference/commands.md": [
        "Results go to standard output, messages to standard error.",
        "success; warnings do not change the exit code",
        "readable only by you",
        "nothing is missing. 1: something is missing",
    ],
}
RETIRED = [
    "letter by letter",
    "at its door",
    "at hand, install",
    "one JSON object an?",
    "with so many",
    "so long after",
    "path of the host in all pods",
    "tells more",
    "of --check",
    "none of your Pythons",
    "cannot be had",
    "no retry is left of",
    "does not lead out",
    "no Job in it",
    "talk to standard error",
    "alone are well",
    "for you alone to",
    "nothing lacks",
    "Is all well",
    "counts on what the pods",
    "may have a number of",
    "every look at a Job",
    "Who wants to",
    "What compares",
    "Nothing of this",
]


SOURCES = sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "scripts").glob("*.py")])


@pytest.mark.parametrize("command", HELP)
def test_a_help_text(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([command, "--help"])
    words = " ".join(capsys.readouterr().out.split())
    assert [text for text in HELP[command] if text not in words] == []


def test_the_help_of_the_program_names_that_of_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    assert 'Run "pumice COMMAND --help" for details' in capsys.readouterr().out


@pytest.mark.parametrize("page", TEXTS)
def test_a_page(page: str) -> None:
    words = " ".join((ROOT / page).read_text(encoding="utf-8").split())
    assert [text for text in TEXTS[page] if text not in words] == []


def test_no_retired_wording() -> None:
    pattern = re.compile(rf"\b(?:{'|'.join(RETIRED)})\b")
    found = []
    for file in [*pages(), *SOURCES]:
        words = " ".join(file.read_text(encoding="utf-8").split())
        found += [f"{shown(file)}: {match[0]}" for match in pattern.finditer(words)]
    assert found == []
