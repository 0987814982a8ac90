from __future__ import annotations

import argparse
import shlex

import pytest

from pumice.cli.help_examples import EXAMPLES
from pumice.cli.main import COMMANDS, load_command
from pumice.cli.run.options import read_options
from tests.unit.cli.running import JOB, Terminal

SCENARIO = "steps:\n- {at: 30s, pod: worker-1, exit: 137, reason: OOMKilled}\n"
# What needs a cluster, or the kernel, is only parsed: the modules of these commands check their flags in other tests.
READ = ("ps", "get", "logs", "attach", "wait", "why", "history", "top", "replay", "service", "ui", "contexts", "nodes")
CHANGE = (
    "submit",
    "detach",
    "stop",
    "suspend",
    "resume",
    "restart",
    "scale",
    "exec",
    "cp",
    "rm",
    "export",
    "forward",
    "open",
)
PARSED = ("controller", "webhook", "install --check", "image pull", "validate job.yaml --on", *READ, *CHANGE)


def _words(example: str) -> list[str]:
    """The words of `pumice` in a line of a shell."""
    inside = example.removeprefix("source <(").partition(" | ")[0].partition(" > ")[0].partition(" < ")[0].rstrip(")")
    words = shlex.split(inside)
    assert words[0] == "pumice"
    return words[1:]


def test_every_command_has_two_examples() -> None:
    assert sorted(EXAMPLES) == sorted(COMMANDS)
    assert {name: [_words(line)[0] for line in lines] for name, lines in EXAMPLES.items()} == {
        name: [name, name] for name in COMMANDS
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_help_ends_with_the_examples(command: str, terminal: Terminal) -> None:
    lines = terminal.run(command, "--help").out.splitlines()
    assert lines[-3:] == ["examples:", *(f"  {line}" for line in EXAMPLES[command])]


@pytest.mark.parametrize("example", [line for lines in EXAMPLES.values() for line in lines])
def test_an_example_works(example: str, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("job.yaml", "other.yaml"):
        terminal.write(JOB, name)
    terminal.write(SCENARIO, "scenario.yaml")
    (terminal.folder / "src").mkdir()
    (terminal.folder / "app").mkdir()
    name, *rest = _words(example)
    parser = argparse.ArgumentParser(allow_abbrev=False)
    load_command(name).add_arguments(parser)
    args = parser.parse_intermixed_args(rest)
    if name == "run":
        assert read_options(args).settings.workdir == terminal.folder
    elif not f"{name} {' '.join(rest)}".startswith(PARSED):
        monkeypatch.setenv("XDG_STATE_HOME", str(terminal.folder / "state"))
        result = terminal.run(name, *rest)
        assert result.code == 0, result.err


@pytest.mark.parametrize("words", [(), *((command,) for command in COMMANDS)], ids=" ".join)
def test_help_fits_80_columns(words: tuple[str, ...], terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert [line for line in terminal.run(*words, "--help").out.splitlines() if len(line) > 80] == []
