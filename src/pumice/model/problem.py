"""Problem: what is wrong, what to do about it, and where.

A Finding (`model/findings.py`) is about a value in a document, by its path. A Problem is about anything else: the text
of a file, an image, a setting, this machine. Exceptions that carry one derive from `model/pumice_error.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from keyword import iskeyword
from typing import Final


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a file. `line` and `column` count from 1; what is not known is 0.

    `file` names whatever the problem is about where that is no file: an image, a pod, or an option as the command line
    spells it (`--env`, or `--env-file: FILE`).
    """

    file: str = ""
    line: int = 0
    column: int = 0

    @property
    def in_python(self) -> Position:
        """The same, where an option has the name of its keyword argument."""
        option, colon, rest = self.file.partition(": ")
        if not option.startswith("--"):
            return self
        name = option.removeprefix("--").replace("-", "_")
        return replace(self, file=f"{name}_{colon}{rest}" if iskeyword(name) else f"{name}{colon}{rest}")

    def __str__(self) -> str:
        return ":".join((self.file, *(str(number) for number in (self.line, self.column) if number)))


NOWHERE: Final = Position()


@dataclass(frozen=True, slots=True)
class Problem:
    """`fatal` is False where the work goes on without what the problem is about: then it is a warning.

    A `hint` that names flags or commands has a `python_hint`, which names what a program would write instead.
    """

    message: str
    hint: str = ""
    where: Position = NOWHERE
    fatal: bool = True
    python_hint: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where.file else self.message

    @property
    def text(self) -> str:
        """The problem with its hint, which is on a line of its own."""
        return f"{self}\n  hint: {self.hint}" if self.hint else str(self)

    @property
    def in_python(self) -> Problem:
        """The problem in the words of Python."""
        return replace(self, hint=self.python_hint or self.hint, where=self.where.in_python, python_hint="")
