from __future__ import annotations

from pumice.engines.memory.cluster_state import World
from pumice.engines.memory.engine import MemoryEngine
from pumice.engines.memory.timeline import VirtualClock
from pumice.runtime.ports import ConflictError, Engine, EngineError


def test_an_error_has_a_word_for_programs_and_a_sentence_for_people() -> None:
    error = EngineError("FailedCreate", "quota is used up")
    assert (error.reason, str(error)) == ("FailedCreate", "quota is used up")


def test_a_conflict_is_no_error_of_the_engine() -> None:
    assert not issubclass(ConflictError, EngineError)


def test_the_memory_engine_is_an_engine() -> None:
    engine: Engine = MemoryEngine(World(VirtualClock()))
    asked = ("observe", "write_status", "apply", "emit")
    assert all(callable(getattr(engine, name)) for name in asked)
