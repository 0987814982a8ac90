"""The exceptions of runs. Those without `Error` in their names are public, and StoreError: `pumice.NoSuchRun`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pumice.engines.local.why import Shortage
from pumice.model.pumice_error import PumiceError
from pumice.model.text import escaped


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
        texts = []
        for problem in self.problems:
            texts.append(escaped(str(problem), lines=self.lines))
            texts += [f"  hint: {escaped(problem.hint)}"] if problem.hint else []
        return "\n".join(texts)


class InvalidOption(RunError):
    """An option, or a line of pumice.toml, that cannot be used; the message says what is accepted."""


class RefusedError(RunError):
    """The machine cannot run the job as it is, or may not: what DoesNotFit, Unsupported and Denied have in common."""


class DoesNotFit(RefusedError):
    """The gang would not fit the empty machine, or does not fit now and may not wait: `shortages`.

    `fit_helps`: with `--fit` it would.
    """

    lines = True
    shortages: Sequence[Shortage] = ()
    fit_helps = False


class Unsupported(RefusedError):
    """The machine, or the version of Pumice, cannot do it."""

    lines = True


class Denied(RefusedError):
    """The user has not consented, or may not."""


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
