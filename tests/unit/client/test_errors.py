"""The tree of errors: base classes, texts with hints, and that all survive a process boundary."""

from __future__ import annotations

import datetime as dt
import pickle

import pytest
from msgspec.structs import replace

import pumice
from pumice.diagnosis.verdict import plain_verdict
from pumice.model.findings import SPEC
from pumice.model.problem import Position
from pumice.model.pumice_error import PumiceError
from pumice.store.run_errors import BY_NAME

NOW = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
SHORT = pumice.Shortage(resource="cpu", wanted="8", free="3", capacity="4")
RESULT = pumice.Result(
    run="ddp:1",
    uid="u",
    outcome=pumice.Outcome.FAILED,
    phase="Failed",
    reason="",
    message="w-0 failed first",
    exit_code=3,
    attempts=1,
    created=NOW,
    started=NOW,
    finished=NOW,
    verdict=replace(plain_verdict("", ""), pod="w-0", code=3, text="w-0 failed first"),
)
BASES = {
    "NoSuchRun": LookupError,
    "NoSuchPod": LookupError,
    "WaitTimeout": TimeoutError,
    "VersionMismatch": pumice.ConnectionFailed,
}
PLAIN = (
    *("InvalidOption", "DoesNotFit", "WrongState", "Unsupported", "Denied", "StoreError"),
    *("NoSuchRun", "NoSuchPod", "WaitTimeout", "ConnectionFailed", "VersionMismatch"),
)


@pytest.mark.parametrize("name", PLAIN)
def test_an_error_has_a_text_with_its_hint(name: str) -> None:
    kind = getattr(pumice, name)
    error = kind("no room", "make some", Position("job.yaml", 3))
    assert isinstance(error, pumice.PumiceError)
    assert isinstance(error, BASES.get(name, Exception))
    assert str(error) == "job.yaml:3: no room\n  hint: make some"
    assert (error.hint, error.problems[0].where.line) == ("make some", 3)
    assert kind is BY_NAME.get(name, kind)
    assert (kind.__module__, pumice.RunFailed.__module__, pumice.InvalidJob.__module__) == ("pumice",) * 3


def _does_not_fit() -> pumice.DoesNotFit:
    error = pumice.DoesNotFit("too large", "smaller")
    error.shortages = [SHORT]
    return error


@pytest.mark.parametrize(
    "error",
    [
        *(pytest.param(getattr(pumice, name)("no", "hint", Position("f", 1)), id=name) for name in PLAIN),
        pytest.param(_does_not_fit(), id="shortages"),
        pytest.param(pumice.RunFailed(RESULT), id="RunFailed"),
        pytest.param(
            pumice.InvalidJob([pumice.Finding(SPEC / "tasks", "is missing", hint="add one")]), id="InvalidJob"
        ),
    ],
)
def test_an_error_is_the_same_after_pickling(error: PumiceError) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        got = pickle.loads(pickle.dumps(error, protocol))
        assert type(got) is type(error)
        assert (str(got), got.problems, got.hint) == (str(error), error.problems, error.hint)
        for name in ("result", "findings", "shortages"):
            assert getattr(got, name, None) == getattr(error, name, None)


def test_a_failed_run_has_its_result() -> None:
    error = pumice.RunFailed(RESULT)
    assert (error.result, str(error)) == (RESULT, "ddp:1 Failed: w-0 failed first")


@pytest.mark.parametrize("value", [RESULT, SHORT, RESULT.verdict, pumice.Policy(), pumice.Job()], ids=type)
def test_values_are_frozen(value: object) -> None:
    name = value.__struct_fields__[0]  # type: ignore[attr-defined] # all of them are structs
    with pytest.raises(AttributeError):
        setattr(value, name, "other")
    assert pickle.loads(pickle.dumps(value)) == value
