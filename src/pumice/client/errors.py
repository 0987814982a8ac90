"""The exceptions that only clients raise. `model/problem.py` has the whole tree."""

from __future__ import annotations

from pumice.client.values import Result
from pumice.model.pumice_error import PumiceError


class RunFailed(PumiceError):
    """A run did not complete: `result` says how it ended, and `result.verdict` why."""

    __module__ = "pumice"  # as programs name it

    def __init__(self, result: Result) -> None:
        super().__init__(str(result))
        self.args = (result,)  # to be pickled
        self.result = result

    def __str__(self) -> str:
        return self.problem.message
