from __future__ import annotations

from pumice.store.events import Emitter, RunEvent, Tick, WarningIssued


def test_a_warning_is_emitted_once() -> None:
    events: list[RunEvent] = []
    emit = Emitter([events.append], lambda _error: None)
    for message in ("a", "b", "a"):
        emit.warn(message)
    assert events == [WarningIssued("a"), WarningIssued("b")]


def test_a_listener_that_fails_is_not_called_again() -> None:
    def broken(_event: RunEvent) -> None:
        raise BrokenPipeError

    events: list[RunEvent] = []
    failures: list[Exception] = []
    emit = Emitter([broken, events.append], failures.append)
    emit(Tick())
    emit(Tick())
    assert len(events) == 2
    assert [type(failure) for failure in failures] == [BrokenPipeError]
