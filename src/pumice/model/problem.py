"""Problem: what is wrong, what to do about it, and where; and the options and commands that it names.

A problem names an option without spelling it. Each front end does: `--scale worker=1`, `scale={"worker": 1}`.

A Finding (`model/findings.py`) is about a value in a document, by its path. A Problem is about anything else: the text
of a file, an image, a setting, this machine. Exceptions that carry one derive from `model/pumice_error.py`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from keyword import iskeyword
from typing import Final, NamedTuple, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

Value: TypeAlias = bool | int | str | list[str] | dict[str, int | str] | None


class Option(Struct, frozen=True):
    """An option of a run or of a command: the flag without its dashes. Without a value, only the name is meant."""

    name: str
    value: Value = None

    def __hash__(self) -> int:
        return hash(self.name)


class Command(NamedTuple):
    """A command on a run, or on one of its pods, with its options and the words after them.

    A tuple, so that it differs from an Option in JSON.
    """

    name: str
    run: str = ""
    pod: str = ""
    words: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()


Advice: TypeAlias = str | tuple[str | Option | Command, ...]


class Spelling(Protocol):
    def name(self, option: str) -> str: ...

    def option(self, option: Option) -> str: ...

    def command(self, command: Command) -> str: ...


class _CommandLine:
    def name(self, option: str) -> str:
        return f"--{option}"

    def option(self, option: Option) -> str:
        return shlex.join(flag_words(option))

    def command(self, command: Command) -> str:
        target = "/".join(filter(None, (command.run, command.pod)))
        words = shlex.join(["--", *command.words]) if command.words else ""
        return " ".join(filter(None, ("pumice", command.name, target, *map(self.option, command.options), words)))


class _Python:
    _NAMES: Final = {"ps": "pumice.runs", "rm": "run.remove"}

    def name(self, option: str) -> str:
        name = option.replace("-", "_")
        return f"{name}_" if iskeyword(name) else name

    def option(self, option: Option) -> str:
        value = option.value
        if option.name == "on":
            return f"pumice.connect({_json(value)})"
        text = "" if value is None else repr(value) if isinstance(value, bool) else _json(value)
        return f"{self.name(option.name)}={text}"

    def command(self, command: Command) -> str:
        arguments = [_json(each) for each in (command.pod, command.words) if each]
        arguments += [self.option(each) for each in command.options if each.name not in _WHERE]
        name = self._NAMES.get(command.name, f"run.{command.name}")
        if any(each.name in _WHERE for each in command.options):
            name = name.replace("pumice.", "client.")
        return f"{name}({', '.join(arguments)})"


FLAGS: Final[Spelling] = _CommandLine()
PYTHON: Final[Spelling] = _Python()
_WHERE: Final = ("on", "namespace", "all-namespaces", "kubeconfig")  # what a client of Python knows
_SHORT: Final = {"all": "-a", "namespace": "-n", "all-namespaces": "-A"}  # as people type them


def flag_words(option: Option) -> Iterator[str]:
    """Yield the words of an option on the command line; a flag is repeated for each of several values."""
    flag, value = _SHORT.get(option.name) or FLAGS.name(option.name), option.value
    if value is None or value is True:
        yield flag
        return
    values = [f"{key}={each}" for key, each in value.items()] if isinstance(value, dict) else value
    for each in values if isinstance(values, list) else [values]:
        yield from (flag, str(each))


def _json(value: object) -> str:
    import json  # noqa: PLC0415 - takes a hundredth of `pumice validate`, which seldom names an option

    return json.dumps(value)


def spell(advice: Advice, spelling: Spelling) -> str:
    parts = (advice,) if isinstance(advice, str) else advice
    return "".join(
        spelling.option(part)
        if isinstance(part, Option)
        else spelling.command(part)
        if isinstance(part, Command)
        else part
        for part in parts
    )


class Position(Struct, frozen=True):
    """A position in a file. `line` and `column` count from 1; what is not known is 0.

    `file` names whatever the problem is about where that is no file: an image or a pod. `option` is the name of an
    option, as the flag without its dashes; with a file, it is the key of that TOML file.
    """

    file: str = ""
    line: int = 0
    column: int = 0
    option: str = ""

    def spelled(self, spelling: Spelling) -> Position:
        """Return the position with the name of an option as a front end has it."""
        if not self.option:
            return self
        return Position(f"{self.file}: {self.option}" if self.file else spelling.name(self.option))

    def __str__(self) -> str:
        if self.option:
            return str(self.spelled(PYTHON))
        return ":".join((self.file, *(str(number) for number in (self.line, self.column) if number)))


NOWHERE: Final = Position()


class Problem(Struct, frozen=True):
    """`fatal` is False where the work goes on without what the problem is about: then it is a warning.

    As text, it names options as Python does; the command line prints `spelled(FLAGS)`.
    """

    message: str
    advice: Advice = ""
    where: Position = NOWHERE
    fatal: bool = True

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where.file or self.where.option else self.message

    @property
    def hint(self) -> str:
        return spell(self.advice, PYTHON)

    @property
    def text(self) -> str:
        """The problem with its hint, which is on a line of its own."""
        return f"{self}\n  hint: {self.hint}" if self.hint else str(self)

    def spelled(self, spelling: Spelling) -> Problem:
        """Return the problem with options and commands as a front end has them."""
        return replace(self, advice=spell(self.advice, spelling), where=self.where.spelled(spelling))
