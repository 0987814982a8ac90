"""Errors as data: what the process of a run and the service answer instead of a result."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from pumice.diagnosis.why import Shortage
from pumice.model.problem import Option, Problem
from pumice.model.pumice_error import PumiceError
from pumice.store.run_errors import BY_NAME, DoesNotFit, RefusedError, RunError
from pumice.store.settings import ConsentError, HostAccess

_KINDS: Final[Mapping[str, type[RunError]]] = {**BY_NAME, ConsentError.__name__: ConsentError}
# Errors that say that memory, threads or the disk run out.
_SYSTEM: Final[Mapping[str, type[Exception]]] = {
    each.__name__: each for each in (ImportError, MemoryError, OSError, RuntimeError)
}


def encode_error(error: BaseException) -> dict[str, Any]:
    """Return an error as plain data. What is not the user's mistake carries its traceback."""
    if isinstance(error, BaseExceptionGroup):
        return encode_error(error.exceptions[0])
    if isinstance(error, PumiceError):
        plain: dict[str, Any] = {"kind": type(error).__name__, "problems": msgspec.to_builtins(list(error.problems))}
        if isinstance(error, ConsentError):
            plain["accesses"] = [[str(each.path), each.read_only, each.origin] for each in error.accesses]
        if isinstance(error, DoesNotFit):
            plain["shortages"] = msgspec.to_builtins(list(error.shortages))
        if isinstance(error, RefusedError):
            plain["remedy"] = msgspec.to_builtins(error.remedy)
        return plain
    trace = "".join(traceback.format_exception(error))
    kind = next((each.__name__ for each in _SYSTEM.values() if isinstance(error, each)), "")
    if isinstance(error, OSError):
        # The name of a file may contain any bytes.
        name = None if error.filename is None else str(error.filename).encode(errors="replace").decode()
        return {"kind": kind, "args": [error.errno, error.strerror, name], "trace": trace}
    return {"kind": kind, "args": [str(error) if kind else f"{type(error).__name__}: {error}"], "trace": trace}


def decode_error(plain: Mapping[str, Any]) -> Exception:
    """Return the error of plain data."""
    if "problems" not in plain:
        error = _SYSTEM.get(str(plain["kind"]), RuntimeError)(*plain["args"])
        error.add_note(str(plain["trace"]))
        return error
    found = _KINDS.get(str(plain["kind"]), RunError).of(msgspec.convert(plain["problems"], list[Problem]))
    if isinstance(found, ConsentError):
        found.accesses = tuple(HostAccess(Path(path), *rest) for path, *rest in plain["accesses"])
    if isinstance(found, DoesNotFit):
        found.shortages = msgspec.convert(plain["shortages"], tuple[Shortage, ...])
    if isinstance(found, RefusedError) and plain["remedy"] is not None:
        found.remedy = msgspec.convert(plain["remedy"], Option)
    return found
