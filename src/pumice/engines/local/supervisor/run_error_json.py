"""Errors of a run as plain data: the command line shows an error of another process as its own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from pumice.engines.local.host_access.access import HostAccess
from pumice.engines.local.host_access.consent import ConsentError
from pumice.engines.local.run_errors import (
    DoesNotFitError,
    NoNamespacesError,
    RefusedError,
    RunError,
    SettingsError,
)
from pumice.model.problem import Problem

_KINDS: Final = (ConsentError, DoesNotFitError, NoNamespacesError, RefusedError, SettingsError, RunError)


def plain_error(error: RunError) -> dict[str, Any]:
    kind = next(each.__name__ for each in type(error).__mro__ if each in _KINDS)
    plain: dict[str, Any] = {"kind": kind, "problems": msgspec.to_builtins(error.problems)}
    if isinstance(error, ConsentError):
        plain["accesses"] = msgspec.to_builtins(error.accesses, enc_hook=str)
    if isinstance(error, DoesNotFitError):
        plain["fit_helps"] = error.fit_helps
    return plain


def error_of(plain: Mapping[str, Any]) -> RunError:
    """Return the error of plain data, which `plain_error` made."""
    kind = next(each for each in _KINDS if each.__name__ == plain["kind"])
    error = kind.of(msgspec.convert(plain["problems"], list[Problem]))
    if isinstance(error, ConsentError):
        error.accesses = msgspec.convert(
            plain["accesses"], tuple[HostAccess, ...], dec_hook=lambda _kind, value: Path(value)
        )
    if isinstance(error, DoesNotFitError):
        error.fit_helps = bool(plain["fit_helps"])
    return error
