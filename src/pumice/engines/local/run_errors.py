"""The exceptions of a run on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from pumice.model.problem import NOWHERE, Position, Problem, PumiceError


class RunError(PumiceError):
    """Carries one problem or several; as text, each problem is followed by its hint."""

    exit_code = 2

    def __init__(
        self, message: str = "", hint: str = "", where: Position = NOWHERE, others: Sequence[Problem] = ()
    ) -> None:
        super().__init__(message, hint, where)
        self.problems = (self.problem, *others)

    @classmethod
    def of(cls, problems: Sequence[Problem]) -> Self:
        first, *others = problems
        return cls(first.message, first.hint, first.where, others)

    def __str__(self) -> str:
        return "\n".join(problem.text for problem in self.problems)


class SettingsError(RunError):
    """An option, or a line of pumice.toml, that cannot be used; the message says what is accepted."""


class RefusedError(RunError):
    """The machine cannot run the job as it is, or may not."""


class DoesNotFitError(RefusedError):
    """The gang would not fit the empty machine. `fit_helps`: with `--fit` it would."""

    fit_helps = False


class PullError(RefusedError):
    """Images cannot be pulled now: their registries fail."""

    exit_code = 1


class NoNamespacesError(RefusedError):
    """Root does not fall back to plain processes unless told to."""


class NoSuchPodError(RunError, LookupError):
    """The job has no pod of this name, or the pod no container of this name."""


class NotRunningError(RunError):
    """The run, or the container, has not started yet or has ended."""
