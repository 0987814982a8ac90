from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar

import pytest

from pumice.cli.offline import plugins
from pumice.plugins.base import Base, option
from pumice.plugins.registry import BUILTINS, Registry
from tests.unit.cli.running import Terminal

KNOWN = "env, svc, ssh, pytorch, tensorflow, mpi, ray, hcclrank"


@dataclass(frozen=True, slots=True)
class Greeting(Base):
    name: ClassVar[str] = "greeting"
    summary: ClassVar[str] = "greets"
    requires: ClassVar[tuple[str, ...]] = ("svc", "env")
    example: ClassVar[tuple[str, ...]] = ("--word=hi", "--loud")

    word: str = option("", "what to say")
    loud: bool = option(False, "louder")
    times: int = option(2, "how often")


@pytest.fixture
def with_others(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = Registry({"greeting": Greeting}, {"torn": "RuntimeError: out of order"})
    monkeypatch.setattr(plugins, "discover", lambda: registry)


TORN = "torn: installed, but cannot be used: RuntimeError: out of order\n"


def test_list(terminal: Terminal) -> None:
    code, out, err = terminal.run("plugins")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0].split() == ["NAME", "NEEDS", "WHAT", "IT", "DOES"]
    assert [line.split()[0] for line in lines[1:9]] == list(BUILTINS)
    assert lines[-1] == "pumice plugins NAME shows the arguments of one"


@pytest.mark.usefixtures("with_others")
def test_third_party_plugins_come_last_and_broken_ones_go_to_stderr(terminal: Terminal) -> None:
    code, out, err = terminal.run("plugins")
    assert (code, err) == (0, TORN)
    assert out.splitlines()[9].split("  ") == ["greeting", "", "svc, env", "greets"]


@pytest.mark.usefixtures("with_others")
def test_the_arguments_of_a_plugin(terminal: Terminal) -> None:
    code, out, _ = terminal.run("plugins", "greeting")
    assert code == 0
    assert out == (
        "greeting: greets        needs svc, env\n"
        "\n"
        "  --word   string  -      what to say\n"
        "  --loud   bool    false  louder\n"
        "  --times  int     2      how often\n"
        "\n"
        "  plugins:\n"
        '    greeting: ["--word=hi", "--loud"]\n'
    )


@pytest.mark.parametrize("name", list(BUILTINS))
def test_every_built_in_plugin(name: str, terminal: Terminal) -> None:
    code, out, err = terminal.run("plugins", name)
    assert (code, err) == (0, "")
    assert out.startswith(f"{name}: ")
    described = json.loads(terminal.run("plugins", name, "--json").out)
    assert all(f"  --{argument['name']} " in out for argument in described["arguments"])
    assert described["arguments"] or "\n  no arguments\n" in out


@pytest.mark.usefixtures("with_others")
def test_json(terminal: Terminal) -> None:
    lines = terminal.run("plugins", "--json").out.splitlines()
    described = [json.loads(line) for line in lines]
    assert [each["name"] for each in described] == [*BUILTINS, "greeting"]
    assert [each["builtin"] for each in described] == [True] * len(BUILTINS) + [False]
    assert described[-1] == {
        "name": "greeting",
        "summary": "greets",
        "requires": ["svc", "env"],
        "builtin": False,
        "example": ["--word=hi", "--loud"],
        "arguments": [
            {"name": "word", "type": "string", "default": "", "meaning": "what to say", "spellings": ["word"]},
            {"name": "loud", "type": "bool", "default": False, "meaning": "louder", "spellings": ["loud"]},
            {"name": "times", "type": "int", "default": 2, "meaning": "how often", "spellings": ["times"]},
        ],
    }


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        pytest.param("pytroch", "did you mean pytorch? ", id="mistyped"),
        pytest.param("torch", "did you mean pytorch? ", id="a part"),
        pytest.param("nonsense", "", id="unknown"),
    ],
)
def test_no_such_plugin(name: str, asked: str, terminal: Terminal) -> None:
    hint = f"  hint: {asked}there are {KNOWN}\n"
    assert terminal.run("plugins", name) == (2, "", f"{name}: no such plugin\n{hint}")


@pytest.mark.usefixtures("with_others")
def test_a_broken_plugin(terminal: Terminal) -> None:
    assert terminal.run("plugins", "torn") == (2, "", TORN)
