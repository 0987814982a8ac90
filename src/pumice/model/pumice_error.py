"""PumiceError: the root of every exception of Pumice. Each carries a Problem, or several.

Apart from Problem: programs of the sandbox raise errors, too, and start faster without dataclasses. The tree:
    InvalidJob, RunFailed           findings in a Job; a run that did not complete (`client/values.py`)
    RunError                        a run; its public ones, such as NoSuchRun, are in `store/run_errors.py`
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
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pumice.model.problem import Advice, Position, Problem


class PumiceError(Exception):
    """An error that a user can act on: printed as message and hint, never as a traceback."""

    __module__ = "pumice"  # as programs name it

    def __init__(
        self, message: str = "", advice: Advice = "", where: Position | None = None, others: Sequence[Problem] = ()
    ) -> None:
        super().__init__(message)
        self._first = message, advice, where
        self._others = tuple(others)

    @classmethod
    def of(cls, problems: Sequence[Problem]) -> Self:
        first, *others = problems
        return cls(first.message, first.advice, first.where, others)

    @property
    def problems(self) -> tuple[Problem, ...]:
        # A process that becomes a container raises errors and must load nothing from there.
        from pumice.model.problem import NOWHERE, Problem  # noqa: PLC0415 - see above

        message, advice, where = self._first
        return Problem(message, advice, where or NOWHERE), *self._others

    @property
    def problem(self) -> Problem:
        return self.problems[0]

    @property
    def hint(self) -> str:
        return self.problem.hint
