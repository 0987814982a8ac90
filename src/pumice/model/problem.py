"""Problem: what is wrong, what to do about it, and where; PumiceError: the root of every exception of Pumice.

A Finding (`model/findings.py`) is about a value in a document, by its path. A Problem is about anything else: the text
of a file, an image, a setting, this machine. One tree of exceptions:
    PumiceError                       carries a Problem, or several
      InvalidJob, RunFailed           findings in a Job; a run that did not complete (`client/errors.py`)
      RunError                        a run; its public ones, such as NoSuchRun, are in `engines/local/run_errors.py`
      ImageError                      an image, a layer or an archive; RegistryError: a registry that fails
      SandboxError, StartError        the sandbox, a program in it
      AddressesExhaustedError         more pods than addresses; TunnelError: pasta or slirp4netns does not work
      EngineError                     an engine call that may succeed later
      AccessError, ApiError           the API server: how to reach it, what it answered
      CertificateError, ProtocolError TLS files; a response that is not HTTP/1.1
      GangError                       a missing gang provider; WebhookError, MalformedReviewError: the webhook
      PluginError                     a third-party plugin
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from keyword import iskeyword
from typing import Final, Self


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


class PumiceError(Exception):
    """An error that a user can act on: printed as message and hint, never as a traceback."""

    __module__ = "pumice"  # as programs name it

    def __init__(
        self,
        message: str = "",
        hint: str = "",
        where: Position = NOWHERE,
        others: Sequence[Problem] = (),
        python_hint: str = "",
    ) -> None:
        super().__init__(message)
        self.problem = Problem(message, hint, where, python_hint=python_hint)
        self.problems = (self.problem, *others)

    @classmethod
    def of(cls, problems: Sequence[Problem]) -> Self:
        first, *others = problems
        return cls(first.message, first.hint, first.where, others, first.python_hint)

    def use_python_words(self) -> None:
        """Name arguments of Python instead of flags and commands."""
        self.problems = tuple(problem.in_python for problem in self.problems)
        self.problem = self.problems[0]

    @property
    def hint(self) -> str:
        return self.problem.hint
