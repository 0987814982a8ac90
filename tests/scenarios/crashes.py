"""A controller that dies after its n-th call to the engine."""

from __future__ import annotations

from collections.abc import Callable

from tests.scenarios.simulation import Simulation


class CrashError(Exception):
    """The controller crashes at this point."""


def with_a_crash(sim: Simulation, calls: int, act: Callable[[], object]) -> Simulation:
    """Let the controller die after so many calls more, in the midst of what the act sets off, and start it again."""
    left, called = [calls], sim.engine.after_call

    def dies(call: str) -> None:
        called(call)
        left[0] -= 1
        if left[0] == -1:
            raise CrashError

    sim.engine.after_call = dies
    try:
        act()
    except CrashError:
        sim.restart_controller()
    return sim
