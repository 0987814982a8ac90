"""The exceptions of runs. Those without `Error` in their names are public, and StoreError: `pumice.NoSuchRun`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from pumice.model.problem import PYTHON, Option, Problem, Spelling
from pumice.model.pumice_error import PumiceError
from pumice.model.text import escaped

if TYPE_CHECKING:
    # Every command loads this module, and few need verdicts.
    from pumice.diagnosis.why import Shortage


class RunError(PumiceError):
    """As text, each problem is followed by its hint; both have one line, whatever they quote of a Job.

    `lines`: but for a message that has several lines on purpose.
    """

    exit_code = 2
    lines = False

    def __init_subclass__(cls) -> None:
        """Name a public one in tracebacks as programs do: `pumice.NoSuchRun`."""
        if not cls.__name__.endswith("Error"):
            cls.__module__ = "pumice"

    def __str__(self) -> str:
        return self.text(PYTHON)

    def text(self, spelling: Spelling, problems: Sequence[Problem] = ()) -> str:
        texts = []
        for problem in (each.spelled(spelling) for each in problems or self.problems):
            texts.append(escaped(str(problem), lines=self.lines))
            texts += [f"  hint: {escaped(problem.hint)}"] if problem.hint else []
        return "\n".join(texts)


class InvalidOption(RunError):
    """An option, or a line of pumice.toml, that cannot be used; the message says what is accepted."""


class IncompleteCodeError(InvalidOption):
    """The code of a run is not recorded, or not all of it. There is a line for each part that is missing."""

    lines = True


class RefusedError(RunError):
    """The machine cannot run the job as it is, or may not: what DoesNotFit, Unsupported and Denied have in common.

    `remedy` is an option with which it would run. The command line prints the whole command with it instead of a hint.
    """

    remedy: Option | None = None

    def __str__(self) -> str:
        *others, last = self.problems
        return self.text(PYTHON, [*others, replace(last, advice=self._with_remedy(last.hint))])

    @property
    def hint(self) -> str:
        return self._with_remedy(super().hint)

    def _with_remedy(self, hint: str) -> str:
        return ", or ".join(filter(None, ("" if self.remedy is None else PYTHON.option(self.remedy), hint)))


class DoesNotFit(RefusedError):
    """The gang would not fit the empty machine, or does not fit now and may not wait: `shortages`."""

    lines = True
    shortages: Sequence[Shortage] = ()


class Unsupported(RefusedError):
    """The machine, or the version of Pumice, cannot do it."""

    lines = True


class Denied(RefusedError):
    """The user has not consented, or may not."""


class ForbiddenError(Denied):
    """An API server does not know this user, or refuses the call to them."""

    exit_code = 1


class NameTakenError(RefusedError):
    """A Job of this name is on the cluster. `needed` are the options with which it is replaced; none while it runs."""

    needed: Sequence[Option] = ()
    uid: str = ""  # of that Job
    free: str = ""  # a name that no Job has

    def _with_remedy(self, hint: str) -> str:
        given = " ".join(PYTHON.option(each) for each in self.needed)
        other = PYTHON.option(Option("name", self.free)) if self.free else ""
        return ", or ".join(filter(None, (given, other, hint)))


class NoNamespacesError(Unsupported):
    """Root does not fall back to plain processes unless asked to."""


class NoSuchRun(RunError, LookupError):
    """No run has this name."""


class NoSuchPod(RunError, LookupError):
    """The job has no pod of this name, or the pod no container of this name."""


class WrongState(RunError):
    """The run, or the container, has not started yet or has ended."""


class WaitTimeout(RunError, TimeoutError):
    """The runs did not reach the goal in time."""


class StoreError(RunError):
    """The store cannot be read or written."""

    __module__ = "pumice"
    exit_code = 1


class ConnectionFailed(RunError, OSError):
    """There is no answer from a process of Pumice."""

    exit_code = 1


class RunLostError(ConnectionFailed):
    """The process of a foreground run ended before the run did."""


class PullError(ConnectionFailed):
    """Images cannot be pulled now: their registries fail."""


class VersionMismatch(ConnectionFailed):
    """The other process speaks other protocols."""


# The errors that another process may send, by name; not ConnectionFailed, which is about that process itself.
BY_NAME: Final[Mapping[str, type[RunError]]] = {
    each.__name__: each
    for each in (
        Denied,
        DoesNotFit,
        InvalidOption,
        NoNamespacesError,
        NoSuchPod,
        NoSuchRun,
        PullError,
        RefusedError,
        StoreError,
        Unsupported,
        WaitTimeout,
        WrongState,
    )
}
