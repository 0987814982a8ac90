"""`args` is the inverse of `parse`, for every plugin and whatever its arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pumice.plugins
from pumice.model.findings import InvalidJob
from pumice.plugins.arguments import Option
from pumice.plugins.base import Base, option
from pumice.plugins.pytorch import PyTorch
from pumice.plugins.registry import BUILTINS

PLUGINS = st.sampled_from([*BUILTINS.values()])


def values(option: Option) -> st.SearchStrategy[object]:
    if option.type is bool:
        return st.booleans()
    if option.type is int:
        return st.integers(option.low, option.high if option.high is not None else 2**60)
    return st.sampled_from(option.choices) if option.choices else st.text(max_size=40)


@st.composite
def plugins(draw: st.DrawFn) -> Base:
    kind = draw(PLUGINS)
    fields = {option.flag.replace("-", "_"): option for option in kind.options()}
    chosen = draw(st.sets(st.sampled_from(sorted(fields)))) if fields else set()
    names = {name for name in fields if name in kind.__dataclass_fields__}
    return kind(**{name: draw(values(fields[name])) for name in sorted(chosen & names)})


@st.composite
def arguments(draw: st.DrawFn) -> tuple[type[Base], list[str]]:
    kind = draw(PLUGINS)
    words = [f"--{option.flag}" for option in kind.options()] + [f"--{option.flag}=" for option in kind.options()]
    piece = st.one_of(
        st.sampled_from(words or ["x"]), st.sampled_from([" ", "\n", "1", "true", "a"]), st.text(max_size=6)
    )
    return kind, draw(st.lists(st.lists(piece, max_size=4).map("".join), max_size=5))


@given(plugins())
def test_a_plugin_is_what_its_arguments_say(plugin: Base) -> None:
    try:
        args = plugin.args()
    except InvalidJob:
        # A value with white space before a flag cannot be written.
        return
    parsed, findings = type(plugin).parse(args)
    assert parsed == plugin
    assert not [finding for finding in findings if finding.is_error]


@given(arguments())
def test_arguments_that_were_read_can_be_written(given_: tuple[type[Base], list[str]]) -> None:
    kind, args = given_
    plugin, _ = kind.parse(args)
    assert kind.parse(plugin.args())[0] == plugin


def test_only_what_differs_from_the_default_is_written() -> None:
    assert [kind().args() for kind in BUILTINS.values()] == [[]] * len(BUILTINS)
    assert PyTorch(master="chief", wait_master_enabled=True, nproc_per_node=2).args() == [
        "--master=chief",
        "--wait-master-enabled=true",
        "--nproc-per-node=2",
    ]


def test_a_value_that_no_argument_can_express() -> None:
    with pytest.raises(InvalidJob, match="has a value that no argument can express"):
        PyTorch(master="a --port=3").args()
    with pytest.raises(InvalidJob, match="port"):
        PyTorch(port=-1).args()


@dataclass(frozen=True, slots=True)
class Locked(Base):
    name: ClassVar[str] = "locked"
    summary: ClassVar[str] = "has a secret number"

    pin: int = option(0, "opens the lock", secret=True)


def test_an_error_does_not_show_a_secret() -> None:
    with pytest.raises(InvalidJob) as raised:
        Locked(pin="hidden").args()  # type: ignore[arg-type]  # a user's mistake
    assert "Locked: " in str(raised.value.problem)
    assert "hidden" not in str(raised.value.problem)


def test_every_built_in_plugin_is_public() -> None:
    assert {kind.__name__ for kind in BUILTINS.values()} == set(pumice.plugins.__all__) - {"Base", "option"}
    for name in pumice.plugins.__all__:
        assert getattr(pumice.plugins, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        pumice.plugins.nonsense  # noqa: B018 - the attribute is what is tested
